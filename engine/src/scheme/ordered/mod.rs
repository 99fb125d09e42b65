//! Commit, mode `ordered` (OrderMergeDedup sections 2.1 and 2.2): what must be durable before what.
//!
//! 1. **Content.** The epoch's data blocks were sent as they came; wait for them. The refs pages with its increments are written, each
//!    once; pages with removed fingerprints ride along. *Device flush* (left out only if everything relied on is durable already): R1, R2
//!    hold.
//! 2. **Links.** The map pages that the epoch touched are composed, with the links of epochs up to this one and of none after, and written.
//!    *Device flush*; whoever waited is answered (R5).
//! 3. **Non-critical.** Now, and only now, the epoch's decrements enter the refs pages in memory (R3) and its fingerprints the fingerprint
//!    pages. They are written when some later step 1 writes their page anyway, when the page is full, or when the delay has passed.

mod links;

use super::parts::{Content, MapPages, Progress};
use crate::answers::Journal;
use crate::format::page::{PageId, Region};
use crate::interface::{IoId, Trace};
use crate::io::FlushFor;
use crate::store::Store;
use crate::tables::Epoch;
use crate::units::Pbn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where a commit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Content,
    FlushOne,
    Links,
    FlushTwo,
}

/// How far a page of step 1 has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It has to be sent.
    Unsent,
    /// A write that carries the epoch's increments is in flight.
    Sent,
}

/// An epoch on its way to the medium.
pub(crate) struct Commit {
    step: Step,
    content: Content,
    /// Refs pages with its increments, and fingerprint pages with removals, that are not yet on the device.
    due: BTreeMap<PageId, Due>,
    /// The latest completion number among what its links rely on.
    relied_on: u64,
    /// It is there for the fingerprint removals alone, and they want a flush.
    removals: bool,
    /// Map pages not yet composed.
    map: MapPages,
    /// Map pages on their way to the device.
    map_writing: BTreeSet<PageId>,
    map_written: bool,
    /// A sector of the map as it was written for this epoch.
    trace: Option<Trace>,
    /// One for each link that the composed pages no longer hold.
    unlinked: Vec<Pbn>,
}

impl Commit {
    /// An epoch is sealed that touches these map pages.
    pub fn new(store: &Store, epoch: &Epoch, map: VecDeque<u64>) -> Self {
        let refs = epoch.refs_pages.iter().map(|&index| PageId { region: Region::Refs, index });
        let names = store.tables.removals.unsent.keys().copied();
        Self {
            step: Step::Content,
            content: Content::under_way(store),
            due: refs.chain(names).map(|id| (id, Due::Unsent)).collect(),
            relied_on: 0,
            // An epoch without records is sealed for the removals alone; any other flushes in step 2 at the latest.
            removals: epoch.is_empty(),
            map: MapPages::new(map),
            map_writing: BTreeSet::new(),
            map_written: false,
            trace: None,
            unlinked: Vec::new(),
        }
    }

    /// The step in one word: for reports.
    pub fn phase(&self) -> &'static str {
        match self.step {
            Step::Content => "content",
            Step::FlushOne => "flush-1",
            Step::Links => "links",
            Step::FlushTwo => "flush-2",
        }
    }

    /// Goes on as far as it gets.
    pub fn go_on(&mut self, store: &mut Store, journal: &Journal) -> Progress {
        match self.step {
            Step::Content => {}
            Step::Links => return self.step_links(store, journal),
            Step::FlushOne | Step::FlushTwo => return Ok(false),
        }
        // Step 1. Refs pages go out; then wait for them and for the content, and flush.
        self.send_due_pages(store);
        if !self.due.is_empty() || !self.content.is_there() {
            return Ok(false);
        }
        // Content of the next epoch may have completed meanwhile: its number is higher, and a flush too many is no harm.
        let relied_on = self.relied_on.max(store.io.durability.content);
        if relied_on > store.io.durability.mark || self.removals {
            self.step = Step::FlushOne;
            store.io.flush(FlushFor::CommitContent);
            return Ok(false);
        }
        self.step = Step::Links;
        self.step_links(store, journal)
    }

    /// Sends the pages of step 1 that can be sent now.
    fn send_due_pages(&mut self, store: &mut Store) {
        let unsent: Vec<PageId> = self.due.iter().filter(|&(_, &due)| due == Due::Unsent).map(|(&id, _)| id).collect();
        for id in unsent {
            let (dirty, writing, stamp) = match store.tables.pages.get(id) {
                Some(page) => (page.dirty.is_some(), page.writing, page.stamp),
                // It was written, by someone else, and left the memory since.
                None => (false, false, store.io.durability.refs),
            };
            match (dirty, writing) {
                (true, true) => {}
                (true, false) => {
                    self.due.insert(id, Due::Sent);
                    store.tables.write_page(&mut store.io, id);
                }
                // What is in flight was composed after the last change, so it carries the increments.
                (false, true) => {
                    self.due.insert(id, Due::Sent);
                }
                (false, false) => {
                    self.relied_on = self.relied_on.max(stamp);
                    self.due.remove(&id);
                }
            }
        }
    }

    /// A write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        self.content.arrived(io);
    }

    /// A page's write has completed: step 1 or step 2 may wait for it.
    pub fn page_written(&mut self, id: PageId, stamp: u64) {
        if id.region == Region::Map {
            self.map_writing.remove(&id);
        } else if self.due.get(&id) == Some(&Due::Sent) {
            self.due.remove(&id);
            self.relied_on = self.relied_on.max(stamp);
        }
    }

    /// A flush of the commit has ended well.
    pub fn flushed(&mut self, store: &mut Store, journal: &Journal) -> Progress {
        if self.step == Step::FlushTwo {
            return Ok(true);
        }
        self.step = Step::Links;
        self.step_links(store, journal)
    }

    /// What it left on the medium, by which the store is known.
    pub fn trace(&self) -> Option<Trace> {
        self.trace
    }

    /// Step 3: the epoch is durable, decrements and fingerprints may enter their pages.
    pub fn end(self, store: &mut Store, epoch: &mut Epoch) {
        store.settle.unlink(self.unlinked);
        store.settle.born(std::mem::take(&mut epoch.births), epoch.number.0);
        store.settle.name(std::mem::take(&mut epoch.named));
    }
}
