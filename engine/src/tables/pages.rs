//! The page cache: decoded pages of refs, fingerprints, map and *written* bits, as many as the budget allows.
//!
//! 1. A refs or fingerprint page in memory may be written at any time. Increments enter it at once (R2 lets counts be too high); decrements
//!    and fingerprints enter only after the commit that allows them (R3, R1).
//! 2. A map page in memory equals the one on the medium, except during step 2 of a commit; the links of epochs that are not yet committed
//!    are in the epoch (`epoch.rs`). In mode `log`, pages hold everything that is committed and nothing else.
//! 3. At most one write of a page is in flight (R6). It writes a sealed copy, which never changes.
//! 4. A page that is dirty or being written stays. The clock's hand evicts others that were not used since its last round.

use crate::format::page::{PageContent, PageId, Region};
use crate::map::Map;
use crate::memory::{Accountant, Part};
use crate::schedule::Task;
use crate::units::{Time, count, index};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes charged for each page in memory.
const PAGE_COST_BYTES: u64 = 4096 + 160;

/// A decoded page.
pub(crate) struct Page {
    pub content: PageContent,
    /// Bit i is set if sector i failed its check when the page was read.
    pub damaged: u8,
    /// Since when the page differs from what was last sent to the medium.
    pub dirty: Option<Time>,
    pub writing: bool,
    /// In mode `log`: the page holds records that have not been sent to the medium with it.
    pub unsaved: bool,
    /// The completion number of the page's last write in this run; 0 if there was none.
    pub stamp: u64,
    /// The page's bit in *written* is set, on the medium or in memory.
    pub bit: bool,
}

impl Page {
    /// Notes that a record has changed the page in memory, which the medium lacks.
    pub fn lacks_save(&mut self) {
        self.unsaved = true;
    }

    /// Begins a write of the page as it is.
    ///
    /// # Panics
    /// When one is under way: there is one write of a page at a time (R6).
    pub fn begin_write(&mut self) {
        assert!(!self.writing, "one write of a page at a time (R6)");
        (self.dirty, self.unsaved, self.writing) = (None, false, true);
    }

    /// Takes the end of a write.
    pub fn write_ended(&mut self) {
        self.writing = false;
    }

    /// Notes the number of a write that has succeeded.
    pub fn is_written(&mut self, number: u64) {
        self.stamp = number;
    }

    /// Notes that its *written* bit is set.
    pub fn gets_bit(&mut self) {
        self.bit = true;
    }
}

/// The state of a page in the cache.
pub(crate) enum PageState {
    /// The page is being read.
    Loading {
        waiters: Vec<Task>,
        /// The page has been written before, as far as is known.
        written: bool,
        /// The number of times that the device has failed to read the page.
        failures: u8,
    },
    Ready(Box<Page>),
    /// The device could not read the page.
    Unreadable,
}

/// Whether a page that was asked for can be used now.
pub(crate) enum Access<'a> {
    Ready(Resident<'a>),
    /// The page is not in memory yet; [`super::Tables::wait`] calls a task when it is.
    Loading,
    Unreadable,
}

impl Access<'_> {
    /// Uses the page; one with damaged sectors counts as one that the device could not read.
    pub fn undamaged(self) -> Self {
        match self {
            Access::Ready(resident) => {
                *resident.used = true;
                if resident.page.damaged == 0 { Access::Ready(resident) } else { Access::Unreadable }
            }
            other => other,
        }
    }
}

/// A page in memory. Only [`Resident::page`] and [`Access::undamaged`] count as a use of the page, after which it stays longer.
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

struct CachedPage {
    id: PageId,
    used: bool,
    slot: PageState,
}

impl CachedPage {
    /// Whether the page may be evicted: it equals the one on the medium, or could not be read.
    fn is_idle(&self) -> bool {
        match &self.slot {
            PageState::Ready(page) => page.dirty.is_none() && !page.writing,
            PageState::Unreadable => true,
            PageState::Loading { .. } => false,
        }
    }
}

/// The page cache.
pub(crate) struct Pages {
    places: Map<PageId, usize>,
    /// The page of each region that was found last, by its number, and its place.
    last: [Cell<Option<(u64, usize)>>; Region::ALL.len()],
    slots: Vec<Option<CachedPage>>,
    vacant: Vec<usize>,
    hand: usize,
    accountant: Arc<Accountant>,
    /// Dirty refs, fingerprint and *written* pages, which wait to be written.
    pub dirty: BTreeSet<PageId>,
    /// Pages that were first written in this run and whose bit is not set yet.
    pub bit_pending: BTreeSet<PageId>,
}

impl Pages {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        Self {
            places: Map::default(),
            last: Default::default(),
            slots: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            accountant,
            dirty: BTreeSet::new(),
            bit_pending: BTreeSet::new(),
        }
    }

    /// The number of the place of a page that is in memory, being read, or known to be unreadable.
    pub fn find(&self, id: PageId) -> Option<usize> {
        let last = &self.last[id.region as usize];
        if let Some((_, place)) = last.get().filter(|&(last, _)| last == id.index) {
            return Some(place);
        }
        let place = self.places.get(&id).copied();
        last.set(place.map(|place| (id.index, place)));
        place
    }

    /// Whether the page in this place can be used now.
    pub fn at(&mut self, place: usize) -> Access<'_> {
        match &mut self.slots[place] {
            Some(CachedPage { used, slot: PageState::Ready(page), .. }) => Access::Ready(Resident { page, used }),
            Some(CachedPage { slot: PageState::Loading { .. }, .. }) | None => Access::Loading,
            Some(CachedPage { slot: PageState::Unreadable, .. }) => Access::Unreadable,
        }
    }

    /// The page, if it is in memory.
    pub fn get(&mut self, id: PageId) -> Option<&mut Page> {
        let place = self.find(id)?;
        match self.at(place) {
            Access::Ready(resident) => Some(resident.page()),
            Access::Loading | Access::Unreadable => None,
        }
    }

    /// The content of the page, if it is in memory. This does not count as a use of the page.
    pub fn peek(&self, id: PageId) -> Option<&PageContent> {
        match &self.slots[self.find(id)?].as_ref()?.slot {
            PageState::Ready(page) => Some(&page.content),
            PageState::Loading { .. } | PageState::Unreadable => None,
        }
    }

    /// The page, which must be in memory.
    ///
    /// # Panics
    /// When the caller has not had access to the page in this step.
    pub fn expect(&mut self, id: PageId) -> &mut Page {
        self.get(id).expect("the caller had access to this page in this step")
    }

    pub fn slot_mut(&mut self, id: PageId) -> Option<&mut PageState> {
        let place = self.find(id)?;
        self.slots[place].as_mut().map(|place| &mut place.slot)
    }

    /// Whether the page is in memory, being read, or known to be unreadable.
    pub fn holds(&self, id: PageId) -> bool {
        self.places.contains_key(&id)
    }

    /// Sets the state of a page, in the place that it has or in a new one.
    pub fn put(&mut self, id: PageId, slot: PageState) {
        let new = Some(CachedPage { id, used: true, slot });
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

    /// Marks a page, which is in memory, as changed, and returns it. It is written after the delay, or earlier. A commit writes the map
    /// pages that it composes at once.
    ///
    /// # Panics
    /// When the page is not in memory.
    pub fn touch(&mut self, id: PageId, now: Time) -> &mut Page {
        let place = self.find(id).and_then(|place| self.slots[place].as_mut());
        let Some(CachedPage { used, slot: PageState::Ready(page), .. }) = place else { unreachable!("only a page in memory changes") };
        *used = true;
        if page.dirty.is_none() {
            page.dirty = Some(now);
            self.dirty.insert(id);
        }
        page
    }

    /// Evicts unused pages until the cache is within its share. Returns false if too many pages are dirty: some must be written first.
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

    /// Evicts all pages that equal those on the medium, and those that could not be read.
    pub fn evict_clean(&mut self) {
        for i in 0..self.slots.len() {
            if self.slots[i].as_ref().is_some_and(CachedPage::is_idle) {
                self.evict(i);
            }
        }
    }

    #[inline(never)]
    fn evict(&mut self, i: usize) {
        let Some(place) = self.slots[i].take() else { return };
        self.places.remove(&place.id);
        self.last[place.id.region as usize].set(None);
        self.vacant.push(i);
        self.accountant.give(Part::Pages, PAGE_COST_BYTES);
    }

    /// The number of tasks that may wait for pages at once without losing their pages before they run.
    pub fn waiting_max(&self) -> usize {
        index(self.accountant.limit(Part::Pages) / PAGE_COST_BYTES / 8).max(4)
    }

    /// The number of pages that a background job may read ahead without evicting pages that clients wait for.
    pub fn ahead_max(&self) -> u64 {
        self.accountant.limit(Part::Pages) / PAGE_COST_BYTES / 16
    }

    /// Pages, other than those of *written*, that may differ from the medium.
    pub fn unwritten(&self) -> impl Iterator<Item = PageId> + '_ {
        let is_so = |place: &&CachedPage| matches!(&place.slot, PageState::Ready(page) if page.dirty.is_some() || page.writing);
        self.slots.iter().flatten().filter(is_so).map(|place| place.id).filter(|id| id.region != Region::Written)
    }

    /// Whether more than half of the share is dirty, so that pages are written early.
    pub fn too_dirty(&self) -> bool {
        count(self.dirty.len()) * PAGE_COST_BYTES > self.accountant.limit(Part::Pages) / 2
    }
}
