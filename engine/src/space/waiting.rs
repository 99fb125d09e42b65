//! A full volume: what becomes of writes that find no room.
//!
//! 1. The volume is full from the first write that finds no block, when none is on its way to be free, until a write finds one with more
//!    than the reserve left, and some to spare.
//! 2. Such writes wait, as long as `full_wait_ms` after the volume became full: here, and tried again when a block is freed; or with
//!    whoever sent them, who sends them again when he is told ([`Action::Retry`]). After that they fail, until there is room again. When
//!    the volume is about to be detached ([`Event::EndWaiting`](crate::interface::Event::EndWaiting)) they fail at once: a flush of the
//!    device waits for them. So they do when the store fails.
//! 3. What may bring room goes in meanwhile: discards (`admit.rs`), overwrites, and journals, without which a file system above frees
//!    nothing. These two take from the reserve; a journal, whose blocks may never have been written, half of it at the most.

use super::Space;
use crate::interface::{Action, Failure, Notice, Reply, RequestId};
use crate::io::{Io, Stage};
use crate::units::{Lbn, Time};

/// Retries that follow a write that was sent back: the first may come before its sender has noted that it was.
const RETRIES: u8 = 2;
/// Between two of them, where nothing was freed meanwhile, and where something was.
const RETRY_MS: u64 = 2_000;
const RETRY_WITH_ROOM_MS: u64 = 100;
/// How the blocks of a journal begin that others follow: those of ext3 and ext4 (jbd2), and of XFS.
const JOURNALS: [[u8; 4]; 2] = [[0xc0, 0x3b, 0x39, 0x98], [0xfe, 0xed, 0xba, 0xbe]];
/// So many blocks: more than one block of jbd2 announces.
const JOURNAL_BLOCKS: u64 = 1024;

impl Space {
    /// Whether writes that need a new block find none.
    pub fn is_full(&self) -> bool {
        self.full.since.is_some()
    }

    /// Whether clients may address more than there is.
    pub fn is_thin(&self) -> bool {
        self.geometry.logical_blocks + self.geometry.reserve_blocks > self.geometry.data_blocks
    }

    /// Whether a write to any LBN may take a block: only a thin volume keeps some from it. The scheme's blocks are of the reserve.
    pub fn has_more_than_reserve(&self) -> bool {
        !self.is_thin() || !self.scan_complete() || self.census.free + self.census.of_scheme > self.geometry.reserve_blocks
    }

    /// When waiting ends, where it has not yet.
    fn full_until(&self) -> Option<Time> {
        let wait_ms = if self.full.waiting_is_over { 0 } else { self.policy.full_wait_ms };
        self.full.since.map(|since| since.plus_ms(wait_ms))
    }

    /// From here on no write waits for room. Those that do are answered, as soon as it is sure that nothing under way brings them any.
    pub fn end_waiting(&mut self) {
        self.full.waiting_is_over = true;
    }

    /// Nothing in flight frees a block for those who wait for one. How their writes fail, if they do now.
    pub fn no_room(&mut self, io: &mut Io) -> Option<Failure> {
        let is_recalling = io.stage == Stage::Recalling;
        if !is_recalling && self.full.since.is_none() {
            self.full.since = Some(io.now);
            io.notice(Notice::Full { wait_ms: self.policy.full_wait_ms });
        }
        self.full.kept = self.census.kept;
        let waits = !is_recalling && self.full_until().is_some_and(|until| io.now < until);
        if waits && !self.policy.retries_when_full {
            return None;
        }
        if !waits && !is_recalling && self.policy.full_wait_ms > 0 && !std::mem::replace(&mut self.full.fails, true) {
            let waited_ns = self.full.since.map_or(0, |since| io.now.0 - since.0);
            io.notice(Notice::NoSpace { waited_ms: waited_ns / 1_000_000 });
        }
        Some(if waits { Failure::Full } else { Failure::NoSpace })
    }

    /// A request goes back to its sender, who is to be asked for it again: not before, for another part of it may have been under way for
    /// long.
    pub fn send_back(&mut self, io: &mut Io, request: RequestId) {
        if self.full.retries == 0 {
            self.full.retried = io.now;
        }
        self.full.retries = RETRIES;
        io.reply(request, Reply::Failed(Failure::Full));
    }

    /// A write has found a block.
    pub(super) fn found_room(&mut self, io: &mut Io) {
        let spare = self.geometry.reserve_blocks / 8;
        if self.is_full() && self.census.free + self.census.of_scheme > self.geometry.reserve_blocks + spare {
            (self.full.since, self.full.fails) = (None, false);
            io.notice(Notice::RoomAgain);
        }
    }

    /// When those who wait are to hear something, be it that they have waited long enough.
    pub fn full_deadline(&self, io: &Io) -> Option<Time> {
        let over = self.full_until().filter(|&until| until > io.now && !self.waiters.is_empty() && !io.failed);
        let retry = (self.full.retries > 0).then(|| self.retry_at(io));
        over.into_iter().chain(retry).min()
    }

    /// When senders are asked again, where they are.
    fn retry_at(&self, io: &Io) -> Time {
        let has_room = io.failed
            || self.full.waiting_is_over
            || !self.is_full()
            || self.has_more_than_reserve() && !self.store_is_out(io.stage)
            || self.census.kept > self.full.kept;
        let at = self.full.retried.plus_ms(if has_room { RETRY_WITH_ROOM_MS } else { RETRY_MS });
        match self.full_until() {
            Some(until) if until > self.full.retried => at.min(until),
            _ => at,
        }
    }

    /// Asks for what was sent back: after a failure, too, for it is to be answered.
    pub fn retry_if_due(&mut self, io: &mut Io) {
        if self.full.retries > 0 && self.retry_at(io) <= io.now {
            self.full.retries -= 1;
            self.full.retried = io.now;
            io.out.push(Action::Retry);
        }
    }

    /// A write begins at this block with these bytes: it may be of a journal, and others of it follow.
    pub fn look_for_journal(&mut self, first: Lbn, bytes: &[u8]) {
        if JOURNALS.iter().any(|magic| bytes.starts_with(magic)) {
            self.full.journal = first.0..first.0 + JOURNAL_BLOCKS;
        }
    }

    pub(super) fn may_journal_take_from_reserve(&self, lbn: Lbn) -> bool {
        let left = self.census.free + self.census.of_scheme;
        self.full.journal.contains(&lbn.0) && left > self.geometry.reserve_blocks / 2
    }
}
