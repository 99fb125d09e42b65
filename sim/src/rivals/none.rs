//! No deduplication: each request goes to its own place.
//!
//! 1. A client's flush is a device flush. Under weak persistence a write is answered when the device has it, as a plain disk does.
//! 2. Under strong persistence, and with FUA, a write is answered after a flush that was issued when the device had it; writes that wait
//!    together share one.
//! 3. A discarded or zeroed block reads as zeros, however the device implements a discard.

use super::in_flight::InFlight;
use super::reads::{Piece, Reads};
use super::{Baseline, Report, Settings, name_of};
use crate::machine::Machine;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::interface::{Action, Class, Event, Failure, IoFailure, Legacy, Notice, Op, Reply, Request, RequestId};
use onefold_engine::units::{BLOCK_BYTES, Blocks, Bytes, Time};
use rustc_hash::FxHashSet;

enum Purpose {
    Change { request: RequestId, durable: bool },
    Flush,
    Read { request: RequestId, segment: usize },
}

/// The system without deduplication.
pub struct Plain {
    settings: Settings,
    in_flight: InFlight<Purpose>,
    reads: Reads,
    zeroed: FxHashSet<u64>,
    /// The requests that wait for the next flush, and for the one in flight.
    unflushed: Vec<RequestId>,
    flushing: Vec<RequestId>,
    flush_in_flight: bool,
    serving: bool,
    closing: bool,
    flushes: u64,
}

impl Plain {
    /// Makes a plain disk.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            in_flight: InFlight::default(),
            reads: Reads::default(),
            zeroed: FxHashSet::default(),
            unflushed: Vec::new(),
            flushing: Vec::new(),
            flush_in_flight: false,
            serving: false,
            closing: false,
            flushes: 0,
        }
    }

    fn request(&mut self, request: Request, out: &mut Vec<Action>) {
        let Some((first, blocks)) = self.settings.blocks_of(&request) else {
            out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::Invalid) });
            return;
        };
        let purpose = Purpose::Change { request: request.id, durable: request.fua || self.settings.strong() };
        match request.op {
            Op::Flush => self.unflushed.push(request.id),
            Op::Read => self.read(request.id, first, blocks, out),
            Op::Extents => out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::Invalid) }),
            Op::Write => {
                for block in first..first + blocks {
                    self.zeroed.remove(&block);
                }
                let payload = request.payload.expect("a write brings its bytes");
                let data = vec![payload.buffer.slice(0, payload.buffer.blocks())];
                out.push(Action::Write {
                    io: self.in_flight.issue(purpose),
                    at: Blocks(first).bytes(),
                    data,
                    class: Class::Data,
                    fua: false,
                });
            }
            Op::Discard | Op::WriteZeroes => {
                self.zeroed.extend(first..first + blocks);
                out.push(Action::Discard {
                    io: self.in_flight.issue(purpose),
                    at: Blocks(first).bytes(),
                    length: Blocks(blocks).bytes(),
                    fill: false,
                });
            }
        }
    }

    fn read(&mut self, request: RequestId, first: u64, blocks: u64, out: &mut Vec<Action>) {
        let zeroed = &self.zeroed;
        let pieces = (first..first + blocks).map(|block| if zeroed.contains(&block) { Piece::Zero } else { Piece::At(block) });
        match self.reads.begin(request, pieces) {
            Ok(reply) => out.push(Action::Reply { request, reply }),
            Err(runs) => out.extend(runs.into_iter().map(|run| Action::Read {
                io: self.in_flight.issue(Purpose::Read { request, segment: run.segment }),
                at: Blocks(run.first).bytes(),
                buffer: BufferMut::zeroed(run.blocks),
                digest: false,
                is_idle: false,
                class: Class::Data,
            })),
        }
    }

    fn changed(&mut self, purpose: Purpose, result: Result<(), IoFailure>, out: &mut Vec<Action>) {
        let Purpose::Change { request, durable } = purpose else { unreachable!("only changes complete so") };
        match (result, durable) {
            (Ok(()), true) => self.unflushed.push(request),
            (Ok(()), false) => out.push(Action::Reply { request, reply: Reply::Done }),
            (Err(IoFailure), _) => out.push(Action::Reply { request, reply: Reply::Failed(Failure::Io) }),
        }
    }

    fn flushed(&mut self, result: Result<(), IoFailure>, out: &mut Vec<Action>) {
        self.flush_in_flight = false;
        let reply = || if result.is_ok() { Reply::Done } else { Reply::Failed(Failure::Io) };
        out.extend(self.flushing.drain(..).map(|request| Action::Reply { request, reply: reply() }));
    }

    fn go_on(&mut self, out: &mut Vec<Action>) {
        if !self.unflushed.is_empty() && !self.flush_in_flight {
            self.flushing = std::mem::take(&mut self.unflushed);
            self.flush_in_flight = true;
            self.flushes += 1;
            out.push(Action::Flush { io: self.in_flight.issue(Purpose::Flush) });
        }
        if self.closing && self.in_flight.len() == 0 {
            self.closing = false;
            out.push(Action::Closed { clean: true });
        }
    }
}

impl Machine for Plain {
    fn step(&mut self, _now: Time, event: Event, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.serving, true) {
            out.push(Action::Notice(Notice::Serving));
        }
        match event {
            Event::Request(request) => self.request(request, out),
            Event::Written { io, result } | Event::Discarded { io, result } => {
                let purpose = self.in_flight.done(io);
                self.changed(purpose, result, out);
            }
            Event::Flushed { io, result } => {
                self.in_flight.done(io);
                self.flushed(result, out);
            }
            Event::Read { io, buffer, result, .. } => {
                let Purpose::Read { request, segment } = self.in_flight.done(io) else { unreachable!("only reads complete so") };
                out.extend(self.reads.filled(request, segment, buffer, result).map(|reply| Action::Reply { request, reply }));
            }
            Event::Close => self.closing = true,
            Event::Tick
            | Event::Digested { .. }
            | Event::Compressed { .. }
            | Event::Ousted
            | Event::StoreFailed
            | Event::SaveLedger
            | Event::EndWaiting
            | Event::Deduplicate(_)
            | Event::Protect(_)
            | Event::Scrub(_)
            | Event::Allowance(_)
            | Event::IndexMemory(_)
            | Event::StoreRoom(_) => {}
        }
        self.go_on(out);
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        assert!(legacy.promises.is_empty(), "a rival has no acknowledgement journal");
    }
}

impl Baseline for Plain {
    fn device_bytes(&self) -> Bytes {
        Bytes(self.settings.logical.0 * BLOCK_BYTES)
    }

    fn format(&self) -> Vec<(Bytes, Slice)> {
        Vec::new()
    }

    fn report(&self) -> Report {
        Report {
            scheme: "none",
            persistence: name_of(self.settings.persistence),
            epochs: Vec::new(),
            facts: vec![("device flushes", self.flushes)],
            in_memory: "which blocks were discarded, as the device itself would know",
        }
    }
}
