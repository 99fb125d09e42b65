//! Filling the index from the fingerprint table, newest allocation first, until all is in or the index is full.

use crate::engine::Engine;
use crate::format::entry::Kind;
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::pages::{Got, Task};
use crate::space::GRANULE_BLOCKS;
use crate::units::{Pbn, index};

/// Pages taken in one step.
const PAGES_A_STEP: u64 = 16;
/// Pages asked for ahead.
const PAGES_AHEAD: u64 = 8;

/// How far the refill has come.
pub(crate) struct Refill {
    newest: u64,
    /// Pages seen, counted backwards from the newest.
    done: u64,
    entries: u64,
    pub waits: bool,
    finished: bool,
}

impl Refill {
    pub fn new(newest: Pbn) -> Self {
        Self { newest: newest.0 / GRANULE_BLOCKS, done: 0, entries: 0, waits: false, finished: false }
    }
}

impl Engine {
    pub(crate) fn refill_index(&mut self) {
        self.refill.waits = false;
        if self.refill.finished || self.stage != crate::commit::Stage::Serving {
            return;
        }
        let pages = self.geometry.pages(Region::Fingerprints);
        for _ in 0..PAGES_A_STEP {
            if self.refill.done >= pages || self.index.len() == self.index.capacity() {
                self.refill.finished = true;
                self.notice(Notice::IndexRefilled { entries: self.refill.entries });
                return;
            }
            let page = |back: u64| {
                let number = (self.refill.newest + pages - back % pages) % pages;
                PageId { region: Region::Fingerprints, index: number }
            };
            let id = page(self.refill.done);
            let ahead: Vec<PageId> =
                (1..PAGES_AHEAD.min(self.pages.ahead_max()).min(pages - self.refill.done)).map(|i| page(self.refill.done + i)).collect();
            if self.is_blank(id) {
                self.refill.done += 1;
                continue;
            }
            match self.ensure(id) {
                Got::Wait => {
                    for id in ahead {
                        if !self.is_blank(id) {
                            self.ensure(id);
                        }
                    }
                    self.refill.waits = true;
                    return self.wait(id, Task::Refill);
                }
                Got::Unreadable => {}
                Got::Ready => self.offer_page(id),
            }
            self.refill.done += 1;
        }
        self.more_background = true;
    }

    /// Whether an epoch in memory takes its fingerprint away.
    fn is_losing_its_name(&self, pbn: Pbn) -> bool {
        let goes = |epoch: &crate::epoch::Epoch| epoch.removed.contains(&pbn);
        goes(&self.open) || self.commit.as_ref().is_some_and(|commit| goes(&commit.epoch))
    }

    fn offer_page(&mut self, id: PageId) {
        let first = self.geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
        for i in 0..blocks {
            let entry = self.pages.expect(id).content.fingerprint(index(i));
            let pbn = first + i;
            if entry.kind == Kind::Fingerprint
                && !self.suspects.contains(&pbn)
                && !self.is_losing_its_name(pbn)
                && self.index.offer(&entry.value, pbn)
            {
                self.refill.entries += 1;
            }
        }
    }
}
