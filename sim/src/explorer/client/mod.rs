//! The clients of a run: they send requests and compare every reply with the oracle.
//!
//! 1. Each request gets exactly one reply.
//! 2. A read returns, block by block, a version no older than the newest one acknowledged before it was sent, or (after a failure of the
//!    device or damage) an error; never anything else.
//! 3. Nothing that would have to be durable is acknowledged after the device has failed (A5).

mod check;
mod coincidences;
mod contents;
mod draw;
mod waiting;

pub use contents::letter;

use coincidences::Coincidences;
use contents::with_head;
use waiting::Waiting;

use super::options::Options;
use super::setting::Stretch;
use crate::checkers::faults::FaultState;
use crate::checkers::oracle::{Mark, Oracle, Patch};
use crate::device::volume::Volume;
use crate::ground::content::{Content, Shared, pattern};
use crate::ground::record::record;
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::adaptation::{ALL, is_selected};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Digest;
use onefold_engine::interface::{Failure, Op, Payload, Policies, Policy, Reply, Request, RequestId};
use onefold_engine::policy::Stream;
use onefold_engine::settings::Persistence;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The effects of a reply on the floors.
#[derive(Debug, Default)]
pub struct ReplyEffects {
    pub lbns: Vec<u64>,
    /// Whether the reply was ENOSPC, or that the volume is full for now.
    pub no_space: bool,
    /// Whether the reply reported that acknowledgements are lost.
    pub reported_lost: bool,
    /// The blocks of which a whole or a part was read: mark, first byte, bytes.
    pub learnt: Vec<(Mark, usize, Vec<u8>)>,
}

/// The clients.
pub struct Client {
    volume: Rc<Volume>,
    options: Rc<Options>,
    stretches: Rc<Vec<Stretch>>,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    unique: u64,
    /// The share of writes that are to get their fingerprint at once, in per cent.
    selectivity: u8,
    alphabet: Vec<Shared>,
    /// The contents that blocks are to take again, if contents are to coincide.
    coincidences: Coincidences,
    /// Whether a write was refused for now, to be sent again.
    is_to_be_asked: bool,
    /// The blocks of which a read, of each by itself, has failed.
    unreadable: BTreeSet<u64>,
    /// The number of writes that have failed.
    pub refused_writes: u64,
}

impl Client {
    /// Makes the clients of a volume, which write to some of its blocks.
    #[must_use]
    pub fn new(volume: Rc<Volume>, options: Rc<Options>, stretches: Rc<Vec<Stretch>>, rng: &mut Rng) -> Self {
        let alphabet = (0..options.alphabet).map(|i| with_head(&options, pattern(&letter(i)))).collect();
        Self {
            volume,
            options,
            stretches,
            waiting: BTreeMap::new(),
            next: 1,
            unique: rng.u64(0..1 << 40),
            selectivity: ALL,
            alphabet,
            coincidences: Coincidences::default(),
            is_to_be_asked: false,
            unreadable: BTreeSet::new(),
            refused_writes: 0,
        }
    }

    /// Takes the share of writes that are to get their fingerprint at once, in per cent.
    pub fn set_selectivity(&mut self, percent: u8) {
        self.selectivity = percent;
    }

    /// Takes the blocks of which a read, of each by itself, has failed since this was asked last.
    pub fn take_unreadable(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.unreadable)
    }

    /// Returns the number of requests that wait for a reply.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the request that has waited longest.
    #[must_use]
    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.keys().next().copied()
    }

    /// Describes the waiting requests.
    #[must_use]
    pub fn describe_waiting(&self) -> String {
        let one = |(id, w): (&u64, &Waiting)| format!("{id}: {:?} at {} over {}", w.op, w.offset, w.length);
        self.waiting.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn admit(&mut self, waiting: Waiting, payload: Option<Payload>) -> Request {
        let policies = self.policies();
        let id = self.next;
        self.next += 1;
        let request = Request {
            id: RequestId(id),
            op: waiting.op,
            offset: Bytes(waiting.offset),
            length: Bytes(waiting.length),
            payload,
            fua: waiting.fua,
            policies,
        };
        self.waiting.insert(id, waiting);
        request
    }

    /// Sends a write of whole blocks.
    pub fn write(&mut self, first: u64, contents: &[Shared], fua: bool, oracle: &mut Oracle) -> Request {
        self.write_sectors(first * 8, contents.len() as u64 * 8, contents, fua, oracle)
    }

    /// Sends a write of some sectors; `contents` are those that the touched blocks would have if the write covered them.
    pub fn write_sectors(&mut self, first: u64, sectors: u64, contents: &[Shared], fua: bool, oracle: &mut Oracle) -> Request {
        let (is_deferred, policies) = (self.defers(), self.policies());
        let mut buffer = BufferMut::zeroed(contents.len());
        let mut digests = Vec::with_capacity(contents.len());
        let mut marks = Vec::with_capacity(contents.len());
        for (i, (lbn, content)) in (first / 8..).zip(contents).enumerate() {
            let from = usize::try_from((first.max(lbn * 8) - lbn * 8) * 512).expect("within a block");
            let to = usize::try_from(((first + sectors).min(lbn * 8 + 8) - lbn * 8) * 512).expect("within a block");
            let bytes = &content.bytes()[from..to];
            let whole = to - from == BLOCK_SIZE;
            // The rest of the buffer is arbitrary: it must not show anywhere.
            buffer.block_mut(i).fill(0x5a);
            buffer.block_mut(i)[from..to].copy_from_slice(bytes);
            digests.push(match whole {
                // A server need not fingerprint what stays apart.
                true if is_deferred || policies.of(i).is_apart() && i % 2 == 0 => self.volume.fingerprinter.defer(content.bytes()),
                true => self.volume.digest(content),
                false => Digest::Partial,
            });
            let patch = if whole { Patch::Whole(content.clone()) } else { Patch::Part { at: from, bytes: bytes.into() } };
            marks.push(oracle.send(lbn, patch, true));
        }
        let waiting = Waiting { op: Op::Write, offset: first * 512, length: sectors * 512, fua, marks, promise: Vec::new(), late: false };
        let request = self.admit(waiting, Some(Payload { buffer: buffer.freeze(), digests }));
        record!("  client {}: write sectors {first}+{sectors} {contents:?}{}", request.id.0, if fua { " fua" } else { "" });
        request
    }

    /// Returns the policies that the next request brings. Its number decides, so that no other draw changes.
    fn policies(&self) -> Policies {
        let mut rng = Rng::with_seed(!self.next ^ self.unique.rotate_left(32));
        let hinted = rng.u8(..) < self.options.hinted;
        let mut of_streams = Rng::with_seed(rng.clone().u64(..));
        let has_streams = of_streams.u8(..) < self.options.streams;
        if !hinted && !has_streams {
            return Policies::default();
        }
        let all =
            [Policy::DEFAULT, Policy::DEFAULT.apart(), Policy::DEFAULT.plain(), Policy::DEFAULT.unindexed(), Policy::DEFAULT.prefetched()];
        let mut draw = || {
            let advice = if hinted { all[rng.usize(0..all.len())].and(all[rng.usize(0..all.len())]) } else { Policy::DEFAULT };
            let stream = Stream::new(if has_streams { of_streams.usize(0..4) } else { 0 }).unwrap_or_default();
            advice.of_stream(stream)
        };
        // A request of many bios knows different things of its blocks, and nothing of the last ones.
        if self.next % 2 == 0 { Policies::Same(draw()) } else { Policies::Each([draw(), draw(), draw()].into()) }
    }

    /// Returns whether the next write is deferred. Its number decides, so that no other draw changes.
    fn defers(&self) -> bool {
        let drawn = Rng::with_seed(self.next ^ self.unique).u8(..) < self.options.deferred;
        drawn || !is_selected(self.next, self.selectivity)
    }

    /// Sends a read of whole sectors, given in bytes.
    pub fn read(&mut self, offset: u64, length: u64, oracle: &mut Oracle) -> Request {
        oracle.begin_read();
        let marks = (offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)).map(|lbn| oracle.acknowledged(lbn)).collect();
        let request = self.admit(Waiting { op: Op::Read, offset, length, fua: false, marks, promise: Vec::new(), late: false }, None);
        record!("  client {}: read sectors {}+{}", request.id.0, offset / 512, length / 512);
        request
    }

    /// Asks for extents. Its number decides whether a read becomes such a request, so that no other draw changes.
    pub fn read_or_ask(&mut self, offset: u64, length: u64, oracle: &mut Oracle) -> Request {
        if self.next % 4 != 0 {
            return self.read(offset, length, oracle);
        }
        oracle.begin_read();
        let marks = (offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)).map(|lbn| oracle.acknowledged(lbn)).collect();
        let request = self.admit(Waiting { op: Op::Extents, offset, length, fua: false, marks, promise: Vec::new(), late: false }, None);
        record!("  client {}: extents of sectors {}+{}", request.id.0, offset / 512, length / 512);
        request
    }

    /// Sends a flush.
    pub fn flush(&mut self, oracle: &Oracle) -> Request {
        let promise = oracle.promised_by_flush();
        let request =
            self.admit(Waiting { op: Op::Flush, offset: 0, length: 0, fua: false, marks: Vec::new(), promise, late: false }, None);
        record!("  client {}: flush", request.id.0);
        request
    }

    /// Sends a discard or write-zeroes of some sectors.
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

    /// Notes that the volume was read-only before this request, which therefore will not be carried out.
    pub fn is_late(&mut self, id: RequestId) {
        if let Some(waiting) = self.waiting.get_mut(&id.0) {
            waiting.is_late();
        }
    }

    /// Notes that refused writes may be sent again.
    ///
    /// # Errors
    /// Fails if none was refused.
    pub fn may_send_again(&self) -> Result<(), Violation> {
        if self.is_to_be_asked { Ok(()) } else { Err(violation!("interface: it asks for writes, but has refused none")) }
    }

    /// Checks a reply.
    ///
    /// # Errors
    /// Fails if the reply breaks one of the invariants above.
    pub fn reply(&mut self, id: RequestId, reply: &Reply, oracle: &mut Oracle, faults: FaultState) -> Result<ReplyEffects, Violation> {
        let Some(waiting) = self.waiting.remove(&id.0) else {
            return Err(violation!("interface: a reply to request {}, which does not wait for one", id.0));
        };
        match reply {
            Reply::Done => record!("  client {}: done", id.0),
            Reply::Data(_) => record!("  client {}: data", id.0),
            Reply::Extents(extents) => record!("  client {}: {extents:?}", id.0),
            Reply::Failed(failure) => record!("  client {}: {failure:?}", id.0),
        }
        if matches!(waiting.op, Op::Read | Op::Extents) {
            oracle.end_read();
        }
        match (waiting.op, reply) {
            (Op::Read, Reply::Data(segments)) => self.check_data(&waiting, segments, oracle),
            (Op::Extents, Reply::Extents(extents)) => self.check_extents(&waiting, extents, oracle, faults),
            (Op::Read | Op::Extents, Reply::Done) | (_, Reply::Data(_) | Reply::Extents(_)) => {
                Err(violation!("interface: {reply:?} to a {:?}", waiting.op))
            }
            (_, Reply::Failed(Failure::Io)) if (faults.lost || faults.doubted) && self.is_durable(&waiting) => {
                waiting.marks.iter().for_each(|&mark| oracle.fail(mark));
                Ok(ReplyEffects { reported_lost: true, ..ReplyEffects::default() })
            }
            (op, Reply::Failed(failure)) => {
                let expected = match failure {
                    Failure::Io => faults.errors,
                    Failure::ReadOnly => faults.failed && !matches!(op, Op::Read | Op::Extents),
                    Failure::NoSpace => matches!(op, Op::Write | Op::Discard | Op::WriteZeroes),
                    Failure::Full => self.options.settings.facts.retries_when_full && matches!(op, Op::Write | Op::WriteZeroes),
                    Failure::Invalid => false,
                };
                if !expected {
                    return Err(violation!("interface: {failure:?} to a {op:?} at byte {} over {}", waiting.offset, waiting.length));
                }
                // Blocks whose count is lost are neither allocated nor freed.
                // Nobody has to send the request again: it was not acknowledged.
                let no_space = matches!(failure, Failure::NoSpace | Failure::Full);
                if no_space && !faults.errors {
                    self.check_no_space(&waiting, oracle)?;
                }
                self.is_to_be_asked |= *failure == Failure::Full;
                self.refused_writes += u64::from(op == Op::Write);
                if (op, waiting.length) == (Op::Read, BLOCK_BYTES) {
                    self.unreadable.insert(waiting.offset / BLOCK_BYTES);
                }
                let refused = waiting.late && *failure == Failure::ReadOnly || no_space && waiting.marks.len() == 1;
                for &mark in waiting.marks.iter().filter(|_| !matches!(op, Op::Read | Op::Extents)) {
                    if refused { oracle.refuse(mark) } else { oracle.fail(mark) }
                }
                Ok(ReplyEffects { no_space, ..ReplyEffects::default() })
            }
            (op, Reply::Done) => {
                if faults.failed {
                    return Err(violation!("A5: a {op:?} was acknowledged after the device had failed"));
                }
                let durable = self.is_durable(&waiting);
                if durable && faults.lost {
                    return Err(violation!(
                        "P1: acknowledgements were lost, and the first {op:?} that waits for durability does not report it"
                    ));
                }
                waiting.marks.iter().for_each(|&mark| oracle.acknowledge(mark));
                self.coincidences.written(&waiting);
                let raised = if durable && op != Op::Flush { waiting.marks } else { waiting.promise };
                raised.iter().for_each(|&mark| oracle.raise(mark));
                Ok(ReplyEffects { lbns: raised.iter().map(|m| m.lbn).collect(), ..ReplyEffects::default() })
            }
        }
    }

    /// Returns whether the reply to a waiting request means durability.
    #[must_use]
    pub fn waits_for_durability(&self, id: RequestId) -> bool {
        self.waiting.get(&id.0).is_some_and(|waiting| self.is_durable(waiting))
    }

    fn is_durable(&self, waiting: &Waiting) -> bool {
        match waiting.op {
            Op::Read | Op::Extents => false,
            Op::Flush => true,
            _ => waiting.fua || self.options.settings.persistence == Persistence::Strong,
        }
    }

    /// Checks a reply of ENOSPC. Even in the worst case no LBN needs more than one block: below that many there is room, once everything
    /// pending is done.
    fn check_no_space(&self, waiting: &Waiting, oracle: &Oracle) -> Result<(), Violation> {
        // The store below may have none.
        if self.options.runs_out {
            return Ok(());
        }
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
}
