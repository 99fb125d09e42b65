//! What a device flush that has ended allows.

use crate::engine::Engine;
use crate::io::FlushFor;
use crate::schedule::Task;

impl Engine {
    /// What any flush allows.
    pub(crate) fn after_any_flush(&mut self) {
        let mark = self.store.io.durability.mark;
        while self.store.io.durability.removed.front().is_some_and(|(stamp, _)| *stamp <= mark) {
            let (_, blocks) = self.store.io.durability.removed.pop_front().expect("it was seen in front");
            self.store.tables.removals.sent -= crate::units::count(blocks.len());
            self.store.space.reclaimed(blocks[0].0 / crate::space::GRANULE_BLOCKS);
            self.store.settle.unlink(blocks);
            self.store.io.schedule.push(Task::Settle);
        }
        while self.store.io.durability.bits.front().is_some_and(|(stamp, _)| *stamp <= mark) {
            let (_, id) = self.store.io.durability.bits.pop_front().expect("it was seen in front");
            self.store.io.durability.bits_ready.push_back(id);
        }
        if !self.store.io.durability.bits_ready.is_empty() {
            self.store.io.schedule.push(Task::Bits);
        }
    }

    /// A flush has ended, well or not (then the volume has failed already).
    pub(crate) fn flushed(&mut self, why: FlushFor) {
        match why {
            FlushFor::CommitContent | FlushFor::CommitLinks => self.commit_flushed(),
            FlushFor::Opening => self.opening_flushed(),
            FlushFor::Superblock => self.superblock_flushed(),
            FlushFor::Closing => self.closing_flushed(),
            FlushFor::Checkpoint => self.checkpoint_flushed(),
            FlushFor::OpeningUnits => self.opening_units_flushed(),
            FlushFor::Proofs => self.proofs_flushed(),
        }
    }
}
