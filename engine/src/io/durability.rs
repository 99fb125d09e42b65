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
    mark: u64,
    /// The number of the last content write.
    content: u64,
    /// The number of the last refs page write.
    refs: u64,
    /// The number of the last write of a page of *written*.
    bits_stamp: u64,
    /// Writes of pages of *written* under way.
    bits_in_flight: u32,
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

    /// Notes the number of a write of content that has completed.
    pub fn content_written(&mut self, number: u64) {
        self.content = number;
    }

    /// Notes the number of a write of a refs page that has completed.
    pub fn refs_written(&mut self, number: u64) {
        self.refs = number;
    }

    /// Notes that a page of *written* is under way.
    pub fn bits_are_sent(&mut self) {
        self.bits_in_flight += 1;
    }

    /// Notes the number of a write of a page of *written* that has completed.
    pub fn bits_written(&mut self, number: u64) {
        self.bits_stamp = number;
        self.bits_in_flight -= 1;
    }

    /// Every write with this number or a lower one is durable.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// The number of the last write of content.
    pub fn last_content(&self) -> u64 {
        self.content
    }

    /// The number of the last write of a refs page.
    pub fn last_refs(&self) -> u64 {
        self.refs
    }

    /// The number of the last write of a page of *written*.
    pub fn last_bits(&self) -> u64 {
        self.bits_stamp
    }

    /// Whether writes of pages of *written* are under way.
    pub fn are_bits_under_way(&self) -> bool {
        self.bits_in_flight > 0
    }
}
