//! A full volume, and the writes that find no room on it.
//!
//! 1. The volume becomes full when a write finds no block and none is about to become free. It stays full until a write finds a block while
//!    more than the reserve, and some to spare, is free.
//! 2. Writes that find no block wait until `full_wait_ms` after the volume became full. They wait here, and are retried when a block is
//!    freed; or their senders wait, and send them again on [`Action::Retry`]. After that time they fail, until there is room again. They
//!    fail at once when the volume is about to be detached ([`Event::EndWaiting`](crate::interface::Event::EndWaiting)), since a flush of
//!    the device waits for them, and when the store fails.
//! 3. A store that has no room makes its volume full, too. If it refuses writes that were sent to it (it is thin itself, or its room was
//!    not known), the volume is full from then on. Flushes wait for those writes as long as others wait for room, and then fail: what they
//!    cover is not durable yet, but nothing is lost, and a later flush covers it.
//! 4. Requests that may bring room are admitted meanwhile: discards (`requests/admit.rs`), overwrites, and the writes of a journal, without
//!    which a file system above frees nothing. Overwrites and journals take blocks of the reserve; a journal, whose blocks may never have
//!    been written, at most half of it.

use super::Space;
use crate::interface::{Action, Failure, Notice, Reply, RequestId};
use crate::io::{Io, Stage};
use crate::units::{Lbn, Time};

/// The number of retries asked for after a write was sent back. The first may come before the sender has noted that it has to retry.
const RETRIES: u8 = 2;
/// The time between two retries, while there is no room, and when there is some.
const RETRY_MS: u64 = 2_000;
const RETRY_WITH_ROOM_MS: u64 = 100;
/// The first bytes of journal blocks that announce further ones: those of ext3 and ext4 (jbd2), and of XFS.
const JOURNALS: [[u8; 4]; 2] = [[0xc0, 0x3b, 0x39, 0x98], [0xfe, 0xed, 0xba, 0xbe]];
/// The number of blocks that may follow: more than one block of jbd2 announces.
const JOURNAL_BLOCKS: u64 = 1024;

impl Space {
    /// Whether writes that need a new block find none.
    pub fn is_full(&self) -> bool {
        self.full.since.is_some()
    }

    /// Whether the volume is full to those who ask: no longer when there is room for a write, even before one comes. `removed`: blocks
    /// without links that are counted as used until later.
    pub fn shows_full(&self, removed: u64, stage: Stage) -> bool {
        // Those that were kept when a write found none could not be taken.
        let kept = self.census.kept.saturating_sub(self.full.kept);
        let idle = self.census.free + self.census.of_scheme + kept + removed;
        self.is_full()
            && (!self.waiters.is_empty()
                || self.store.refuses
                || self.store_is_out(stage)
                || idle <= self.geometry.reserve_blocks + self.spare())
    }

    /// The blocks beside the reserve that have to be free before a full volume counts as one with room.
    fn spare(&self) -> u64 {
        self.geometry.reserve_blocks / 8
    }

    /// Whether clients may address more blocks than the data region has beside the reserve.
    pub fn is_thin(&self) -> bool {
        self.geometry.logical_blocks + self.geometry.reserve_blocks > self.geometry.data_blocks
    }

    /// Whether a write to any LBN may take a block. Only a thin volume keeps its reserve from some; the scheme's blocks are part of it.
    pub fn has_more_than_reserve(&self) -> bool {
        !self.is_thin() || !self.scan_complete() || self.census.free + self.census.of_scheme > self.geometry.reserve_blocks
    }

    /// Whether background work leaves the free blocks to clients: they are most of the reserve or less, or the store has no room.
    pub fn lacks_room_for_others(&self, stage: Stage) -> bool {
        self.is_full() || self.store_is_out(stage) || self.census.free <= self.geometry.reserve_blocks / 4 * 3
    }

    /// The time until which writes wait, if the volume is full.
    fn full_until(&self) -> Option<Time> {
        let wait_ms = if self.full.waiting_is_over { 0 } else { self.policy.full_wait_ms };
        self.full.since.map(|since| since.plus_ms(wait_ms))
    }

    /// From here on no write waits for room. The waiting writes are answered as soon as it is certain that nothing under way brings room.
    pub fn end_waiting(&mut self) {
        self.full.waiting_is_over = true;
    }

    /// Nothing under way frees a block for the waiting writes. Returns their failure, or none if they go on waiting here.
    pub fn no_room(&mut self, io: &mut Io) -> Option<Failure> {
        let is_replay = io.stage() == Stage::Replaying;
        if !is_replay {
            self.becomes_full(io, self.store_is_out(io.stage()));
        }
        self.full.kept = self.census.kept;
        let waits = !is_replay && self.full_until().is_some_and(|until| io.now() < until);
        if waits && !self.policy.retries_when_full {
            return None;
        }
        if !waits && !is_replay && self.policy.full_wait_ms > 0 && !std::mem::replace(&mut self.full.fails, true) {
            let waited_ns = self.full.since.map_or(0, |since| io.now().0 - since.0);
            io.notice(Notice::NoSpace { waited_ms: waited_ns / 1_000_000, on_host: self.store_is_out(io.stage()) });
        }
        Some(if waits { Failure::Full } else { Failure::NoSpace })
    }

    /// The volume is full from now on, if it was not before; `on_host`: since its store has no room. Tells each cause once.
    pub(super) fn becomes_full(&mut self, io: &mut Io, on_host: bool) {
        self.full.since.get_or_insert(io.now());
        if !std::mem::replace(&mut self.full.reported[usize::from(on_host)], true) {
            io.notice(Notice::Full { wait_ms: self.policy.full_wait_ms, on_host });
        }
    }

    /// Whether the volume is full because its store has no room.
    pub fn is_full_on_host(&self, stage: Stage) -> bool {
        self.is_full() && (self.store.refuses || self.store_is_out(stage))
    }

    /// Whether a store that refuses writes for want of room may have them sent again: for as long as writes wait while the volume opens,
    /// and without an end once it serves, since what was acknowledged would otherwise be lost.
    pub fn waits_for_room(&self, io: &Io) -> bool {
        let is_awaited = io.stage() == Stage::Serving || self.full_until().is_none_or(|until| io.now() < until);
        !io.has_failed() && !self.full.waiting_is_over && is_awaited
    }

    /// Whether requests that wait for writes that the store refuses are to wait no longer.
    pub fn has_waited_for_store(&self, io: &Io) -> bool {
        io.stage() == Stage::Serving && self.is_refused() && self.full_until().is_some_and(|until| until <= io.now())
    }

    /// Sends a request back to its sender, which is asked to retry it. The time runs from here: another part of the request may have taken
    /// long.
    pub fn send_back(&mut self, io: &mut Io, request: RequestId) {
        if self.full.retries == 0 {
            self.full.retried = io.now();
        }
        self.full.retries = RETRIES;
        io.reply(request, Reply::Failed(Failure::Full));
    }

    /// A write has found a block: the volume may no longer be full.
    pub(super) fn found_room(&mut self, io: &mut Io) {
        let has_room = self.census.free + self.census.of_scheme > self.geometry.reserve_blocks + self.spare();
        if self.is_full() && !self.store.refuses && has_room {
            (self.full.since, self.full.fails, self.full.reported) = (None, false, [false; 2]);
            io.notice(Notice::RoomAgain);
        }
    }

    /// The next time at which waiting writes are answered or retried.
    pub fn full_deadline(&self, io: &Io) -> Option<Time> {
        if !self.is_full() && self.full.retries == 0 {
            return None;
        }
        let somebody_waits = !self.waiters.is_empty() || self.is_refused();
        let over = self.full_until().filter(|&until| until > io.now() && somebody_waits && !io.has_failed());
        let retry = (self.full.retries > 0).then(|| self.retry_at(io));
        over.into_iter().chain(retry).min()
    }

    /// The time of the next retry.
    fn retry_at(&self, io: &Io) -> Time {
        let has_room = io.has_failed()
            || self.full.waiting_is_over
            || !self.is_full()
            || self.has_more_than_reserve() && !self.store_is_out(io.stage())
            || self.census.kept > self.full.kept;
        let at = self.full.retried.plus_ms(if has_room { RETRY_WITH_ROOM_MS } else { RETRY_MS });
        match self.full_until() {
            Some(until) if until > self.full.retried => at.min(until),
            _ => at,
        }
    }

    /// Asks the senders to retry when it is time: after a failure, too, since each request has to be answered.
    pub fn retry_if_due(&mut self, io: &mut Io) {
        if self.full.retries > 0 && self.retry_at(io) <= io.now() {
            self.full.retries -= 1;
            self.full.retried = io.now();
            io.act(Action::Retry);
        }
    }

    /// Notes where a journal is being written, if the write that begins with these bytes at this block is one of its blocks.
    pub fn look_for_journal(&mut self, first: Lbn, bytes: &[u8]) {
        if JOURNALS.iter().any(|magic| bytes.starts_with(magic)) {
            self.full.journal = first.0..first.0 + JOURNAL_BLOCKS;
        }
    }

    pub(super) fn may_journal_take_from_reserve(&self, lbn: Lbn) -> bool {
        let left = self.census.free + self.census.of_scheme;
        self.full.journal.contains(&lbn.0) && left > self.geometry.reserve_blocks / 2
    }

    /// Answers a request that fails.
    #[cold]
    pub fn refuse(&mut self, io: &mut Io, request: RequestId, failure: Failure) {
        match failure {
            Failure::Full => self.send_back(io, request),
            _ => io.reply(request, Reply::Failed(failure)),
        }
    }
}
