//! Pages as the medium has them, for a scrub, which reads them past the page cache.
//!
//! 1. A page that was written while it was read proves nothing.
//! 2. A damaged page of which memory has a sound copy is written again. Any other is loaded, which reports the damage.

use super::pages::{Access, PageState};
use super::scrubbed::{AwaitedWrite, PageCondition, PageFound};
use super::{Committed, Tables};
use crate::format::entry::MapEntry;
use crate::format::page::{self, PageContent, PageId, Region};
use crate::io::Io;
use crate::units::{BLOCK_SIZE, count, index};

impl Tables {
    /// Returns the condition of a page before a scrub reads it.
    pub fn condition_of(&mut self, io: &mut Io, id: PageId) -> PageCondition {
        let mut written = true;
        if id.region != Region::Written {
            let (bits, at) = self.geometry.written_of(id);
            match self.ensure(io, bits) {
                Access::Loading => return PageCondition::Needs(bits),
                Access::Unreadable => {}
                Access::Ready(bits) => written = bits.page().content.bit(at),
            }
        }
        match self.pages.slot_mut(id) {
            Some(PageState::Ready(page)) if page.writing => PageCondition::IsWritten,
            _ => PageCondition::ToRead { written },
        }
    }

    /// Notes that a scrub begins to read pages from this one on.
    pub fn scrub_reads(&mut self, first: PageId) {
        self.scrubbed.begin(first);
    }

    /// Judges page `i` of those that a scrub has read (invariant 1). `written`: its bit when the read began.
    pub fn found_on_medium(&self, i: usize, bytes: &[u8; BLOCK_SIZE], written: bool) -> PageFound {
        let Some(first) = self.scrubbed.first else { return PageFound::Sound };
        if self.scrubbed.overtaken >> i & 1 == 1 {
            return PageFound::Overtaken;
        }
        let is_sound = page::open(&self.uuid, first.after(count(i)), bytes, written).damaged == 0;
        if is_sound { PageFound::Sound } else { PageFound::Damaged }
    }

    /// The lost blocks of a map page whose sound bytes a scrub has read, as clients have left them by now.
    pub fn lost_blocks(&self, id: PageId, bytes: &[u8; BLOCK_SIZE], written: bool) -> u64 {
        let first = self.geometry.first_lbn(id);
        let is_lost = |content: &PageContent, i: usize| self.geometry.known(content.map(i)) == MapEntry::Lost;
        let entries = 0..index(Region::Map.entries_per_page().min(self.geometry.logical_blocks - first.get()));
        let mut content = page::open(&self.uuid, id, bytes, written).content;
        if !entries.clone().any(|i| is_lost(&content, i)) {
            return 0;
        }
        if let Some(resident) = self.pages.peek(id) {
            content = resident.clone();
        } else if let Some(Committed { records, epoch, .. }) = &self.committed {
            records.apply(*epoch, id, &mut content);
        }
        count(entries.filter(|&i| is_lost(&content, i) && self.overlay(first + count(i)).is_none()).count())
    }

    /// Has a page written again that the medium has lost, if memory has it whole. Returns whether it has (invariant 2).
    pub fn mend(&mut self, io: &mut Io, id: PageId) -> bool {
        let is_whole = match self.pages.slot_mut(id) {
            Some(PageState::Ready(page)) => page.damaged == 0,
            Some(_) => false,
            // A page that was never written is there at once, and blank.
            None => matches!(self.ensure(io, id), Access::Ready(_)),
        };
        if !is_whole || io.is_opened_to_read() {
            return false;
        }
        self.pages.touch(id, io.now());
        self.scrubbed.wait_for(id);
        true
    }

    /// Goes on with the awaited write: sends the page as soon as it may be written.
    pub fn awaited_write(&mut self, io: &mut Io) -> AwaitedWrite {
        let Some((id, completed)) = self.scrubbed.awaited else { return AwaitedWrite::Completed(0) };
        if let Some(stamp) = completed {
            return AwaitedWrite::Completed(stamp);
        }
        match self.pages.slot_mut(id) {
            Some(PageState::Ready(page)) if !page.writing => {}
            _ => return AwaitedWrite::UnderWay,
        }
        let may_be_written = self.may_be_written(id);
        self.scrubbed.wait_for_confirmation(!may_be_written);
        if !may_be_written {
            return AwaitedWrite::Unconfirmed;
        }
        self.write_page(io, id);
        AwaitedWrite::UnderWay
    }
}
