//! The blocks at which the host of the store has never written anything.
//!
//! 1. The first write there makes the host's file system write metadata of its own at the next flush: about three blocks, and a second
//!    flush of the disk. So small epochs avoid these blocks (`stock.rs`).
//! 2. This is advice. A block that is listed although it was written costs a little room of the stock; one that is missing here costs what
//!    the host writes. So memory for it may be bounded ([`RUNS_MAX`]), and a write counts when it is sent.

use crate::format::geometry::{ExtentKind, Geometry};
use crate::units::{BLOCK_BYTES, Bytes, Pbn};
use std::collections::BTreeMap;
use std::ops::Range;

/// The most runs that are kept in memory.
const RUNS_MAX: usize = 4096;

/// Runs of blocks.
#[derive(Default)]
pub(crate) struct Unwritten {
    /// The block behind the last one of each run, by its first one. No two runs touch.
    runs: BTreeMap<u64, u64>,
    blocks: u64,
    /// The host writes metadata of its own: the store is a file. Otherwise nothing is ever listed.
    is_tracked: bool,
}

impl Unwritten {
    /// The blocks that lie in these ranges of bytes of the store, whole.
    pub fn of(geometry: &Geometry, ranges: &[Range<Bytes>]) -> Self {
        let mut unwritten = Self { is_tracked: true, ..Self::default() };
        for extent in geometry.extents.iter().filter(|extent| extent.kind == ExtentKind::Data) {
            let (from, to) = (extent.offset.get(), extent.offset.get() + extent.length.get());
            for range in ranges {
                let first = range.start.get().max(from).div_ceil(BLOCK_BYTES);
                let end = range.end.get().min(to) / BLOCK_BYTES;
                let block_of = |block: u64| block - from / BLOCK_BYTES + extent.first_entry;
                if first < end {
                    unwritten.add(block_of(first), block_of(end));
                }
            }
        }
        unwritten
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the host writes metadata of its own for a block that is written for the first time.
    pub fn is_tracked(&self) -> bool {
        self.is_tracked
    }

    pub fn contains(&self, pbn: Pbn) -> bool {
        // A search asks for many blocks, and most stores have nothing unwritten.
        !self.runs.is_empty() && self.run_of(pbn.0).is_some()
    }

    /// The block behind the run in which this block lies, if it lies in one.
    pub fn end_of_run(&self, pbn: Pbn) -> Option<Pbn> {
        self.run_of(pbn.0).map(|(_, end)| Pbn(end))
    }

    /// The first listed block that is not before this one.
    pub fn next_from(&self, pbn: Pbn) -> Option<Pbn> {
        if self.contains(pbn) {
            return Some(pbn);
        }
        self.runs.range(pbn.0..).next().map(|(&first, _)| Pbn(first))
    }

    /// These blocks are written now.
    pub fn written(&mut self, first: Pbn, blocks: u64) {
        let (first, end) = (first.0, first.0 + blocks);
        while let Some((from, to)) = self.runs.range(..end).next_back().map(|(&from, &to)| (from, to)).filter(|&(_, to)| to > first) {
            self.runs.remove(&from);
            self.blocks -= to - from;
            for (from, to) in self.kept_parts((from, first), (end, to)) {
                self.runs.insert(from, to);
                self.blocks += to - from;
            }
        }
    }

    /// The parts of a run that stay when its middle is written: the longer one alone where memory has no room for both.
    fn kept_parts(&self, before: (u64, u64), behind: (u64, u64)) -> impl Iterator<Item = (u64, u64)> + use<> {
        let length = |(from, to): (u64, u64)| to.saturating_sub(from);
        let mut parts = [before, behind];
        if length(before).min(length(behind)) > 0 && self.runs.len() + 2 > RUNS_MAX {
            parts[usize::from(length(before) > length(behind))] = (0, 0);
        }
        parts.into_iter().filter(move |&part| length(part) > 0)
    }

    /// The host has taken the space of these blocks back.
    pub fn given_back(&mut self, first: Pbn, blocks: u64) {
        if self.is_tracked {
            self.add(first.0, first.0 + blocks);
        }
    }

    fn add(&mut self, mut first: u64, mut end: u64) {
        while let Some((from, to)) = self.runs.range(..=end).next_back().map(|(&from, &to)| (from, to)).filter(|&(_, to)| to >= first) {
            self.runs.remove(&from);
            self.blocks -= to - from;
            (first, end) = (first.min(from), end.max(to));
        }
        if self.runs.len() < RUNS_MAX {
            self.runs.insert(first, end);
            self.blocks += end - first;
        }
    }

    fn run_of(&self, block: u64) -> Option<(u64, u64)> {
        self.runs.range(..=block).next_back().map(|(&from, &to)| (from, to)).filter(|&(_, to)| to > block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::geometry::Wish;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set_of_blocks(steps in vec((any::<bool>(), 0..60u64, 1..20u64), 0..60)) {
            let mut unwritten = Unwritten { is_tracked: true, ..Unwritten::default() };
            let mut model = BTreeSet::new();
            for (is_written, first, blocks) in steps {
                if is_written {
                    unwritten.written(Pbn(first), blocks);
                    model.retain(|block| !(first..first + blocks).contains(block));
                } else {
                    unwritten.given_back(Pbn(first), blocks);
                    model.extend(first..first + blocks);
                }
                prop_assert_eq!(unwritten.blocks(), model.len() as u64);
                for block in 0..81 {
                    prop_assert_eq!(unwritten.contains(Pbn(block)), model.contains(&block));
                    prop_assert_eq!(unwritten.next_from(Pbn(block)), model.range(block..).next().map(|&block| Pbn(block)));
                    let end = (block..).find(|block| !model.contains(block)).filter(|&end| end > block).map(Pbn);
                    prop_assert_eq!(unwritten.end_of_run(Pbn(block)), end);
                }
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_listed_is_unwritten() {
        let mut unwritten = Unwritten { is_tracked: true, ..Unwritten::default() };
        unwritten.given_back(Pbn(0), 100_000);
        (0..20_000).for_each(|i| unwritten.written(Pbn(i * 5 + 1), 1));
        assert!(unwritten.runs.len() <= RUNS_MAX, "{}", unwritten.runs.len());
        assert!((0..20_000).all(|i| !unwritten.contains(Pbn(i * 5 + 1))), "what was written is not listed");
        (0..20_000).for_each(|i| unwritten.given_back(Pbn(200_000 + i * 5), 1));
        assert!(unwritten.runs.len() <= RUNS_MAX, "{}", unwritten.runs.len());
        assert_eq!(unwritten.blocks(), unwritten.runs.iter().map(|(from, to)| to - from).sum::<u64>());
    }

    #[test]
    fn ranges_of_bytes_are_blocks_of_the_data_alone() {
        let geometry = Geometry::plan(Bytes(64 << 20), &Wish::default()).unwrap();
        let all = Unwritten::of(&geometry, &[Bytes(0)..Bytes(64 << 20)]);
        assert_eq!((all.blocks(), all.is_tracked()), (geometry.data_blocks, true));
        let at = geometry.block_at(Pbn(100)).get();
        let some = Unwritten::of(&geometry, &[Bytes(at - 1)..Bytes(at + 3 * 4096 - 1), Bytes(at + 40_960)..Bytes(at + 40_960 + 4095)]);
        let listed: Vec<u64> = (0..geometry.data_blocks).filter(|&block| some.contains(Pbn(block))).collect();
        assert_eq!(listed, [100, 101], "only what is unwritten as a whole");
    }

    #[test]
    fn a_device_lists_nothing() {
        let mut unwritten = Unwritten::default();
        unwritten.given_back(Pbn(7), 100);
        assert!(unwritten.is_empty() && !unwritten.is_tracked());
    }
}
