//! No block ever counts more links than its limit: the last count that an entry can hold stands for *unknown*.

use crate::content::Content;
use crate::violation::{Violation, violation};
use crate::volume::{Place, Volume};
use onefold_engine::format::{REFS_UNKNOWN, Region};

/// Bytes of a sector of refs that are counts.
const COUNTS: usize = 500;

/// A write of a block, over what was there before.
///
/// # Errors
/// When it is a page of refs, and a count rises beyond the limit.
pub fn check(volume: &Volume, block: u64, old: &Content, new: &Content, limit: u8) -> Result<(), Violation> {
    let Place::Page(id) = volume.place(block) else { return Ok(()) };
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
