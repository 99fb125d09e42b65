//! Metadata pages: a sealed page with hostile bytes in it. A page that opens undamaged seals to the same bytes; none of its entries makes a
//! decoder panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::page::{open, open_sector, seal};
use onefold_engine::format::{PageContent, PageId, Region};
use onefold_engine::units::BLOCK_SIZE;

const UUID: [u8; 16] = *b"0123456789abcdef";

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let region = Region::ALL[usize::from(mode & 3) % Region::ALL.len()];
    let id = PageId { region, index: u64::from(mode >> 4) };
    let mut page = Box::new([0; BLOCK_SIZE]);
    if mode & 4 != 0 {
        seal(&UUID, id, &mut PageContent::empty(), &mut page);
    }
    onefold_fuzz::overlay(&mut page, data);
    let written = mode & 8 != 0;
    let mut opened = open(&UUID, id, &page, written);
    if opened.damaged == 0 && !opened.blank {
        let mut again = Box::new([0; BLOCK_SIZE]);
        seal(&UUID, id, &mut opened.content, &mut again);
        for (ours, theirs) in again.chunks_exact(512).zip(page.chunks_exact(512)) {
            assert!(ours == theirs || theirs.iter().all(|byte| *byte == 0), "what is read is what was written");
        }
    }
    let sector = page[..512].try_into().expect("a sector");
    let _ = open_sector(&UUID, region, id.sector(0), sector);
});
