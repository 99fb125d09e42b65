//! Whole volumes: pages, units of the log and superblocks that somebody rewrote, with every check and authenticator recomputed. A server on
//! such a volume answers each request and closes; the offline check ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Legacy;
use onefold_fuzz::craft::craft;
use onefold_fuzz::volume::{Changed, Input, bases, is_checked, is_repaired, is_served};

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let (bases, mut input) = (bases(), Input::new(data));
    let mut medium = Changed::of(&bases[usize::from(mode & 0x0f) % bases.len()]);
    let _ = craft(&mut medium, &mut input);
    if medium.superblock().is_none() {
        return;
    }
    let medium = medium.whole();
    if input.is_chosen(32) {
        is_checked(&medium);
        is_repaired(medium.clone());
    }
    let commit_mode = [None, Some(CommitMode::Log), Some(CommitMode::Ordered)][usize::from(mode >> 4) % 3];
    let _ = is_served(medium, commit_mode, Legacy::default(), &mut input);
});
