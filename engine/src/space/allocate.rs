//! Handing out free blocks.

use crate::admit::WriteOp;
use crate::commit::Stage;
use crate::engine::Engine;
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::link::Blocked;
use crate::schedule::Task;
use crate::space::GRANULE_BLOCKS;
use crate::tables::Got;
use crate::tables::Wanted;
use crate::units::{Lbn, Pbn, count};

/// Free blocks that are kept ready.
const READY_BLOCKS: usize = 512;
/// Granules looked at in one step before the engine attends to other things.
const GRANULES_A_STEP: u64 = 64;

impl Engine {
    /// A free block for new content of `lbn`. Its refs page is in memory.
    pub(crate) fn allocate(&mut self, lbn: Lbn) -> Result<Pbn, Blocked> {
        if self.store_is_out() || !self.may_take_from_reserve(lbn)? {
            return Err(Blocked::Space);
        }
        // A commit comes first: with it the promises go.
        let promised = self.contents_promised();
        if promised > 0 && self.space.census.free <= promised {
            return Err(Blocked::Space);
        }
        let pbn = self.take_free_block().map_err(Blocked::Page)?.ok_or(Blocked::Space)?;
        self.space.store_left = self.space.store_left.saturating_sub(1);
        self.found_room();
        Ok(pbn)
    }

    /// A free block, if one is ready; its refs page is in memory. `Err`: that page has to come first.
    pub(crate) fn take_free_block(&mut self) -> Result<Option<Pbn>, PageId> {
        if self.space.ready.len() < READY_BLOCKS / 2 {
            self.prepare_free_blocks();
        }
        for _ in 0..self.space.ready.len() {
            let pbn = *self.space.ready.front().expect("it was counted");
            let (page, _) = self.geometry.refs_of(pbn);
            match self.tables.ensure(&mut self.io, page) {
                Got::Wait => return Err(page),
                Got::Unreadable => {
                    self.space.ready.pop_front();
                    continue;
                }
                Got::Ready => {}
            }
            self.space.ready.pop_front();
            if self.tables.refs_now(pbn) != 0 {
                continue;
            }
            if self.busy(pbn) {
                self.space.ready.push_back(pbn);
                continue;
            }
            // Reads of what it held are over, for it is not pinned.
            self.contents.cache.forget(pbn);
            self.medium.superblock.allocation_cursor = pbn;
            return Ok(Some(pbn));
        }
        Ok(None)
    }

    /// The last blocks of a thin volume are for overwrites: they give back what they take, once committed.
    fn may_take_from_reserve(&mut self, lbn: Lbn) -> Result<bool, Blocked> {
        if self.state.stage == Stage::Recalling {
            // What is recalled was let in before, when there was room.
            return Ok(true);
        }
        if self.has_more_than_reserve() {
            return Ok(true);
        }
        match self.tables.lookup(&mut self.io, lbn) {
            Ok(entry) => Ok(entry.is_some_and(|e| e.pbn().is_some()) || self.may_journal_take_from_reserve(lbn)),
            Err(page) => Err(Blocked::Page(page)),
        }
    }

    /// Fills the list of free blocks, as far as pages in memory allow.
    pub(crate) fn prepare_free_blocks(&mut self) {
        let mut looked = 0;
        while self.space.ready.len() < READY_BLOCKS && self.space.fruitless <= self.space.granules() {
            let granule = match self.space.preparing {
                Some(granule) => granule,
                None => {
                    looked += 1;
                    if looked > GRANULES_A_STEP {
                        return;
                    }
                    let granule = self.space.cursor % self.space.granules();
                    self.space.cursor = granule + 1;
                    self.space.fruitless += 1;
                    let page = self.geometry.refs_of(Pbn(granule * GRANULE_BLOCKS)).0;
                    if self.space.known_full(page.index) {
                        continue;
                    }
                    self.space.preparing = Some(granule);
                    granule
                }
            };
            if !self.look_at_granule(granule) {
                return;
            }
            self.space.preparing = None;
        }
        self.wake_space_waiters();
    }

    /// Takes the free blocks of a granule. False: a page has to come first.
    fn look_at_granule(&mut self, granule: u64) -> bool {
        let first = Pbn(granule * GRANULE_BLOCKS);
        let (refs, at) = self.geometry.refs_of(first);
        match self.tables.ensure(&mut self.io, refs) {
            Got::Wait => {
                self.tables.wait(&mut self.io, refs, Task::Allocate);
                return false;
            }
            Got::Unreadable => return true,
            Got::Ready => {}
        }
        let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
        let free: Vec<u64> =
            self.tables.counts(refs, at, first, blocks).into_iter().filter(|&(_, refs)| refs == 0).map(|(pbn, _)| pbn - first).collect();
        if free.is_empty() {
            return true;
        }
        let names = PageId { region: Region::Fingerprints, index: granule };
        match self.tables.ensure(&mut self.io, names) {
            Got::Wait => {
                self.tables.wait(&mut self.io, names, Task::Allocate);
                return false;
            }
            Got::Unreadable => return true,
            Got::Ready => {}
        }
        // Few are ready already, if any: a granule comes round again only when the volume is nearly full.
        let ready: Vec<Pbn> = self.space.ready.iter().copied().filter(|pbn| pbn.0 / GRANULE_BLOCKS == granule).collect();
        for i in free {
            let pbn = first + i;
            if ready.contains(&pbn) {
                continue;
            }
            if self.busy(pbn) {
                self.space.passed_over = true;
                continue;
            }
            if self.tables.pages.expect(names).content.fingerprint(crate::units::index(i)).is_none() {
                self.space.ready.push_back(pbn);
                self.space.changes += 1;
                self.space.fruitless = 0;
            } else {
                self.io.notice(Notice::Damage { what: "a free block has a fingerprint", at: pbn.0 });
            }
        }
        true
    }

    /// A block's count fell to zero: it may be handed out again.
    pub(crate) fn freed(&mut self, pbn: Pbn) {
        self.space.changes += 1;
        self.space.fruitless = 0;
        self.space.trials_left = self.space.granules();
        if self.settings.discard_freed {
            self.space.freed.insert(pbn);
        }
    }

    /// Calls the writers that wait for a block, once after each change that may help them: a free block may yet be kept for overwrites.
    pub(crate) fn wake_space_waiters(&mut self) {
        if self.space.changes == self.space.changes_tried {
            return;
        }
        self.space.changes_tried = self.space.changes;
        while let Some(op) = self.space.waiters.pop_front() {
            self.io.schedule.push(Task::Write(op));
        }
    }

    /// Writers wait for a block: first blocks that are free but not ready, then what a commit frees, then what is kept for dedup alone.
    /// When nothing of that is left, they get ENOSPC.
    pub(crate) fn find_space_for_waiters(&mut self) {
        if self.space.waiters.is_empty() || self.store_may_have_more() {
            return;
        }
        self.prepare_free_blocks();
        if self.space.waiters.is_empty() || !self.io.schedule.ready.is_empty() || self.space.preparing.is_some() {
            return;
        }
        let looking = self.space.fruitless <= self.space.granules() && self.space.census.free > 0;
        if looking && self.space.ready.is_empty() {
            self.io.schedule.more_background = true;
            return;
        }
        if self.scheme.log.is_some()
            && self.scheme.commit.is_none()
            && self.tables.open.is_empty()
            && self.scheme.settle.is_empty()
            && self.checkpoint_frees_blocks()
        {
            return;
        }
        if self.scheme.commit.is_some() || !self.scheme.settle.is_empty() || self.space.reclaim.in_progress(&self.tables.removals) {
            return;
        }
        if !self.tables.open.is_empty() {
            self.tables.open.wanted.get_or_insert(Wanted::Space);
            return;
        }
        if self.reclaim_for_waiters() || !self.space.scan_complete() || self.background.recount.running() {
            return;
        }
        if self.in_flight_frees_blocks() {
            return;
        }
        // One last try for all: what lies under a partial write may have changed since it began, and with it what the write holds on to.
        if self.space.last_try != self.space.changes {
            self.space.changes += 1;
            self.space.last_try = self.space.changes;
            return self.wake_space_waiters();
        }
        self.no_room_for_waiters();
    }

    /// Whether something in flight may yet free a block, or lets a free one be used.
    fn in_flight_frees_blocks(&self) -> bool {
        let pinned_by = |w: &WriteOp| usize::from(w.pinned.is_some()) + usize::from(w.pinned_other.is_some());
        let by_waiters: usize = self.space.waiters.iter().filter_map(|&op| self.requests.writes.get(op)).map(pinned_by).sum();
        let pins: u32 = self.space.pins.values().sum();
        !self.space.fresh.is_empty() || count(by_waiters) < u64::from(pins)
    }
}
