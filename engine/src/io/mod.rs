//! The device operations under way, and the actions that the engine asks of its caller. Only this module makes actions.
//!
//! 1. Each operation has a number and a purpose. When it ends, the purpose says which component continues.
//! 2. Only this module counts, in the ledger, what goes to the device and what comes from it.
//! 3. After a failure nothing is written and nothing is flushed (A5).

mod durability;
mod purpose;
mod stage;

pub(crate) use durability::Durability;
pub(crate) use purpose::{FlushFor, IoFor, LogUnit};
pub(crate) use stage::Stage;

use crate::buffer::{BufferMut, Home, Slice};
use crate::fingerprint::Digest;
use crate::interface::{Action, Class, IoFailure, IoId, Notice, Reply, RequestId};
use crate::ledger::Ledger;
use crate::map::Map;
use crate::schedule::Schedule;
use crate::units::{Blocks, Bytes, Pbn, Time, count};
use std::sync::Arc;

/// The number of retries for a read on which recovery depends.
pub(crate) const READ_RETRIES: u8 = 2;

/// The result of a read.
pub(crate) struct Arrived {
    pub buffer: BufferMut,
    /// The digests of its blocks, if the read asked for them.
    pub digests: Vec<Digest>,
    pub result: Result<(), IoFailure>,
}

impl Arrived {
    /// The digest of a block; `Partial` if the read did not ask for digests.
    pub fn digest(&self, block: usize) -> Digest {
        self.digests.get(block).copied().unwrap_or(Digest::Partial)
    }
}

/// The operations under way, and the actions that the step returns at its end.
pub(crate) struct Io {
    /// The time of this step.
    now: Time,
    out: Vec<Action>,
    under_way: Map<IoId, IoFor>,
    next: u64,
    home: Arc<dyn Home>,
    pub durability: Durability,
    pub ledger: Ledger,
    /// The tasks with which the engine itself continues.
    pub schedule: Schedule,
    stage: Stage,
    /// A write or a flush has failed.
    failed: bool,
    /// The volume was opened to be read only: nothing is written.
    read_only: bool,
    /// A counter of the volume is used up (`pool/counters.rs`).
    used_up: bool,
    /// The device has not been flushed since the volume was opened, so nothing is read from it (R8).
    unflushed: bool,
}

impl Io {
    pub fn new(home: Arc<dyn Home>, now: Time, read_only: bool) -> Self {
        let (out, under_way, durability, ledger, schedule) = Default::default();
        Self {
            now,
            out,
            under_way,
            next: 1,
            home,
            durability,
            ledger,
            schedule,
            stage: Stage::Created,
            failed: false,
            read_only,
            used_up: false,
            unflushed: false,
        }
    }

    /// The time of this step.
    pub fn now(&self) -> Time {
        self.now
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether a write or a flush has failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether the volume was opened to be read only: nothing is written.
    pub fn is_opened_to_read(&self) -> bool {
        self.read_only
    }

    /// Whether no read is answered, since what it would say may be lost.
    pub fn refuses_reads(&self) -> bool {
        self.unflushed
    }

    /// Whether a counter of the volume is used up (`pool/counters.rs`).
    pub fn are_counters_used_up(&self) -> bool {
        self.used_up
    }

    /// Registers an operation, and returns its number.
    pub fn begin(&mut self, what: IoFor) -> IoId {
        let io = IoId(self.next);
        self.next += 1;
        self.under_way.insert(io, what);
        io
    }

    /// Ends an operation, and returns its purpose.
    pub fn end(&mut self, io: IoId) -> Option<IoFor> {
        self.under_way.remove(&io)
    }

    /// The number of the next operation.
    pub fn horizon(&self) -> IoId {
        IoId(self.next)
    }

    /// Takes memory for content that is composed or read.
    pub fn buffer(&self, blocks: usize) -> BufferMut {
        self.home.clone().take(blocks)
    }

    /// Sends a write to the device.
    pub fn write(&mut self, what: IoFor, at: Bytes, data: Vec<Slice>, class: Class) {
        debug_assert!(!self.failed, "no write after a failure");
        let bytes = data.iter().map(Slice::length).sum();
        let fua = matches!(what, IoFor::Units { fua: true, .. });
        self.ledger.wrote(class, bytes);
        self.ledger.wrote_durably(fua);
        let io = self.begin(what);
        self.out.push(Action::Write { io, at, data, class, fua });
    }

    /// Sends a read of whole blocks to the device.
    pub fn read(&mut self, what: IoFor, at: Bytes, blocks: usize, digest: bool, class: Class) {
        let buffer = self.buffer(blocks);
        self.ledger.read(class, count(blocks));
        let is_idle = what.is_idle();
        let io = self.begin(what);
        self.out.push(Action::Read { io, at, buffer, digest, is_idle, class });
    }

    /// Sends a flush to the device.
    pub fn flush(&mut self, why: FlushFor) {
        debug_assert!(!self.failed, "no flush after a failure: it would claim that lost writes are durable");
        self.ledger.flushed();
        let mark = self.durability.now();
        let io = self.begin(IoFor::Flush { why, mark });
        self.out.push(Action::Flush { io });
    }

    /// Sends a discard to the device: blocks hold nothing any more.
    pub fn discard(&mut self, first: Pbn, at: Bytes, blocks: u64) {
        let length = Blocks(blocks).bytes();
        self.ledger.discarded(length);
        let io = self.begin(IoFor::Discard { first, blocks });
        self.out.push(Action::Discard { io, at, length, fill: false });
    }

    /// Sends zeros to blocks that hold nothing, so that the host of the store has written there.
    pub fn fill(&mut self, first: Pbn, at: Bytes, blocks: u64) {
        let length = Blocks(blocks).bytes();
        self.ledger.filled(length);
        let io = self.begin(IoFor::Fill { first, blocks });
        self.out.push(Action::Discard { io, at, length, fill: true });
    }

    /// Asks for the digest of a block that the engine has composed.
    pub fn digest(&mut self, what: IoFor, block: Slice) {
        let io = self.begin(what);
        self.out.push(Action::Digest { io, block });
    }

    pub fn reply(&mut self, request: RequestId, reply: Reply) {
        self.out.push(Action::Reply { request, reply });
    }

    #[cold]
    pub fn notice(&mut self, notice: Notice) {
        self.out.push(Action::Notice(notice));
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.failed || self.used_up || self.read_only
    }

    /// Whether blocks that were found damaged can be marked on the medium.
    pub fn may_mark(&self) -> bool {
        !self.failed && !self.read_only
    }

    /// Takes the time of a step.
    pub fn advance_to(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Enters another stage of the volume's life.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// Notes that a write or a flush has failed: nothing is written any more (A5).
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Notes that the flush at the opening has ended. Unless it failed, reads may be answered (R8).
    pub fn opening_flush_ended(&mut self) {
        self.unflushed = self.failed;
    }

    /// Answers no read any more: the next opening might contradict it (P7).
    pub fn refuse_reads(&mut self) {
        self.unflushed = true;
    }

    /// Notes that a counter has reached the stop. A volume that is being opened is not written to at all.
    pub fn counters_are_used_up(&mut self) {
        self.used_up = true;
        self.read_only |= self.stage == Stage::Opening;
    }

    /// Adds an action to those that the step returns.
    pub fn act(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Exchanges the actions of this step and those of a caller, who has none of this step before it, and all after it.
    pub fn swap_actions(&mut self, out: &mut Vec<Action>) {
        std::mem::swap(&mut self.out, out);
    }

    /// The actions of this step so far.
    #[cfg(test)]
    pub fn actions(&self) -> &[Action] {
        &self.out
    }

    /// Takes them.
    #[cfg(test)]
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }
}
