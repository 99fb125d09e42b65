//! The recount: after a crash some blocks' counts are higher than their links (P5); it finds the excess and returns it, online.
//!
//! 1. It goes by windows of PBNs. For each window the whole map is walked once and its links are counted, while commits go on: a change to a
//!    map page that was walked already changes the counts with it (`relinked`), so they are always those of the walked pages as they are now.
//! 2. Then each granule of the window is compared, at a moment when no commit, decrement or reclaim is under way: what the count on the refs
//!    page exceeds its links, its fingerprint and the open epoch's links by, is excess, and the count *falls by it*; nothing is ever set. In
//!    the log's mode any moment will do: pages in memory hold what is committed, and nothing else.
//! 3. Less than its links is damage. If any page of the walk could not be read whole, nothing is lowered.
//! 4. Only a finished recount clears *garbage possible*. In the log's mode, where no crash sets it again, it goes when the lowered pages, and the
//!    bits that a crash had taken, are durable: with a checkpoint that began after the recount, or with a clean close.
//! 5. Until then a crash may bring back the excess of a page, and what the log's records count is added to it. So what was returned is no room for
//!    links yet (`link_limit`), and a block without room for a new one is kept out of use.

use crate::engine::Engine;
use crate::format::entry::{MapEntry, REFS_MAX, REFS_UNKNOWN, SLOT_MAX};
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::io::Stage;
use crate::memory::Part;
use crate::schedule::Task;
use crate::space::GRANULE_BLOCKS;
use crate::tables::Got;
use crate::units::{Lbn, Pbn, Time, index};

/// Pages walked at one go.
const PAGES_A_STEP: u64 = 64;
/// Pages asked for ahead.
const PAGES_AHEAD: u64 = 16;
/// What a block counts at most when it begins, unless it is told how much room there is: a link for each slot of a pack, and one for its name.
const NEW_COUNT_MAX: u8 = SLOT_MAX + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// Nothing to do, or not begun.
    Idle,
    /// The next map page.
    Map(u64),
    /// The next granule to compare.
    Compare(u64),
}

/// A recount in progress.
pub(crate) struct Recount {
    needed: bool,
    walk: Walk,
    window: Pbn,
    window_end: Pbn,
    /// Links of each block of the window, by the map pages walked so far; 255 stands for more than a count can hold.
    links: Vec<u16>,
    /// Something could not be read: nothing may be lowered.
    blind: bool,
    returned: u64,
    /// The most that the recount took from one count, while that is not durable.
    returned_most: u8,
    /// Blocks that stay pinned until then, because their counts have no room (`link_limit`).
    kept: Vec<Pbn>,
    pub waits: bool,
    /// It is finished, and the superblock does not say so yet.
    pub is_unsaid: bool,
    /// Not before that, so that clients keep the device.
    pause: Option<Time>,
}

impl Recount {
    /// `needed` where garbage is possible; `from` is where a clean detach had interrupted it.
    pub fn new(needed: bool, from: Pbn) -> Self {
        Self {
            needed,
            walk: Walk::Idle,
            window: from,
            window_end: from,
            links: Vec::new(),
            blind: false,
            returned: 0,
            returned_most: 0,
            kept: Vec::new(),
            waits: false,
            is_unsaid: false,
            pause: None,
        }
    }

    pub fn running(&self) -> bool {
        self.needed && !self.blind
    }

    /// The window to begin with next time.
    pub fn position(&self) -> Pbn {
        self.window
    }

    pub fn next_at(&self) -> Option<Time> {
        if self.running() && !self.waits { self.pause } else { None }
    }

    /// A map entry changed in memory.
    pub fn relinked(&mut self, lbn: Lbn, old: Option<Pbn>, new: Option<Pbn>) {
        let walked = match self.walk {
            Walk::Idle => false,
            Walk::Map(next) => lbn.0 / Region::Map.entries_per_page() < next,
            Walk::Compare(_) => true,
        };
        if walked {
            if let Some(links) = old.and_then(|pbn| self.links_of(pbn)) {
                *links -= 1;
            }
            if let Some(links) = new.and_then(|pbn| self.links_of(pbn)) {
                *links += 1;
            }
        }
    }

    fn links_of(&mut self, pbn: Pbn) -> Option<&mut u16> {
        (self.window <= pbn && pbn < self.window_end).then(|| &mut self.links[index(pbn - self.window)])
    }
}

impl Engine {
    /// Does a little of the recount, if one is due.
    pub(crate) fn recount(&mut self) {
        self.background.recount.waits = false;
        // What is recalled may need a block that only this gives back.
        let is_time =
            self.store.io.stage == Stage::Serving || self.store.io.stage == Stage::Recalling && !self.store.space.waiters.is_empty();
        if !self.background.recount.running() || !is_time || self.store.io.failed || self.store.io.read_only {
            return;
        }
        if self.background.recount.pause.is_some_and(|until| self.store.io.now < until) && self.store.space.waiters.is_empty() {
            return;
        }
        self.background.recount.pause = None;
        match self.background.recount.walk {
            Walk::Idle => self.begin_window(),
            Walk::Map(next) => self.walk_map(next),
            Walk::Compare(next) => self.compare(next),
        }
    }

    fn begin_window(&mut self) {
        let blocks = self.store.geometry.data_blocks;
        if self.background.recount.window.0 >= blocks {
            return self.recounted();
        }
        // Whole granules, so that one comparison needs one refs page and one fingerprint page.
        let room = (self.store.memory.accountant.limit(Part::Work) / 2 / 2).min(self.store.settings.recount_window_blocks);
        let granules = (room / GRANULE_BLOCKS).max(1);
        let first = self.background.recount.window.0 / GRANULE_BLOCKS * GRANULE_BLOCKS;
        self.background.recount.window = Pbn(first);
        self.background.recount.window_end = Pbn((first + granules * GRANULE_BLOCKS).min(blocks));
        self.background.recount.links.clear();
        self.background.recount.links.resize(index(self.background.recount.window_end - self.background.recount.window), 0);
        self.background.recount.walk = Walk::Map(0);
        self.store.io.schedule.more_background = true;
    }

    fn walk_map(&mut self, mut next: u64) {
        let pages = self.store.geometry.pages(Region::Map);
        for _ in 0..PAGES_A_STEP {
            if next >= pages {
                self.background.recount.walk = Walk::Compare(self.background.recount.window.0 / GRANULE_BLOCKS);
                self.store.io.schedule.more_background = true;
                return;
            }
            let id = PageId { region: Region::Map, index: next };
            if !self.store.tables.is_blank(&mut self.store.io, id) {
                match self.store.tables.ensure(&mut self.store.io, id) {
                    Got::Wait => {
                        (1..PAGES_AHEAD.min(self.store.tables.pages.ahead_max()).min(pages - next)).for_each(|i| {
                            let ahead = PageId { region: Region::Map, index: next + i };
                            if !self.store.tables.is_blank(&mut self.store.io, ahead) {
                                self.store.tables.ensure(&mut self.store.io, ahead);
                            }
                        });
                        self.background.recount.waits = true;
                        return self.store.tables.wait(&mut self.store.io, id, Task::Recount);
                    }
                    Got::Unreadable => return self.recount_blind(),
                    Got::Ready => {}
                }
                let page = self.store.tables.pages.expect(id);
                if page.damaged != 0 {
                    return self.recount_blind();
                }
                for i in 0..index(Region::Map.entries_per_page()) {
                    if let MapEntry::Block { pbn, .. } = self.store.geometry.known(page.content.map(i)) {
                        if let Some(links) = self.background.recount.links_of(pbn) {
                            *links += 1;
                        }
                    }
                }
            }
            next += 1;
            self.background.recount.walk = Walk::Map(next);
        }
        let ms = (PAGES_A_STEP * 1000).div_ceil(self.store.settings.recount_pages_per_second.max(1));
        self.background.recount.pause = Some(self.store.io.now.plus_ms(ms));
    }

    /// Compares granules, one at each moment at which that is exact.
    fn compare(&mut self, granule: u64) {
        let in_log = self.scheme.log.is_some();
        if !in_log
            && (self.scheme.commit.is_some()
                || !self.scheme.settle.is_empty()
                || self.store.space.reclaim.in_progress(&self.store.tables.removals))
        {
            self.background.recount.pause = Some(self.store.io.now.plus_ms(1));
            return;
        }
        let first = Pbn(granule * GRANULE_BLOCKS);
        if first >= self.background.recount.window_end {
            self.background.recount.window = self.background.recount.window_end;
            self.background.recount.walk = Walk::Idle;
            self.store.io.schedule.more_background = true;
            return;
        }
        let names = PageId { region: Region::Fingerprints, index: granule };
        let (refs, at) = self.store.geometry.refs_of(first);
        for id in [names, refs] {
            match self.store.tables.ensure(&mut self.store.io, id) {
                Got::Wait => {
                    self.background.recount.waits = true;
                    return self.store.tables.wait(&mut self.store.io, id, Task::Recount);
                }
                Got::Unreadable => return self.recount_blind(),
                Got::Ready if self.store.tables.pages.expect(id).damaged != 0 => return self.recount_blind(),
                Got::Ready => {}
            }
        }
        let end = Pbn((first.0 + GRANULE_BLOCKS).min(self.background.recount.window_end.0));
        // What the open epoch adds to counts. With a log that stands beside the pages.
        let mut open = vec![0u16; index(end - first)];
        let linked = self.store.tables.open.points.values().filter_map(|entry| entry.pbn());
        let opened = linked.chain(self.store.tables.open.cancelled.iter().copied()).chain(self.store.tables.open.named.keys().copied());
        opened.filter(|&pbn| !in_log && first <= pbn && pbn < end).for_each(|pbn| open[index(pbn - first)] += 1);
        for pbn in (first.0..end.0).map(Pbn) {
            let i = index(pbn - first);
            let count = self.store.tables.pages.expect(refs).content.refs(at + i);
            if count == REFS_UNKNOWN {
                continue;
            }
            let named = u16::from(!self.store.tables.pages.expect(names).content.fingerprint(i).is_none());
            let waits = u16::from(!in_log && self.store.space.fresh.get(pbn).is_some_and(|f| f.waits));
            let links = *self.background.recount.links_of(pbn).expect("the granule lies in the window") + open[i] + named + waits;
            match i16::try_from(i32::from(count) - i32::from(links)).expect("both are small") {
                0 => {}
                excess if excess > 0 => {
                    let excess = u8::try_from(excess).expect("it is part of a count");
                    self.background.recount.returned += u64::from(excess);
                    self.background.recount.returned_most = self.background.recount.returned_most.max(excess);
                    if self.scheme.log.is_some() && excess > REFS_MAX - NEW_COUNT_MAX {
                        self.store.space.pin(pbn);
                        self.background.recount.kept.push(pbn);
                    }
                    self.return_excess(pbn, -i16::from(excess));
                }
                _ => self.store.io.notice(Notice::Damage { what: "a block has more links than its count says", at: pbn.0 }),
            }
        }
        self.background.recount.walk = Walk::Compare(granule + 1);
        self.store.io.schedule.more_background = true;
    }

    /// The most links, with its name, that a block may have for one more to be made.
    ///
    /// In the log's mode a crash may bring back excess that a recount took from a page, and what its records count is added to that: until the page is
    /// durable, there is no room where it was.
    pub(crate) fn link_limit(&self) -> u8 {
        let may_come_back = if self.scheme.log.is_some() { self.background.recount.returned_most } else { 0 };
        self.store.settings.refs_limit.min(REFS_MAX - may_come_back)
    }

    /// What a recount has returned is durable.
    pub(crate) fn recount_is_durable(&mut self) {
        self.background.recount.is_unsaid = false;
        self.background.recount.returned_most = 0;
        self.medium.superblock.garbage_possible = false;
        std::mem::take(&mut self.background.recount.kept).into_iter().for_each(|pbn| self.store.space.unpin(pbn));
    }

    /// What no record made, none unmakes: it leaves the page itself, in the log's mode too.
    fn return_excess(&mut self, pbn: Pbn, by: i16) {
        if self.scheme.log.is_none() {
            return self.store.space.change_refs(&mut self.store.io, &mut self.store.tables, pbn, by);
        }
        let (id, at) = self.store.geometry.refs_of(pbn);
        let before = self.store.tables.refs_now(pbn);
        let page = self.store.tables.pages.expect(id);
        let less = |refs: u8| u8::try_from(i16::from(refs) + by).expect("an excess is part of the count");
        page.content.set_refs(at, less(page.content.refs(at)));
        self.store.tables.pages.touch(id, self.store.io.now);
        self.store.space.counted(id.index, pbn, before, less(before), self.store.space.is_of_scheme(pbn));
        if less(before) == 0 {
            self.store.space.freed(pbn);
        }
    }

    fn recount_blind(&mut self) {
        self.background.recount.blind = true;
        self.background.recount.walk = Walk::Idle;
        self.background.recount.links = Vec::new();
        self.store.io.notice(Notice::Damage {
            what: "a recount could not read all pages, so it lowered nothing more",
            at: self.background.recount.window.0,
        });
    }

    fn recounted(&mut self) {
        if self.medium.is_busy && self.scheme.log.is_none() {
            self.background.recount.pause = Some(self.store.io.now.plus_ms(1));
            return;
        }
        self.background.recount.needed = false;
        self.background.recount.links = Vec::new();
        self.background.recount.window = Pbn(0);
        self.background.recount.window_end = Pbn(0);
        self.store.tables.bits_exact = true;
        self.medium.superblock.recount_position = Pbn(0);
        self.store.io.notice(Notice::Recounted { blocks: self.background.recount.returned });
        if self.scheme.log.is_some() {
            self.background.recount.is_unsaid = true;
            return self.begin_checkpoint();
        }
        self.medium.superblock.garbage_possible = false;
        self.write_superblock();
        self.refill_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a clean detach writes down is what the next opening is given.
    #[test]
    fn an_interrupted_recount_goes_on_with_its_window() {
        let from = Pbn(3 << 20);
        let recount = Recount::new(true, from);
        assert_eq!((recount.position(), recount.running()), (from, true));
    }
}
