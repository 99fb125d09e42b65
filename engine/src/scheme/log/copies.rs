//! The compacted units, and the copies of a compaction under way.

use crate::class::Class;
use crate::format::unit::{UnitHeader, UnitKind, UnitWriter};
use crate::io::IoFor;
use crate::pool::Pool;
use crate::scheme::log::sealed::{number_of, sealed};
use crate::units::{Epoch, Pbn};
use std::collections::VecDeque;

/// The compacted units.
#[derive(Default)]
pub struct Segments {
    /// The last unit before the copied ones; 0 where none were copied.
    pub since: u64,
    /// The places of the copies, in order.
    pub places: Vec<Pbn>,
    /// Places of coming copies.
    pub reserve: VecDeque<Pbn>,
    /// The length of the log at which the next compaction is tried: it would not pay before.
    pub retry_at: usize,
}

impl Segments {
    /// The segments that a log tail names.
    pub fn read(since: u64, places: Vec<Pbn>) -> Self {
        Self { since, places, ..Self::default() }
    }

    /// Adds these copies. `since`: the unit behind which the log began before.
    pub fn add(&mut self, copies: Copies, since: u64) {
        if self.places.is_empty() {
            self.since = since;
        }
        self.places.extend(copies.places);
        self.retry_at = 0;
    }

    /// Tries no compaction before the log, which has this number of units, is an eighth longer: it would not pay.
    pub fn retry_behind(&mut self, units: usize) {
        self.retry_at = units + units / 8;
    }
}

/// The copies of a compaction under way.
pub struct Copies {
    /// The copies that are not sent yet, each with the epoch of its first record.
    pub units: Vec<(Epoch, UnitWriter)>,
    pub places: Vec<Pbn>,
    pub blocks_left: usize,
}

impl Copies {
    /// Whether all of them are on the device.
    pub fn are_written(&self) -> bool {
        self.blocks_left == 0
    }

    /// Takes the places of the copies.
    pub fn lie_at(&mut self, places: Vec<Pbn>) {
        self.places = places;
    }
}

impl Copies {
    /// Sends the copies of all units behind `before`, up to `upto`.
    pub fn send(&mut self, pool: &mut Pool, upto: u64, before: u64) {
        let (writers, places) = (std::mem::take(&mut self.units), self.places.clone());
        self.blocks_left = writers.len();
        let units = number_of(&writers);
        let mut blocks = Vec::with_capacity(writers.len());
        for (((epoch, writer), pbn), unit) in writers.into_iter().zip(places).zip(0..) {
            let (kind, incarnation) = (UnitKind::Compacted, pool.medium.superblock.incarnation);
            let header = UnitHeader { kind, incarnation, sequence: upto, epoch, unit, units, flushed_upto: before, content_flushed: false };
            pool.io.ledger.units.filled(kind, &writer);
            let (block, _) = sealed(&pool.io, &pool.keys, writer, &header, pbn);
            blocks.push((pbn, block));
        }
        pool.write_blocks(blocks, Class::Log, |_, _, units| IoFor::CompactedUnits { units });
    }
}
