//! Filling the index from the fingerprint table, newest allocation first, until all is in or the index is full.
//!
//! 1. What lies in the slots of carriers stands in the carriers alone, so these are read, a few at a time and so many a second: clients keep the
//!    device. Those of one page come before the next page.
//! 2. A carrier is pinned while it is read (R7), so what arrives is compared with the entry that asked for it.
//! 3. On its way the refill counts carriers. A page that it came by is counted from then on by who changes it.

use crate::buffer::BufferMut;
use crate::engine::{Engine, IoFor};
use crate::fingerprint::Fingerprint;
use crate::format::entry::Kind;
use crate::format::page::{PageId, Region};
use crate::format::unit;
use crate::interface::{Class, IoFailure, Notice};
use crate::pages::{Got, Task};
use crate::space::GRANULE_BLOCKS;
use crate::units::{Pbn, Time, count, index};

/// Pages taken in one step.
const PAGES_A_STEP: u64 = 16;
/// Pages asked for ahead.
const PAGES_AHEAD: u64 = 8;
/// Carriers read at once.
const CARRIERS_AT_ONCE: usize = 8;

/// How far the refill has come.
pub(crate) struct Refill {
    newest: u64,
    pages: u64,
    /// Pages seen, counted backwards from the newest.
    done: u64,
    entries: u64,
    pub waits: bool,
    finished: bool,
    /// Carriers of the page seen last that are still to be read, the newest at the end; how many are under way, and when the next may follow.
    unread: Vec<Pbn>,
    reading: usize,
    pause: Option<Time>,
    /// Carriers on the pages seen.
    carriers: u64,
    /// Part of a page could not be read.
    blind: bool,
}

impl Refill {
    pub fn new(newest: Pbn, pages: u64) -> Self {
        Self {
            newest: newest.0 / GRANULE_BLOCKS,
            pages,
            done: 0,
            entries: 0,
            waits: false,
            finished: false,
            unread: Vec::new(),
            reading: 0,
            pause: None,
            carriers: 0,
            blind: false,
        }
    }

    pub fn next_at(&self) -> Option<Time> {
        self.pause.filter(|_| !self.waits && !self.finished)
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
    pub(crate) fn refill_index(&mut self) {
        self.refill.waits = false;
        if self.refill.finished || self.stage != crate::commit::Stage::Serving {
            return;
        }
        let pages = self.refill.pages;
        for _ in 0..PAGES_A_STEP {
            if !self.refill.unread.is_empty() || self.refill.reading > 0 {
                return self.read_carriers();
            }
            if self.refill.done >= pages || self.index.len() == self.index.capacity() {
                self.refill.finished = true;
                self.notice(Notice::IndexRefilled { entries: self.refill.entries });
                return;
            }
            let id = self.refill.page(self.refill.done);
            let ahead = PAGES_AHEAD.min(self.pages.ahead_max()).min(pages - self.refill.done);
            if self.is_blank(id) {
                self.refill.done += 1;
                continue;
            }
            match self.ensure(id) {
                Got::Wait => {
                    for id in (1..ahead).map(|i| self.refill.page(self.refill.done + i)).collect::<Vec<_>>() {
                        if !self.is_blank(id) {
                            self.ensure(id);
                        }
                    }
                    self.refill.waits = true;
                    return self.wait(id, Task::Refill);
                }
                Got::Unreadable => self.refill.blind = true,
                Got::Ready => self.offer_page(id),
            }
            self.refill.done += 1;
        }
        self.more_background = true;
    }

    /// Whether an epoch in memory takes its fingerprint away.
    pub(crate) fn is_losing_its_name(&self, pbn: Pbn) -> bool {
        let goes = |epoch: &crate::epoch::Epoch| epoch.removed.contains(&pbn);
        goes(&self.open) || self.commit.as_ref().is_some_and(|commit| goes(&commit.epoch))
    }

    fn offer_page(&mut self, id: PageId) {
        let first = self.geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
        self.refill.blind |= self.pages.expect(id).damaged != 0;
        for i in 0..blocks {
            let entry = self.pages.expect(id).content.fingerprint(index(i));
            let pbn = first + i;
            if entry.is_none() || self.is_losing_its_name(pbn) {
                continue;
            }
            match entry.kind {
                Kind::Fingerprint if !self.suspects.contains(&pbn) => {
                    self.refill.entries += u64::from(self.index.offer(&entry.value, pbn));
                }
                Kind::Carrier => {
                    self.refill.carriers += 1;
                    self.refill.unread.push(pbn);
                }
                _ => {}
            }
        }
        // Nobody links to slots where promises name whole blocks.
        if self.settings.refill_carriers_per_second == 0 {
            self.refill.unread.clear();
        }
    }

    /// Reads the next carriers of the page that was seen last.
    fn read_carriers(&mut self) {
        if self.refill.reading > 0 {
            self.refill.waits = true;
            return;
        }
        if self.refill.pause.is_some_and(|until| self.now < until) {
            return;
        }
        self.refill.pause = None;
        // Most slots find their bucket filled when so much of the index is.
        if self.index.len() >= self.index.capacity() / 8 * 7 {
            self.refill.unread.clear();
        }
        let mut asked = 0;
        while let (Some(&pbn), true) = (self.refill.unread.last(), asked < CARRIERS_AT_ONCE) {
            let (id, at) = self.geometry.fingerprint_of(pbn);
            let entry = match self.ensure(id) {
                Got::Wait if asked > 0 => break,
                Got::Wait => {
                    self.refill.waits = true;
                    return self.wait(id, Task::Refill);
                }
                Got::Unreadable => None,
                Got::Ready => Some(self.pages.expect(id).content.fingerprint(at)),
            };
            self.refill.unread.pop();
            let Some(entry) = entry.filter(|entry| entry.kind == Kind::Carrier && !self.is_losing_its_name(pbn)) else { continue };
            if let Some(block) = self.in_memory(pbn) {
                self.refill.entries += self.offer_slots(pbn, block.block(0));
                continue;
            }
            asked += 1;
            self.pin(pbn);
            let at = self.geometry.block_at(pbn);
            self.read_in(IoFor::ReadForIndex { pbn, authenticator: entry.value }, at, 1, false, Class::Data);
        }
        self.refill.reading = asked;
        self.refill.waits = asked > 0;
        if asked > 0 {
            let ms = (count(asked) * 1000).div_ceil(self.settings.refill_carriers_per_second);
            self.refill.pause = Some(self.now.plus_ms(ms));
        } else {
            self.more_background = true;
        }
    }

    /// A carrier has arrived. One that is not what its entry says is left to whoever reads it.
    pub(crate) fn carrier_arrived(&mut self, pbn: Pbn, authenticator: Fingerprint, buffer: BufferMut, result: Result<(), IoFailure>) {
        let block = buffer.block(0);
        if result.is_ok() && unit::claims(block) == authenticator && self.authentic(pbn, block).is_some() {
            self.refill.entries += self.offer_slots(pbn, block);
        }
        self.unpin(pbn);
        self.refill.reading -= 1;
        if self.refill.reading == 0 {
            self.ready.push_back(Task::Refill);
        }
    }
}
