//! An epoch: the client operations that become durable together, as records.
//!
//! 1. Clients see the open epoch, over the committing epoch, over the map's pages.
//! 2. A point (one LBN) has precedence over each range (unmapped LBNs) of its own epoch: a discard removes the points in its range.
//! 3. A link that is made and unmade in the same epoch could never be on the medium, so the two cancel. Nothing else cancels: an increment
//!    does not cancel a decrement of its own epoch, because the medium could have both links.

use super::points::Points;
use crate::fingerprint::Fingerprint;
use crate::format::entry::MapEntry;
use crate::interface::RequestId;
use crate::map::Set;
use crate::units::{Epoch as Number, Lbn, Pbn, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes charged for each record of an epoch, with its share of the tree.
pub(crate) const RECORD_COST_BYTES: u64 = 64;

/// Why a request waits for an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Flush,
    Fua,
    /// A request under strong persistence.
    Strong,
    /// Writers wait for the space that its commit frees: blocks, or room in the acknowledgement journal.
    Space,
}

/// The records of one epoch.
pub(crate) struct EpochRecords {
    pub number: Number,
    /// The time at which it is sealed at the latest, once it has a record.
    seal_by: Option<Time>,
    /// The meaning of each changed LBN from this epoch on.
    pub points: Points,
    /// Unmapped ranges, first → end, neither touching nor overlapping.
    pub ranges: BTreeMap<Lbn, Lbn>,
    /// Numbers of the refs pages that have its increments.
    pub refs_pages: Set<u64>,
    /// Blocks that are new in it, whose fingerprints are inserted after its commit.
    pub new_blocks: Vec<Pbn>,
    /// Whether some of these are packs.
    pub has_packs: bool,
    /// The epoch is sealed as soon as content that is being compressed for it arrives. It admits nothing more.
    pub is_due: bool,
    /// Fingerprints of blocks that lacked one, in mode `ordered`. They enter their pages after the commit.
    pub named: BTreeMap<Pbn, Fingerprint>,
    /// Blocks whose fingerprint is removed, in mode `log`.
    pub removed: BTreeSet<Pbn>,
    /// Blocks whose link was cancelled while their refs page was not in memory. Each loses one link after the commit.
    pub cancelled: Vec<Pbn>,
    /// Requests that are answered when the epoch is durable.
    pub waiters: Vec<RequestId>,
    /// Why the first request that waits for the epoch does so; `None` if no request waits.
    pub wanted: Option<Wanted>,
    /// A new block of this epoch has lost a link and is still linked: by its count, another LBN means it.
    pub new_block_lost_a_link: bool,
}

impl EpochRecords {
    pub fn new(number: Number) -> Self {
        Self {
            number,
            seal_by: None,
            points: Points::default(),
            ranges: BTreeMap::new(),
            refs_pages: Set::default(),
            new_blocks: Vec::new(),
            has_packs: false,
            new_block_lost_a_link: false,
            is_due: false,
            named: BTreeMap::new(),
            removed: BTreeSet::new(),
            cancelled: Vec::new(),
            waiters: Vec::new(),
            wanted: None,
        }
    }

    /// The epoch after another one, with room for these points.
    pub fn after(other: &Self, points: Points) -> Self {
        Self { points, ..Self::new(Number(other.number.0 + 1)) }
    }

    /// Lets the epoch fill for no longer than this, because of a record that is made now.
    pub fn seal_within(&mut self, now: Time, ms: u64) {
        let at = now.plus_ms(ms);
        self.seal_by = Some(self.seal_by.map_or(at, |by| by.min(at)));
    }

    /// Seals this epoch when the other one was to be sealed, whose records move here.
    pub fn seal_like(&mut self, other: &Self) {
        self.seal_by = other.seal_by;
    }

    /// The time at which it is sealed at the latest, once it has a record.
    pub const fn seal_by(&self) -> Option<Time> {
        self.seal_by
    }

    /// Whether the epoch has nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty() && self.cancelled.is_empty() && self.removed.is_empty() && self.named.is_empty()
    }

    /// The number of its records.
    pub fn records(&self) -> usize {
        self.points.len() + self.ranges.len() + self.new_blocks.len() + self.cancelled.len() + self.removed.len() + self.named.len()
    }

    /// Returns the meaning that the epoch gives to an LBN, if it changes it.
    pub fn lookup(&self, lbn: Lbn) -> Option<MapEntry> {
        if let Some(entry) = self.points.get(lbn) {
            return Some(entry);
        }
        let (_, &end) = self.ranges.range(..=lbn).next_back()?;
        (lbn < end).then_some(MapEntry::Unmapped)
    }

    /// Unmaps `first..end`, and returns the points that it removes.
    pub fn unmap(&mut self, first: Lbn, end: Lbn) -> Vec<(Lbn, MapEntry)> {
        let points = self.points.remove(first, end);
        self.add_range(first, end);
        points
    }

    /// Adds a range, merged with those that it touches. Points stay.
    pub fn add_range(&mut self, first: Lbn, end: Lbn) {
        let (mut first, mut end) = (first, end);
        while let Some((&f, &e)) = self.ranges.range(..=end).next_back() {
            if e < first {
                break;
            }
            first = first.min(f);
            end = end.max(e);
            self.ranges.remove(&f);
        }
        self.ranges.insert(first, end);
    }

    /// Lets a request wait for the epoch. Returns whether it is the first that does.
    pub fn wait(&mut self, request: RequestId, why: Wanted) -> bool {
        self.waiters.push(request);
        let is_first = self.wanted.is_none();
        self.wanted.get_or_insert(why);
        is_first
    }

    /// Takes the requests that wait for another epoch, whose records have moved here.
    pub fn take_waiters(&mut self, other: &mut Self) {
        self.waiters = std::mem::take(&mut other.waiters);
        self.wanted = other.wanted.filter(|_| !self.waiters.is_empty());
    }

    /// Seals it as soon as content that is being compressed for it arrives, if there is such content.
    pub fn seal_when_compressed(&mut self, is_compressing: bool) {
        self.is_due = is_compressing;
    }

    /// Lets it fill on. Returns whether it was to be sealed.
    pub fn fills_on(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Notes that some of its new blocks are packs.
    pub fn gets_packs(&mut self) {
        self.has_packs = true;
    }

    /// Notes that a new block of it has lost a link and is still linked.
    pub fn new_block_loses_a_link(&mut self) {
        self.new_block_lost_a_link = true;
    }

    /// Gives its number to a record that is committed at once, and takes the next one.
    pub fn take_number(&mut self) -> Number {
        let number = self.number;
        self.number = Number(number.0 + 1);
        number
    }

    /// Takes the requests that wait for it.
    pub fn take_waiting(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.waiters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(p: u64) -> MapEntry {
        MapEntry::Block { pbn: Pbn(p), slot: 0 }
    }

    #[test]
    fn ranges_merge_where_they_touch() {
        let mut e = EpochRecords::new(Number(1));
        e.add_range(Lbn(10), Lbn(20));
        e.add_range(Lbn(30), Lbn(40));
        e.add_range(Lbn(20), Lbn(25));
        assert_eq!(e.ranges.iter().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>(), [(10, 25), (30, 40)]);
        e.add_range(Lbn(5), Lbn(60));
        assert_eq!(e.ranges.iter().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>(), [(5, 60)]);
    }

    #[test]
    fn a_discard_takes_points_away_and_a_later_point_stands_over_it() {
        let mut e = EpochRecords::new(Number(1));
        e.points.insert(Lbn(12), block(7));
        assert_eq!(e.unmap(Lbn(10), Lbn(20)), [(Lbn(12), block(7))]);
        assert_eq!(e.lookup(Lbn(12)), Some(MapEntry::Unmapped));
        assert_eq!(e.lookup(Lbn(20)), None);
        e.points.insert(Lbn(12), block(8));
        assert_eq!(e.lookup(Lbn(12)), Some(block(8)));
    }
}
