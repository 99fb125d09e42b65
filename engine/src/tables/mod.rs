//! The tables of the volume as clients see them: the epochs in memory, over the pages in memory, over the medium.
//!
//! 1. This is the only door to the pages, and to what an LBN means. A task asks for a page ([`Tables::ensure`]), and is called when the
//!    page is in memory ([`Tables::wait`]).
//! 2. The open epoch says what an LBN means; if it does not, the committing epoch does; if neither does, the map does.
//! 3. Pages on the medium may lack committed records ([`Committed`]). These are applied to each page that is read.

mod ahead;
pub(crate) mod effect;
mod epoch;
mod live;
mod on_medium;
mod page_io;
mod pages;
mod partial_writes;
mod pending_counts;
mod points;
mod scrubbed;
mod settle;
mod window;
mod write_back;

pub(crate) use epoch::{EpochRecords, RECORD_COST_BYTES, Wanted};
pub(crate) use live::{Live, UnlinkedRecords};
pub(crate) use pages::{Access, Page, Pages};
pub(crate) use partial_writes::PartialWrites;
pub(crate) use pending_counts::PendingCounts;
pub(crate) use points::Points;
pub(crate) use scrubbed::{AwaitedWrite, PageCondition, PageFound};
pub(crate) use settle::Settle;
pub(crate) use window::Window;

use crate::format::entry::{MapEntry, REFS_UNKNOWN};
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::io::Io;
use crate::memory::Accountant;
use crate::schedule::Task;
use crate::units::{Epoch as Number, Lbn, Pbn, Time, count, index};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of committed epochs that pages on the medium may lack.
pub(crate) struct Committed {
    pub records: Live,
    /// The last epoch that is committed.
    pub epoch: Number,
    /// The last confirmed epoch: pages on the medium may hold epochs up to this one.
    pub confirmed: Number,
    /// A page whose delay has passed waits until more epochs are confirmed.
    pub is_awaited: bool,
    /// No further record of a committed epoch can be found.
    pub is_end_known: bool,
}

/// The tables: map, refs and fingerprints.
pub(crate) struct Tables {
    geometry: Arc<Geometry>,
    uuid: [u8; 16],
    pub pages: Pages,
    /// The number of page writes in flight.
    page_writes: usize,
    /// The time of the next write-back of pages whose delay has passed.
    writeback_at: Time,
    /// The longest delay of the write of a page that no task waits for.
    delay_ms: u64,
    /// A clear *written* bit proves that the page was never written. After a crash it does not, until a recount has read every page.
    bits_exact: bool,
    /// The epoch that is filling.
    pub open: EpochRecords,
    /// The epoch that is committing.
    pub committing: Option<EpochRecords>,
    /// The memory of the points of the last committed epoch, for the next one.
    spare_points: Points,
    /// Changes to counts that are not committed, where pages hold only what is committed.
    pub pending_counts: PendingCounts,
    /// The committed records that pages on the medium may lack, in the scheme that has such records.
    pub committed: Option<Committed>,
    /// Records that were flushed are missing: only content that is proved is served, and records are valid up to this epoch.
    proved_only: Option<Number>,
    /// Writes of parts of blocks that are under way.
    pub partial_writes: PartialWrites,
    /// The links from the map, as a recount has counted them.
    pub window: Window,
    pub removals: Removals,
    scrubbed: scrubbed::Scrubbed,
}

/// An entry of a table.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    Map(Lbn),
    Fingerprint(Pbn),
}

/// Fingerprints that are being removed from their pages.
#[derive(Default)]
pub(crate) struct Removals {
    /// Blocks whose entry was removed from the page in memory, by page. The page has not been written since.
    pub unsent: BTreeMap<PageId, Vec<Pbn>>,
    /// The number of blocks whose removal was sent, or waits for a flush.
    pub sent: u64,
}

impl Removals {
    /// The number of blocks that become free when their removal is durable.
    pub fn under_way(&self) -> u64 {
        count(self.unsent.values().map(Vec::len).sum::<usize>()) + self.sent
    }

    /// Notes that the removals of this number of blocks are on their way.
    pub fn are_sent(&mut self, blocks: usize) {
        self.sent += count(blocks);
    }

    /// Notes that they are durable.
    pub fn are_durable(&mut self, blocks: usize) {
        self.sent -= count(blocks);
    }
}

impl Committed {
    /// Makes it from the records up to `epoch`; pages may hold epochs up to `confirmed`.
    pub fn new(records: Live, epoch: Number, confirmed: Number) -> Self {
        Self { records, epoch, confirmed, is_awaited: false, is_end_known: true }
    }
}

impl Tables {
    pub fn new(geometry: Arc<Geometry>, uuid: [u8; 16], accountant: Arc<Accountant>, next: Number, now: Time, delay_ms: u64) -> Self {
        Self {
            geometry,
            uuid,
            pages: Pages::new(accountant),
            page_writes: 0,
            writeback_at: now,
            delay_ms,
            bits_exact: false,
            open: EpochRecords::new(next),
            committing: None,
            spare_points: Points::default(),
            pending_counts: PendingCounts::default(),
            committed: None,
            proved_only: None,
            partial_writes: PartialWrites::default(),
            window: Window::default(),
            removals: Removals::default(),
            scrubbed: scrubbed::Scrubbed::default(),
        }
    }

    /// Whether pages on the medium may lack committed records ([`Committed`]). Pages in memory then hold only what is committed.
    pub fn has_records(&self) -> bool {
        self.committed.is_some()
    }

    /// The committed records that pages on the medium may lack.
    ///
    /// # Panics
    /// In a scheme without such records, which does not ask for them.
    pub fn committed(&mut self) -> &mut Committed {
        self.committed.as_mut().expect("only the scheme that has such records asks for them")
    }

    /// Takes the open epoch, with its points in order, and opens the next one.
    pub fn seal(&mut self) -> EpochRecords {
        let points = std::mem::take(&mut self.spare_points);
        let next = EpochRecords::after(&self.open, points);
        let mut sealed = std::mem::replace(&mut self.open, next);
        sealed.points.seal();
        sealed
    }

    /// The epoch that is committing.
    ///
    /// # Panics
    /// When no commit is under way: only the steps of a commit ask.
    pub fn committing(&mut self) -> &mut EpochRecords {
        self.committing.as_mut().expect("only the steps of a commit ask")
    }

    /// Confirms the epochs up to this one. Pages that wait for that are written at once.
    pub fn confirm_upto(&mut self, io: &mut Io, epoch: Number) {
        let committed = self.committed();
        committed.confirmed = committed.confirmed.max(epoch);
        if std::mem::take(&mut committed.is_awaited) {
            self.write_back_now(io);
        }
        if self.scrubbed.awaits_confirmation {
            self.awaited_write(io);
        }
    }

    /// Whether nothing of this epoch, or of one before it, is still to be made durable.
    pub fn is_durable(&self, epoch: Number) -> bool {
        let is_later = |other: &EpochRecords| other.number > epoch;
        (is_later(&self.open) || self.open.is_empty()) && self.committing.as_ref().is_none_or(is_later)
    }

    /// Returns the meaning that the epochs in memory give to an LBN, and the epoch that gives it.
    pub fn overlay(&self, lbn: Lbn) -> Option<(MapEntry, Number)> {
        let in_epoch = |epoch: &EpochRecords| epoch.lookup(lbn).map(|entry| (entry, epoch.number));
        in_epoch(&self.open).or_else(|| self.committing.as_ref().and_then(in_epoch))
    }

    /// Returns the present meaning of an LBN. `Err`: this map page has to be read first. `Ok(None)`: the map page is unreadable.
    pub fn lookup(&mut self, io: &mut Io, lbn: Lbn) -> Result<Option<MapEntry>, PageId> {
        if let Some((entry, _)) = self.overlay(lbn) {
            return Ok(Some(entry));
        }
        let (page, at) = self.geometry.map_of(lbn);
        match self.ensure(io, page) {
            Access::Ready(resident) => {
                let entry = resident.page().content.map(at);
                Ok(Some(self.geometry.known(entry)))
            }
            Access::Loading => Err(page),
            Access::Unreadable => Ok(None),
        }
    }

    /// The present meaning of an LBN, and the epoch in memory that gives it, if that is known without I/O.
    pub fn lookup_here(&mut self, lbn: Lbn) -> Option<(MapEntry, Option<Number>)> {
        if let Some((entry, epoch)) = self.overlay(lbn) {
            return Some((entry, Some(epoch)));
        }
        let (page, at) = self.geometry.map_of(lbn);
        let entry = self.pages.get(page)?.content.map(at);
        Some((self.geometry.known(entry), None))
    }

    /// The map page of an LBN: the LBN behind its last one, and whether nobody has ever written it.
    pub fn map_page(&mut self, io: &mut Io, lbn: Lbn) -> (Lbn, bool) {
        let (page, _) = self.geometry.map_of(lbn);
        (self.geometry.first_lbn(PageId { index: page.index + 1, ..page }), self.is_blank(io, page))
    }

    /// The last epoch whose changes the sector of an LBN's map entry holds, or of a block's fingerprint entry; none if it cannot be read.
    /// `Err`: that page has to be read first.
    pub fn age(&mut self, io: &mut Io, of: Entry) -> Result<Option<Number>, PageId> {
        let (page, entry) = match of {
            Entry::Map(lbn) => self.geometry.map_of(lbn),
            Entry::Fingerprint(pbn) => self.geometry.fingerprint_of(pbn),
        };
        let sector = index(count(entry) / page.region.entries_per_sector());
        match self.ensure(io, page) {
            Access::Loading => Err(page),
            Access::Unreadable => Ok(None),
            Access::Ready(resident) => Ok(Some(Number(resident.page().content.tag(sector)))),
        }
    }

    /// The count of a block, with uncommitted changes. Its refs page is in memory.
    pub fn refs_now(&mut self, pbn: Pbn) -> u8 {
        let (id, at) = self.geometry.refs_of(pbn);
        let committed = self.pages.expect(id).content.refs(at);
        self.with_pending(pbn, committed)
    }

    /// The committed count of a block with uncommitted changes.
    pub fn with_pending(&self, pbn: Pbn, committed: u8) -> u8 {
        changed(committed, self.pending_counts.get(pbn))
    }

    /// The counts of blocks, from entry `at` of their refs page on, which is in memory.
    pub fn counts(&mut self, refs: PageId, at: usize, first: Pbn, blocks: u64) -> impl Iterator<Item = (Pbn, u8)> + '_ {
        let committed = &self.pages.expect(refs).content.all_refs()[at..];
        let pending = &self.pending_counts;
        (first.0..first.0 + blocks).map(Pbn).zip(committed).map(|(pbn, &refs)| (pbn, changed(refs, pending.get(pbn))))
    }

    /// Those of these blocks that have this count; their entries stand as for [`Self::counts`]. It is for runs of many blocks.
    pub fn blocks_with(&mut self, count: u8, refs: PageId, at: usize, first: Pbn, blocks: u64) -> Vec<Pbn> {
        let committed = &self.pages.expect(refs).content.all_refs()[at..];
        let mut found = Vec::new();
        for (offset, some, changes) in self.pending_counts.groups(first, blocks) {
            let group = committed[index(offset)..][..index(some)].iter().zip((first + offset).0..);
            match changes {
                None => found.extend(group.filter(|&(&refs, _)| refs == count).map(|(_, pbn)| Pbn(pbn))),
                Some(changes) => {
                    found.extend(group.zip(changes).filter(|&((&refs, _), &by)| changed(refs, by) == count).map(|((_, pbn), _)| Pbn(pbn)));
                }
            }
        }
        found
    }

    /// Whether the refs page in memory has a known count other than 0 for a block.
    pub fn is_linked(&mut self, pbn: Pbn) -> bool {
        let (id, at) = self.geometry.refs_of(pbn);
        self.pages.get(id).is_some_and(|page| !matches!(page.content.refs(at), 0 | REFS_UNKNOWN))
    }

    /// Whether an epoch in memory removes the fingerprint of a block.
    pub fn is_losing_its_name(&self, pbn: Pbn) -> bool {
        let goes = |epoch: &EpochRecords| epoch.removed.contains(&pbn);
        goes(&self.open) || self.committing.as_ref().is_some_and(goes)
    }

    /// Schedules the commit under way, because something that it may wait for has ended.
    pub fn commit_may_go_on(&self, io: &mut Io) {
        if self.committing.is_some() {
            io.schedule.push(Task::Commit);
        }
    }

    /// Notes that a clear *written* bit proves that its page was never written.
    pub fn bits_are_exact(&mut self) {
        self.bits_exact = true;
    }

    /// Begins to commit an epoch, which was sealed.
    pub fn commit(&mut self, epoch: EpochRecords) {
        self.committing = Some(epoch);
    }

    /// Takes the memory of the points of a committed epoch, for the next one.
    pub fn reuse(&mut self, points: Points) {
        self.spare_points = points.emptied();
    }

    /// Keeps records of committed epochs from now on, which pages on the medium may lack.
    pub fn keep_records(&mut self, committed: Committed) {
        self.committed = Some(committed);
    }

    /// Keeps no records any more: pages have all of them, or no log leads to them.
    pub fn forget_records(&mut self) {
        self.committed = None;
    }

    /// Notes that flushed records are missing: only content that is proved is served, and records are valid up to this epoch.
    pub fn lack_records(&mut self, last: Number) {
        self.proved_only = Some(last);
        self.committed.iter_mut().for_each(|committed| committed.is_end_known = false);
    }

    /// Opens the epoch after this one, which is empty.
    pub fn open_after(&mut self, last: Number) {
        debug_assert!(self.open.is_empty(), "records of an open epoch are not dropped");
        self.open = EpochRecords::new(last + 1);
    }

    /// Takes the number of the open epoch for a record of its own, which is committed at once. The open epoch gets the next one.
    pub fn take_number(&mut self) -> Number {
        self.open.take_number()
    }

    /// The last epoch that counts, if flushed records are missing: only content that is proved is served then.
    pub fn proved_only(&self) -> Option<Number> {
        self.proved_only
    }
}

/// A committed count with a change. It is unknown if that is less than 0, which a damaged medium makes possible.
fn changed(committed: u8, by: i16) -> u8 {
    if committed == REFS_UNKNOWN {
        return committed;
    }
    u8::try_from(i16::from(committed).saturating_add(by)).unwrap_or(REFS_UNKNOWN)
}
