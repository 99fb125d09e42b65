//! Superblocks: the four copies of a device whose every byte is hostile. Whatever is accepted encodes to what was read.
//!
//! The input is laid over a sound superblock or over zeros; the checksum is repaired half of the time, so that the fields are reached.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::{Superblock, choose, claimed_bytes, end_copies};
use onefold_engine::units::{BLOCK_SIZE, Bytes};

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let copy = usize::from((mode >> 1) & 3);
    let mut page = if mode & 8 == 0 { onefold_fuzz::sound_superblock(copy) } else { Box::new([0; BLOCK_SIZE]) };
    onefold_fuzz::overlay(&mut page, data);
    if mode & 1 == 1 {
        onefold_fuzz::repair_superblock(&mut page);
    }
    if let Ok(superblock) = Superblock::decode(&page, copy) {
        let mut again = Box::new([0; BLOCK_SIZE]);
        superblock.encode(copy, &mut again);
        assert_eq!(Superblock::decode(&again, copy).ok().as_ref(), Some(&superblock), "what is written reads back");
    }
    let bytes = Bytes((u64::from(mode >> 4) << 20) | (64 << 20));
    let _ = claimed_bytes(&page);
    let _ = end_copies([Some(&page), Some(&page)], bytes);
    let _ = choose([Some(&page), None, Some(&page), None], bytes);
});
