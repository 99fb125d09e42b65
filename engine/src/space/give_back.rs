//! Return of blocks to the store: free ones, and those that only their fingerprint keeps.
//!
//! 1. When the store's file system is short of room, all of them are given back as soon as possible. Otherwise a kept block is given back
//!    when nothing has changed in its granule for `keep_ms`.
//! 2. Clients' writes take at most as many new blocks as the store has reported room for: a write that fails there would make the volume
//!    read-only. When they are used up, writes wait for the next report. If that has none, the store is out of room, and the volume is
//!    full.

use super::Space;
use crate::interface::StoreRoom;
use crate::io::{Io, Stage};
use crate::tables::Tables;
use crate::units::Time;

/// The time between two searches for blocks to give back.
const LOOK_MS: u64 = 100;
/// The same while there is room: kept blocks grow old slowly.
const LOOK_FOR_UNUSED_MS: u64 = 1_000;

impl Space {
    /// The store's file system reports its room.
    #[cold]
    pub fn store_has(&mut self, io: &mut Io, room: StoreRoom) {
        self.store = room;
        self.store_left = room.blocks;
        // Writers may wait for room.
        self.changes += 1;
        self.wake_waiters(io);
    }

    /// Whether clients' writes get no new block because the store has no room. Replayed writes were admitted before.
    pub fn store_is_out(&self, stage: Stage) -> bool {
        self.store_left == 0 && stage != Stage::Replaying
    }

    /// Whether the next report of the store may bring room.
    pub fn store_may_have_more(&self, stage: Stage) -> bool {
        self.store_is_out(stage) && self.store.blocks > 0
    }

    /// Whether removals are made durable although no write waits for a block.
    pub fn gives_back(&self) -> bool {
        self.policy.discard_freed && (self.store.is_short || self.policy.keep_ms > 0)
    }

    /// Updates the clock. Whether something is due to be given back. `has_unlinked`: removed links still count.
    pub fn is_giving_due(&mut self, io: &Io, has_unlinked: bool) -> bool {
        self.clock_s = u32::try_from(io.now.0 / 1_000_000_000).unwrap_or(u32::MAX);
        self.give_back_at(io, has_unlinked).is_some_and(|at| at <= io.now)
    }

    /// Gives back what is due.
    pub fn give_back(&mut self, io: &mut Io, tables: &mut Tables) {
        self.gave_back = io.now;
        if !self.store.is_short {
            let keep_s = u32::try_from(self.policy.keep_ms / 1000).unwrap_or(u32::MAX);
            let since_s = self.clock_s.checked_sub(keep_s);
            return since_s.into_iter().for_each(|since_s| self.reclaim_unused(io, &tables.removals, since_s));
        }
        if self.census.kept > tables.removals.under_way() {
            self.choose_granules(io, &tables.removals, u64::MAX);
        }
        if self.discards == 0 {
            self.discard_freed(io, tables, true);
        }
    }

    /// The time at which something may be due next.
    pub fn give_back_at(&self, io: &Io, has_unlinked: bool) -> Option<Time> {
        let may = self.gives_back() && io.stage == Stage::Serving && self.scan_complete() && !io.read_only && !io.failed;
        if !may {
            return None;
        }
        let has_freed = !self.freed.is_empty() || has_unlinked;
        if self.census.kept == 0 && (!has_freed || !self.store.is_short) {
            return None;
        }
        Some(self.gave_back.plus_ms(if self.store.is_short { LOOK_MS } else { LOOK_FOR_UNUSED_MS }))
    }
}
