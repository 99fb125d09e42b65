//! The effects of scanned units, without dropped records (L5).

use crate::format::entry::MapEntry;
use crate::format::places::Places;
use crate::format::record::Record;
use crate::format::unit::{Unit, UnitHeader};
use crate::map::Map;
use crate::scheme::log::records::PendingEntries;
use crate::tables::effect::Effect;
use crate::units::{Epoch, Lbn, Pbn};
use std::ops::Range;

/// The linked block whose missing content drops a record.
pub(super) fn named_by(record: &Record) -> Option<Pbn> {
    match record {
        Record::New { pbn, .. } | Record::Link { to: MapEntry::Block { pbn, .. }, .. } => Some(*pbn),
        _ => None,
    }
}

/// The effects of units, one after the other.
#[derive(Default)]
pub(super) struct Replay {
    pending: PendingEntries,
    /// For each block, the units, by sequence, in which records that name it are dropped.
    dropped: Map<Pbn, Vec<Range<u64>>>,
    /// For each LBN, its old block before a dropped record.
    former: Map<Lbn, Option<Pbn>>,
    /// Places that the last of the units names.
    pub named: Vec<Places>,
    /// The first unit that names LBNs or blocks that the volume does not have: nothing is passed on from there.
    pub outside: Option<u64>,
}

impl Replay {
    /// Begins behind a log tail that names these places.
    pub fn behind(places: &[Places]) -> Self {
        Self { named: places.to_vec(), ..Self::default() }
    }

    /// Drops records in these units that name these blocks.
    pub fn drop_in<'a>(&mut self, units: Range<u64>, lost: impl Iterator<Item = &'a Pbn>) {
        lost.for_each(|&pbn| self.dropped.entry(pbn).or_default().push(units.clone()));
    }

    /// Takes the closing records of a unit. They are about units before it, none of which was passed on.
    pub fn closes(&mut self, unit: &Unit) {
        for record in &unit.records {
            if let Record::Closing { first, lost } = record {
                self.drop_in(*first..unit.header.sequence, lost.iter());
            }
        }
    }

    fn is_dropped(&self, sequence: u64, record: &Record) -> bool {
        let dropped = named_by(record).and_then(|pbn| self.dropped.get(&pbn));
        dropped.is_some_and(|units| units.iter().any(|units| units.contains(&sequence)))
    }

    /// Passes on the effects of the next unit.
    pub fn hand_on(&mut self, unit: &Unit, pbn: Pbn, push: &mut dyn FnMut(Epoch, &Effect<'_>)) {
        self.named.clone_from(&unit.places);
        if self.outside.is_some() {
            return;
        }
        let UnitHeader { sequence, epoch, unit: i, units, .. } = unit.header;
        if !unit.slots.is_empty() {
            self.pending.of_carrier(pbn, unit.authenticator);
        }
        for record in &unit.records {
            let is_dropped = !self.dropped.is_empty() && self.is_dropped(sequence, record);
            let former = &mut self.former;
            self.pending.effects_of(record, &mut |effect: Effect<'_>| match effect.lbn {
                Some(lbn) if is_dropped => {
                    former.entry(lbn).or_insert(effect.old);
                }
                _ => put_right(effect, former, &mut |effect| push(epoch, &effect)),
            });
        }
        if i + 1 == units {
            self.pending.rest(&mut |effect| push(epoch, &effect));
        }
    }
}

/// Passes on an effect, with its old blocks corrected where records before it were dropped.
fn put_right(effect: Effect<'_>, former: &mut Map<Lbn, Option<Pbn>>, push: &mut dyn FnMut(Effect<'_>)) {
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
