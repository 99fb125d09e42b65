//! The tables of the volume as clients' work so far has them: what the epochs in memory say, over the pages in memory, over the medium.
//!
//! 1. This is the only door to the pages: who wants one asks for it ([`Tables::ensure`]), and is called when it has come
//!    ([`Tables::wait`]).
//! 2. What an LBN means is what the open epoch says, else the committing one, else the map.
//! 3. Of what is committed, some may stand in no page on the medium yet ([`Committed`]): a page that is loaded is put right by it.

pub(crate) mod effect;
mod epoch;
mod live;
mod page_io;
mod pages;
mod partial_writes;
mod pending_counts;
mod settle;
mod window;
mod write_back;

pub(crate) use epoch::{Epoch, RECORD_COST_BYTES, Wanted};
pub(crate) use live::{Live, Unchained};
pub(crate) use pages::{Access, Page, Pages};
pub(crate) use partial_writes::PartialWrites;
pub(crate) use pending_counts::PendingCounts;
pub(crate) use settle::Settle;
pub(crate) use window::Window;

use crate::format::entry::{MapEntry, REFS_UNKNOWN};
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::io::Io;
use crate::memory::Accountant;
use crate::units::{Epoch as Number, Lbn, Pbn, Time, count, index};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of committed epochs that pages on the medium may lack.
pub(crate) struct Committed {
    pub records: Live,
    /// The last epoch that is committed.
    pub epoch: Number,
    /// The last epoch that pages on the medium may hold.
    pub vouched: Number,
    /// A page whose time has come waits until more may be written.
    pub is_awaited: bool,
    /// No record is left to be found that could say more.
    pub is_end_known: bool,
}

/// Map, refs, fingerprints.
pub(crate) struct Tables {
    geometry: Arc<Geometry>,
    uuid: [u8; 16],
    pub pages: Pages,
    /// Writes of pages under way.
    page_writes: usize,
    /// When pages whose delay has passed are looked for next.
    writeback_at: Time,
    /// How long a page that nobody waits for is kept before it is written.
    delay_ms: u64,
    /// A clear *written* bit means that the page was never written. Not so after a crash, until a recount has come by every page.
    pub bits_exact: bool,
    /// The epoch that fills.
    pub open: Epoch,
    /// The epoch that commits.
    pub committing: Option<Epoch>,
    /// What epochs in memory add to the counts on the pages, where pages hold nothing that is not committed.
    pub pending_counts: PendingCounts,
    /// Where pages hold all that is committed, and may leave memory unwritten.
    pub committed: Option<Committed>,
    /// Records that were flushed are not there: only what is proved is served, and records count up to this epoch.
    pub proved_only: Option<Number>,
    /// Writes of parts of blocks.
    pub partial_writes: PartialWrites,
    /// What a recount sees of the map.
    pub window: Window,
    pub removals: Removals,
}

/// Fingerprints that go, by way of their pages.
#[derive(Default)]
pub(crate) struct Removals {
    /// Blocks whose entry is gone from the page in memory, by page: not yet sent.
    pub unsent: BTreeMap<PageId, Vec<Pbn>>,
    /// Blocks whose removal was sent, or awaits a flush.
    pub sent: u64,
}

impl Removals {
    /// Blocks that are on their way to be free.
    pub fn under_way(&self) -> u64 {
        count(self.unsent.values().map(Vec::len).sum::<usize>()) + self.sent
    }
}

impl Committed {
    /// These records, all up to this epoch; pages may hold what was committed up to `vouched`.
    pub fn new(records: Live, epoch: Number, vouched: Number) -> Self {
        Self { records, epoch, vouched, is_awaited: false, is_end_known: true }
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
            open: Epoch::new(next),
            committing: None,
            pending_counts: PendingCounts::default(),
            committed: None,
            proved_only: None,
            partial_writes: PartialWrites::default(),
            window: Window::default(),
            removals: Removals::default(),
        }
    }

    /// Whether some of what is committed may stand in no page ([`Committed`]); then pages in memory hold nothing else.
    pub fn has_records(&self) -> bool {
        self.committed.is_some()
    }

    /// What is committed and may stand in no page.
    ///
    /// # Panics
    /// Where pages are written as they change: only the scheme that has such records asks for them.
    pub fn committed(&mut self) -> &mut Committed {
        self.committed.as_mut().expect("only the log asks for records of its own")
    }

    /// The epoch that commits.
    ///
    /// # Panics
    /// When none does: a step of a commit asks.
    pub fn committing(&mut self) -> &mut Epoch {
        self.committing.as_mut().expect("a step belongs to a commit")
    }

    /// Pages may hold what was committed up to this epoch: those that wait for that are looked for at once.
    pub fn vouch_upto(&mut self, io: &Io, epoch: Number) {
        let committed = self.committed();
        committed.vouched = committed.vouched.max(epoch);
        if std::mem::take(&mut committed.is_awaited) {
            self.write_back_now(io);
        }
    }

    /// What the epochs in memory say of an LBN, and which of them says it.
    pub fn overlay(&self, lbn: Lbn) -> Option<(MapEntry, Number)> {
        let in_epoch = |epoch: &Epoch| epoch.lookup(lbn).map(|entry| (entry, epoch.number));
        in_epoch(&self.open).or_else(|| self.committing.as_ref().and_then(in_epoch))
    }

    /// What an LBN means now. `Err`: a map page has to come first. `Ok(None)`: that page cannot be read.
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

    /// The count of a block as clients' work so far has it. Its refs page is in memory.
    pub fn refs_now(&mut self, pbn: Pbn) -> u8 {
        let (id, at) = self.geometry.refs_of(pbn);
        let committed = self.pages.expect(id).content.refs(at);
        self.with_pending(pbn, committed)
    }

    /// The same, where the committed count is known. What the medium says may be less than what is taken from it: then nothing is known.
    pub fn with_pending(&self, pbn: Pbn, committed: u8) -> u8 {
        if committed == REFS_UNKNOWN {
            return committed;
        }
        u8::try_from(i16::from(committed).saturating_add(self.pending_counts.get(pbn))).unwrap_or(REFS_UNKNOWN)
    }

    /// The counts of blocks, from entry `at` of their refs page on. None where that is not in memory.
    pub fn counts(&mut self, refs: PageId, at: usize, first: Pbn, blocks: u64) -> Vec<(Pbn, u8)> {
        let Some(page) = self.pages.get(refs) else { return Vec::new() };
        let committed: Vec<u8> = (0..blocks).map(|i| page.content.refs(at + index(i))).collect();
        committed.into_iter().zip(first.0..).map(|(refs, pbn)| (Pbn(pbn), self.with_pending(Pbn(pbn), refs))).collect()
    }

    /// Whether a block counts something, as far as its page in memory says.
    pub fn is_linked(&mut self, pbn: Pbn) -> bool {
        let (id, at) = self.geometry.refs_of(pbn);
        self.pages.get(id).is_some_and(|page| !matches!(page.content.refs(at), 0 | REFS_UNKNOWN))
    }

    /// Whether an epoch in memory takes its fingerprint away.
    pub fn is_losing_its_name(&self, pbn: Pbn) -> bool {
        let goes = |epoch: &Epoch| epoch.removed.contains(&pbn);
        goes(&self.open) || self.committing.as_ref().is_some_and(goes)
    }
}
