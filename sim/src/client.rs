//! The clients of a run: they send requests, and hold every reply against the oracle.
//!
//! 1. Each request gets exactly one reply.
//! 2. A read returns, block by block, a version no older than the newest one acknowledged before it was sent, or (where the device has failed,
//!    or damage was done) an error; never anything else.
//! 3. Nothing is acknowledged after the device has failed that would have to be durable (A5).

mod draw;

pub use draw::letter;

use draw::Sought;

use crate::content::{Content, Shared, pattern};
use crate::options::Options;
use crate::oracle::{Mark, Oracle, Patch};
use crate::record::record;
use crate::violation::{Violation, violation};
use crate::volume::Volume;
use fastrand::Rng;
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Digest;
use onefold_engine::interface::{Failure, Hint, Op, Payload, Reply, Request, RequestId, Segment};
use onefold_engine::settings::Persistence;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A request that waits for its reply.
struct Waiting {
    op: Op,
    offset: u64,
    length: u64,
    fua: bool,
    /// The versions that it makes, or that it must at least see.
    marks: Vec<Mark>,
    /// What a flush promises.
    promise: Vec<Mark>,
    /// It was sent when the volume was read-only already.
    late: bool,
}

/// What failures the clients must put up with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// A write or flush of the device has failed, and the engine knows it: nothing may be written or promised any more (A5).
    pub failed: bool,
    /// A device call has failed, or damage was done from outside: I/O errors are to be expected.
    pub errors: bool,
    /// Damage was done from outside.
    pub spoilt: bool,
    /// The last server's acknowledgements are lost: the first request that waits for durability has to say so.
    pub lost: bool,
    /// Some of them may be, since the last server's device had failed: it may say so.
    pub doubted: bool,
}

/// What a reply did to the floors.
#[derive(Debug, Default)]
pub struct Raised {
    pub lbns: Vec<u64>,
    /// The reply was ENOSPC, or that the volume is full for now.
    pub no_space: bool,
    /// The reply said that acknowledgements are lost.
    pub said_lost: bool,
    /// A whole or part of a block was read: what, first byte, bytes.
    pub learnt: Vec<(Mark, usize, Vec<u8>)>,
}

/// Some blocks that lie behind one another, and that writes go to.
pub type Stretch = (u64, u64);

/// The clients.
pub struct Client {
    volume: Rc<Volume>,
    options: Rc<Options>,
    stretches: Rc<Vec<Stretch>>,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    unique: u64,
    alphabet: Vec<Shared>,
    /// What is to come to mean what it meant before, where contents are to coincide.
    sought: Sought,
    /// A write was sent back to be sent again.
    is_to_be_asked: bool,
}

impl Client {
    /// Clients of a volume that write to some of its blocks.
    #[must_use]
    pub fn new(volume: Rc<Volume>, options: Rc<Options>, stretches: Rc<Vec<Stretch>>, rng: &mut Rng) -> Self {
        let alphabet = (0..options.alphabet).map(|i| draw::with_head(&options, pattern(&letter(i)))).collect();
        Self {
            volume,
            options,
            stretches,
            waiting: BTreeMap::new(),
            next: 1,
            unique: rng.u64(0..1 << 40),
            alphabet,
            sought: Sought::default(),
            is_to_be_asked: false,
        }
    }

    /// Requests that wait for a reply.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The request that has waited for longest.
    #[must_use]
    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.keys().next().copied()
    }

    /// What waits, in words.
    #[must_use]
    pub fn describe_waiting(&self) -> String {
        let one = |(id, w): (&u64, &Waiting)| format!("{id}: {:?} at {} over {}", w.op, w.offset, w.length);
        self.waiting.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn admit(&mut self, waiting: Waiting, payload: Option<Payload>) -> Request {
        let id = self.next;
        self.next += 1;
        let request = Request {
            id: RequestId(id),
            op: waiting.op,
            offset: Bytes(waiting.offset),
            length: Bytes(waiting.length),
            payload,
            fua: waiting.fua,
            hint: Hint::None,
        };
        self.waiting.insert(id, waiting);
        request
    }

    /// A write of whole blocks.
    pub fn write(&mut self, first: u64, contents: &[Shared], fua: bool, oracle: &mut Oracle) -> Request {
        self.write_sectors(first * 8, contents.len() as u64 * 8, contents, fua, oracle)
    }

    /// A write of some sectors; `contents` are what the blocks that it touches would hold if it covered them.
    pub fn write_sectors(&mut self, first: u64, sectors: u64, contents: &[Shared], fua: bool, oracle: &mut Oracle) -> Request {
        let mut buffer = BufferMut::zeroed(contents.len());
        let mut digests = Vec::with_capacity(contents.len());
        let mut marks = Vec::with_capacity(contents.len());
        for (i, (lbn, content)) in (first / 8..).zip(contents).enumerate() {
            let from = usize::try_from((first.max(lbn * 8) - lbn * 8) * 512).expect("within a block");
            let to = usize::try_from(((first + sectors).min(lbn * 8 + 8) - lbn * 8) * 512).expect("within a block");
            let bytes = &content.bytes()[from..to];
            let whole = to - from == BLOCK_SIZE;
            // What a write does not cover is arbitrary: it must not show anywhere.
            buffer.block_mut(i).fill(0x5a);
            buffer.block_mut(i)[from..to].copy_from_slice(bytes);
            digests.push(if whole { self.volume.digest(content) } else { Digest::Partial });
            let patch = if whole { Patch::Whole(content.clone()) } else { Patch::Part { at: from, bytes: bytes.into() } };
            marks.push(oracle.send(lbn, patch, true));
        }
        let waiting = Waiting { op: Op::Write, offset: first * 512, length: sectors * 512, fua, marks, promise: Vec::new(), late: false };
        let request = self.admit(waiting, Some(Payload { buffer: buffer.freeze(), digests }));
        record!("  client {}: write sectors {first}+{sectors} {contents:?}{}", request.id.0, if fua { " fua" } else { "" });
        request
    }

    /// A read of whole sectors, in bytes.
    pub fn read(&mut self, offset: u64, length: u64, oracle: &mut Oracle) -> Request {
        oracle.begin_read();
        let marks = (offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)).map(|lbn| oracle.acknowledged(lbn)).collect();
        let request = self.admit(Waiting { op: Op::Read, offset, length, fua: false, marks, promise: Vec::new(), late: false }, None);
        record!("  client {}: read sectors {}+{}", request.id.0, offset / 512, length / 512);
        request
    }

    /// A flush.
    pub fn flush(&mut self, oracle: &Oracle) -> Request {
        let promise = oracle.promised_by_flush();
        let request =
            self.admit(Waiting { op: Op::Flush, offset: 0, length: 0, fua: false, marks: Vec::new(), promise, late: false }, None);
        record!("  client {}: flush", request.id.0);
        request
    }

    /// A discard or write-zeroes of some sectors.
    pub fn clear(&mut self, op: Op, first: u64, sectors: u64, fua: bool, oracle: &mut Oracle) -> Request {
        let mut marks = Vec::new();
        for lbn in first / 8..(first + sectors).div_ceil(8) {
            let from = usize::try_from((first.max(lbn * 8) - lbn * 8) * 512).expect("within a block");
            let to = usize::try_from(((first + sectors).min(lbn * 8 + 8) - lbn * 8) * 512).expect("within a block");
            if to - from == BLOCK_SIZE {
                if !oracle.is_untouched_zero(lbn) {
                    marks.push(oracle.send(lbn, Patch::Whole(Content::zero()), true));
                }
            } else {
                let patch = Patch::Part { at: from, bytes: vec![0; to - from].into() };
                marks.push(oracle.send(lbn, patch, op == Op::WriteZeroes));
            }
        }
        let fua = fua && op == Op::WriteZeroes;
        let request =
            self.admit(Waiting { op, offset: first * 512, length: sectors * 512, fua, marks, promise: Vec::new(), late: false }, None);
        record!("  client {}: {op:?} sectors {first}+{sectors}{}", request.id.0, if fua { " fua" } else { "" });
        request
    }

    /// The volume is read-only: what is sent from now on will not be done.
    pub fn is_late(&mut self, id: RequestId) {
        if let Some(waiting) = self.waiting.get_mut(&id.0) {
            waiting.late = true;
        }
    }

    /// What was sent back may be sent again.
    ///
    /// # Errors
    /// When nothing was.
    pub fn may_send_again(&self) -> Result<(), Violation> {
        if self.is_to_be_asked { Ok(()) } else { Err(violation!("interface: asks for writes, and has sent none back")) }
    }

    /// A reply came.
    ///
    /// # Errors
    /// A reply that breaks one of the invariants above.
    pub fn reply(&mut self, id: RequestId, reply: &Reply, oracle: &mut Oracle, weather: Weather) -> Result<Raised, Violation> {
        let Some(waiting) = self.waiting.remove(&id.0) else {
            return Err(violation!("interface: a reply to request {}, which waits for none", id.0));
        };
        match reply {
            Reply::Done => record!("  client {}: done", id.0),
            Reply::Data(_) => record!("  client {}: data", id.0),
            Reply::Failed(failure) => record!("  client {}: {failure:?}", id.0),
        }
        if waiting.op == Op::Read {
            oracle.end_read();
        }
        match (waiting.op, reply) {
            (Op::Read, Reply::Data(segments)) => self.check_data(&waiting, segments, oracle),
            (Op::Read, Reply::Done) | (_, Reply::Data(_)) => Err(violation!("interface: {reply:?} to a {:?}", waiting.op)),
            (_, Reply::Failed(Failure::Io)) if (weather.lost || weather.doubted) && self.is_durable(&waiting) => {
                waiting.marks.iter().for_each(|&mark| oracle.fail(mark));
                Ok(Raised { said_lost: true, ..Raised::default() })
            }
            (op, Reply::Failed(failure)) => {
                let expected = match failure {
                    Failure::Io => weather.errors,
                    Failure::ReadOnly => weather.failed && op != Op::Read,
                    Failure::NoSpace => matches!(op, Op::Write | Op::Discard | Op::WriteZeroes),
                    Failure::Full => self.options.settings.retries_when_full && matches!(op, Op::Write | Op::WriteZeroes),
                    Failure::Invalid => false,
                };
                if !expected {
                    return Err(violation!("interface: {failure:?} to a {op:?} at byte {} over {}", waiting.offset, waiting.length));
                }
                // Blocks whose count is lost are neither handed out nor freed.
                // Nobody has to send it again: it was not acknowledged.
                let no_space = matches!(failure, Failure::NoSpace | Failure::Full);
                if no_space && !weather.errors {
                    self.check_no_space(&waiting, oracle)?;
                }
                self.is_to_be_asked |= *failure == Failure::Full;
                let refused = waiting.late && *failure == Failure::ReadOnly || no_space && waiting.marks.len() == 1;
                for &mark in waiting.marks.iter().filter(|_| op != Op::Read) {
                    if refused { oracle.refuse(mark) } else { oracle.fail(mark) }
                }
                Ok(Raised { no_space, ..Raised::default() })
            }
            (op, Reply::Done) => {
                if weather.failed {
                    return Err(violation!("A5: a {op:?} was acknowledged after the device had failed"));
                }
                let durable = self.is_durable(&waiting);
                if durable && weather.lost {
                    return Err(violation!(
                        "P1: acknowledgements were lost, and the first {op:?} that waits for durability does not say so"
                    ));
                }
                waiting.marks.iter().for_each(|&mark| oracle.acknowledge(mark));
                self.sought.written(&waiting);
                let raised = if durable && op != Op::Flush { waiting.marks } else { waiting.promise };
                raised.iter().for_each(|&mark| oracle.raise(mark));
                Ok(Raised { lbns: raised.iter().map(|m| m.lbn).collect(), ..Raised::default() })
            }
        }
    }

    /// Whether the reply to a request that waits promises durability.
    #[must_use]
    pub fn waits_for_durability(&self, id: RequestId) -> bool {
        self.waiting.get(&id.0).is_some_and(|waiting| self.is_durable(waiting))
    }

    fn is_durable(&self, waiting: &Waiting) -> bool {
        match waiting.op {
            Op::Read => false,
            Op::Flush => true,
            _ => waiting.fua || self.options.settings.persistence == Persistence::Strong,
        }
    }

    /// However badly things lie, no LBN needs more than one block: below that many there is room, once everything pending is done.
    fn check_no_space(&self, waiting: &Waiting, oracle: &Oracle) -> Result<(), Violation> {
        let geometry = &self.volume.geometry;
        let (used, wanted) = (oracle.blocks_at_most(), waiting.length.div_ceil(BLOCK_BYTES) + 1);
        if used + wanted <= geometry.data_blocks - geometry.reserve_blocks
            || geometry.logical_blocks <= geometry.data_blocks - geometry.reserve_blocks
        {
            return Err(violation!(
                "ENOSPC: {:?} at byte {} over {}, while at most {used} of {} blocks are needed",
                waiting.op,
                waiting.offset,
                waiting.length,
                geometry.data_blocks - geometry.reserve_blocks
            ));
        }
        Ok(())
    }

    fn check_data(&self, waiting: &Waiting, segments: &[Segment], oracle: &Oracle) -> Result<Raised, Violation> {
        let mut bytes = Vec::with_capacity(usize::try_from(waiting.length).expect("a read fits memory"));
        for segment in segments {
            match segment {
                Segment::Zeroes { bytes: n } => bytes.resize(bytes.len() + usize::try_from(*n).expect("a read fits memory"), 0),
                Segment::Data { slice, start, bytes: n } => bytes.extend_from_slice(&slice.bytes()[*start..*start + *n]),
            }
        }
        if bytes.len() as u64 != waiting.length {
            return Err(violation!("interface: {} bytes to a read of {}", bytes.len(), waiting.length));
        }
        let mut raised = Raised::default();
        let mut at = usize::try_from(waiting.offset % BLOCK_BYTES).expect("within a block");
        let mut rest = &bytes[..];
        for &mark in &waiting.marks {
            let (found, after) = rest.split_at(rest.len().min(BLOCK_SIZE - at));
            if !oracle.may_read(mark, at, found) {
                let block = Content::zero().patched(at, found);
                return Err(violation!(
                    "P2: LBN {} reads {block:?} at byte {at}+{}, where {} is allowed",
                    mark.lbn,
                    found.len(),
                    oracle.describe(mark.lbn)
                ));
            }
            raised.learnt.push((mark, at, found.to_vec()));
            (rest, at) = (after, 0);
        }
        Ok(raised)
    }
}
