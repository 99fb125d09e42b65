//! The finds of damage, and the way of a suspect's entry to the medium.

use super::Pool;
use super::expected::ExpectedContent;
use crate::format::entry::FingerprintEntry;
use crate::format::page::PageId;
use crate::interface::Notice;
use crate::io::Stage;
use crate::schedule::Task;
use crate::tables::Access;
use crate::units::Pbn;

impl Pool {
    /// Reports that a block's content differs from its fingerprint (P6), and keeps everybody from linking to it.
    pub fn content_damaged(&mut self, pbn: Pbn) {
        self.block_damaged(pbn, "content differs from its fingerprint");
    }

    /// Reports that a block is damaged, and keeps everybody from linking to it.
    #[cold]
    pub fn block_damaged(&mut self, pbn: Pbn, what: &'static str) {
        self.io.notice(Notice::Damage { what, at: pbn.0 });
        if let ExpectedContent::Fingerprint(value) = self.expect_content(pbn) {
            self.index.remove(&value, pbn);
        }
        self.contents.suspect(&mut self.io, pbn);
    }

    /// Reports that a block, which was pinned while it was read, does not hold what its entry said.
    #[cold]
    pub fn entry_is_wrong(&mut self, pbn: Pbn, is_unreadable: bool) {
        self.block_damaged(pbn, if is_unreadable { "a block cannot be read" } else { "content differs from its fingerprint" });
    }

    /// Whether a task has to wait until a find is kept: then it goes on. For a store without room it waits as long as writes do.
    pub fn awaits_find(&mut self, find: u64, task: Task) -> bool {
        let may_be_kept = self.io.may_mark() && self.io.stage() == Stage::Serving && !self.space.has_waited_for_store(&self.io);
        let waits = may_be_kept && !self.contents.suspects.are_kept_upto(find);
        if waits {
            self.contents.suspects.wait(task);
        }
        waits
    }

    /// Changes the entry of a suspect, if that says something else. Returns whether it is done: it is not while the entry has yet to
    /// enter the page. `Err`: that page has to be loaded first.
    pub fn mark_suspect(&mut self, pbn: Pbn) -> Result<bool, PageId> {
        if !self.contents.suspects.contains(pbn) {
            return Ok(true);
        }
        if self.space.pending.get(pbn).is_some_and(|pending| pending.waits) || self.is_being_named(pbn) {
            return Ok(false);
        }
        let (page, at) = self.geometry.fingerprint_of(pbn);
        let entry = match self.tables.ensure(&mut self.io, page) {
            Access::Loading => return Err(page),
            // Nobody links to it by an entry that cannot be read.
            Access::Unreadable => return Ok(true),
            Access::Ready(resident) => resident.page().content.fingerprint(at),
        };
        if entry.suspect() != entry {
            self.tables.pages.touch(page, self.io.now()).content.set_fingerprint(at, entry.suspect());
            self.contents.suspects.pages.insert(page);
        }
        Ok(true)
    }

    /// The entries of blocks from `first` on, on one page, without those of suspects that nothing maps to: nobody needs their content.
    /// `Err`: that page has to be loaded first.
    pub fn needed_entries(&mut self, first: Pbn, mut entries: Vec<FingerprintEntry>) -> Result<Vec<FingerprintEntry>, PageId> {
        for (pbn, entry) in (first.0..).map(Pbn).zip(&mut entries).filter(|(_, entry)| entry.is_suspect()) {
            let (refs, _) = self.geometry.refs_of(pbn);
            if matches!(self.tables.ensure(&mut self.io, refs), Access::Loading) {
                return Err(refs);
            }
            if self.tables.pages.get(refs).is_some() && self.tables.refs_now(pbn) == 1 {
                *entry = FingerprintEntry::NONE;
            }
        }
        Ok(entries)
    }

    /// Sends the pages with entries of suspects that may be written.
    pub fn send_marked_pages(&mut self) {
        let Self { contents, tables, io, .. } = self;
        contents.suspects.pages.retain(|&id| {
            let Some(page) = tables.pages.get(id) else { return false };
            let (is_dirty, is_writing) = (page.dirty.is_some(), page.writing);
            if is_dirty && !is_writing && tables.may_be_written(id) {
                tables.write_page(io, id);
            }
            is_dirty || is_writing
        });
    }
}
