//! Reading condensed units: what units before the walk said, copied into fewer.
//!
//! 1. They are read in the order in which the anchor names them, and every one has to be there: none was named before it was flushed.
//! 2. Those of one condensing are a segment: unit i of n, the first and the last unit of the walk that it copies. Segments follow each
//!    other, from where the anchor says up to the walk, so that none is missing and none is another life's.
//! 3. Their epochs never fall, and none lies behind the anchor's.

use super::limits::{Limits, each};
use crate::format::anchor::Anchor;
use crate::format::record::Record;
use crate::format::unit::{Unit, UnitHeader, UnitKind};
use crate::scheme::log::records::effects_of;
use crate::tables::effect::Effect;
use crate::units::{Epoch, Pbn, count};
use std::collections::BTreeMap;

/// The condensed units of a log that is being read.
pub(super) struct Condensed {
    places: Vec<Pbn>,
    asked: usize,
    /// Arrived, and not yet taken in order.
    arrived: BTreeMap<usize, Option<Unit>>,
    /// The next to be taken.
    next: usize,
    /// The last unit of the log that the whole segments copy, and the last that they have to.
    upto: u64,
    end: u64,
    /// The segment that is not whole yet: its last unit so far.
    segment: Option<UnitHeader>,
    /// The last epoch so far, and the last that there can be.
    epoch: Epoch,
    epoch_max: Epoch,
    missing: Option<Pbn>,
}

impl Condensed {
    pub fn new(anchor: &Anchor) -> Self {
        let places: Vec<Pbn> = each(&anchor.condensed.places).collect();
        Self {
            asked: 0,
            arrived: BTreeMap::new(),
            next: 0,
            upto: anchor.condensed.since,
            end: if places.is_empty() { anchor.condensed.since } else { anchor.sequence - 1 },
            segment: None,
            epoch: Epoch(0),
            epoch_max: anchor.epoch,
            missing: None,
            places,
        }
    }

    /// One that has not been asked for: its number and its place.
    pub fn ask(&mut self) -> Option<(usize, Pbn)> {
        let pbn = *self.places.get(self.asked)?;
        self.asked += 1;
        Some((self.asked - 1, pbn))
    }

    /// What lies at the place of one. What its records do is handed on in order, as far as it is known.
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
                let begins = header.kind == UnitKind::Condensed && header.unit == 0 && header.flushed_upto == self.upto;
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

    /// The last epoch of which all was handed on for certain: the next unit may go on with one.
    pub fn certain(&self) -> Epoch {
        Epoch(self.epoch.get().saturating_sub(1))
    }

    /// How many have not arrived, or not in order.
    pub fn ahead(&self) -> u64 {
        count(self.places.len() - self.next)
    }

    /// Whether all of them have arrived.
    pub fn is_done(&self) -> bool {
        self.next == self.places.len()
    }

    /// One that is not there, or is not what should be there.
    pub fn missing(&self) -> Option<Pbn> {
        self.missing
    }

    /// Where they lie.
    pub fn into_places(self) -> Vec<Pbn> {
        self.places
    }
}
