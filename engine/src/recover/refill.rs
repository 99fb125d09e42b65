//! Filling the index from the fingerprint table, newest allocation first, until all is in or the index is full.
//!
//! 1. Blocks that have to be read (`reread.rs`) are read a page's at a time, before the next page.
//! 2. On its way the refill counts carriers. A page that it came by is counted from then on by who changes it.
//! 3. In mode `ordered` a crash may leave blocks without any name, and counts that are too high. Which of them have links only a recount knows: behind
//!    it the refill goes by all pages once more.

use super::reread::Rereading;
use crate::engine::Engine;
use crate::format::entry::Kind;
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::schedule::Task;
use crate::space::GRANULE_BLOCKS;
use crate::tables::Got;
use crate::units::{Pbn, Time, count, index};

/// Pages taken in one step.
const PAGES_A_STEP: u64 = 16;
/// Pages asked for ahead.
const PAGES_AHEAD: u64 = 8;

/// How far the refill has come.
pub(crate) struct Refill {
    newest: u64,
    pages: u64,
    /// Pages seen, counted backwards from the newest.
    done: u64,
    pub entries: u64,
    /// Blocks without a whole fingerprint on the pages seen; how many of them have got it again.
    unnamed: u64,
    pub named: u64,
    pub waits: bool,
    finished: bool,
    /// All pages are to be gone by once more, for blocks without a name; this is that time.
    goes_again: bool,
    is_second: bool,
    pub rereading: Rereading,
    /// Carriers on the pages seen.
    carriers: u64,
    /// Part of a page could not be read.
    blind: bool,
}

impl Refill {
    pub fn new(newest: Pbn, pages: u64) -> Self {
        Self::from_granule(newest.0 / GRANULE_BLOCKS, pages)
    }

    fn from_granule(newest: u64, pages: u64) -> Self {
        Self {
            newest,
            pages,
            done: 0,
            entries: 0,
            unnamed: 0,
            named: 0,
            waits: false,
            finished: false,
            goes_again: false,
            is_second: false,
            rereading: Rereading::default(),
            carriers: 0,
            blind: false,
        }
    }

    pub fn next_at(&self) -> Option<Time> {
        self.rereading.pause.filter(|_| !self.waits && !self.finished)
    }

    /// The page that comes after so many.
    fn page(&self, back: u64) -> PageId {
        let number = (self.newest + self.pages - back % self.pages) % self.pages;
        PageId { region: Region::Fingerprints, index: number }
    }

    /// Carriers on the volume; none where not all pages were seen.
    pub fn carriers(&self) -> Option<u64> {
        (self.done >= self.pages && !self.blind).then_some(self.carriers)
    }

    /// A block of a page that was seen becomes a carrier, or is one no more.
    pub fn carrier_changed(&mut self, pbn: Pbn, is_born: bool) {
        let back = (self.newest + self.pages - pbn.0 / GRANULE_BLOCKS) % self.pages;
        if back < self.done {
            self.carriers = if is_born { self.carriers + 1 } else { self.carriers.saturating_sub(1) };
        }
    }
}

impl Engine {
    /// A recount has shown which counts are links: blocks without a name can be named.
    pub(crate) fn refill_again(&mut self) {
        if self.scheme.log.is_none() {
            self.background.refill.goes_again = true;
            self.begin_again();
        }
    }

    fn begin_again(&mut self) {
        if self.background.refill.goes_again && self.background.refill.finished {
            let Refill { entries, newest, pages, .. } = self.background.refill;
            self.background.refill = Refill { is_second: true, entries, ..Refill::from_granule(newest, pages) };
            self.store.io.schedule.more_background = true;
        }
    }

    pub(crate) fn refill_index(&mut self) {
        self.background.refill.waits = false;
        if self.background.refill.finished || self.store.io.stage != crate::io::Stage::Serving {
            return;
        }
        let pages = self.background.refill.pages;
        for _ in 0..PAGES_A_STEP {
            if self.background.refill.rereading.is_under_way() {
                return self.reread();
            }
            if self.background.refill.done >= pages || self.store.index.len() == self.store.index.capacity() {
                if self.names_are_on_their_way() {
                    // They are found when they are in, which a commit sees to.
                    self.background.refill.rereading.pause = None;
                    return;
                }
                self.background.refill.finished = true;
                let Refill { entries, named, unnamed, .. } = self.background.refill;
                let unnamed = unnamed.saturating_sub(named);
                let goes_on = self.background.refill.goes_again || self.names_wait_for_recount();
                self.store.io.notice(Notice::IndexRefilled { entries, named, unnamed, goes_on });
                return self.begin_again();
            }
            let id = self.background.refill.page(self.background.refill.done);
            let ahead = PAGES_AHEAD.min(self.store.tables.pages.ahead_max()).min(pages - self.background.refill.done);
            if self.has_no_names(id) {
                self.background.refill.done += 1;
                continue;
            }
            match self.store.tables.ensure(&mut self.store.io, id) {
                Got::Wait => {
                    for id in (1..ahead).map(|i| self.background.refill.page(self.background.refill.done + i)).collect::<Vec<_>>() {
                        if !self.store.tables.is_blank(&mut self.store.io, id) {
                            self.store.tables.ensure(&mut self.store.io, id);
                        }
                    }
                    self.background.refill.waits = true;
                    return self.store.tables.wait(&mut self.store.io, id, Task::Refill);
                }
                Got::Unreadable => self.background.refill.blind = true,
                Got::Ready => match self.unnamed_on(id) {
                    Ok(unnamed) => self.offer_page(id, unnamed),
                    Err(counts) => {
                        self.background.refill.waits = true;
                        return self.store.tables.wait(&mut self.store.io, counts, Task::Refill);
                    }
                },
            }
            self.background.refill.done += 1;
        }
        self.store.io.schedule.more_background = true;
    }

    fn offer_page(&mut self, id: PageId, unnamed: Vec<Pbn>) {
        let first = self.store.geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(self.store.geometry.data_blocks - first.0);
        self.background.refill.blind |= self.store.tables.pages.expect(id).damaged != 0;
        let mut carriers = Vec::new();
        for i in 0..blocks {
            let entry = self.store.tables.pages.expect(id).content.fingerprint(index(i));
            let pbn = first + i;
            if entry.is_none() || self.store.tables.is_losing_its_name(pbn) {
                continue;
            }
            match entry.kind {
                Kind::Fingerprint if !self.store.contents.suspects.contains(&pbn) => {
                    self.background.refill.entries += u64::from(self.store.index.offer(&entry.value, pbn));
                }
                Kind::Carrier => {
                    self.background.refill.carriers += 1;
                    if !self.background.refill.is_second {
                        carriers.push(pbn);
                    }
                }
                _ => {}
            }
        }
        self.background.refill.unnamed += count(unnamed.len());
        // Nobody links to slots where promises name whole blocks.
        if self.store.settings.refill_reads_per_second > 0 {
            self.background.refill.rereading.ask(carriers, unnamed);
        }
    }
}
