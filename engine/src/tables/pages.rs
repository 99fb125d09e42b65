//! The metadata pages in memory: refs, fingerprints, map and *written* bits, decoded, as many as the budget allows.
//!
//! 1. What a refs or fingerprint page in memory says may be written at any time, by anyone: increments enter at once (R2 lets counts be too
//!    high), decrements and fingerprints only after the commit that allows them (R3, R1).
//! 2. A map page in memory holds what the medium holds, but for the moment of a commit's step 2; the links of epochs not yet committed
//!    stand in the epoch (`epoch.rs`). In the log's mode all pages hold what is committed, written or not (`log/mod.rs`).
//! 3. At most one write of a page is in flight (R6), from a sealed copy that nobody changes.
//! 4. A page that is dirty or being written stays. Of the others the clock's hand takes those not used since its last round.

use crate::format::page::{PageContent, PageId, Region};
use crate::map::Map;
use crate::memory::{Accountant, Part};
use crate::schedule::Task;
use crate::units::{Time, count, index};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes charged for each page in memory.
const PAGE_COST_BYTES: u64 = 4096 + 160;

/// A decoded page.
pub(crate) struct Page {
    pub content: PageContent,
    /// Bit i: sector i had failed its check when it was read.
    pub damaged: u8,
    /// Since when it differs from what was last sent to the medium.
    pub dirty: Option<Time>,
    pub writing: bool,
    /// In the log's mode: it holds records that were not sent to the medium with it.
    pub unsaved: bool,
    /// The completion number of its last write in this run; 0 if there was none.
    pub stamp: u64,
    /// Its bit in *written* is set, on the medium or in memory.
    pub bit: bool,
}

/// What is known of a page here.
pub(crate) enum Slot {
    /// With whether it has been written before, and how often the device has failed to read it.
    Loading {
        waiters: Vec<Task>,
        written: bool,
        failures: u8,
    },
    Ready(Box<Page>),
    /// The device could not read it.
    Unreadable,
}

/// A page that was asked for, as far as it can be used now.
pub(crate) enum Access<'a> {
    Ready(Resident<'a>),
    /// It is not there yet; [`super::Tables::wait`] calls a task when it has come.
    Loading,
    Unreadable,
}

/// A page in memory. Taking it counts as a use of it, so that it stays longer.
pub(crate) struct Resident<'a> {
    page: &'a mut Page,
    used: &'a mut bool,
}

impl<'a> Resident<'a> {
    pub fn page(self) -> &'a mut Page {
        *self.used = true;
        self.page
    }
}

struct Place {
    id: PageId,
    used: bool,
    slot: Slot,
}

impl Place {
    /// Whether it may be given up: it is as the medium has it, or could not be read.
    fn is_idle(&self) -> bool {
        match &self.slot {
            Slot::Ready(page) => page.dirty.is_none() && !page.writing,
            Slot::Unreadable => true,
            Slot::Loading { .. } => false,
        }
    }
}

/// The page cache.
pub(crate) struct Pages {
    places: Map<PageId, usize>,
    slots: Vec<Option<Place>>,
    vacant: Vec<usize>,
    hand: usize,
    accountant: Arc<Accountant>,
    /// Dirty refs, fingerprint and *written* pages: what waits to be written.
    pub dirty: BTreeSet<PageId>,
    /// Pages first written in this run whose bit is not set yet.
    pub bit_pending: BTreeSet<PageId>,
}

impl Pages {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        Self {
            places: Map::default(),
            slots: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            accountant,
            dirty: BTreeSet::new(),
            bit_pending: BTreeSet::new(),
        }
    }

    fn place(&self, id: PageId) -> Option<&Place> {
        self.slots[*self.places.get(&id)?].as_ref()
    }

    fn place_mut(&mut self, id: PageId) -> Option<&mut Place> {
        self.slots[*self.places.get(&id)?].as_mut()
    }

    /// The page as far as it can be used.
    pub fn access(&mut self, id: PageId) -> Access<'_> {
        match self.place_mut(id) {
            Some(Place { used, slot: Slot::Ready(page), .. }) => Access::Ready(Resident { page, used }),
            Some(Place { slot: Slot::Loading { .. }, .. }) | None => Access::Loading,
            Some(Place { slot: Slot::Unreadable, .. }) => Access::Unreadable,
        }
    }

    /// The page, if it is in memory.
    pub fn get(&mut self, id: PageId) -> Option<&mut Page> {
        match self.access(id) {
            Access::Ready(resident) => Some(resident.page()),
            Access::Loading | Access::Unreadable => None,
        }
    }

    /// What the page holds, if it is in memory. That is no use of it: it may leave as soon as before.
    pub fn peek(&self, id: PageId) -> Option<&PageContent> {
        match &self.place(id)?.slot {
            Slot::Ready(page) => Some(&page.content),
            Slot::Loading { .. } | Slot::Unreadable => None,
        }
    }

    /// The page, which must be in memory.
    pub fn expect(&mut self, id: PageId) -> &mut Page {
        self.get(id).expect("the page was made sure of in this step")
    }

    pub fn slot_mut(&mut self, id: PageId) -> Option<&mut Slot> {
        self.place_mut(id).map(|place| &mut place.slot)
    }

    /// Whether anything is known of the page here: in memory, on its way, or unreadable.
    pub fn holds(&self, id: PageId) -> bool {
        self.places.contains_key(&id)
    }

    /// Puts something into a place of its own, or into the place it has.
    pub fn put(&mut self, id: PageId, slot: Slot) {
        let new = Some(Place { id, used: true, slot });
        if let Some(&place) = self.places.get(&id) {
            self.slots[place] = new;
            return;
        }
        self.accountant.take(Part::Pages, PAGE_COST_BYTES);
        let place = if let Some(place) = self.vacant.pop() {
            self.slots[place] = new;
            place
        } else {
            self.slots.push(new);
            self.slots.len() - 1
        };
        self.places.insert(id, place);
    }

    /// Marks a page as changed, to be written with or without delay. Map pages that a commit composes are written by it at once.
    pub fn touch(&mut self, id: PageId, now: Time) {
        if let Some(page) = self.get(id).filter(|page| page.dirty.is_none()) {
            page.dirty = Some(now);
            self.dirty.insert(id);
        }
    }

    /// Lets go of unused pages until the share is met. False if too many pages are dirty for that: someone must write.
    pub fn shrink(&mut self) -> bool {
        let mut looked = 0;
        while !self.accountant.within(Part::Pages) {
            if looked > 2 * self.slots.len() {
                return false;
            }
            looked += 1;
            self.hand = (self.hand + 1) % self.slots.len();
            let leaves = self.slots[self.hand].as_mut().is_some_and(|place| place.is_idle() && !std::mem::take(&mut place.used));
            if leaves {
                self.evict(self.hand);
            }
        }
        true
    }

    /// Lets go of all that is as the medium has it, and of what could not be read.
    pub fn evict_clean(&mut self) {
        for i in 0..self.slots.len() {
            if self.slots[i].as_ref().is_some_and(Place::is_idle) {
                self.evict(i);
            }
        }
    }

    fn evict(&mut self, i: usize) {
        let Some(place) = self.slots[i].take() else { return };
        self.places.remove(&place.id);
        self.vacant.push(i);
        self.accountant.give(Part::Pages, PAGE_COST_BYTES);
    }

    /// How many tasks may wait for pages at once, so that none loses its page before it runs.
    pub fn waiting_max(&self) -> usize {
        index(self.accountant.limit(Part::Pages) / PAGE_COST_BYTES / 8).max(4)
    }

    /// How many pages work in the background may ask for ahead of its need, so that it does not take the place of what clients wait for.
    pub fn ahead_max(&self) -> u64 {
        self.accountant.limit(Part::Pages) / PAGE_COST_BYTES / 16
    }

    /// Pages, but for those of *written*, that differ from what is on the medium for certain.
    pub fn unwritten(&self) -> impl Iterator<Item = PageId> + '_ {
        let is_so = |place: &&Place| matches!(&place.slot, Slot::Ready(page) if page.dirty.is_some() || page.writing);
        self.slots.iter().flatten().filter(is_so).map(|place| place.id).filter(|id| id.region != Region::Written)
    }

    /// Half of what fits may be dirty; beyond it, pages are written early.
    pub fn too_dirty(&self) -> bool {
        count(self.dirty.len()) * PAGE_COST_BYTES > self.accountant.limit(Part::Pages) / 2
    }
}
