//! Reads the compacted units: records of units before the log tail, copied into fewer units.
//!
//! 1. They are read in the order in which the log tail names them, and each has to be there: none was named before it was flushed.
//! 2. The units of one compaction are a segment. Each names its number i of n, and the first and the last unit that the segment copies.
//!    Segments follow each other, from where the log tail says up to the log tail, so that none is missing and none is of another
//!    incarnation.
//! 3. Their epochs never fall, and none lies behind the log tail's epoch.

use super::limits::{Limits, each};
use crate::format::log_tail::LogTail;
use crate::format::record::Record;
use crate::format::unit::{Unit, UnitHeader, UnitKind};
use crate::scheme::log::records::effects_of;
use crate::tables::effect::Effect;
use crate::units::{Epoch, Pbn, count};
use std::collections::BTreeMap;

/// The compacted units of a log that is being read.
pub(super) struct CompactedUnits {
    places: Vec<Pbn>,
    asked: usize,
    /// Units that have arrived, and are not taken in order yet.
    arrived: BTreeMap<usize, Option<Unit>>,
    /// The next to be taken.
    next: usize,
    /// The last unit of the log that the whole segments copy, and the last that they have to copy.
    upto: u64,
    end: u64,
    /// The last unit of the segment that is not whole yet.
    segment: Option<UnitHeader>,
    /// The last epoch so far, and the last that is possible.
    epoch: Epoch,
    epoch_max: Epoch,
    missing: Option<Pbn>,
}

impl CompactedUnits {
    pub fn new(log_tail: &LogTail) -> Self {
        let places: Vec<Pbn> = each(&log_tail.compacted.places).collect();
        Self {
            asked: 0,
            arrived: BTreeMap::new(),
            next: 0,
            upto: log_tail.compacted.since,
            end: if places.is_empty() { log_tail.compacted.since } else { log_tail.sequence - 1 },
            segment: None,
            epoch: Epoch(0),
            epoch_max: log_tail.epoch,
            missing: None,
            places,
        }
    }

    /// Returns the number and the place of a unit that has not been requested.
    pub fn ask(&mut self) -> Option<(usize, Pbn)> {
        let pbn = *self.places.get(self.asked)?;
        self.asked += 1;
        Some((self.asked - 1, pbn))
    }

    /// Takes the unit that was read at a place. Passes on the effects of its records in order, as far as the units are there.
    pub fn arrived(&mut self, number: usize, unit: Option<Unit>, limits: Limits, push: &mut dyn FnMut(Epoch, &Effect<'_>)) {
        self.arrived.insert(number, unit.filter(|unit| limits.hold(unit)));
        while let Some(unit) = self.arrived.remove(&self.next) {
            let pbn = self.places[self.next];
            self.next += 1;
            match unit.filter(|unit| self.follows(&unit.header)).filter(|unit| self.is_in_order(unit)) {
                Some(unit) if self.missing.is_none() => self.take(&unit, push),
                Some(_) => {}
                None => self.missing = self.missing.or(Some(pbn)),
            }
        }
        if self.is_done() && (self.segment.is_some() || self.upto != self.end) {
            self.missing = self.missing.or(self.places.last().copied());
        }
    }

    /// Invariant 2.
    fn follows(&self, header: &UnitHeader) -> bool {
        let of = |header: &UnitHeader| (header.kind, header.incarnation, header.sequence, header.flushed_upto, header.units);
        match &self.segment {
            Some(before) => of(header) == of(before) && header.unit == before.unit + 1,
            None => {
                let begins = header.kind == UnitKind::Compacted && header.unit == 0 && header.flushed_upto == self.upto;
                begins && (self.upto + 1..=self.end).contains(&header.sequence)
            }
        }
    }

    /// Invariant 3.
    fn is_in_order(&self, unit: &Unit) -> bool {
        let mut later = unit.records.iter().map(|record| if let Record::Later { epochs } = record { *epochs } else { 0 });
        let last = later.try_fold(unit.header.epoch.get(), u64::checked_add);
        unit.header.epoch >= self.epoch && last.is_some_and(|last| last <= self.epoch_max.get())
    }

    fn take(&mut self, unit: &Unit, push: &mut dyn FnMut(Epoch, &Effect<'_>)) {
        self.epoch = unit.header.epoch;
        for record in &unit.records {
            if let Record::Later { epochs } = record {
                self.epoch += *epochs;
            }
            effects_of(record, &mut |effect| push(self.epoch, &effect));
        }
        let is_last = unit.header.unit + 1 == unit.header.units;
        self.segment = (!is_last).then_some(unit.header);
        if is_last {
            self.upto = unit.header.sequence;
        }
    }

    /// The last epoch that is certainly complete: the next unit may continue a later one.
    pub fn certain(&self) -> Epoch {
        Epoch(self.epoch.get().saturating_sub(1))
    }

    /// The number of units that have not arrived in order.
    pub fn ahead(&self) -> u64 {
        count(self.places.len() - self.next)
    }

    /// Whether all of them have arrived.
    pub fn is_done(&self) -> bool {
        self.next == self.places.len()
    }

    /// The place of a unit that is missing, or is another one.
    pub fn missing(&self) -> Option<Pbn> {
        self.missing
    }

    /// The places of the units.
    pub fn into_places(self) -> Vec<Pbn> {
        self.places
    }
}
