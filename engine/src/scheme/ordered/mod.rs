//! The commit of mode `ordered` (OrderMergeDedup sections 2.1 and 2.2), and the order in which its parts become durable.
//!
//! 1. **Content.** The epoch's data blocks were sent as they came; the commit waits for them. The refs pages with its increments are
//!    written, each once; pages with removed fingerprints are written with them. *Device flush* (left out only if everything relied on is
//!    durable already): R1, R2 hold.
//! 2. **Links.** The map pages that the epoch touched are composed, with the links of epochs up to this one and of none after, and written.
//!    *Device flush*; the requests that waited are answered (R5).
//! 3. **Non-critical.** Only now the epoch's decrements enter the refs pages in memory (R3) and its fingerprints the fingerprint pages.
//!    They are written when a later step 1 writes their page anyway, when the page is full, or when the delay has passed.

mod links;

use super::parts::{Content, MapPages, Progress};
use crate::ack_journal::AckJournal;
use crate::format::page::{PageId, Region};
use crate::interface::{IoId, Trace};
use crate::io::{FlushFor, Io};
use crate::pool::Pool;
use crate::tables::{EpochRecords, Settle, Tables};
use crate::units::Pbn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The steps of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Content,
    FlushOne,
    Links,
    FlushTwo,
}

/// The state of a page of step 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageState {
    /// It has to be sent.
    Unsent,
    /// A write that carries the epoch's increments is in flight.
    Sent,
}

/// An epoch that commits.
pub(crate) struct Commit {
    step: Step,
    content: Content,
    /// Refs pages with its increments, and fingerprint pages with removals, that are not on the device yet.
    pages: BTreeMap<PageId, PageState>,
    /// The latest completion number among the writes that its links rely on.
    relied_on: u64,
    /// It commits fingerprint removals alone, which need a flush.
    is_for_removals: bool,
    /// Map pages that are not composed yet.
    map: MapPages,
    /// Map pages that are being written.
    map_writing: BTreeSet<PageId>,
    map_written: bool,
    /// A sector of the map as it was written for this epoch.
    trace: Option<Trace>,
    /// A block for each link that the composed pages no longer hold.
    unlinked: Vec<Pbn>,
}

impl Commit {
    /// The commit of a sealed epoch that touches these map pages.
    pub fn new(pool: &Pool, epoch: &EpochRecords, map: VecDeque<u64>) -> Self {
        let refs = epoch.refs_pages.iter().map(|&index| PageId { region: Region::Refs, index });
        let names = pool.tables.removals.unsent.keys().copied();
        Self {
            step: Step::Content,
            content: Content::under_way(&pool.io, &pool.contents),
            pages: refs.chain(names).map(|id| (id, PageState::Unsent)).collect(),
            relied_on: 0,
            // An epoch without records is sealed for the removals alone; any other flushes in step 2 at the latest.
            is_for_removals: epoch.is_empty(),
            map: MapPages::new(map),
            map_writing: BTreeSet::new(),
            map_written: false,
            trace: None,
            unlinked: Vec::new(),
        }
    }

    /// The step in one word, for reports.
    pub fn phase(&self) -> &'static str {
        match self.step {
            Step::Content => "content",
            Step::FlushOne => "flush-1",
            Step::Links => "links",
            Step::FlushTwo => "flush-2",
        }
    }

    /// Continues the commit.
    pub fn write_epoch(&mut self, pool: &mut Pool, journal: &AckJournal) -> Progress {
        match self.step {
            Step::Content => {}
            Step::Links => return self.step_links(pool, journal),
            Step::FlushOne | Step::FlushTwo => return Ok(false),
        }
        // Step 1. Refs pages are sent; the commit waits for them and for the content, and flushes.
        self.send_due_pages(&mut pool.io, &mut pool.tables);
        if !self.pages.is_empty() || !self.content.is_there() {
            return Ok(false);
        }
        // Content of the next epoch may have completed meanwhile: its number is higher, and one flush too many does no harm.
        let relied_on = self.relied_on.max(pool.io.durability.last_content());
        if relied_on > pool.io.durability.mark() || self.is_for_removals {
            self.step = Step::FlushOne;
            pool.io.flush(FlushFor::CommitContent);
            return Ok(false);
        }
        self.step = Step::Links;
        self.step_links(pool, journal)
    }

    /// Sends the pages of step 1 that can be sent now.
    fn send_due_pages(&mut self, io: &mut Io, tables: &mut Tables) {
        let unsent: Vec<PageId> = self.pages.iter().filter(|&(_, &pages)| pages == PageState::Unsent).map(|(&id, _)| id).collect();
        for id in unsent {
            let (dirty, writing, stamp) = match tables.pages.get(id) {
                Some(page) => (page.dirty.is_some(), page.writing, page.stamp),
                // Another caller wrote it, and it has left memory since.
                None => (false, false, io.durability.last_refs()),
            };
            match (dirty, writing) {
                (true, true) => {}
                (true, false) => {
                    self.pages.insert(id, PageState::Sent);
                    tables.write_page(io, id);
                }
                // The write in flight was composed after the last change, so it carries the increments.
                (false, true) => {
                    self.pages.insert(id, PageState::Sent);
                }
                (false, false) => {
                    self.relied_on = self.relied_on.max(stamp);
                    self.pages.remove(&id);
                }
            }
        }
    }

    /// Notes that a write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        self.content.arrived(io);
    }

    /// Notes that a page was written, for which step 1 or step 2 may wait.
    pub fn page_written(&mut self, id: PageId, stamp: u64) {
        if id.region == Region::Map {
            self.map_writing.remove(&id);
        } else if self.pages.get(&id) == Some(&PageState::Sent) {
            self.pages.remove(&id);
            self.relied_on = self.relied_on.max(stamp);
        }
    }

    /// Continues after a flush of the commit.
    pub fn flushed(&mut self, pool: &mut Pool, journal: &AckJournal) -> Progress {
        if self.step == Step::FlushTwo {
            return Ok(true);
        }
        self.step = Step::Links;
        self.step_links(pool, journal)
    }

    /// The trace of the commit on the medium, by which the store is known.
    pub fn trace(&self) -> Option<Trace> {
        self.trace
    }

    /// Step 3: the epoch is durable, and decrements and fingerprints may enter their pages.
    pub fn end(self, settle: &mut Settle, epoch: &mut EpochRecords) {
        settle.unlink(self.unlinked);
        settle.insert_later(std::mem::take(&mut epoch.new_blocks), epoch.number.0);
        settle.name(std::mem::take(&mut epoch.named));
    }
}
