//! Device flushes, and what they make durable (A1).
//!
//! Each completed write has a number; each flush, when it is issued, notes the highest number so far. A write is durable when a flush that
//! noted its number, or a higher one, has completed. That comparison is the only test. A write with FUA is durable by itself, and says nothing of
//! others: it raises no number.

use crate::engine::Engine;
use crate::format::page::PageId;
use crate::interface::Action;
use crate::io::IoFor;
use crate::pages::Task;
use crate::units::Pbn;
use std::collections::VecDeque;

/// Who asked for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushFor {
    Opening,
    CommitContent,
    CommitLinks,
    Superblock,
    Closing,
    Checkpoint,
    /// What the opening found in the log and writes again; then the unit that closes it after a crash.
    OpeningUnits,
    /// What recalled promises name was written again.
    Proofs,
}

/// What is durable.
#[derive(Default)]
pub(crate) struct Durability {
    completed: u64,
    /// Every write with this number or a lower one is durable.
    pub mark: u64,
    /// The number of the last content write.
    pub content: u64,
    /// The number of the last refs page write.
    pub refs: u64,
    /// The number of the last write of a page of *written*, and how many are under way.
    pub bits_stamp: u64,
    pub bits_in_flight: u32,
    /// First writes of pages, in order of their numbers: when durable, their bit may be set.
    pub bits: VecDeque<(u64, PageId)>,
    /// Pages whose bit may be set.
    pub bits_ready: VecDeque<PageId>,
    /// Removed fingerprints, in order of their numbers: when durable, the blocks' counts may fall.
    pub removed: VecDeque<(u64, Vec<Pbn>)>,
}

impl Durability {
    /// The number of a write that has just completed.
    pub fn completed(&mut self, good: bool) -> u64 {
        self.completed += u64::from(good);
        self.completed
    }

    /// Whether something waits for the next flush, whoever sends it.
    pub fn is_awaited(&self) -> bool {
        !self.bits.is_empty() || !self.removed.is_empty()
    }

    pub fn flushed(&mut self, mark: u64) {
        self.mark = self.mark.max(mark);
    }
}

impl Engine {
    pub(crate) fn flush(&mut self, why: FlushFor) {
        debug_assert!(!self.failed, "no flush after a failure: it would pretend");
        self.ledger.device_flushes += 1;
        let mark = self.durability.now();
        let io = self.io(IoFor::Flush { why, mark });
        self.out.push(Action::Flush { io });
    }

    /// What any flush allows.
    pub(crate) fn after_any_flush(&mut self) {
        let mark = self.durability.mark;
        while self.durability.removed.front().is_some_and(|(stamp, _)| *stamp <= mark) {
            let (_, blocks) = self.durability.removed.pop_front().expect("it was seen in front");
            self.reclaim.sent -= crate::units::count(blocks.len());
            self.space.reclaimed(blocks[0].0 / crate::space::GRANULE_BLOCKS);
            self.settle.unlink(blocks);
            self.ready.push_back(Task::Settle);
        }
        while self.durability.bits.front().is_some_and(|(stamp, _)| *stamp <= mark) {
            let (_, id) = self.durability.bits.pop_front().expect("it was seen in front");
            self.durability.bits_ready.push_back(id);
        }
        if !self.durability.bits_ready.is_empty() {
            self.ready.push_back(Task::Bits);
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

impl Durability {
    fn now(&self) -> u64 {
        self.completed
    }
}
