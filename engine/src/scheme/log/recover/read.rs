//! The walk is read, a few units at once.

use super::doubts::Doubting;
use super::walk::{Ended, Walk};
use super::{Opened, Opening, State};
use crate::buffer::{BufferMut, Slice};
use crate::format::unit::{UnitKind, open};
use crate::interface::{Class, Notice};
use crate::io::{IoFor, Which};
use crate::store::Store;
use crate::tables::Unchained;
use crate::units::Pbn;
use std::collections::{BTreeMap, BTreeSet};

/// Reads under way at once.
pub(super) const READS_MAX: usize = 64;

/// A walk that is being read.
pub(super) struct Reading {
    pub walk: Walk,
    /// What was read so far and counts for certain.
    pub live: Unchained,
    /// Units behind the last that is known to be flushed, by sequence.
    units: BTreeMap<u64, (Pbn, Slice)>,
    reads: usize,
    /// How many records were left when some entered pages the last time (`spill.rs`).
    pub records_left: u64,
}

/// How far the reading is.
pub(super) enum Read {
    Waits,
    /// There is no memory for more.
    Full,
    End,
}

impl Reading {
    pub fn new(walk: Walk) -> Self {
        Self { walk, live: Unchained::default(), units: BTreeMap::new(), reads: 0, records_left: 0 }
    }

    /// Asks for what is known to come.
    pub fn go_on(&mut self, store: &mut Store) -> Read {
        let is_full = self.is_full(store);
        while self.reads < READS_MAX && !is_full {
            let Some((which, pbn)) = self.walk.ask() else { break };
            self.reads += 1;
            store.io.read(IoFor::WalkRead { which, pbn }, store.geometry.block_at(pbn), 1, false, Class::Log);
        }
        match (self.reads, is_full) {
            (1.., _) => Read::Waits,
            (0, true) => Read::Full,
            (0, false) if self.walk.is_done() => Read::End,
            (0, false) => Read::Waits,
        }
    }

    /// What lies at the place of a unit has arrived.
    pub fn arrived(&mut self, store: &Store, which: Which, pbn: Pbn, buffer: BufferMut) {
        let unit = open(&store.keys.authenticator, pbn, buffer.block(0));
        self.reads -= 1;
        if let (Which::Log(sequence), Some(unit)) = (which, unit.as_ref().filter(|unit| unit.header.kind == UnitKind::Log)) {
            let flushed_upto = unit.header.flushed_upto;
            self.units.insert(sequence, (pbn, buffer.freeze().slice(0, 1)));
            self.units.retain(|&sequence, _| sequence > flushed_upto);
        }
        let live = &mut self.live;
        self.walk.arrived(which, pbn, unit, &mut |epoch, effect| live.push(epoch, effect));
    }
}

impl Opening {
    /// The walk is read: what of it may not have been flushed comes next.
    pub(super) fn walk_is_read(&mut self, store: &mut Store) -> Opened {
        let before = std::mem::replace(&mut self.state, State::Settling(Default::default()));
        let State::Reading(Reading { walk, live, units, .. }) = before else { unreachable!("the walk was read") };
        let ended = walk.end();
        if let Some(found) = damage_of(&ended) {
            store.io.notice(found);
            return Err(self.adopt_damaged(store, ended, live));
        }
        let is_beyond = |&(sequence, (pbn, _)): &(u64, (Pbn, Slice))| sequence > ended.flushed && ended.place_of(sequence) == Some(pbn);
        let again = units.into_iter().filter(is_beyond).map(|(_, unit)| unit).collect();
        self.state = State::Doubting(Doubting::new(ended, live, again));
        self.go_on(store)
    }
}

fn damage_of(ended: &Ended) -> Option<Notice> {
    let damage = |what, at| Notice::Damage { what, at };
    let found = [
        ended.condensed_missing.map(|pbn| damage("a condensed unit of the log is not there", pbn.0)),
        ended.missing.map(|unit| damage("a unit of the log that was flushed is not there", unit)),
        ended.outside.map(|unit| damage("a unit of the log names what the volume does not have", unit)),
        ended.twice().map(|pbn| damage("a block is two places of the log", pbn.0)),
    ];
    found.into_iter().flatten().next()
}

impl Ended {
    /// A block that is two of the log's: units, condensed ones, places of coming ones. It would be written, and given up, twice.
    pub fn twice(&self) -> Option<Pbn> {
        let mut seen = BTreeSet::new();
        let units = self.units.iter().map(|unit| unit.pbn);
        units.chain(self.condensed.iter().copied()).chain(self.come.iter().copied()).find(|&pbn| !seen.insert(pbn))
    }
}
