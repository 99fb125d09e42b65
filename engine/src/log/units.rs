//! The commit of an epoch in the log: its units are written to the next places, and one flush stands behind them.
//!
//! 1. *Small epochs*: content and units go out together, in any order; what of the content is missing after a crash, its fingerprint shows (L5).
//!    What compresses rides in the units themselves (`carry.rs`).
//!    *Large epochs*: content is flushed before the units are written, so that no recovery has to read all of it.
//! 2. One epoch at a time (L10).
//! 3. A small epoch that is one unit and nothing else goes by one FUA write, where the device takes that, in place of the write and the flush. All
//!    that the flush would cover besides is durable already, or nobody relies on it: epochs before it are (L10), its own content is in the unit.

use super::Held;
use super::places::Reserved;
use super::records::Births;
use super::sizes::Counting;
use crate::commit::Step;
use crate::engine::Engine;
use crate::fingerprint::Fingerprint;
use crate::format::entry::SHORT_NAME_SIZE;
use crate::format::places::{PLACES_BYTES, PLACES_MAX};
use crate::format::record::{EXTENT_BYTES_MAX, EXTENT_PART_BYTES_MAX, LINK_BYTES_MAX, RECORD_BYTES_MAX, Record, SHORT_NAMES_BYTES_MAX};
use crate::format::unit::UNIT_ROOM_BYTES;
use crate::io::FlushFor;
use crate::schedule::Task;
use crate::units::{Epoch, Lbn, Pbn, count};
use std::collections::BTreeSet;

/// The most new blocks of a small epoch.
pub(super) const SMALL_BLOCKS_MAX: usize = 64;
/// Places that are named and not used by the epoch itself, at the least (L9).
pub(super) const PLACES_LEFT_MIN: usize = 2;
/// Bytes that records take in a unit at the least, whatever else stands there.
pub(super) const UNIT_RECORD_BYTES: usize = 3600;
// Where the next part of an extent finds no room, no more than this stays empty.
const _: () = assert!(
    UNIT_RECORD_BYTES + EXTENT_BYTES_MAX + EXTENT_PART_BYTES_MAX + SHORT_NAMES_BYTES_MAX <= UNIT_ROOM_BYTES - PLACES_MAX * PLACES_BYTES
);

/// Bytes of one more run of old blocks in a record, at the most.
pub(super) const OLD_RUN_BYTES_MAX: usize = 12;

/// What belongs to the commit of an epoch in the log.
#[derive(Default)]
pub(crate) struct LogPart {
    pub records: Vec<Record>,
    /// Where the last run of new blocks ends.
    pub(super) extent_end: Option<(Lbn, Pbn)>,
    /// Blocks born in it that no record names yet.
    pub newborn: BTreeSet<Pbn>,
    /// Units with slots, and their authenticators.
    pub carriers: Vec<(Pbn, Fingerprint)>,
    /// For the ledger (`sizes.rs`).
    pub(super) counts: Counting,
    units_left: usize,
    /// The `flushed_upto` of its units.
    flushed_upto: u64,
    /// Its units were sent: how many.
    sent: usize,
    pub is_large: bool,
}

impl crate::tables::Epoch {
    /// Whether it is to go out as a large epoch, as far as it has come: nothing of it rides in units.
    pub(crate) fn is_large(&self) -> bool {
        self.births.len() > SMALL_BLOCKS_MAX || self.has_packs
    }
}

impl LogPart {
    pub fn new(newborn: BTreeSet<Pbn>, epoch: &crate::tables::Epoch) -> Self {
        let is_large = newborn.len() > SMALL_BLOCKS_MAX || epoch.has_packs;
        Self { is_large, newborn, counts: Counting::of(epoch), ..Self::default() }
    }

    /// Whether its units are on their way, or there.
    pub fn is_sent(&self) -> bool {
        self.sent > 0
    }

    pub(super) fn sent(&mut self, units: usize, flushed_upto: u64) {
        (self.sent, self.units_left, self.flushed_upto) = (units, units, flushed_upto);
    }

    pub(super) fn units_written(&mut self, units: usize) {
        self.units_left = self.units_left.saturating_sub(units);
    }

    /// Bytes that its records take at the most, if these new blocks ride.
    fn record_bytes(&self, rides: impl Fn(Pbn) -> bool) -> usize {
        let bytes = |record: &Record| match record {
            Record::New { pbn, .. } if rides(*pbn) => LINK_BYTES_MAX,
            Record::Link { .. } => LINK_BYTES_MAX,
            Record::Extent { olds, shorts, .. } => EXTENT_BYTES_MAX + olds.len() * EXTENT_PART_BYTES_MAX + shorts.len() * SHORT_NAME_SIZE,
            Record::Clear { olds, .. } => RECORD_BYTES_MAX + olds.len() * OLD_RUN_BYTES_MAX,
            _ => RECORD_BYTES_MAX,
        };
        self.records.iter().map(bytes).sum()
    }
}

impl Engine {
    /// All records are gathered.
    pub(crate) fn records_are_gathered(&mut self) {
        self.gather_rest();
        let commit = self.scheme.commit.as_mut().expect("a step belongs to a commit");
        if commit.log.records.is_empty() {
            return self.epoch_is_durable();
        }
        commit.step = if commit.log.is_large { Step::Content } else { Step::Units };
        self.go_on_committing();
    }

    /// A large epoch's content is on its way: when it is there, it is flushed.
    pub(crate) fn step_large_content(&mut self) {
        let commit = self.scheme.commit.as_mut().expect("a step belongs to a commit");
        if commit.content_left == 0 {
            commit.step = Step::FlushOne;
            commit.log.counts.flushes += 1;
            self.store.io.flush(FlushFor::CommitContent);
        }
    }

    /// Sends the units, and when they and the content are on the device, flushes.
    pub(crate) fn step_units(&mut self) {
        let commit = self.scheme.commit.as_ref().expect("a step belongs to a commit");
        if !commit.log.is_sent() {
            let epoch = self.store.tables.committing().number;
            if self.log_asks(epoch) {
                return;
            }
            let Some(carriers) = self.room_for_units(epoch) else { return };
            self.count_riders(epoch, &carriers);
            let riders = self.carry(epoch, &carriers);
            // What does not ride goes to its own blocks. From here on all content of the epoch is on its way.
            self.send_held(epoch, |_| true);
            self.commit_waits_for_content();
            self.send_units(riders);
        }
        let commit = self.scheme.commit.as_mut().expect("it is there");
        if commit.log.counts.by_fua {
            // Content that is under way is not of its blocks.
            if commit.log.units_left == 0 {
                self.epoch_is_durable();
            }
            return;
        }
        if commit.log.units_left == 0 && commit.content_left == 0 {
            commit.step = Step::FlushTwo;
            commit.log.counts.flushes += 1;
            self.store.io.flush(FlushFor::CommitLinks);
        }
    }

    /// Whether the committing epoch, if it is one unit, is durable with that: none of its records names content that lies elsewhere and was born
    /// in it, and nobody counts on the flush of the next commit.
    pub(super) fn fua_is_enough(&self) -> bool {
        let records = &self.scheme.commit.as_ref().expect("units are a commit's").log.records;
        let needs_no_content = |record: &Record| matches!(record, Record::Link { .. } | Record::Clear { .. } | Record::Removed { .. });
        self.store.settings.device_takes_fua && records.iter().all(needs_no_content) && !self.store.io.durability.is_awaited()
    }

    /// Makes sure of places for the units of the committing epoch: which of them carry what. None: it has to wait for some.
    fn room_for_units(&mut self, epoch: Epoch) -> Option<Vec<Vec<Pbn>>> {
        let part = &self.scheme.commit.as_ref().expect("units are a commit's").log;
        let mut carriers = self.plan_carriers(epoch, part.record_bytes(|pbn| self.store.contents.held.contains(epoch, pbn)));
        loop {
            let rides = |pbn| carriers.iter().any(|blocks| blocks.contains(&pbn));
            let part = &self.scheme.commit.as_ref().expect("it is there").log;
            let units = carriers.len() + part.record_bytes(rides).div_ceil(UNIT_RECORD_BYTES);
            match self.reserve_places(units + PLACES_LEFT_MIN, Task::Commit) {
                Reserved::Enough => return Some(carriers),
                Reserved::Waits => return None,
                Reserved::Lacks if self.has_last_places(units) => return Some(carriers),
                // Plain units take fewer places.
                Reserved::Lacks if !carriers.is_empty() => carriers.clear(),
                Reserved::Lacks => {
                    self.starve();
                    return None;
                }
            }
        }
    }

    /// The epoch is durable: its effects enter the pages, and what it unlinked is held.
    pub(crate) fn log_epoch_is_durable(&mut self, number: Epoch, part: LogPart, removed: Vec<Pbn>) {
        if part.sent == 0 {
            return;
        }
        self.count_epoch(&part.counts, part.sent);
        // Its units say that the epoch before was flushed, and nothing of its own has entered a page.
        let before = self.store.tables.committed().epoch;
        self.when_vouched_for(before);
        let log = self.scheme.log.as_mut().expect("it is the log's");
        log.flushed = log.next - 1;
        self.store.tables.committed().epoch = number;
        let sequence = log.flushed;
        self.release_held(part.flushed_upto);
        let mut unlinked = Vec::new();
        let mut births = Births::default();
        for &(pbn, authenticator) in &part.carriers {
            births.of_carrier(pbn, authenticator);
            self.store.space.carriers.changed(pbn, true);
            self.store.end_fresh(pbn, number.0);
        }
        for record in &part.records {
            births.effects_of(record, &mut |effect| self.commit_effect(number, &effect, &mut unlinked));
            match record {
                Record::New { pbn, .. } => self.store.end_fresh(*pbn, number.0),
                Record::Carrier { pbn, .. } => {
                    self.store.space.carriers.changed(*pbn, true);
                    self.store.end_fresh(*pbn, number.0);
                }
                Record::Extent { pbn, olds, .. } => {
                    let blocks: u64 = olds.iter().map(|run| run.blocks).sum();
                    self.store.settle.born((0..blocks).map(|i| *pbn + i).collect(), number.0);
                }
                _ => {}
            }
        }
        births.rest(&mut |effect| self.commit_effect(number, &effect, &mut unlinked));
        if !unlinked.is_empty() {
            self.scheme.log.as_mut().expect("it is there").held.push_back(Held { sequence, unlinked, removed });
        }
        self.checkpoint_if_due();
    }

    /// Lets go of what units up to this sequence unlinked: it is durable that they were flushed (L6).
    pub(super) fn release_held(&mut self, flushed_upto: u64) {
        let log = self.scheme.log.as_mut().expect("only a log holds");
        while log.held.front().is_some_and(|held| held.sequence <= flushed_upto) {
            let Held { unlinked, removed, .. } = log.held.pop_front().expect("it was seen in front");
            self.store.tables.removals.sent -= count(removed.len());
            self.store.settle.unlink(unlinked);
            removed.iter().for_each(|pbn| self.store.space.reclaimed(pbn.0 / crate::space::GRANULE_BLOCKS));
            self.store.io.schedule.push(Task::Settle);
        }
    }
}
