//! No block ever counts more links than its limit: the last value that an entry can hold stands for *unknown*.
//!
//! Two events may raise a count beyond a limit that is far below the real one; on a real volume such a count becomes *unknown*, which the
//! next recount corrects:
//!
//! 1. Where garbage is possible, replay of the log: a recount has lowered a count in memory, the block was linked again, and the lowered
//!    page was lost while the link's record was not.
//! 2. Rot of a compacted unit: what it subtracted from a count is added again, beside the links that were made since.

use crate::device::disk::SimDisk;
use crate::device::volume::{BlockUse, Volume};
use crate::ground::content::{Content, Shared};
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::{REFS_UNKNOWN, Region};

/// The bytes of a sector of refs that are counts.
const COUNTS: usize = 500;

/// Checks a write of blocks, from `first` on, over what the device holds, by the limit of a count.
///
/// # Errors
/// Fails if one is a page of refs, and a count rises beyond the limit.
pub fn check(volume: &Volume, limit: u8, disk: &SimDisk, first: u64, contents: &[Shared]) -> Result<(), Violation> {
    let newest = |block: u64| disk.cell(block).newest();
    let may_replay_garbage = || volume.newest_superblock(newest).is_none_or(|s| s.garbage_possible && s.is_log_live());
    (first..).zip(contents).try_for_each(|(block, content)| {
        check_block(volume, block, newest(block), content, limit).or_else(|beyond| if may_replay_garbage() { Ok(()) } else { Err(beyond) })
    })
}

fn check_block(volume: &Volume, block: u64, old: &Content, new: &Content, limit: u8) -> Result<(), Violation> {
    let BlockUse::Page(id) = volume.place(block) else { return Ok(()) };
    if id.region != Region::Refs || limit >= REFS_UNKNOWN - 1 {
        return Ok(());
    }
    for sector in (0..8).filter(|&s| old.sector_id(s) != new.sector_id(s)) {
        let counts = old.sector(sector)[..COUNTS].iter().zip(&new.sector(sector)[..COUNTS]);
        let beyond = |(before, now): (&u8, &u8)| now > before && *now > limit && *now != REFS_UNKNOWN;
        if let Some((i, (_, now))) = counts.enumerate().find(|(_, counts)| beyond(*counts)) {
            let pbn = id.sector(sector) * COUNTS as u64 + i as u64;
            return Err(violation!("P3: refs of PBN {pbn} are {now}, and {limit} is the most"));
        }
    }
    Ok(())
}
