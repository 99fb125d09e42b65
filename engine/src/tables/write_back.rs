//! Writes pages to the device, and sets their *written* bits.
//!
//! 1. Refs, fingerprint and *written* pages may be written at any time (`pages.rs`), so they may be delayed and merged at will.
//! 2. Where pages may lack records, a page is written only if everything in it is confirmed (`Committed::confirmed`).

use super::Tables;
use super::pages::Access;
use crate::format::page::{self, PageId, Region};
use crate::interface::IoFailure;
use crate::io::{Io, IoFor};
use crate::schedule::Task;
use crate::units::{Pbn, Time};

/// The most early page writes in flight at once.
const EARLY_WRITES: usize = 64;

impl Tables {
    /// Whether everything in a page is confirmed (invariant 2).
    pub fn may_be_written(&self, id: PageId) -> bool {
        let Some(committed) = self.committed.as_ref().filter(|_| id.region != Region::Written) else { return true };
        committed.records.newest_on(id, committed.epoch).is_none_or(|newest| newest <= committed.confirmed)
    }

    /// Writes a page as it is in memory.
    pub fn write_page(&mut self, io: &mut Io, id: PageId) {
        debug_assert!(self.may_be_written(id), "everything in the page is confirmed");
        let mut sealed = io.buffer(1);
        let tag = self.committed.as_ref().filter(|_| id.region != Region::Written).map(|committed| committed.confirmed);
        let page = self.pages.expect(id);
        page.begin_write();
        let bit = page.bit;
        if let Some(tag) = tag {
            (0..page::SECTORS).for_each(|sector| page.content.set_tag(sector, tag.0.max(page.content.tag(sector))));
        }
        page::seal(&self.uuid, id, &mut page.content, sealed.block_mut(0));
        self.pages.dirty.remove(&id);
        if !bit && id.region != Region::Written {
            self.pages.bit_pending.insert(id);
        }
        if id.region == Region::Written {
            io.durability.bits_are_sent();
        }
        let removed = self.removals.unsent.remove(&id).unwrap_or_default();
        self.removals.are_sent(removed.len());
        self.page_writes += 1;
        self.scrubbed.is_written(id);
        let at = self.geometry.page_at(id);
        io.write(IoFor::PageWrite { id, removed }, at, vec![sealed.freeze().slice(0, 1)], id.region.into());
    }

    /// Takes the result of a page's write. Returns whether the write succeeded.
    pub fn page_written(&mut self, io: &mut Io, id: PageId, removed: Vec<Pbn>, stamp: u64, result: Result<(), IoFailure>) -> bool {
        self.page_writes -= 1;
        // A page that is being written stays in memory.
        let page = self.pages.expect(id);
        page.write_ended();
        if result.is_err() {
            // Its content is nowhere else, so the page stays in memory.
            self.pages.touch(id, io.now());
            return false;
        }
        page.is_written(stamp);
        self.scrubbed.has_completed(id, stamp);
        if !page.bit && id.region != Region::Written {
            io.durability.bits.push_back((stamp, id));
        }
        match id.region {
            Region::Refs => io.durability.refs_written(stamp),
            Region::Written => io.durability.bits_written(stamp),
            Region::Fingerprints | Region::Map => {}
        }
        if !removed.is_empty() {
            io.durability.removed.push_back((stamp, removed));
        }
        true
    }

    /// Sets the *written* bits of pages whose first write is durable.
    pub fn set_written_bits(&mut self, io: &mut Io) {
        while let Some(&id) = io.durability.bits_ready.front() {
            let (bits, at) = self.geometry.written_of(id);
            match self.ensure(io, bits) {
                Access::Loading => return self.wait(io, bits, Task::Bits),
                Access::Unreadable => {}
                Access::Ready(resident) => {
                    let content = &mut resident.page().content;
                    if !content.bit(at) {
                        content.set_bit(at, true);
                        self.pages.touch(bits, io.now());
                    }
                }
            }
            io.durability.bits_ready.pop_front();
            self.pages.bit_pending.remove(&id);
            if let Some(page) = self.pages.get(id) {
                page.gets_bit();
            }
        }
        io.schedule.push(Task::Checkpoint);
    }

    /// Writes the pages whose delay has passed.
    pub fn write_back(&mut self, io: &mut Io) {
        if io.now() >= self.writeback_at {
            self.write_back_due(io);
        }
    }

    #[inline(never)]
    fn write_back_due(&mut self, io: &mut Io) {
        let ids: Vec<PageId> = self.pages.dirty.iter().copied().collect();
        let mut next = io.now().plus_ms(self.delay_ms.max(1));
        for id in ids {
            let page = self.pages.expect(id);
            let (due, is_writing) = (page.dirty.map_or(Time(u64::MAX), |since| since.plus_ms(self.delay_ms)), page.writing);
            if due > io.now() {
                next = next.min(due);
            } else if is_writing {
                continue;
            } else if self.may_be_written(id) {
                self.write_page(io, id);
            } else if let Some(committed) = &mut self.committed {
                committed.is_awaited = true;
            }
        }
        self.writeback_at = next;
    }

    /// Makes the next call of [`Self::write_back`] look for pages at once.
    pub fn write_back_now(&mut self, io: &Io) {
        self.writeback_at = io.now();
    }

    /// The time of the next write-back, if any page is dirty.
    pub fn write_back_at(&self) -> Option<Time> {
        (!self.pages.dirty.is_empty()).then_some(self.writeback_at)
    }

    /// Writes pages before their delay has passed, because too many are dirty. Returns whether epochs have to be confirmed first.
    #[must_use]
    pub fn write_back_early(&mut self, io: &mut Io) -> bool {
        self.write_dirty(io, EARLY_WRITES.saturating_sub(self.page_writes))
    }

    /// Writes all dirty pages that may be written. Returns whether epochs have to be confirmed first.
    #[must_use]
    pub fn write_all_dirty(&mut self, io: &mut Io) -> bool {
        self.write_dirty(io, usize::MAX)
    }

    fn write_dirty(&mut self, io: &mut Io, most: usize) -> bool {
        let ids: Vec<PageId> = self.pages.dirty.iter().copied().take(most.saturating_mul(2).max(1)).collect();
        let (mut sent, mut waits) = (0, false);
        for id in ids {
            if sent >= most || self.pages.expect(id).writing {
                continue;
            }
            if self.may_be_written(id) {
                self.write_page(io, id);
                sent += 1;
            } else {
                waits = true;
            }
        }
        waits && sent == 0
    }

    /// Whether any page is being written.
    pub fn are_pages_under_way(&self) -> bool {
        self.page_writes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::tables::pages::{Page, PageState};

    #[test]
    fn no_more_than_sixty_four_pages_are_being_written_early() {
        let mut parts = crate::test_kit::parts();
        let Pool { io, tables, .. } = &mut parts.pool;
        for id in (0..10).map(|index| PageId { region: Region::Fingerprints, index }) {
            let content = page::PageContent::empty();
            let page = Page { content, damaged: 0, dirty: None, writing: false, unsaved: false, stamp: 0, bit: true };
            tables.pages.put(id, PageState::Ready(Box::new(page)));
            tables.pages.touch(id, io.now());
        }
        tables.page_writes = 60;
        for _ in 0..2 {
            assert!(!tables.write_back_early(io));
            assert_eq!((tables.page_writes, tables.pages.dirty.len(), io.actions().len()), (64, 6, 4));
        }
        tables.page_writes -= 1;
        assert!(!tables.write_back_early(io));
        assert_eq!((tables.page_writes, tables.pages.dirty.len()), (64, 5), "another one goes out as one has arrived");
    }
}
