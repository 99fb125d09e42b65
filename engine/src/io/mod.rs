//! The device operations under way, and all that the engine asks of the world outside: the one place where actions are made.
//!
//! 1. Each operation has a number and a purpose; when it ends, the purpose says who goes on.
//! 2. The ledger counts here, and nowhere else, what goes to the device and what comes from it.
//! 3. After a failure nothing is written and nothing is flushed any more (A5).

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

/// Failed reads of one block that are tried again, where what it holds decides what the volume says.
pub(crate) const READ_RETRIES: u8 = 2;

/// What a read has brought.
pub(crate) struct Arrived {
    pub buffer: BufferMut,
    /// Of its blocks, where they were asked for.
    pub digests: Vec<Digest>,
    pub result: Result<(), IoFailure>,
}

impl Arrived {
    /// The digest of a block; that of part of one where none was asked for.
    pub fn digest(&self, block: usize) -> Digest {
        self.digests.get(block).copied().unwrap_or(Digest::Partial)
    }
}

/// Operations under way, and actions that wait for the end of the step.
pub(crate) struct Io {
    /// The time of this step.
    pub now: Time,
    pub out: Vec<Action>,
    under_way: Map<IoId, IoFor>,
    next: u64,
    home: Arc<dyn Home>,
    pub durability: Durability,
    pub ledger: Ledger,
    /// What the engine itself goes on with.
    pub schedule: Schedule,
    pub stage: Stage,
    /// A write or a flush has failed.
    pub failed: bool,
    /// This opening writes nothing.
    pub read_only: bool,
    /// A counter of the volume is used up (`store/counters.rs`).
    pub used_up: bool,
    /// What lies on the device may yet be lost: nothing is read from it (R8).
    pub unflushed: bool,
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

    /// Registers an operation, and returns its number.
    pub fn begin(&mut self, what: IoFor) -> IoId {
        let io = IoId(self.next);
        self.next += 1;
        self.under_way.insert(io, what);
        io
    }

    /// What an operation was for, now that it has ended.
    pub fn end(&mut self, io: IoId) -> Option<IoFor> {
        self.under_way.remove(&io)
    }

    /// The number that the next operation gets.
    pub fn horizon(&self) -> IoId {
        IoId(self.next)
    }

    /// Blocks of memory in which something is composed, or read.
    pub fn buffer(&self, blocks: usize) -> BufferMut {
        self.home.clone().take(blocks)
    }

    /// Sends a write to the device.
    pub fn write(&mut self, what: IoFor, at: Bytes, data: Vec<Slice>, class: Class) {
        debug_assert!(!self.failed, "no write after a failure");
        let bytes = data.iter().map(Slice::length).sum();
        let fua = matches!(what, IoFor::Units { fua: true, .. });
        self.ledger.wrote(class, bytes);
        self.ledger.device_fua_writes += u64::from(fua);
        let io = self.begin(what);
        self.out.push(Action::Write { io, at, data, class, fua });
    }

    /// Sends a read of whole blocks to the device.
    pub fn read(&mut self, what: IoFor, at: Bytes, blocks: usize, digest: bool, class: Class) {
        let buffer = self.buffer(blocks);
        self.ledger.read(class, count(blocks));
        let io = self.begin(what);
        self.out.push(Action::Read { io, at, buffer, digest, class });
    }

    /// Sends a flush to the device.
    pub fn flush(&mut self, why: FlushFor) {
        debug_assert!(!self.failed, "no flush after a failure: it would pretend");
        self.ledger.device_flushes += 1;
        let mark = self.durability.now();
        let io = self.begin(IoFor::Flush { why, mark });
        self.out.push(Action::Flush { io });
    }

    /// Tells the device that blocks hold nothing any more.
    pub fn discard(&mut self, first: Pbn, at: Bytes, blocks: u64) {
        self.ledger.device_discards += 1;
        let length = Blocks(blocks).bytes();
        self.ledger.device_discarded_bytes += length.0;
        let io = self.begin(IoFor::Discard { first, blocks });
        self.out.push(Action::Discard { io, at, length });
    }

    /// Asks for the digest of a block that was put together here.
    pub fn digest(&mut self, what: IoFor, block: Slice) {
        let io = self.begin(what);
        self.out.push(Action::Digest { io, block });
    }

    pub fn reply(&mut self, request: RequestId, reply: Reply) {
        self.out.push(Action::Reply { request, reply });
    }

    pub fn notice(&mut self, notice: Notice) {
        self.out.push(Action::Notice(notice));
    }
}
