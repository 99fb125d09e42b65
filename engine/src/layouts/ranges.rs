//! Ranges that should be protected, and the choice among them where a volume has not room for all.
//!
//! 1. The most important come first; of equal ones, those that lie first.
//! 2. The chosen ranges are in order, and neither touch nor overlap.
//! 3. No more than [`CANDIDATES_MAX`] ranges are kept; those that come later are only counted.

use crate::format::ProtectedRange;
use crate::format::superblock::{PROTECTED_MAX, RANGE_BLOCKS_MAX};
use crate::units::{BLOCK_BYTES, Blocks, Lbn};
use std::ops::Range;

/// The most ranges that are kept.
pub(super) const CANDIDATES_MAX: usize = 4096;

/// The importance of a range, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Importance {
    /// The owner of the volume asked for it.
    Asked,
    Superblock,
    /// The tables without which no data is found: group descriptors, headers, checkpoints, system chunks, partitions.
    Tables,
    Metadata,
}

/// A choice of ranges to protect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// The ranges, in order, without the user's.
    pub ranges: Vec<ProtectedRange>,
    /// The blocks that should be protected and for whose ranges there was no room.
    pub left_out: Blocks,
}

/// The ranges that should be protected.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// In blocks.
    ranges: Vec<(Importance, Range<u64>)>,
    /// The blocks of ranges that were not kept.
    uncounted: u64,
}

impl Candidates {
    /// Adds a range of bytes that lies in the volume, rounded outward to blocks.
    pub(super) fn add(&mut self, importance: Importance, bytes: &Range<u64>) {
        let blocks = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        if self.ranges.len() < CANDIDATES_MAX {
            self.ranges.push((importance, blocks));
        } else {
            self.uncounted = self.uncounted.saturating_add(blocks.end - blocks.start);
        }
    }

    /// Counts bytes that should be protected and will not be.
    pub(super) fn leave_out(&mut self, bytes: u64) {
        self.uncounted = self.uncounted.saturating_add(bytes.div_ceil(BLOCK_BYTES));
    }

    /// Chooses as many ranges as a superblock has room for beside the user's.
    pub(super) fn choose(&self, user: &[ProtectedRange]) -> Protected {
        let room = PROTECTED_MAX.saturating_sub(user.len());
        let mut by_importance = self.ranges.clone();
        by_importance.sort_by_key(|(importance, range)| (*importance, range.start));
        let users: Vec<Range<u64>> =
            user.iter().map(|range| range.first.0..range.first.0.saturating_add(u64::from(range.blocks))).collect();
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for (_, range) in by_importance {
            if users.iter().any(|user| user.start <= range.start && range.end <= user.end) {
                continue;
            }
            let longer = joined(&chosen, range.clone());
            if longer.len() <= room { chosen = longer } else { others = joined(&others, range) }
        }
        let left_out = others.iter().map(|range| range.end - range.start - common(&chosen, range)).sum::<u64>();
        let blocks = |range: &Range<u64>| u32::try_from(range.end - range.start).unwrap_or(u32::MAX).min(RANGE_BLOCKS_MAX);
        let ranges = chosen.iter().map(|range| ProtectedRange { first: Lbn(range.start), blocks: blocks(range), is_found: true });
        Protected { ranges: ranges.collect(), left_out: Blocks(left_out.saturating_add(self.uncounted)) }
    }
}

/// Ranges in order with one more among them, which is joined with those that it touches.
fn joined(ranges: &[Range<u64>], mut range: Range<u64>) -> Vec<Range<u64>> {
    let before = ranges.partition_point(|other| other.end < range.start);
    let after = ranges.partition_point(|other| other.start <= range.end);
    for other in &ranges[before..after] {
        range = range.start.min(other.start)..range.end.max(other.end);
    }
    ranges[..before].iter().cloned().chain([range]).chain(ranges[after..].iter().cloned()).collect()
}

/// The blocks of a range that lie in others, which do not overlap.
fn common(ranges: &[Range<u64>], range: &Range<u64>) -> u64 {
    ranges.iter().map(|other| other.end.min(range.end).saturating_sub(other.start.max(range.start))).sum()
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
