//! Pages come into memory and go to the device; their *written* bits.
//!
//! 1. An all-zero sector means "empty" only while its page's bit is clear. The bit is set after a flush has covered the page's first write.
//! 2. Refs, fingerprint and *written* pages may be written at any time (`pages.rs`), so delay and merging are free to choose.

use crate::engine::Engine;
use crate::format::page::{self, PageContent, PageId, Region};
use crate::interface::{IoFailure, Notice};
use crate::io::IoFor;
use crate::pages::{Got, Page, Slot};
use crate::schedule::Task;
use crate::units::{Time, count};

/// How often a page that could not be read is tried again before it counts as unreadable.
const READ_RETRIES: u8 = 2;
/// The most page writes in flight that nobody waits for.
const EARLY_WRITES: usize = 64;

impl Engine {
    /// Makes sure of a page: it is in memory, or on its way.
    pub(crate) fn ensure(&mut self, id: PageId) -> Got {
        match self.tables.pages.slot_mut(id) {
            Some(Slot::Ready(_)) => Got::Ready,
            Some(Slot::Loading { .. }) => Got::Wait,
            Some(Slot::Unreadable) => Got::Unreadable,
            Some(Slot::Vacant) | None => self.begin_load(id),
        }
    }

    /// Calls a task when a page that is on its way has come, or has been found unreadable.
    pub(crate) fn wait(&mut self, id: PageId, task: Task) {
        match self.tables.pages.slot_mut(id) {
            Some(Slot::Loading { waiters, .. }) => {
                if !waiters.contains(&task) {
                    waiters.push(task);
                }
            }
            _ => self.schedule.ready.push_back(task),
        }
    }

    /// Whether a page is known, without any I/O, never to have been written.
    pub(crate) fn is_blank(&mut self, id: PageId) -> bool {
        if !self.space.bits_exact
            || self.tables.pages.holds(id)
            || self.tables.pages.unbitted.contains(&id)
            || self.scheme.log.as_ref().is_some_and(|log| log.live.touches(id))
        {
            return false;
        }
        let (bits, at) = self.medium.geometry.written_of(id);
        match self.tables.pages.get(bits) {
            Some(page) => !page.content.bit(at),
            None => {
                self.ensure(bits);
                false
            }
        }
    }

    fn begin_load(&mut self, id: PageId) -> Got {
        let mut written = true;
        if id.region != Region::Written {
            let (bits, at) = self.medium.geometry.written_of(id);
            match self.ensure(bits) {
                Got::Wait => {
                    self.tables.pages.put(id, Slot::Loading { waiters: Vec::new(), written, failures: 0 });
                    self.wait(bits, Task::Load(id));
                    return Got::Wait;
                }
                // Not knowing, no zero sector is trusted.
                Got::Unreadable => {}
                Got::Ready => written = self.tables.pages.expect(bits).content.bit(at) || self.tables.pages.unbitted.contains(&id),
            }
        }
        if !written && self.knows_unwritten(id) {
            self.put_blank(id);
            return Got::Ready;
        }
        self.tables.pages.put(id, Slot::Loading { waiters: Vec::new(), written, failures: 0 });
        self.read_page(id);
        Got::Wait
    }

    /// Whether a clear bit says for certain that a page was never written. Not where live records touch it: a checkpoint may have been cut off
    /// between its first write and its bit.
    fn knows_unwritten(&self, id: PageId) -> bool {
        self.space.bits_exact && !self.scheme.log.as_ref().is_some_and(|log| log.live.touches(id))
    }

    fn put_blank(&mut self, id: PageId) {
        self.tables.pages.put(id, Slot::Ready(Box::new(blank_page())));
    }

    fn read_page(&mut self, id: PageId) {
        let at = self.medium.geometry.page_at(id);
        self.io.read(IoFor::PageLoad(id), at, 1, false, id.region.into());
    }

    /// The page with this page's *written* bit has come.
    pub(crate) fn load_page(&mut self, id: PageId) {
        let (bits, at) = self.medium.geometry.written_of(id);
        let bit = match self.ensure(bits) {
            Got::Wait => return self.wait(bits, Task::Load(id)),
            Got::Unreadable => true,
            Got::Ready => self.tables.pages.expect(bits).content.bit(at) || self.tables.pages.unbitted.contains(&id),
        };
        let exact = self.knows_unwritten(id);
        let Some(Slot::Loading { written, waiters, .. }) = self.tables.pages.slot_mut(id) else { return };
        *written = bit;
        if !bit && exact {
            let waiters = std::mem::take(waiters);
            self.put_blank(id);
            self.schedule.ready.extend(waiters);
            return;
        }
        self.read_page(id);
    }

    pub(crate) fn page_loaded(&mut self, id: PageId, buffer: &crate::buffer::BufferMut, result: Result<(), IoFailure>) {
        let Some(Slot::Loading { waiters, written, failures }) = self.tables.pages.slot_mut(id) else {
            debug_assert!(false, "a page that nobody loads has come");
            return;
        };
        if result.is_err() && *failures < READ_RETRIES {
            *failures += 1;
            return self.read_page(id);
        }
        let (waiters, written) = (std::mem::take(waiters), *written);
        self.schedule.ready.extend(waiters);
        if result.is_err() {
            self.io.notice(Notice::Damage { what: "a metadata page cannot be read", at: self.medium.geometry.page_at(id).0 });
            return self.tables.pages.put(id, Slot::Unreadable);
        }
        let mut opened = page::open(&self.medium.superblock.uuid, id, buffer.block(0), written);
        if opened.damaged != 0 {
            self.io.notice(Notice::Damage { what: "a metadata page has damaged sectors", at: self.medium.geometry.page_at(id).0 });
            self.state.damage_seen = true;
        }
        let newest = (0..page::SECTORS).map(|sector| opened.content.tag(sector)).max().unwrap_or(0);
        let end = self.scheme.log.as_ref().filter(|_| !self.spills()).map(|log| log.epoch);
        if let Some(last) = end.filter(|last| newest > last.0 && self.state.log_counts_upto.is_none()) {
            // Its epoch was flushed, so units that were flushed are not there (L2).
            self.io.notice(Notice::Damage {
                what: "a metadata page is newer than the end of the log",
                at: self.medium.geometry.page_at(id).0,
            });
            self.log_is_damaged(last);
        }
        let mut unsaved = false;
        if let Some(log) = &self.scheme.log {
            // One whose bit a crash has lost has to be written once more, to get it.
            unsaved = log.live.apply(log.epoch, id, &mut opened.content) || (!written && !opened.blank);
        }
        // Where live records touch it, a checkpoint is to come that writes it anyway.
        let is_due = self.scheme.log.as_ref().is_some_and(|log| log.live.touches(id));
        let late = !written && !opened.blank && !self.settings.read_only && !is_due;
        let bit = written && !self.tables.pages.unbitted.contains(&id);
        // It may have been written, have left the memory and come back, with no flush since: a commit that relies on it has to know.
        let stamp = self.io.durability.refs;
        let page = Page { content: opened.content, damaged: opened.damaged, dirty: None, writing: false, unsaved, stamp, bit };
        self.tables.pages.put(id, Slot::Ready(Box::new(page)));
        if late {
            // A crash came between its first write, or parts of it, and its bit. Written once more, whole, it gets its bit like any other.
            self.tables.pages.touch(id, self.io.now);
        }
    }

    /// Sends a page as it is in memory.
    pub(crate) fn write_page(&mut self, id: PageId) {
        debug_assert!(self.may_be_written(id), "what a page holds is vouched for");
        let mut sealed = self.io.buffer(1);
        let tag = self.scheme.log.as_ref().filter(|_| id.region != Region::Written).map(|log| log.vouched_upto());
        let page = self.tables.pages.expect(id);
        assert!(!page.writing, "one write of a page at a time (R6)");
        page.dirty = None;
        page.unsaved = false;
        page.writing = true;
        let bit = page.bit;
        if let Some(tag) = tag {
            (0..page::SECTORS).for_each(|sector| page.content.set_tag(sector, tag.0.max(page.content.tag(sector))));
        }
        page::seal(&self.medium.superblock.uuid, id, &mut page.content, sealed.block_mut(0));
        self.tables.pages.dirty.remove(&id);
        if !bit && id.region != Region::Written {
            self.tables.pages.unbitted.insert(id);
        }
        self.io.durability.bits_in_flight += u32::from(id.region == Region::Written);
        let removed = self.space.reclaim.removed.remove(&id).unwrap_or_default();
        self.space.reclaim.sent += count(removed.len());
        self.tables.page_writes += 1;
        let at = self.medium.geometry.page_at(id);
        self.io.write(IoFor::PageWrite { id, removed }, at, vec![sealed.freeze().slice(0, 1)], id.region.into());
    }

    pub(crate) fn page_written(&mut self, id: PageId, removed: Vec<crate::units::Pbn>, stamp: u64, result: Result<(), IoFailure>) {
        self.tables.page_writes -= 1;
        let page = self.tables.pages.expect(id);
        page.writing = false;
        if result.is_err() {
            // What it holds is nowhere else: it stays.
            return self.tables.pages.touch(id, self.io.now);
        }
        page.stamp = stamp;
        if !page.bit && id.region != Region::Written {
            self.io.durability.bits.push_back((stamp, id));
        }
        match id.region {
            Region::Refs => self.io.durability.refs = stamp,
            Region::Written => {
                self.io.durability.bits_stamp = stamp;
                self.io.durability.bits_in_flight -= 1;
            }
            Region::Fingerprints | Region::Map => {}
        }
        self.checkpoint_page_written(id);
        if !removed.is_empty() {
            self.io.durability.removed.push_back((stamp, removed));
        }
        self.commit_page_written(id, stamp);
        if self.state.stage.is_closing() {
            self.go_on_closing();
        }
    }

    /// Sets the bits of pages whose first write is durable.
    pub(crate) fn set_written_bits(&mut self) {
        while let Some(&id) = self.io.durability.bits_ready.front() {
            let (bits, at) = self.medium.geometry.written_of(id);
            match self.ensure(bits) {
                Got::Wait => return self.wait(bits, Task::Bits),
                Got::Unreadable => {}
                Got::Ready => {
                    if !self.tables.pages.expect(bits).content.bit(at) {
                        self.tables.pages.expect(bits).content.set_bit(at, true);
                        self.tables.pages.touch(bits, self.io.now);
                    }
                }
            }
            self.io.durability.bits_ready.pop_front();
            self.tables.pages.unbitted.remove(&id);
            if let Some(page) = self.tables.pages.get(id) {
                page.bit = true;
            }
        }
        self.schedule.ready.push_back(Task::Checkpoint);
    }

    /// Writes the pages whose delay has passed.
    pub(crate) fn write_back(&mut self) {
        if self.io.failed || !self.state.stage.commits() || self.io.now < self.tables.writeback_at {
            return;
        }
        let delay = self.settings.noncritical_delay_ms;
        let ids: Vec<PageId> = self.tables.pages.dirty.iter().copied().collect();
        let mut next = self.io.now.plus_ms(delay.max(1));
        for id in ids {
            let page = self.tables.pages.expect(id);
            let (due, is_writing) = (page.dirty.map_or(Time(u64::MAX), |since| since.plus_ms(delay)), page.writing);
            if due > self.io.now {
                next = next.min(due);
            } else if is_writing {
                continue;
            } else if self.may_be_written(id) {
                self.write_page(id);
            } else {
                self.page_waits();
            }
        }
        self.tables.writeback_at = next;
    }

    /// Writes pages before their time, because too many are dirty.
    pub(crate) fn write_back_early(&mut self) {
        if self.io.failed || self.state.stage.is_before_service() {
            return;
        }
        let room = EARLY_WRITES.saturating_sub(self.tables.page_writes);
        self.write_dirty(room);
    }

    pub(crate) fn write_all_dirty(&mut self) {
        self.write_dirty(usize::MAX);
    }

    fn write_dirty(&mut self, most: usize) {
        let ids: Vec<PageId> = self.tables.pages.dirty.iter().copied().take(most.saturating_mul(2).max(1)).collect();
        let (mut sent, mut waits) = (0, false);
        for id in ids {
            if sent >= most || self.tables.pages.expect(id).writing {
                continue;
            }
            if self.may_be_written(id) {
                self.write_page(id);
                sent += 1;
            } else {
                waits = true;
            }
        }
        if waits && sent == 0 {
            self.vouch();
        }
    }
}

fn blank_page() -> Page {
    Page { content: PageContent::empty(), damaged: 0, dirty: None, writing: false, unsaved: false, stamp: 0, bit: false }
}
