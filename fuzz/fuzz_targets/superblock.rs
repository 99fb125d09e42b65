//! Superblocks: the four copies of a device whose every byte is hostile. Any accepted superblock encodes to what was read, and an engine
//! serves it.
//!
//! Half of the inputs are written over a valid superblock or over zeros, with the checksum repaired half of the time; an accepted one
//! encodes again. The others write hostile numbers into the fields of volumes with content, with every checksum repaired, and open them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::{CommitMode, Superblock, choose, claimed_bytes, end_copies};
use onefold_engine::interface::Legacy;
use onefold_engine::units::{BLOCK_SIZE, Bytes};
use onefold_fuzz::craft::{Draw, change_superblock};
use onefold_fuzz::volume::{Changed, Input, bases, is_checked, is_repaired, is_served, superblocks};

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    if mode & 0x80 == 0 { decode(mode, data) } else { serve(mode, data) }
});

fn decode(mode: u8, data: &[u8]) {
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
}

fn serve(mode: u8, data: &[u8]) {
    let (bases, mut input) = (bases(), Input::new(data));
    let base = usize::from(mode & 0x0f) % bases.len();
    let (mut medium, superblock) = (Changed::of(&bases[base]), &superblocks()[base]);
    for _ in 0..=input.below(4) {
        let _ = change_superblock(&mut medium, superblock, &mut input);
    }
    if medium.superblock().is_none() || !input.is_chosen(16) {
        return;
    }
    let medium = medium.whole();
    if input.is_chosen(64) {
        is_checked(&medium);
        is_repaired(medium.clone());
    }
    let commit_mode = [None, Some(CommitMode::Log), Some(CommitMode::Ordered)][usize::from((mode >> 4) & 7) % 3];
    let _ = is_served(medium, commit_mode, Legacy::default(), &mut input);
}
