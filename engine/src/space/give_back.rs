//! Return of blocks to the store: free ones, and those that only their fingerprint keeps.
//!
//! 1. When the store's file system is short of room, all of them are given back as soon as possible. Otherwise a kept block is given back
//!    when nothing has changed in its granule for `keep_ms`, or after a trim (`trim.rs`).
//! 2. Clients' writes take at most as many new blocks as the store has reported room for: those that it refused would have to be kept in
//!    memory. When they are used up, writes wait for the next report. If that has none, the store is out of room, and the volume is
//!    full.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use super::trim::Trim;
use crate::interface::StoreRoom;
use crate::io::{Io, Stage};
use crate::tables::Tables;
use crate::units::Time;

/// The time between two searches for blocks to give back.
const LOOK_MS: u64 = 100;
/// The same while there is room: kept blocks grow old slowly.
const LOOK_FOR_UNUSED_MS: u64 = 1_000;
/// The part of a granule that has to be kept blocks after a trim: three quarters. The rest is mostly units of the log.
const KEPT_MIN: u64 = GRANULE_BLOCKS * 3 / 4;

impl Space {
    /// The store's file system reports its room.
    #[cold]
    pub fn store_has(&mut self, io: &mut Io, room: StoreRoom) {
        let refused_before = self.store.refuses;
        self.store = room;
        self.store_left = room.blocks;
        if self.is_refused() {
            self.becomes_full(io, true);
        } else if refused_before && self.scan_complete() {
            self.found_room(io);
        }
        // Writers may wait for room.
        self.changes += 1;
        self.wake_waiters(io);
    }

    /// Whether clients' writes get no new block because the store has no room. Replayed writes were admitted before.
    pub fn store_is_out(&self, stage: Stage) -> bool {
        self.store_left == 0 && stage != Stage::Replaying
    }

    /// Whether writes that were sent to the store wait for room below it.
    pub fn is_refused(&self) -> bool {
        self.store.refuses && self.store.blocks == 0
    }

    /// Whether the next report of the store may bring room.
    pub fn store_may_have_more(&self, stage: Stage) -> bool {
        self.store_is_out(stage) && self.store.blocks > 0
    }

    /// Whether removals are made durable although no write waits for a block.
    pub fn gives_back(&self) -> bool {
        self.policy.discard_freed && (self.store.is_short || self.policy.keep_ms > 0 || self.trim.is_pending())
    }

    /// Updates the clock. Whether something is due to be given back. `has_unlinked`: removed links still count.
    pub fn is_giving_due(&mut self, io: &Io, has_unlinked: bool) -> bool {
        self.kept.tell_time(u32::try_from(io.now().0 / 1_000_000_000).unwrap_or(u32::MAX));
        self.give_back_at(io, has_unlinked).is_some_and(|at| at <= io.now())
    }

    /// Gives back what is due.
    pub fn give_back(&mut self, io: &mut Io, tables: &mut Tables) {
        self.gave_back = io.now();
        if !self.store.is_short {
            if let Some(since_s) = self.second_before(self.policy.keep_ms).filter(|_| self.policy.keep_ms > 0) {
                self.reclaim_unused(io, &tables.removals, since_s, 1);
            }
            return self.give_back_trimmed(io, tables);
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
        let may = self.gives_back() && io.stage() == Stage::Serving && self.scan_complete() && !io.is_opened_to_read() && !io.has_failed();
        if !may {
            return None;
        }
        if let Some(at) = self.trim.begins_at(self.policy.trim_rest_ms).filter(|_| !self.store.is_short && self.policy.keep_ms == 0) {
            return Some(at.max(self.gave_back.plus_ms(LOOK_MS)));
        }
        let has_freed = !self.freed.is_empty() || has_unlinked;
        if self.census.kept == 0 && (!has_freed || !self.store.is_short) {
            return None;
        }
        Some(self.gave_back.plus_ms(if self.store.is_short { LOOK_MS } else { LOOK_FOR_UNUSED_MS }))
    }

    /// The second of the clock that was this long ago; none before the first one.
    fn second_before(&self, ms: u64) -> Option<u32> {
        self.kept.seconds_ago(u32::try_from(ms / 1000).unwrap_or(u32::MAX))
    }

    /// Notes that clients have discarded this many blocks.
    pub fn trimmed(&mut self, now: Time, blocks: u64) {
        if self.policy.trim_rest_ms > 0 && self.policy.discard_freed {
            self.trim.add(now, blocks, self.policy.discard_batch_blocks);
        }
    }

    /// Reclaims and discards what trims have left, once they have rested. A round lasts as long again, so that it finds what was unlinked
    /// some time after the request, and until nothing is left to do.
    fn give_back_trimmed(&mut self, io: &mut Io, tables: &mut Tables) {
        let rest_ms = self.policy.trim_rest_ms;
        let Some(begins) = self.trim.begins_at(rest_ms).filter(|&begins| begins <= io.now()) else { return };
        let least = u32::try_from(KEPT_MIN.min(self.policy.discard_batch_blocks)).unwrap_or(u32::MAX);
        let finds = self.second_before(rest_ms).is_some_and(|since_s| self.reclaim_unused(io, &tables.removals, since_s, least));
        if finds || self.is_reclaiming(&tables.removals) {
            return;
        }
        if self.discards == 0 && !self.freed.is_empty() {
            self.discard_freed(io, tables, true);
        }
        if self.discards == 0 && io.now() >= begins.plus_ms(rest_ms) {
            self.trim = Trim::default();
        }
    }
}
