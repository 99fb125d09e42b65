//! Reading the log: which units there are, where it ends, what it says.
//!
//! 0. Before the walk come the condensed units (`condensed.rs`).
//! 1. Recovery can begin nowhere but at the anchor; each unit names the places of those behind it, at least two, so that a lost one does not cut
//!    the chain.
//! 2. **End (L2).** Let F be the highest `flushed_upto` among the valid units and the anchor. Every unit up to F must be there: a missing one is
//!    damage. Behind F at most one epoch counts, and only if all of its units are there (L10). A unit behind a hole is never used.
//! 3. Incarnations never fall along the walk (L3): a unit of a lower one is left from before a crash, and is not there. Behind the anchor's barrier
//!    stands no unit from before the opening that set it.
//! 4. **Drops (L5).** A record of the epoch beyond F whose content is not what it says is dropped, and nothing else; the next record of its LBN
//!    then has the dropped record's old block as its old one. What was dropped stays dropped: closing records name its blocks.
//! 5. What counts names only LBNs and blocks that the volume has, or the log is damaged.
//!
//! No I/O here: whoever reads asks for places, and hands in what lies there.

use super::condensed::Condensed;
use super::effect::Effect;
use super::records::{Births, effects_of};
use crate::Map;
use crate::format::anchor::Anchor;
use crate::format::entry::{FingerprintEntry, MapEntry};
use crate::format::geometry::Geometry;
use crate::format::places::{PLACES_BLOCKS_MAX, PLACES_MAX, Places};
use crate::format::record::Record;
use crate::format::unit::{Unit, UnitKind};
use crate::units::{Epoch, Lbn, Pbn, index};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Which unit is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// A condensed one, counted from the first.
    Condensed(usize),
    /// A unit of the walk, by its sequence.
    Log(u64),
}

/// A walk along the log, from the anchor on.
pub(crate) struct Walk {
    anchor: Anchor,
    limits: Limits,
    condensed: Condensed,
    /// Where the unit of each sequence should lie, as the anchor and the units before it say.
    places: BTreeMap<u64, Pbn>,
    asked: BTreeSet<u64>,
    /// Arrived, and not yet taken in order.
    arrived: BTreeMap<u64, Option<Unit>>,
    units: BTreeMap<u64, Unit>,
    /// The next to be taken.
    next: u64,
    incarnation: u64,
}

/// How many LBNs and how many blocks a volume has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub lbns: u64,
    pub pbns: u64,
}

impl Limits {
    pub fn of(geometry: &Geometry) -> Self {
        Self { lbns: geometry.logical_blocks, pbns: geometry.data_blocks }
    }

    fn has(self, first: Option<Pbn>, blocks: u64) -> bool {
        first.is_none_or(|first| first.get() + blocks <= self.pbns)
    }

    /// Whether all that a unit names is the volume's.
    pub(super) fn hold(self, unit: &Unit) -> bool {
        let is_inside = |effect: &Effect| {
            effect.lbn.is_none_or(|lbn| lbn.get() + effect.blocks <= self.lbns)
                && self.has(effect.to.pbn(), effect.blocks)
                && self.has(effect.old, effect.blocks)
        };
        let mut inside = unit.places.iter().all(|run| self.has(Some(run.first), run.blocks.into()));
        unit.records.iter().for_each(|record| effects_of(record, &mut |effect| inside &= is_inside(&effect)));
        inside
    }
}

/// Where a walk ended.
pub(crate) struct Ended {
    /// Where the condensed units lie, in order.
    pub condensed: Vec<Pbn>,
    /// One of them is not there: its place.
    pub condensed_missing: Option<Pbn>,
    /// The units that count, in order.
    pub units: Vec<Unit>,
    /// Their places, and the sequence of the first.
    pub first: u64,
    pub places: Vec<Pbn>,
    /// Every unit up to this sequence was flushed for certain.
    pub flushed: u64,
    /// The sequence of the last unit that counts.
    pub end: u64,
    /// The last epoch that counts.
    pub epoch: Epoch,
    /// The highest epoch that any valid unit has, counted or not.
    pub epoch_seen: Epoch,
    /// Places that the last unit names, in order: the first is that of the next unit.
    pub come: Vec<Pbn>,
    /// A unit that was flushed is not there: its sequence.
    pub missing: Option<u64>,
    /// A unit that counts names what the volume does not have: its sequence.
    pub outside: Option<u64>,
}

pub(super) fn each(places: &[Places]) -> impl Iterator<Item = Pbn> + '_ {
    places.iter().flat_map(|run| run.pbns())
}

impl Walk {
    pub fn new(anchor: Anchor, limits: Limits) -> Self {
        let places = (anchor.sequence..).zip(each(&anchor.places)).collect();
        let (next, incarnation, condensed) = (anchor.sequence, anchor.incarnation, Condensed::new(&anchor));
        Self {
            anchor,
            limits,
            condensed,
            places,
            asked: BTreeSet::new(),
            arrived: BTreeMap::new(),
            units: BTreeMap::new(),
            next,
            incarnation,
        }
    }

    /// A unit that has not been asked for, and its place.
    pub fn ask(&mut self) -> Option<(Which, Pbn)> {
        if let Some((number, pbn)) = self.condensed.ask() {
            return Some((Which::Condensed(number), pbn));
        }
        let (&sequence, &pbn) = self.places.range(self.next..).find(|(sequence, _)| !self.asked.contains(sequence))?;
        self.asked.insert(sequence);
        Some((Which::Log(sequence), pbn))
    }

    /// What lies at the place of a unit. What condensed units do is handed on at once, in order; what the others do, [`Ended::replay`] says.
    pub fn arrived(&mut self, which: Which, pbn: Pbn, unit: Option<Unit>, push: &mut dyn FnMut(Epoch, &Effect)) {
        match which {
            Which::Condensed(number) => self.condensed.arrived(number, unit, self.limits, push),
            Which::Log(sequence) if self.places.get(&sequence) == Some(&pbn) => self.unit_arrived(sequence, unit),
            Which::Log(_) => {}
        }
    }

    fn unit_arrived(&mut self, sequence: u64, unit: Option<Unit>) {
        let is_it = |unit: &Unit| unit.header.kind == UnitKind::Log && unit.header.sequence == sequence;
        self.arrived.insert(sequence, unit.filter(is_it));
        while let Some(unit) = self.arrived.remove(&self.next) {
            let sequence = self.next;
            self.next += 1;
            let barrier = self.anchor.barrier.filter(|barrier| sequence > barrier.sequence).map_or(0, |barrier| barrier.incarnation);
            let least = self.incarnation.max(barrier);
            let Some(unit) = unit.filter(|unit| unit.header.incarnation >= least) else { continue };
            self.incarnation = unit.header.incarnation;
            let places = each(&unit.places).take_while(|&pbn| self.limits.has(Some(pbn), 1));
            for (sequence, pbn) in (sequence + 1..).zip(places) {
                // After a crash the new incarnation may name other places than the units that it left behind.
                if self.places.insert(sequence, pbn).is_some_and(|before| before != pbn) {
                    self.asked.remove(&sequence);
                    self.arrived.remove(&sequence);
                }
            }
            self.units.insert(sequence, unit);
        }
    }

    /// Whether every place that is named has been looked at.
    pub fn is_done(&self) -> bool {
        self.condensed.is_done() && !self.places.contains_key(&self.next)
    }

    /// Where the log ends.
    pub fn end(mut self) -> Ended {
        let Anchor { sequence: first, epoch, flushed_upto, .. } = self.anchor;
        // The anchor lies behind what is flushed, whatever else it says.
        let before = flushed_upto.max(first - 1);
        let flushed = self.units.values().map(|unit| unit.header.flushed_upto).fold(before, u64::max);
        let missing = (first..=flushed).find(|sequence| !self.units.contains_key(sequence));
        let epoch_seen = self.units.values().map(|unit| unit.header.epoch).fold(epoch, Epoch::max);
        let mut end = missing.map_or(flushed, |missing| missing - 1);
        match missing {
            // No part of an epoch.
            Some(_) => {
                while self.units.get(&end).is_some_and(|unit| unit.header.unit + 1 < unit.header.units) {
                    end -= 1;
                }
            }
            None => end += self.whole_epoch(flushed + 1),
        }
        let beyond = self.units.split_off(&(end + 1));
        drop(beyond);
        let epoch = self.units.last_key_value().map_or(epoch, |(_, unit)| unit.header.epoch);
        let come = match self.units.last_key_value() {
            Some((_, unit)) => each(&unit.places).collect(),
            None => each(&self.anchor.places).collect(),
        };
        Ended {
            condensed_missing: self.condensed.missing(),
            condensed: self.condensed.into_places(),
            first,
            places: self.places.range(first..end + 1).map(|(_, &pbn)| pbn).collect(),
            flushed: flushed.min(end),
            end,
            epoch,
            epoch_seen,
            come,
            missing,
            outside: self.units.iter().find(|(_, unit)| !self.limits.hold(unit)).map(|(&sequence, _)| sequence),
            units: self.units.into_values().collect(),
        }
    }

    /// The units of the epoch that begins at this sequence, if all of them are there.
    fn whole_epoch(&self, first: u64) -> u64 {
        let Some(head) = self.units.get(&first).map(|unit| &unit.header) else { return 0 };
        let belongs = |i: u32| {
            self.units.get(&(first + u64::from(i))).is_some_and(|unit| {
                let header = &unit.header;
                (header.epoch, header.unit, header.units, header.incarnation) == (head.epoch, i, head.units, head.incarnation)
            })
        };
        if (0..head.units).all(belongs) { u64::from(head.units) } else { 0 }
    }
}

impl Ended {
    /// New blocks of the epoch that may not have been flushed: their content has to be compared (L5).
    pub fn doubtful(&self) -> Vec<(Pbn, FingerprintEntry)> {
        let beyond = self.units.iter().filter(|unit| unit.header.sequence > self.flushed && !unit.header.content_flushed);
        let records = beyond.flat_map(|unit| &unit.records);
        records.filter_map(|record| if let Record::New { pbn, name, .. } = record { Some((*pbn, *name)) } else { None }).collect()
    }

    /// Where the unit of this sequence lies, if it counts.
    pub fn place_of(&self, sequence: u64) -> Option<Pbn> {
        self.places.get(index(sequence.checked_sub(self.first)?)).copied()
    }

    /// Whether the log ends with the unit that closed it after a crash: there is nothing behind it to be said.
    pub fn is_closed(&self) -> bool {
        self.units.last().is_some_and(|unit| unit.records.iter().any(|record| matches!(record, Record::Closing { .. })))
    }

    /// The record that closes the log where the content of `wrong` blocks is not what records say.
    pub fn closing(&self, wrong: &BTreeSet<Pbn>) -> Record {
        let first = if wrong.is_empty() { 0 } else { self.flushed + 1 };
        Record::Closing { first, lost: wrong.iter().copied().collect() }
    }

    /// Hands on what every unit does, in order, where the content of `wrong` blocks is not what their records say.
    pub fn replay(&self, wrong: &BTreeSet<Pbn>, push: &mut dyn FnMut(Epoch, &Effect)) {
        // Block → in which units, by sequence, what names it is dropped.
        let mut dropped: Map<Pbn, Vec<Range<u64>>> = Map::default();
        let mut drop = |lost: &mut dyn Iterator<Item = &Pbn>, units: Range<u64>| {
            lost.for_each(|&pbn| dropped.entry(pbn).or_default().push(units.clone()));
        };
        for unit in &self.units {
            for record in &unit.records {
                if let Record::Closing { first, lost } = record {
                    drop(&mut lost.iter(), *first..unit.header.sequence);
                }
            }
        }
        drop(&mut wrong.iter(), self.flushed + 1..self.end + 1);
        let is_dropped = |sequence: u64, record: &Record| {
            let names = match record {
                Record::New { pbn, .. } | Record::Link { to: MapEntry::Block { pbn, .. }, .. } => pbn,
                _ => return false,
            };
            dropped.get(names).is_some_and(|units| units.iter().any(|units| units.contains(&sequence)))
        };
        let mut births = Births::default();
        // LBN → what it meant before a record of it that was dropped.
        let mut former: Map<Lbn, Option<Pbn>> = Map::default();
        for (unit, &pbn) in self.units.iter().zip(&self.places) {
            if !unit.slots.is_empty() {
                births.of_carrier(pbn, unit.authenticator);
            }
            for record in &unit.records {
                let is_dropped = is_dropped(unit.header.sequence, record);
                births.effects_of(record, &mut |effect: Effect| match effect.lbn {
                    Some(lbn) if is_dropped => {
                        former.entry(lbn).or_insert(effect.old);
                    }
                    _ => put_right(effect, &mut former, &mut |effect| push(unit.header.epoch, &effect)),
                });
            }
            if unit.header.unit + 1 == unit.header.units {
                births.rest(&mut |effect| push(unit.header.epoch, &effect));
            }
        }
    }
}

/// Hands on an effect, its old blocks put right where the records before it were dropped.
fn put_right(effect: Effect, former: &mut Map<Lbn, Option<Pbn>>, push: &mut dyn FnMut(Effect)) {
    let Some(lbn) = effect.lbn.filter(|_| !former.is_empty()) else { return push(effect) };
    let mut from = 0;
    for i in 0..effect.blocks {
        if let Some(old) = former.remove(&(lbn + i)) {
            if i > from {
                push(effect.part(from, i - from));
            }
            push(Effect { old, ..effect.part(i, 1) });
            from = i + 1;
        }
    }
    if from == 0 {
        return push(effect);
    }
    if from < effect.blocks {
        push(effect.part(from, effect.blocks - from));
    }
}

/// Runs of these places, as a unit or an anchor names them: as many as they have room for.
pub(crate) fn runs(places: impl Iterator<Item = Pbn>) -> Vec<Places> {
    first_runs(places, PLACES_MAX)
}

/// Runs of these places, the first so many.
pub(super) fn first_runs(places: impl Iterator<Item = Pbn>, most: usize) -> Vec<Places> {
    let mut runs: Vec<Places> = Vec::new();
    for pbn in places {
        if let Some(run) = runs.last_mut().filter(|run| run.end() == pbn && run.blocks < PLACES_BLOCKS_MAX) {
            run.blocks += 1;
        } else if runs.len() < most {
            runs.push(Places { first: pbn, blocks: 1 });
        } else {
            break;
        }
    }
    runs
}
