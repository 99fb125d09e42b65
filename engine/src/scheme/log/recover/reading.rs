//! The walk is read, a few units at once.

use super::walk::Walk;
use crate::buffer::{BufferMut, Slice};
use crate::format::unit::{UnitKind, open};
use crate::interface::Class;
use crate::io::{IoFor, LogUnit};
use crate::scheme::log::checkpoint::are_too_many;
use crate::store::Store;
use crate::tables::Unchained;
use crate::units::Pbn;
use std::collections::BTreeMap;

/// Reads under way at once.
pub(super) const READS_MAX: usize = 64;

/// Blocks with what they hold.
pub(super) type Contents = Vec<(Pbn, Slice)>;

/// A walk that is being read.
pub(super) struct Reading {
    pub walk: Walk,
    /// What was read so far and counts for certain.
    pub live: Unchained,
    /// Units behind the last that is known to be flushed, by sequence.
    pub units: BTreeMap<u64, (Pbn, Slice)>,
    pub reads: usize,
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
            store.io.read(IoFor::ReadForScan { unit: which, pbn }, store.geometry.block_at(pbn), 1, false, Class::Log);
        }
        match (self.reads, is_full) {
            (1.., _) => Read::Waits,
            (0, true) => Read::Full,
            (0, false) if self.walk.is_done() => Read::End,
            (0, false) => Read::Waits,
        }
    }

    /// What lies at the place of a unit has arrived.
    pub fn arrived(&mut self, store: &Store, which: LogUnit, pbn: Pbn, buffer: BufferMut) {
        let unit = open(&store.keys.authenticator, pbn, buffer.block(0));
        self.reads -= 1;
        if let (LogUnit::Tail(sequence), Some(unit)) = (which, unit.as_ref().filter(|unit| unit.header.kind == UnitKind::Log)) {
            let flushed_upto = unit.header.flushed_upto;
            self.units.insert(sequence, (pbn, buffer.freeze().slice(0, 1)));
            self.units.retain(|&sequence, _| sequence > flushed_upto);
        }
        let live = &mut self.live;
        self.walk.arrived(which, pbn, unit, &mut |epoch, effect| live.push(epoch, effect));
    }

    /// Whether records are to leave memory before the walk goes on. Where few could leave it the last time, twice as many have to be there.
    fn is_full(&self, store: &Store) -> bool {
        let (bytes, records) = (self.live.bytes(), self.live.len());
        !store.io.read_only && records >= self.records_left.saturating_mul(2) && are_too_many(store, bytes, records)
    }
}
