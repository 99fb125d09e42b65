//! What is durable (A1).
//!
//! Each completed write has a number; each flush, when it is issued, notes the highest number so far. A write is durable when a flush that
//! noted its number, or a higher one, has completed. That comparison is the only test. A write with FUA is durable by itself, and says
//! nothing of others: it raises no number.

use crate::format::page::PageId;
use crate::units::Pbn;
use std::collections::VecDeque;

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
    /// The number of the last write that has completed.
    pub fn now(&self) -> u64 {
        self.completed
    }

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
