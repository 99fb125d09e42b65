//! Reads pages into memory, and adds the committed records that the page on the medium lacks.
//!
//! 1. An all-zero sector means "empty" only while its page's bit is clear. The bit is set after a flush has covered the page's first write.
//! 2. A failed device may have lost a bit that no flush has covered (A5), although the page is there: then a clear bit proves nothing.

use super::pages::{Access, Page, PageState};
use super::{Committed, Tables};
use crate::format::page::{self, PageContent, PageId, Region};
use crate::interface::{IoFailure, Notice};
use crate::io::{Io, IoFor};
use crate::schedule::Task;
use crate::units::{BLOCK_SIZE, Epoch};

/// The number of retries before a page counts as unreadable.
const READ_RETRIES: u8 = 2;

impl Tables {
    /// Asks for a page: begins to read it if nothing is known of it.
    pub fn ensure(&mut self, io: &mut Io, id: PageId) -> Access<'_> {
        match self.pages.find(id) {
            Some(place) => self.pages.at(place),
            None => self.load_now(io, id),
        }
    }

    /// Begins to read a page of which nothing is known, unless it is known to be blank.
    #[inline(never)]
    fn load_now(&mut self, io: &mut Io, id: PageId) -> Access<'_> {
        if self.begin_load(io, id) {
            self.read_pages(io, id, 1);
        }
        self.pages.find(id).map_or(Access::Loading, |place| self.pages.at(place))
    }

    /// Calls a task when a page that is being read is in memory, or is found to be unreadable.
    pub fn wait(&mut self, io: &mut Io, id: PageId, task: Task) {
        match self.pages.slot_mut(id) {
            Some(PageState::Loading { waiters, .. }) => {
                if !waiters.contains(&task) {
                    waiters.push(task);
                }
            }
            _ => io.schedule.push(task),
        }
    }

    /// Whether it is known, without a read of the page, that the page was never written.
    pub fn is_blank(&mut self, io: &mut Io, id: PageId) -> bool {
        if !self.bits_exact || io.has_failed() || self.pages.holds(id) || self.pages.bit_pending.contains(&id) || self.is_touched(id) {
            return false;
        }
        let (bits, at) = self.geometry.written_of(id);
        match self.pages.get(bits) {
            Some(page) => !page.content.bit(at),
            None => {
                self.ensure(io, bits);
                false
            }
        }
    }

    /// Whether records of committed epochs change a page.
    fn is_touched(&self, id: PageId) -> bool {
        self.committed.as_ref().is_some_and(|committed| committed.records.touches(id))
    }

    /// Begins to load a page of which nothing is known. Returns whether it has to be read now: it may be blank, or wait for the page with
    /// its bit.
    #[must_use]
    pub(super) fn begin_load(&mut self, io: &mut Io, id: PageId) -> bool {
        let mut written = true;
        if id.region != Region::Written {
            let (bits, at) = self.geometry.written_of(id);
            match self.ensure(io, bits) {
                Access::Loading => {
                    self.pages.put(id, PageState::Loading { waiters: Vec::new(), written, failures: 0 });
                    self.wait(io, bits, Task::Load(id));
                    return false;
                }
                // The bit is unknown, so a zero sector does not mean "empty".
                Access::Unreadable => {}
                Access::Ready(bits) => written = bits.page().content.bit(at) || self.pages.bit_pending.contains(&id),
            }
        }
        if !written && self.knows_unwritten(io, id) {
            self.put_blank(id);
            return false;
        }
        self.pages.put(id, PageState::Loading { waiters: Vec::new(), written, failures: 0 });
        true
    }

    /// Whether a clear bit proves that the page was never written. Live records that change the page take the proof away: power may have
    /// failed between the page's first write by a checkpoint and its bit. So does a failure of the device.
    pub(super) fn knows_unwritten(&self, io: &Io, id: PageId) -> bool {
        self.bits_exact && !io.has_failed() && !self.is_touched(id)
    }

    fn put_blank(&mut self, id: PageId) {
        self.pages.put(id, PageState::Ready(Box::new(blank_page())));
    }

    /// Reads this number of pages that are neighbours on the device, by one read.
    pub(super) fn read_pages(&self, io: &mut Io, first: PageId, pages: usize) {
        io.read(IoFor::PageLoad(first), self.geometry.page_at(first), pages, false, first.region.into());
    }

    /// Goes on with reading a page after the page with its *written* bit was read.
    pub fn load_page(&mut self, io: &mut Io, id: PageId) {
        let (bits, at) = self.geometry.written_of(id);
        let bit = match self.ensure(io, bits) {
            Access::Loading => return self.wait(io, bits, Task::Load(id)),
            Access::Unreadable => true,
            Access::Ready(bits) => bits.page().content.bit(at) || self.pages.bit_pending.contains(&id),
        };
        let exact = self.knows_unwritten(io, id);
        let Some(PageState::Loading { written, waiters, .. }) = self.pages.slot_mut(id) else { return };
        *written = bit;
        if !bit && exact {
            let waiters = std::mem::take(waiters);
            self.put_blank(id);
            io.schedule.extend(waiters);
            return;
        }
        self.read_pages(io, id, 1);
    }

    /// Takes a page that was read, alone or with its neighbours. If the page is newer than the last committed epoch, records that were
    /// flushed are missing; returns that epoch (L2).
    #[must_use]
    pub fn page_loaded(&mut self, io: &mut Io, id: PageId, read: &[u8; BLOCK_SIZE], result: Result<(), IoFailure>) -> Option<Epoch> {
        let Some(PageState::Loading { waiters, written, failures }) = self.pages.slot_mut(id) else {
            debug_assert!(false, "only a page that is being read arrives");
            return None;
        };
        if result.is_err() && *failures < READ_RETRIES {
            // Alone, so that the page is not lost with a neighbour that was to be read with it.
            *failures += 1;
            self.read_pages(io, id, 1);
            return None;
        }
        let (waiters, written) = (std::mem::take(waiters), *written);
        io.schedule.extend(waiters);
        let at = self.geometry.page_at(id).0;
        if result.is_err() {
            io.notice(Notice::Damage { what: "a metadata page cannot be read", at });
            self.pages.put(id, PageState::Unreadable);
            return None;
        }
        let mut opened = page::open(&self.uuid, id, read, written);
        if opened.damaged != 0 {
            io.notice(Notice::Damage { what: "a metadata page has damaged sectors", at });
        }
        let newest = (0..page::SECTORS).map(|sector| opened.content.tag(sector)).max().unwrap_or(0);
        let end = self.committed.as_ref().filter(|committed| committed.is_end_known).map(|committed| committed.epoch);
        let overtaken = end.filter(|last| newest > last.0);
        if overtaken.is_some() {
            io.notice(Notice::Damage { what: "a metadata page is newer than the end of the log", at });
        }
        let mut unsaved = false;
        if let Some(Committed { records, epoch, .. }) = &self.committed {
            // A page whose bit was lost in a crash has to be written again, which sets the bit.
            unsaved = records.apply(*epoch, id, &mut opened.content) || (!written && !opened.blank);
        }
        // A crash came between the page's first write, or parts of that write, and its bit. If records change the page, a checkpoint will
        // write it anyway.
        let is_late = !written && !opened.blank && !io.is_opened_to_read() && !io.has_failed() && !self.is_touched(id);
        let bit = written && !self.pages.bit_pending.contains(&id);
        // The page may have been written, evicted and read again without a flush in between. A commit that relies on it has to know.
        let stamp = io.durability.last_refs();
        let page = Page { content: opened.content, damaged: opened.damaged, dirty: None, writing: false, unsaved, stamp, bit };
        self.pages.put(id, PageState::Ready(Box::new(page)));
        if is_late {
            // Once it is written again as a whole, its bit is set like that of any other page.
            self.pages.touch(id, io.now());
        }
        overtaken
    }
}

pub(super) fn blank_page() -> Page {
    Page { content: PageContent::empty(), damaged: 0, dirty: None, writing: false, unsaved: false, stamp: 0, bit: false }
}
