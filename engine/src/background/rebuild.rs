//! Rebuilds the index from the fingerprint table, newest allocation first, until all entries are in or the index is full. If it will not
//! have room for all, it gets the newest ones, and of the others only the sample that leads into copies ([`crate::index`], 5).
//!
//! 1. Blocks of a page that have to be read (`rebuild_reads.rs`) are read before the next page.
//! 2. The rebuild also counts carriers. Once it has passed a page, each change of the page keeps the count.
//! 3. In mode `ordered` a crash may leave blocks without a fingerprint, and counts that are too high. Only a recount knows which of these
//!    blocks have links: after it the rebuild goes through all pages once more.

use super::pending_reads::PendingReads;
use crate::format::entry::Kind;
use crate::format::page::{PageId, Region};
use crate::index::Index;
use crate::interface::Notice;
use crate::io::{Io, Stage};
use crate::pool::{Parts, Pool};
use crate::schedule::Task;
use crate::space::{GRANULE_BLOCKS, Space};
use crate::tables::Access;
use crate::units::{Pbn, Time, count, index};

/// Pages that one turn takes.
const PAGES_A_STEP: u64 = 16;

/// The rebuild of the index, and how far it has come.
pub(crate) struct IndexRebuild {
    newest: u64,
    pages: u64,
    /// Pages seen, counted backwards from the newest.
    done: u64,
    pub(super) entries: u64,
    /// Blocks without a whole fingerprint on the pages seen, and how many of them have it again.
    /// Blocks with a fingerprint, and carriers, on the pages seen.
    met: u64,
    unnamed: u64,
    pub(super) named: u64,
    /// Fingerprints were left out: those of carriers that were not read, or of an unreadable page.
    pub(super) left_some_out: bool,
    /// Some block has only a checksum: it was deferred.
    saw_deferred: bool,
    pub waits: bool,
    finished: bool,
    /// A second pass over all pages is due, for blocks without a fingerprint; and this is that pass.
    goes_again: bool,
    is_second: bool,
    pub(super) pending_reads: PendingReads,
}

impl IndexRebuild {
    pub fn new(newest: Pbn, pages: u64) -> Self {
        Self::from_granule(newest.0 / GRANULE_BLOCKS, pages)
    }

    fn from_granule(newest: u64, pages: u64) -> Self {
        Self {
            newest,
            pages,
            done: 0,
            entries: 0,
            met: 0,
            unnamed: 0,
            named: 0,
            left_some_out: false,
            saw_deferred: false,
            waits: false,
            finished: false,
            goes_again: false,
            is_second: false,
            pending_reads: PendingReads::default(),
        }
    }

    pub fn next_at(&self) -> Option<Time> {
        self.pending_reads.pause.filter(|_| !self.waits && !self.finished)
    }

    /// The page that comes after this number of pages.
    fn page(&self, back: u64) -> PageId {
        let number = (self.newest + self.pages - back % self.pages) % self.pages;
        PageId { region: Region::Fingerprints, index: number }
    }

    /// Begins again with an empty index. Reads that are under way end before it reads on.
    pub fn start_over(&mut self, io: &mut Io, space: &mut Space) {
        let Self { newest, pages, waits, goes_again, .. } = *self;
        let pending_reads = self.pending_reads.of_those_under_way();
        *self = Self { waits, goes_again, pending_reads, ..Self::from_granule(newest, pages) };
        space.carriers.begin_again();
        io.schedule.ask_for_background();
    }

    /// Begins a second pass after a recount: it has shown which blocks have links, so those without a fingerprint can get it.
    pub fn go_again(&mut self, io: &mut Io, space: &mut Space) {
        self.goes_again = true;
        self.begin_again(io, space);
    }

    fn begin_again(&mut self, io: &mut Io, space: &mut Space) {
        if self.goes_again && self.finished {
            let Self { entries, newest, pages, .. } = *self;
            *self = Self { is_second: true, entries, ..Self::from_granule(newest, pages) };
            space.carriers.begin_again();
            io.schedule.ask_for_background();
        }
    }

    /// Whether all pages were seen, and the index has what it has room for.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether it has to know how many blocks are in use before it goes on: an index that fills keeps room for a sample of them.
    pub fn waits_for_counts(&self, space: &Space, index: &Index) -> bool {
        !space.scan_complete() && !index.takes_all(u64::MAX)
    }

    /// Does a little of it. `is_recounting`: a recount is still to show which blocks without a fingerprint have links.
    pub fn rebuild_some(&mut self, parts: &mut Parts, is_recounting: bool) {
        self.waits = false;
        if self.finished || parts.pool.io.stage() != Stage::Serving {
            return;
        }
        for _ in 0..PAGES_A_STEP {
            if self.pending_reads.is_under_way() {
                return self.read_blocks(&mut parts.pool);
            }
            if self.done >= self.pages || parts.pool.index.entries() == parts.pool.index.capacity() {
                return self.end(parts, is_recounting);
            }
            if self.waits_for_counts(&parts.pool.space, &parts.pool.index) {
                return;
            }
            let id = self.page(self.done);
            if parts.pool.has_no_fingerprints(id) {
                self.saw_page(&mut parts.pool.space);
                continue;
            }
            let Pool { io, tables, .. } = &mut parts.pool;
            tables.load_ahead(io, (self.done..self.pages).map(|back| self.page(back)));
            match tables.ensure(io, id) {
                Access::Loading => {
                    self.waits = true;
                    return parts.pool.tables.wait(&mut parts.pool.io, id, Task::RebuildIndex);
                }
                Access::Unreadable => {
                    self.left_some_out = true;
                    parts.pool.space.carriers.saw(0, true);
                }
                Access::Ready(_) => match parts.pool.unnamed_on(id) {
                    Ok(unnamed) => self.offer_page(&mut parts.pool, id, unnamed),
                    Err(counts) => {
                        self.waits = true;
                        return parts.pool.tables.wait(&mut parts.pool.io, counts, Task::RebuildIndex);
                    }
                },
            }
            self.saw_page(&mut parts.pool.space);
        }
        parts.pool.io.schedule.ask_for_background();
    }

    fn saw_page(&mut self, space: &mut Space) {
        self.done += 1;
        space.carriers.saw_page();
    }

    /// Ends the pass: all entries that there is room for are in.
    fn end(&mut self, parts: &mut Parts, is_recounting: bool) {
        if parts.pool.fingerprints_are_on_their_way() {
            // These entries are found once a commit has settled them.
            self.pending_reads.go_on_at_once();
            return;
        }
        self.finished = true;
        let is_all_named = !self.saw_deferred && parts.pool.io.ledger.deferred == 0;
        if parts.pool.index.rebuild_ended(self.done >= self.pages && !self.left_some_out) && is_all_named {
            parts.volume.skipped.clear();
            parts.volume.to_compare.forget_skipped(&mut parts.pool.medium.superblock);
        }
        let Self { entries, named, unnamed, .. } = *self;
        let unnamed = unnamed.saturating_sub(named);
        let goes_on = self.goes_again || is_recounting && !parts.pool.tables.has_records();
        parts.pool.io.notice(Notice::IndexRebuilt { entries, named, unnamed, goes_on });
        self.begin_again(&mut parts.pool.io, &mut parts.pool.space);
    }

    fn offer_page(&mut self, pool: &mut Pool, id: PageId, unnamed: Vec<Pbn>) {
        let Pool { tables, space, index: entries, contents, geometry, settings, .. } = pool;
        let first = geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(geometry.data_blocks - first.0);
        let in_use = space.census.kept + space.census.unique + space.census.shared;
        let (mut carriers, mut saw_carriers) = (Vec::new(), 0);
        for i in 0..blocks {
            let entry = tables.pages.expect(id).content.fingerprint(index(i));
            let pbn = first + i;
            if entry.is_none() || tables.is_losing_its_name(pbn) {
                continue;
            }
            match entry.kind {
                Kind::Fingerprint if !contents.suspects.contains(pbn) => {
                    self.met += 1;
                    self.entries += u64::from(entries.offer_before(&entry.value, pbn, in_use.saturating_sub(self.met)));
                }
                Kind::Carrier => {
                    saw_carriers += 1;
                    carriers.extend(Some(pbn).filter(|_| !entry.is_suspect()));
                }
                Kind::Checksum => self.saw_deferred |= entry.short().is_none() && !entry.is_suspect() && !entry.is_apart(),
                _ => {}
            }
        }
        space.carriers.saw(saw_carriers, tables.pages.expect(id).damaged != 0);
        self.met += count(carriers.len());
        self.unnamed += count(unnamed.len());
        if !entries.takes_all(in_use.saturating_sub(self.met)) {
            // Which of their slots are in the sample is not known.
            self.left_some_out |= !carriers.is_empty();
            carriers.clear();
        }
        // A rate of 0 turns these reads off.
        if settings.knobs.rebuild_reads_per_second > 0 {
            self.pending_reads.ask(if self.is_second { Vec::new() } else { carriers }, unnamed);
        } else {
            self.left_some_out |= !carriers.is_empty() || !unnamed.is_empty();
        }
    }
}
