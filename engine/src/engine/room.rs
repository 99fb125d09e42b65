//! Writers that wait for a block, and how one is found for them.

use crate::admit::WriteOp;
use crate::engine::Engine;
use crate::schedule::Task;
use crate::store::Store;
use crate::tables::Wanted;
use crate::units::count;

impl Engine {
    /// Writers wait for a block: first blocks that are free but not ready, then what a commit frees, then what is kept for dedup alone.
    /// When nothing of that is left, they get ENOSPC.
    pub(crate) fn find_space_for_waiters(&mut self) {
        let Store { io, tables, space, .. } = &mut self.store;
        if space.waiters.is_empty() || space.store_may_have_more(io.stage) {
            return;
        }
        space.prepare_free_blocks(io, tables);
        if space.waiters.is_empty() || !io.schedule.ready.is_empty() || space.preparing.is_some() {
            return;
        }
        let looking = space.fruitless <= space.granules() && space.census.free > 0;
        if looking && space.ready.is_empty() {
            io.schedule.more_background = true;
            return;
        }
        let is_idle = tables.committing.is_none() && tables.open.is_empty() && self.store.settle.is_empty();
        if self.scheme.log.is_some() && is_idle && self.checkpoint_frees_blocks() {
            return;
        }
        if self.store.tables.committing.is_some()
            || !self.store.settle.is_empty()
            || self.store.space.reclaim.in_progress(&self.store.tables.removals)
        {
            return;
        }
        if !self.store.tables.open.is_empty() {
            self.store.tables.open.wanted.get_or_insert(Wanted::Space);
            return;
        }
        let is_chosen = self.store.space.reclaim_for_waiters(&mut self.store.io, &self.store.tables.removals);
        if is_chosen || !self.store.space.scan_complete() || self.background.recount.running() {
            return;
        }
        if self.in_flight_frees_blocks() {
            return;
        }
        // One last try for all: what lies under a partial write may have changed since it began, and with it what the write holds on to.
        if self.store.space.last_try != self.store.space.changes {
            self.store.space.changes += 1;
            self.store.space.last_try = self.store.space.changes;
            return self.store.space.wake_waiters(&mut self.store.io);
        }
        self.no_room_for_waiters();
    }

    /// Decrements and fingerprints enter their pages, as far as these are in memory.
    pub(crate) fn settle(&mut self) {
        if self.store.io.failed {
            return;
        }
        self.store.settle_all();
        self.find_space_for_waiters();
        let Store { io, tables, space, settle, settings, .. } = &mut self.store;
        if settle.is_empty() {
            space.discard_freed(io, tables, false);
            if settings.noncritical_delay_ms == 0 {
                self.write_all_dirty();
            }
        }
    }

    /// Whether something in flight may yet free a block, or lets a free one be used.
    fn in_flight_frees_blocks(&self) -> bool {
        let pinned_by = |w: &WriteOp| usize::from(w.pinned.is_some()) + usize::from(w.pinned_other.is_some());
        let by_waiters: usize = self.store.space.waiters.iter().filter_map(|&op| self.requests.writes.get(op)).map(pinned_by).sum();
        let pins: u32 = self.store.space.pins.values().sum();
        !self.store.space.fresh.is_empty() || count(by_waiters) < u64::from(pins)
    }

    /// Nothing in flight frees a block for those who wait for one.
    fn no_room_for_waiters(&mut self) {
        let Some(failure) = self.store.space.no_room(&mut self.store.io) else { return };
        while let Some(op) = self.store.space.waiters.pop_front() {
            self.go_without_space(op, failure);
        }
        // Their places are free for those who were not let in yet, and nothing else may come to tell.
        self.store.io.schedule.push(Task::Admit);
    }

    /// Takes away the fingerprints of chosen blocks that nothing else holds.
    pub(crate) fn reclaim(&mut self) {
        let room = self.log_room();
        let carriers = self.store.space.reclaim(&mut self.store.io, &mut self.store.tables, &mut self.store.index, room);
        carriers.into_iter().for_each(|pbn| self.store.space.carriers.changed(pbn, false));
        if self.store.io.stage.commits() {
            self.find_space_for_waiters();
        }
    }

    /// Gives back to the store what is due.
    pub(crate) fn give_back(&mut self) {
        if !self.store.space.is_giving_due(&self.store.io, self.has_unlinked()) {
            return;
        }
        if self.store.tables.open.is_empty() && self.store.tables.committing.is_none() {
            // What the last epoch let go of counts until something vouches for it, and no other epoch does.
            self.vouch();
        }
        self.store.space.give_back(&mut self.store.io, &mut self.store.tables);
    }

    /// Whether links are gone that count until a later commit.
    pub(crate) fn has_unlinked(&self) -> bool {
        self.scheme.log.as_ref().is_some_and(|log| log.unlinked().next().is_some())
    }

    /// Carriers on the volume; none where that is not known.
    pub(crate) fn carriers(&self) -> Option<u64> {
        if self.store.medium.superblock.has_slots() { self.store.space.carriers.all() } else { Some(0) }
    }
}
