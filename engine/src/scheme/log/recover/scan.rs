//! The log scan: reads the units from the log tail on, and finds the end of the log and the effects of its records.
//!
//! 0. Before these units come the compacted units (`compacted.rs`).
//! 1. Recovery can begin nowhere but at the log tail. Each unit names the places of those behind it, at least two, so that a lost unit does
//!    not break the chain.
//! 2. **End (L2).** Let F be the highest `flushed_upto` of the valid units and the log tail. Every unit up to F must be there: a missing
//!    one is damage. Behind F at most one epoch counts, and only if all of its units are there (L10). A unit behind a hole is never used.
//! 3. Incarnations never fall along the log (L3): a unit of a lower one is left from before a crash, and does not count. Behind the log
//!    tail's barrier no unit from before the opening that set it counts. Nor do epochs fall, and no unit is of an incarnation that the
//!    superblock does not know yet.
//! 4. **Drops (L5).** A record of the epoch beyond F whose content differs is dropped, and nothing else; the next record of its LBN then
//!    has the dropped record's old block as its old one. What was dropped stays dropped: closing records name its blocks.
//! 5. Units that count name only LBNs and blocks that the volume has, and no block is used twice by the log (`damage.rs`); otherwise the
//!    log is damaged.
//! 6. The effects of a unit are passed on, and the unit is freed, as soon as a unit behind it, with none missing between, confirms its
//!    flush: then it counts, and its dropped records are known, because the closing unit was the first to confirm it. So few units are in
//!    memory at once.
//!
//! No I/O happens here: the caller requests places, and hands in the units that it reads there.

use super::compacted::CompactedUnits;
use super::limits::{Limits, each};
use super::replay::{Replay, named_by};
use crate::format::entry::FingerprintEntry;
use crate::format::log_tail::LogTail;
use crate::format::page::PageId;
use crate::format::record::Record;
use crate::format::unit::{Unit, UnitHeader, UnitKind};
use crate::io::LogUnit;
use crate::scheme::log::records::effects_of;
use crate::tables::effect::Effect;
use crate::units::{Epoch, Pbn, count, index};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A scan of the log, from its tail on.
pub(crate) struct Scan {
    log_tail: LogTail,
    limits: Limits,
    compacted: CompactedUnits,
    /// The place of each unit that is to be taken, by sequence, as the log tail and the units before it name it.
    places: BTreeMap<u64, Pbn>,
    asked: BTreeSet<u64>,
    /// Units that have arrived, with their places, and are not taken in order yet.
    arrived: BTreeMap<u64, (Pbn, Option<Unit>)>,
    /// The units up to the first hole, in order.
    taken: Vec<ScannedUnit>,
    /// The last of them, whose effects are not passed on: they, or some of their records, may not count.
    pending: VecDeque<Unit>,
    replay: Replay,
    /// The next to be taken.
    next: u64,
    /// The incarnation and the epoch of the last unit that was there.
    incarnation: u64,
    epoch: Epoch,
    /// The highest `flushed_upto` of any unit; that of the last unit that was passed on; and the highest epoch of any unit.
    flushed: u64,
    certain: u64,
    epoch_seen: Epoch,
}

/// A unit that is there, with no unit missing before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScannedUnit {
    pub pbn: Pbn,
    pub incarnation: u64,
    pub epoch: Epoch,
    pub is_carrier: bool,
    /// The last of its epoch.
    is_last: bool,
    /// It closed the log after a crash.
    closes: bool,
}

impl ScannedUnit {
    fn of(unit: &Unit, pbn: Pbn) -> Self {
        let UnitHeader { incarnation, epoch, unit: i, units, .. } = unit.header;
        let closes = unit.records.iter().any(|record| matches!(record, Record::Closing { .. }));
        Self { pbn, incarnation, epoch, is_carrier: !unit.slots.is_empty(), is_last: i + 1 == units, closes }
    }
}

/// The result of a scan.
pub(crate) struct ScanEnd {
    /// The places of the compacted units, in order.
    pub compacted: Vec<Pbn>,
    /// The place of a compacted unit that is missing.
    pub missing_compacted: Option<Pbn>,
    /// The units that count, in order, and the sequence of the first.
    pub units: Vec<ScannedUnit>,
    pub first: u64,
    /// The last of them, whose effects are not passed on yet.
    pending: VecDeque<Unit>,
    replay: Replay,
    /// Every unit up to this sequence was flushed for certain.
    pub flushed: u64,
    /// The sequence of the last unit that counts.
    pub end: u64,
    /// The last epoch that counts, and the last one that more than its own units confirms.
    pub epoch: Epoch,
    pub confirmed: Epoch,
    /// The highest epoch of any valid unit, even of one that does not count.
    pub epoch_seen: Epoch,
    /// The places that the last unit names, in order: the first is that of the next unit.
    pub next_places: Vec<Pbn>,
    /// The sequence of a unit that was flushed and is missing.
    pub missing: Option<u64>,
    /// The sequence of a unit that counts and names LBNs or blocks that the volume does not have.
    pub outside: Option<u64>,
}

impl Scan {
    pub fn new(log_tail: LogTail, limits: Limits) -> Self {
        let places = (log_tail.sequence..).zip(each(&log_tail.places)).collect();
        let (next, incarnation, compacted) = (log_tail.sequence, log_tail.incarnation, CompactedUnits::new(&log_tail));
        // The units before the log tail are flushed, whatever else it says.
        let (flushed, epoch) = (log_tail.flushed_upto.max(next - 1), log_tail.epoch);
        let replay = Replay::behind(&log_tail.places);
        Self {
            log_tail,
            limits,
            compacted,
            places,
            asked: BTreeSet::new(),
            arrived: BTreeMap::new(),
            taken: Vec::new(),
            pending: VecDeque::new(),
            replay,
            next,
            incarnation,
            epoch,
            flushed,
            certain: 0,
            epoch_seen: epoch,
        }
    }

    /// Returns a unit that has not been requested, and its place.
    pub fn ask(&mut self) -> Option<(LogUnit, Pbn)> {
        if let Some((number, pbn)) = self.compacted.ask() {
            return Some((LogUnit::Compacted(number), pbn));
        }
        let (&sequence, &pbn) = self.places.iter().find(|(sequence, _)| !self.asked.contains(sequence))?;
        self.asked.insert(sequence);
        Some((LogUnit::Tail(sequence), pbn))
    }

    /// Takes the unit that was read at a place. Passes on the effects that count for certain, in order; [`ScanEnd::replay`] passes on the
    /// rest.
    pub fn arrived(&mut self, which: LogUnit, pbn: Pbn, unit: Option<Unit>, push: &mut dyn FnMut(Epoch, &Effect<'_>)) {
        match which {
            LogUnit::Compacted(number) => self.compacted.arrived(number, unit, self.limits, push),
            LogUnit::Tail(sequence) if self.places.get(&sequence) == Some(&pbn) => self.unit_arrived(sequence, pbn, unit),
            LogUnit::Tail(_) => {}
        }
        if self.compacted.is_done() {
            self.hand_on(push);
        }
    }

    fn unit_arrived(&mut self, sequence: u64, pbn: Pbn, unit: Option<Unit>) {
        let is_it = |unit: &Unit| unit.header.kind == UnitKind::Log && unit.header.sequence == sequence;
        self.arrived.insert(sequence, (pbn, unit.filter(is_it)));
        while let Some((pbn, unit)) = self.arrived.remove(&self.next) {
            let sequence = self.next;
            self.next += 1;
            self.asked.remove(&sequence);
            self.places.remove(&sequence);
            let barrier = self.log_tail.barrier.filter(|barrier| sequence > barrier.sequence).map_or(0, |barrier| barrier.incarnation);
            let incarnations = self.incarnation.max(barrier)..=self.limits.incarnation;
            let follows = |unit: &Unit| incarnations.contains(&unit.header.incarnation) && unit.header.epoch >= self.epoch;
            let Some(unit) = unit.filter(follows) else { continue };
            (self.incarnation, self.epoch) = (unit.header.incarnation, unit.header.epoch);
            let places = each(&unit.places).take_while(|&pbn| self.limits.has(Some(pbn), 1));
            for (sequence, pbn) in (sequence + 1..).zip(places) {
                // After a crash the new incarnation may name other places than the units that it left behind.
                if self.places.insert(sequence, pbn).is_some_and(|before| before != pbn) {
                    self.asked.remove(&sequence);
                    self.arrived.remove(&sequence);
                }
            }
            self.flushed = self.flushed.max(unit.header.flushed_upto);
            self.epoch_seen = self.epoch_seen.max(unit.header.epoch);
            // Of a unit behind a hole nothing else is used.
            if sequence == self.log_tail.sequence + count(self.taken.len()) {
                self.taken.push(ScannedUnit::of(&unit, pbn));
                self.replay.closes(&unit);
                self.pending.push_back(unit);
            }
        }
    }

    /// Invariant 6.
    fn hand_on(&mut self, push: &mut dyn FnMut(Epoch, &Effect<'_>)) {
        let Some(last) = self.pending.back() else { return };
        let flushed = last.header.flushed_upto;
        let known = self.pending.partition_point(|unit| unit.header.sequence <= flushed);
        for unit in self.pending.drain(..known) {
            let pbn = self.taken[index(unit.header.sequence - self.log_tail.sequence)].pbn;
            if !self.limits.hold(&unit) {
                self.replay.outside.get_or_insert(unit.header.sequence);
            }
            self.certain = unit.header.flushed_upto;
            self.replay.hand_on(&unit, pbn, push);
        }
    }

    /// The last epoch that every later recovery counts as a whole. It may lie before the units that were passed on: the units that confirm
    /// these may be gone the next time, since they may not have been flushed themselves. A unit that confirms this epoch was flushed
    /// itself.
    pub fn certain(&self) -> Epoch {
        if !self.compacted.is_done() {
            return self.compacted.certain();
        }
        let units = self.certain.saturating_sub(self.log_tail.sequence - 1);
        units.checked_sub(1).map_or(self.log_tail.epoch, |last| self.taken[index(last)].epoch)
    }

    /// The number of units that are named and have not been read.
    pub fn ahead(&self) -> u64 {
        self.compacted.ahead() + count(self.places.len())
    }

    /// Whether every place that is named has been read.
    pub fn is_done(&self) -> bool {
        self.compacted.is_done() && !self.places.contains_key(&self.next)
    }

    /// Ends the scan.
    pub fn end(mut self) -> ScanEnd {
        let first = self.log_tail.sequence;
        let before_hole = first + count(self.taken.len()) - 1;
        let missing = (self.flushed > before_hole).then_some(before_hole + 1);
        let mut end = missing.map_or(self.flushed, |missing| missing - 1);
        match missing {
            // A part of an epoch does not count.
            Some(_) => {
                while end >= first && !self.taken[index(end - first)].is_last {
                    end -= 1;
                }
            }
            None => end += self.whole_epoch(self.flushed + 1),
        }
        self.taken.truncate(index(end + 1 - first));
        self.pending.retain(|unit| unit.header.sequence <= end);
        let flushed = self.flushed.min(end);
        // A unit that does not count is overwritten soon, and its confirmation is lost.
        let confirmed =
            self.pending.back().map_or(0, |unit| unit.header.flushed_upto).max(self.log_tail.flushed_upto).clamp(first - 1, end);
        let at_end = |units: &[ScannedUnit]| units.last().map_or(self.log_tail.epoch, |unit| unit.epoch);
        let (epoch, confirmed) = (at_end(&self.taken), at_end(&self.taken[..index(confirmed + 1 - first)]));
        let outside = self.pending.iter().find(|unit| !self.limits.hold(unit)).map(|unit| unit.header.sequence);
        ScanEnd {
            missing_compacted: self.compacted.missing(),
            compacted: self.compacted.into_places(),
            first,
            flushed,
            end,
            epoch,
            confirmed,
            epoch_seen: self.epoch_seen,
            next_places: each(self.pending.back().map_or(&self.replay.named, |unit| &unit.places)).collect(),
            missing,
            outside: self.replay.outside.or(outside),
            units: self.taken,
            pending: self.pending,
            replay: self.replay,
        }
    }

    /// The number of units of the epoch that begins at this sequence; 0 if one of them is missing.
    fn whole_epoch(&self, first: u64) -> u64 {
        let mut units = self.pending.iter().skip_while(|unit| unit.header.sequence < first);
        let Some(head) = units.clone().next().map(|unit| &unit.header) else { return 0 };
        let mut belongs = |i: u32| {
            units.next().is_some_and(|unit| {
                let header = &unit.header;
                (header.epoch, header.unit, header.units, header.incarnation) == (head.epoch, i, head.units, head.incarnation)
            })
        };
        if (0..head.units).all(&mut belongs) { u64::from(head.units) } else { 0 }
    }
}

impl ScanEnd {
    /// Records of the epoch that may not have been flushed.
    fn beyond(&self) -> impl Iterator<Item = &Record> {
        let beyond = self.pending.iter().filter(|unit| unit.header.sequence > self.flushed && !unit.header.content_flushed);
        beyond.flat_map(|unit| &unit.records)
    }

    /// New blocks of the epoch that may not have been flushed: their content has to be verified (L5).
    pub fn unverified(&self) -> Vec<(Pbn, FingerprintEntry)> {
        let name = |record: &Record| if let Record::New { pbn, name, .. } = record { Some((*pbn, *name)) } else { None };
        self.beyond().filter_map(name).collect()
    }

    /// Pages changed by that epoch's records that refer to these blocks.
    pub fn pages_naming(&self, wrong: &BTreeSet<Pbn>) -> BTreeSet<PageId> {
        let mut pages = BTreeSet::new();
        for record in self.beyond().filter(|record| named_by(record).is_some_and(|pbn| wrong.contains(&pbn))) {
            effects_of(record, &mut |effect| pages.extend(effect.pages()));
        }
        pages
    }

    /// The place of the unit of this sequence, if it counts.
    pub fn place_of(&self, sequence: u64) -> Option<Pbn> {
        self.units.get(index(sequence.checked_sub(self.first)?)).map(|unit| unit.pbn)
    }

    /// Whether the log ends with the unit that closed it after a crash: then it needs no other closing unit.
    pub fn is_closed(&self) -> bool {
        self.units.last().is_some_and(|unit| unit.closes)
    }

    /// The record that closes the log; the content of `wrong` blocks differs from their records.
    pub fn closing(&self, wrong: &BTreeSet<Pbn>) -> Record {
        let first = if wrong.is_empty() { 0 } else { self.flushed + 1 };
        Record::Closing { first, lost: wrong.iter().copied().collect() }
    }

    /// Passes on the effects of the last units, in order. Records of `wrong` blocks are dropped.
    pub fn replay(&mut self, wrong: &BTreeSet<Pbn>, push: &mut dyn FnMut(Epoch, &Effect<'_>)) {
        self.replay.drop_in(self.flushed + 1..self.end + 1, wrong.iter());
        for unit in std::mem::take(&mut self.pending) {
            let pbn = self.units[index(unit.header.sequence - self.first)].pbn;
            self.replay.hand_on(&unit, pbn, push);
        }
    }
}
