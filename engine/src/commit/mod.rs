//! Commit, mode `ordered` (OrderMergeDedup sections 2.1 and 2.2): what must be durable before what.
//!
//! 1. **Content.** The epoch's data blocks were sent as they came; wait for them. The refs pages with its increments are written, each once;
//!    pages with removed fingerprints ride along. *Device flush* (left out only if everything relied on is durable already): R1, R2 hold.
//! 2. **Links.** The map pages that the epoch touched are composed, with the links of epochs up to this one and of none after, and written.
//!    *Device flush*; whoever waited is answered (R5).
//! 3. **Non-critical.** Now, and only now, the epoch's decrements enter the refs pages in memory (R3) and its fingerprints the fingerprint
//!    pages. They are written when some later step 1 writes their page anyway, when the page is full, or when the delay has passed.
//!
//! Every flush is sent from here. In the log's mode `log/` has the steps; sealing, and answering who waited, is the same. `recover` is its mirror.

mod anticipate;
mod flush;
mod links;
mod open_close;
mod ordered;
mod seal;
mod superblock;

pub(crate) use anticipate::Anticipation;
pub(crate) use superblock::Updates;

use crate::engine::Engine;
use crate::format::page::PageId;
use crate::interface::{IoId, Trace};
use crate::log::LogPart;
use crate::units::Pbn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where a commit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Content,
    FlushOne,
    Links,
    /// The log's units.
    Units,
    FlushTwo,
}

impl Step {
    pub fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::FlushOne => "flush-1",
            Self::Links => "links",
            Self::Units => "units",
            Self::FlushTwo => "flush-2",
        }
    }
}

/// How far a page of step 1 has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It has to be sent.
    Unsent,
    /// A write that carries the epoch's increments is in flight.
    Sent,
}

/// An epoch on its way to the medium. One at a time.
pub(crate) struct Commit {
    pub step: Step,
    /// Content with a lower number belongs to this epoch or an earlier one.
    horizon: IoId,
    /// How many writes of such content have not ended.
    pub(crate) content_left: u64,
    /// Refs pages with its increments, and fingerprint pages with removals, that are not yet on the device.
    due: BTreeMap<PageId, Due>,
    /// The latest completion number among what its links rely on.
    relied_on: u64,
    /// It is there for the fingerprint removals alone, and they want a flush.
    removals: bool,
    /// Map pages not yet composed.
    map_due: VecDeque<u64>,
    /// Map pages on their way into memory.
    map_loading: Vec<u64>,
    /// Map pages on their way to the device.
    map_writing: BTreeSet<PageId>,
    map_written: bool,
    /// A sector of the map as it was written for this epoch.
    trace: Option<Trace>,
    /// One for each link that the composed pages no longer hold.
    unlinked: Vec<Pbn>,
    /// In the log's mode: its records and units.
    pub(crate) log: LogPart,
}

impl Engine {
    /// The committing epoch relies on all content that is under way now.
    pub(crate) fn commit_waits_for_content(&mut self) {
        let (horizon, left) = (self.store.io.horizon(), self.store.contents.content_in_flight);
        let commit = self.scheme.commit.as_mut().expect("a step belongs to a commit");
        (commit.horizon, commit.content_left) = (horizon, left);
    }
}

impl Commit {
    /// A write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        self.content_left -= u64::from(io < self.horizon);
    }
}
