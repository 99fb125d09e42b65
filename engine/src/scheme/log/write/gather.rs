//! Gathers the records of an epoch: for each LBN its new entry, and its old block.
//!
//! The records of a large epoch name runs of new blocks by short fingerprints only: the whole fingerprints enter their pages after the
//! commit, as in mode `ordered`, and a crash may lose them.
//!
//! A map page in memory holds what is committed, so the old blocks are read there; the pages are loaded first.

use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::record::{EXTENT_PART_BLOCKS_MAX, OldRun, Record};
use crate::scheme::log::commit::Commit;
use crate::space::Space;
use crate::tables::Tables;
use crate::units::{Lbn, Pbn, index};
use std::collections::BTreeSet;

/// Neighbouring LBNs that are unmapped, with their old blocks.
struct Clearing {
    lbn: Lbn,
    end: Lbn,
    olds: Vec<OldRun>,
}

impl Clearing {
    fn take(self) -> Record {
        Record::Clear { lbn: self.lbn, to: MapEntry::Unmapped, olds: self.olds }
    }

    fn push(&mut self, old: Option<Pbn>) {
        self.end += 1;
        push_old(&mut self.olds, old, u64::MAX);
    }
}

/// Adds to the last of the runs, which have at most `most` blocks, or begins one.
fn push_old(olds: &mut Vec<OldRun>, old: Option<Pbn>, most: u64) {
    match olds.last_mut() {
        Some(run) if run.blocks < most && run.first.map(|first| first + run.blocks) == old => run.blocks += 1,
        _ => olds.push(OldRun { first: old, blocks: 1 }),
    }
}

/// Adds a new block, of this entry, to the run that it continues, or begins one with it.
fn add_to_extent(log: &mut Commit, lbn: Lbn, (pbn, name): (Pbn, FingerprintEntry), old: Option<Pbn>) {
    let (short, is_apart) = (name.value.short(), name.is_apart());
    let goes_on = log.extent_end.replace((lbn + 1, pbn + 1)) == Some((lbn, pbn));
    match log.records.last_mut() {
        Some(Record::Extent { olds, shorts, is_apart: goes_apart, .. }) if goes_on && *goes_apart == is_apart => {
            push_old(olds, old, EXTENT_PART_BLOCKS_MAX);
            shorts.push(short);
        }
        _ => {
            let olds = vec![OldRun { first: old, blocks: 1 }];
            log.records.push(Record::Extent { lbn, pbn, olds, shorts: vec![short], is_apart });
        }
    }
}

impl Commit {
    /// Gathers the records of the committing epoch that belong to one map page, which is in memory.
    pub(super) fn gather(&mut self, tables: &mut Tables, space: &Space, geometry: &Geometry, id: PageId) {
        let first = geometry.first_lbn(id);
        let end = Lbn((first.0 + Region::Map.entries_per_page()).min(geometry.logical_blocks));
        let Tables { pages, committing: Some(epoch), .. } = tables else { return };
        let page = pages.expect(id);
        let before = epoch.ranges.range(..first).next_back().map(|(&f, &e)| (f, e));
        let within = epoch.ranges.range(first..end).map(|(&f, &e)| (f, e));
        let mut clearing: Option<Clearing> = None;
        for (range_first, range_end) in before.into_iter().chain(within) {
            for lbn in (range_first.max(first).0..range_end.min(end).0).map(Lbn) {
                let old = geometry.known(page.content.map(index(lbn - first)));
                if old == MapEntry::Unmapped || epoch.points.get(lbn).is_some() {
                    continue;
                }
                if clearing.as_ref().is_some_and(|c| c.end != lbn) {
                    self.records.extend(clearing.take().map(Clearing::take));
                }
                clearing.get_or_insert_with(|| Clearing { lbn, end: lbn, olds: Vec::new() }).push(old.pbn());
            }
        }
        self.records.extend(clearing.map(Clearing::take));
        for (lbn, to) in epoch.points.range(first, end) {
            let old = geometry.known(page.content.map(index(lbn - first)));
            let pending = to.pbn().filter(|pbn| self.pending.remove(pbn));
            if old == to && pending.is_none() {
                // The link existed before, so its increment is cancelled.
                epoch.cancelled.extend(to.pbn());
                continue;
            }
            // Where a damaged map has linked to a block that was free, that link was never counted.
            let old = old.pbn().filter(|&old| pending != Some(old));
            let record = match pending.and_then(|pbn| Some((pbn, space.pending.get(pbn)?))) {
                Some((pbn, pending)) if pending.kind == Kind::Carrier => {
                    self.records.push(Record::Carrier { pbn, authenticator: pending.fingerprint });
                    Record::Link { lbn, to, old }
                }
                Some((pbn, pending)) => {
                    let name = FingerprintEntry { kind: pending.kind, value: pending.fingerprint };
                    if self.is_large && (name.kind == Kind::Fingerprint || name.is_apart()) {
                        add_to_extent(self, lbn, (pbn, name), old);
                        continue;
                    }
                    Record::New { lbn, pbn, old, name }
                }
                None => Record::Link { lbn, to, old },
            };
            self.records.push(record);
        }
    }

    /// Gathers the removed fingerprints, when the records of all map pages are there.
    pub(super) fn gather_rest(&mut self, tables: &mut Tables) {
        debug_assert!(self.pending.is_empty(), "every pending block has a record");
        self.records.extend(removals(&tables.committing().removed));
    }
}

/// The records that remove the fingerprint entries of these blocks: one for neighbours.
fn removals(blocks: &BTreeSet<Pbn>) -> Vec<Record> {
    let mut records = Vec::new();
    for &pbn in blocks {
        match records.last_mut() {
            Some(Record::Removed { pbn: first, blocks }) if *first + *blocks == pbn => *blocks += 1,
            _ => records.push(Record::Removed { pbn, blocks: 1 }),
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::parts::Content;
    use crate::tables::EpochRecords;
    use crate::units::Epoch;
    use std::collections::VecDeque;

    fn empty() -> Commit {
        Commit::new(BTreeSet::new(), &EpochRecords::new(Epoch(1)), Content::none(), VecDeque::new())
    }

    #[test]
    fn names_of_neighbours_go_by_one_record() {
        let of = |pbn, blocks| Record::Removed { pbn: Pbn(pbn), blocks };
        let blocks = [7, 8, 9, 11, 13, 14].map(Pbn).into_iter().collect();
        assert_eq!(removals(&blocks), [of(7, 3), of(11, 1), of(13, 2)]);
        assert_eq!(removals(&BTreeSet::new()), []);
    }

    #[test]
    fn a_new_block_goes_on_the_run_that_ends_where_it_begins_in_both() {
        let mut log = empty();
        let short = |pbn: u64| u32::try_from(pbn).unwrap();
        let name = |pbn: u64| FingerprintEntry::of_short(short(pbn));
        let mut add = |lbn, pbn, old: Option<u64>| add_to_extent(&mut log, Lbn(lbn), (Pbn(pbn), name(pbn)), old.map(Pbn));
        add(5, 70, Some(3));
        add(6, 71, Some(4));
        add(7, 72, None);
        add(8, 80, None);
        add(10, 81, None);
        log.records.push(Record::Removed { pbn: Pbn(1), blocks: 1 });
        add_to_extent(&mut log, Lbn(11), (Pbn(82), name(82)), None);
        // Blocks that stay apart have runs of their own.
        [83, 84].iter().for_each(|&n| add_to_extent(&mut log, Lbn(n - 71), (Pbn(n), FingerprintEntry::of_short_apart(short(n))), None));
        let run = |first: Option<u64>, blocks| OldRun { first: first.map(Pbn), blocks };
        let extent = |lbn, pbn, olds: Vec<OldRun>| {
            let blocks = olds.iter().map(|run| run.blocks).sum::<u64>();
            Record::Extent { lbn: Lbn(lbn), pbn: Pbn(pbn), olds, shorts: (pbn..pbn + blocks).map(short).collect(), is_apart: pbn == 83 }
        };
        let one = || vec![run(None, 1)];
        let first = extent(5, 70, vec![run(Some(3), 2), run(None, 1)]);
        assert_eq!(
            log.records,
            [
                first,
                extent(8, 80, one()),
                extent(10, 81, one()),
                Record::Removed { pbn: Pbn(1), blocks: 1 },
                extent(11, 82, one()),
                extent(12, 83, vec![run(None, 2)])
            ]
        );
    }

    #[test]
    fn a_run_has_parts_that_fit_a_unit() {
        let mut log = empty();
        (0..70).for_each(|i| add_to_extent(&mut log, Lbn(i), (Pbn(i), FingerprintEntry::of_short(7)), Some(Pbn(100 + i))));
        let old = |first, blocks| OldRun { first: Some(Pbn(first)), blocks };
        let olds = vec![old(100, 32), old(132, 32), old(164, 6)];
        assert_eq!(log.records, [Record::Extent { lbn: Lbn(0), pbn: Pbn(0), olds, shorts: vec![7; 70], is_apart: false }]);
    }
}
