//! Blocks that no LBN means go back to the store: those that are free, and those that only their fingerprint holds.
//!
//! 1. When the store's file system is short of room, all of them, as soon as may be. Where nothing has been done near a kept block for `keep_ms`, that one.
//! 2. A store gets no more new blocks of clients than it was said to have room for: a write that fails there would make the volume read-only. Where they
//!    are used up, writes wait for the next word. Where that has none, the store is out of room, and the volume full.

use crate::commit::Stage;
use crate::engine::Engine;
use crate::interface::StoreRoom;
use crate::units::Time;

/// Between two looks at what could be given back.
const LOOK_MS: u64 = 100;
/// The same while there is room: kept blocks grow old slowly.
const LOOK_FOR_UNUSED_MS: u64 = 1_000;

impl Engine {
    /// The store's file system has so much room now.
    pub(crate) fn store_has(&mut self, room: StoreRoom) {
        self.space.store = room;
        self.space.store_left = room.blocks;
        // Writers may wait for it.
        self.space.changes += 1;
        self.wake_space_waiters();
    }

    /// Whether clients' writes get no new block for the store's sake. What is recalled was let in before.
    pub(super) fn store_is_out(&self) -> bool {
        self.space.store_left == 0 && self.state.stage != Stage::Recalling
    }

    /// Whether they may get some with the next word of it.
    pub(super) fn store_may_have_more(&self) -> bool {
        self.store_is_out() && self.space.store.blocks > 0
    }

    /// Whether removals are to be made durable although nobody waits for a block.
    pub(crate) fn gives_back(&self) -> bool {
        self.settings.discard_freed && (self.space.store.is_short || self.settings.keep_ms > 0)
    }

    /// Gives back what is due.
    pub(crate) fn give_back(&mut self) {
        self.space.clock_s = u32::try_from(self.io.now.0 / 1_000_000_000).unwrap_or(u32::MAX);
        if self.give_back_at().is_none_or(|at| at > self.io.now) {
            return;
        }
        self.space.gave_back = self.io.now;
        if self.tables.open.is_empty() && self.scheme.commit.is_none() {
            // What the last epoch let go of counts until something vouches for it, and no other epoch does.
            self.vouch();
        }
        if !self.space.store.is_short {
            let keep_s = u32::try_from(self.settings.keep_ms / 1000).unwrap_or(u32::MAX);
            return self.space.clock_s.checked_sub(keep_s).into_iter().for_each(|since_s| self.reclaim_unused(since_s));
        }
        if self.space.census.kept > self.reclaim_under_way() {
            self.choose_granules(u64::MAX);
        }
        if self.space.discards == 0 {
            self.discard_freed(true);
        }
    }

    /// When something may be due next.
    pub(crate) fn give_back_at(&self) -> Option<Time> {
        let space = &self.space;
        let has_freed = !space.freed.is_empty() || self.scheme.log.as_ref().is_some_and(|log| log.unlinked().next().is_some());
        let nothing = space.census.kept == 0 && (!has_freed || !space.store.is_short);
        let may = self.gives_back() && self.state.stage == Stage::Serving && space.scan_complete() && !self.io.read_only && !self.io.failed;
        if nothing || !may {
            return None;
        }
        Some(space.gave_back.plus_ms(if space.store.is_short { LOOK_MS } else { LOOK_FOR_UNUSED_MS }))
    }
}
