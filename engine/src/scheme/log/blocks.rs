//! The blocks that belong to the log: places of coming units, units that are there, and those that the older pair of superblock copies
//! still needs.

use super::Log;
use crate::pool::Medium;
use crate::space::Space;
use crate::stats::LogBlocks;
use crate::tables::{Settle, Tables};
use crate::units::{Pbn, count, index};

impl Log {
    /// The numbers of blocks that hold nothing of clients. Carriers are not among them.
    pub fn blocks_kept(&self, space: &Space) -> LogBlocks {
        let places = self.places.len() + self.segments.reserve.len();
        let all = space.plain_blocks_of_scheme();
        let (to_scan, compacted) = (self.units.len(), self.segments.places.len());
        LogBlocks { plain: count(all - places), places: count(places), to_scan: count(to_scan), compacted: count(compacted) }
    }

    /// The place of a compacted unit, by its index.
    pub fn compacted_unit(&self, index: usize) -> Option<Pbn> {
        self.segments.places.get(index).copied()
    }

    /// The first flushed unit with this sequence, or with a later one: its sequence and its place.
    pub fn flushed_unit(&self, sequence: u64) -> Option<(u64, Pbn)> {
        let sequence = sequence.max(self.first());
        let unit = self.units.get(index(sequence - self.first())).filter(|_| sequence <= self.flushed)?;
        Some((sequence, unit.pbn))
    }

    /// Whether the log tail leads to this unit.
    pub fn needs_unit(&self, pbn: Pbn) -> bool {
        self.segments.places.contains(&pbn) || self.units.iter().any(|unit| unit.pbn == pbn)
    }

    /// Gives up a block that nothing in the log needs any more.
    pub(super) fn leaves_log(space: &mut Space, settle: &mut Settle, pbn: Pbn) {
        if space.leaves_scheme(pbn) {
            settle.look_at(pbn);
        }
    }

    /// Notes that all units are flushed, including those that an opening has found or written.
    pub fn is_flushed(&mut self, tables: &mut Tables, medium: &mut Medium) {
        self.flushed = self.next - 1;
        let epoch = tables.committed().epoch;
        medium.epoch_is_durable(epoch);
    }
}
