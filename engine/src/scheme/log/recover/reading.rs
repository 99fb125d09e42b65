//! Reads the units that the log scan requests, a few at once.

use super::scan::Scan;
use crate::buffer::{BufferMut, Slice};
use crate::charge::Memory;
use crate::format::unit::{UnitKind, open};
use crate::interface::Class;
use crate::io::{Io, IoFor, LogUnit};
use crate::pool::{Keys, Pool};
use crate::scheme::log::checkpoint::are_too_many;
use crate::settings::Settings;
use crate::tables::UnlinkedRecords;
use crate::units::Pbn;
use std::collections::BTreeMap;

/// The most reads under way at once.
pub(super) const READS_MAX: usize = 64;

/// Blocks with their content.
pub(super) type Contents = Vec<(Pbn, Slice)>;

/// A log that is being scanned.
pub(super) struct Reading {
    pub scan: Scan,
    /// Records that were read so far and count for certain.
    pub live: UnlinkedRecords,
    /// Units behind the last one that is known to be flushed, by sequence.
    pub units: BTreeMap<u64, (Pbn, Slice)>,
    pub reads: usize,
    /// The number of records that were left when some entered pages the last time (`overflow.rs`).
    pub records_left: u64,
}

/// The result of a step of reading.
pub(super) enum ReadResult {
    Waits,
    /// There is no memory for more.
    Full,
    End,
}

impl Reading {
    pub fn new(scan: Scan) -> Self {
        Self { scan, live: UnlinkedRecords::default(), units: BTreeMap::new(), reads: 0, records_left: 0 }
    }

    /// Requests the units that are known.
    pub fn read_some(&mut self, pool: &mut Pool) -> ReadResult {
        let is_full = self.is_full(&pool.io, &pool.memory, &pool.settings);
        while self.reads < READS_MAX && !is_full {
            let Some((which, pbn)) = self.scan.ask() else { break };
            self.reads += 1;
            pool.io.read(IoFor::ReadForScan { unit: which, pbn }, pool.geometry.block_at(pbn), 1, false, Class::Log);
        }
        match (self.reads, is_full) {
            (1.., _) => ReadResult::Waits,
            (0, true) => ReadResult::Full,
            (0, false) if self.scan.is_done() => ReadResult::End,
            (0, false) => ReadResult::Waits,
        }
    }

    /// Takes the block that was read at the place of a unit.
    pub fn arrived(&mut self, keys: &Keys, which: LogUnit, pbn: Pbn, buffer: BufferMut) {
        let unit = open(&keys.authenticator, pbn, buffer.block(0));
        self.reads -= 1;
        if let (LogUnit::Tail(sequence), Some(unit)) = (which, unit.as_ref().filter(|unit| unit.header.kind == UnitKind::Log)) {
            let flushed_upto = unit.header.flushed_upto;
            self.units.insert(sequence, (pbn, buffer.freeze().slice(0, 1)));
            self.units.retain(|&sequence, _| sequence > flushed_upto);
        }
        let live = &mut self.live;
        self.scan.arrived(which, pbn, unit, &mut |epoch, effect| live.push(epoch, effect));
    }

    /// Whether records are to leave memory before the scan continues. Where few could leave it the last time, twice as many have to be
    /// there.
    fn is_full(&self, io: &Io, memory: &Memory, settings: &Settings) -> bool {
        let (bytes, records) = (self.live.bytes(), self.live.len());
        !io.is_opened_to_read() && records >= self.records_left.saturating_mul(2) && are_too_many(memory, settings, bytes, records)
    }
}
