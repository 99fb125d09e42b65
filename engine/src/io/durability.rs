//! The durability of writes (A1).
//!
//! Each completed write has a number. A flush, when it is issued, notes the highest number so far. A write is durable when a flush that
//! noted its number, or a higher one, has completed. That comparison is the only test. A write with FUA makes only itself durable, so it
//! does not raise the number.

use crate::format::page::PageId;
use crate::units::Pbn;
use std::collections::VecDeque;

/// The writes that are durable, and what waits for a flush.
#[derive(Default)]
pub(crate) struct Durability {
    completed: u64,
    /// Every write with this number or a lower one is durable.
    pub mark: u64,
    /// The number of the last content write.
    pub content: u64,
    /// The number of the last refs page write.
    pub refs: u64,
    /// The number of the last write of a page of *written*.
    pub bits_stamp: u64,
    /// Writes of pages of *written* under way.
    pub bits_in_flight: u32,
    /// First writes of pages, in order of their numbers. When the write is durable, the page's bit may be set.
    pub bits: VecDeque<(u64, PageId)>,
    /// Pages whose bit may be set.
    pub bits_ready: VecDeque<PageId>,
    /// Writes that remove fingerprints, in order of their numbers. When the write is durable, the counts of these blocks may fall.
    pub removed: VecDeque<(u64, Vec<Pbn>)>,
}

impl Durability {
    /// The number of the last write that has completed.
    pub fn now(&self) -> u64 {
        self.completed
    }

    /// The number of a write that has just completed. A failed write raises no number.
    pub fn completed(&mut self, good: bool) -> u64 {
        self.completed += u64::from(good);
        self.completed
    }

    /// Whether a bit or a removal waits for the next flush.
    pub fn is_awaited(&self) -> bool {
        !self.bits.is_empty() || !self.removed.is_empty()
    }

    /// Takes note of a flush that noted `mark`.
    pub fn flushed(&mut self, mark: u64) {
        self.mark = self.mark.max(mark);
    }
}
