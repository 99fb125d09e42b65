//! CAFTL (Chen, Luo and Zhang, FAST '11), as SmartDedup compares with it (section 4): deduplication in the translation layer of the flash.
//!
//! 1. The mapping is the flash's own, so that it costs neither memory nor writes; fingerprints have a bounded memory. A block has the place
//!    that has been free for the longest time.
//! 2. Sampling: of a request of several blocks the first is fingerprinted, and the others only if it was found.
//! 3. Pre-hashing, if it is on: a block is fingerprinted only if its CRC32 was seen before.
//! 4. The fingerprint with the fewest references leaves memory first, the oldest of several.
//! 5. A write is answered when the device has its new blocks, as by a plain disk; a client's flush is a device flush.
//! 6. In line only: out of line it works where the device idles, of which SmartDedup says that it helps little. Computing takes no time.

mod fingerprints;

use super::in_flight::InFlight;
use super::reads::{Piece, Reads};
use super::{Baseline, Report, Settings, name_of};
use crate::machine::Machine;
use fingerprints::Fingerprints;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::interface::{Action, Class, Event, Failure, IoFailure, Legacy, Notice, Op, Reply, Request, RequestId};
use onefold_engine::units::{BLOCK_BYTES, Blocks, Bytes, Time, index};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

enum Purpose {
    Write { request: RequestId, first: u32, blocks: u32 },
    Flush,
    Read { request: RequestId, segment: usize },
}

/// A write whose blocks are on their way.
struct Writing {
    left: usize,
    is_durable: bool,
    failed: bool,
}

/// A block of the device: its links, and its content if it has a fingerprint.
#[derive(Clone, Copy, Default)]
struct Block {
    links: u32,
    content: Option<Fingerprint>,
}

/// The system with deduplication in the device.
pub struct Caftl {
    settings: Settings,
    fingerprints: Fingerprints,
    has_pre_hashing: bool,
    map: FxHashMap<u64, u32>,
    blocks: Vec<Block>,
    free: VecDeque<u32>,
    in_flight: InFlight<Purpose>,
    writing: FxHashMap<u64, Writing>,
    /// The content of the blocks that are being written.
    held: FxHashMap<u32, Slice>,
    reads: Reads,
    /// The requests that wait for the next flush, and for the one in flight.
    unflushed: Vec<RequestId>,
    flushing: Vec<RequestId>,
    is_flushing: bool,
    serving: bool,
    closing: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    flushes: u64,
    duplicates: u64,
    fingerprinted: u64,
}

impl Caftl {
    /// Makes it with this much memory for fingerprints.
    ///
    /// # Panics
    /// When the volume has 2^32 blocks or more.
    #[must_use]
    pub fn new(settings: Settings, memory_bytes: u64, has_pre_hashing: bool) -> Self {
        let blocks = u32::try_from(settings.logical.0 + settings.reserve.0).expect("the lab's volumes are small");
        Self {
            fingerprints: Fingerprints::new(memory_bytes, has_pre_hashing),
            has_pre_hashing,
            map: FxHashMap::default(),
            blocks: vec![Block::default(); blocks as usize],
            free: (0..blocks).collect(),
            in_flight: InFlight::default(),
            writing: FxHashMap::default(),
            held: FxHashMap::default(),
            reads: Reads::default(),
            unflushed: Vec::new(),
            flushing: Vec::new(),
            is_flushing: false,
            serving: false,
            closing: false,
            counts: Counts::default(),
            settings,
        }
    }

    fn request(&mut self, request: Request, out: &mut Vec<Action>) {
        let Some((first, blocks)) = self.settings.blocks_of(&request) else {
            out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::Invalid) });
            return;
        };
        let is_durable = request.fua || self.settings.strong();
        match request.op {
            Op::Flush => self.unflushed.push(request.id),
            Op::Read => self.read(request.id, first, blocks, out),
            Op::Extents => out.push(Action::Reply { request: request.id, reply: Reply::Failed(Failure::Invalid) }),
            Op::Write => {
                self.writing.insert(request.id.0, Writing { left: 1, is_durable, failed: false });
                self.write(first, &request, out);
                self.part_is_written(request.id, Ok(()), out);
            }
            Op::Discard | Op::WriteZeroes => {
                (first..first + blocks).for_each(|lbn| self.unmap(lbn));
                self.answer(request.id, is_durable, false, out);
            }
        }
    }

    fn write(&mut self, first: u64, request: &Request, out: &mut Vec<Action>) {
        let payload = request.payload.as_ref().expect("a write brings its bytes");
        let mut run: Option<(u32, Slice)> = None;
        // Whether the first block of the request was found.
        let mut was_found = None;
        for (i, &digest) in payload.digests.iter().enumerate() {
            let lbn = first + i as u64;
            let content = match digest {
                Digest::Of(content) => Some(content),
                // Zeros are a content like others.
                Digest::Zero => Some(Fingerprint([0; 20])),
                Digest::Partial | Digest::Checksum(_) => None,
            };
            let taken = content.filter(|content| was_found != Some(false) && self.fingerprints.takes(content));
            let found = taken.and_then(|content| self.fingerprints.find(&content));
            was_found.get_or_insert(found.is_some());
            self.counts.fingerprinted += u64::from(taken.is_some());
            if let Some(pbn) = found {
                self.counts.duplicates += 1;
                self.blocks[pbn as usize].links += 1;
                self.unmap(lbn);
                self.map.insert(lbn, pbn);
                continue;
            }
            self.unmap(lbn);
            let pbn = self.free.pop_front().expect("the reserve is larger than what is being written");
            self.blocks[pbn as usize] = Block { links: 1, content: taken };
            self.map.insert(lbn, pbn);
            taken.into_iter().for_each(|content| self.fingerprints.note(content, pbn));
            let slice = payload.buffer.slice(i, 1);
            self.held.insert(pbn, slice.clone());
            run = match run.take() {
                Some((start, mut held)) if index(u64::from(start)) + held.blocks() == pbn as usize => match held.join(slice) {
                    None => Some((start, held)),
                    Some(apart) => {
                        self.write_run(request.id, start, held, out);
                        Some((pbn, apart))
                    }
                },
                Some((start, held)) => {
                    self.write_run(request.id, start, held, out);
                    Some((pbn, slice))
                }
                None => Some((pbn, slice)),
            };
        }
        run.into_iter().for_each(|(start, held)| self.write_run(request.id, start, held, out));
    }

    fn write_run(&mut self, request: RequestId, first: u32, data: Slice, out: &mut Vec<Action>) {
        self.writing.get_mut(&request.0).expect("it is being written").left += 1;
        let blocks = u32::try_from(data.blocks()).expect("a request is small");
        let io = self.in_flight.issue(Purpose::Write { request, first, blocks });
        out.push(Action::Write { io, at: Blocks(u64::from(first)).bytes(), data: vec![data], class: Class::Data, fua: false });
    }

    fn unmap(&mut self, lbn: u64) {
        let Some(pbn) = self.map.remove(&lbn) else { return };
        let block = &mut self.blocks[pbn as usize];
        block.links -= 1;
        if block.links == 0 {
            if let Some(content) = std::mem::take(block).content {
                self.fingerprints.forget(&content, pbn);
            }
            self.free.push_back(pbn);
        }
    }

    /// A part of a write is on the device, or there was nothing to write.
    fn part_is_written(&mut self, request: RequestId, result: Result<(), IoFailure>, out: &mut Vec<Action>) {
        let writing = self.writing.get_mut(&request.0).expect("it is being written");
        writing.left -= 1;
        writing.failed |= result.is_err();
        if writing.left == 0 {
            let Writing { is_durable, failed, .. } = self.writing.remove(&request.0).expect("it was there");
            self.answer(request, is_durable, failed, out);
        }
    }

    fn answer(&mut self, request: RequestId, is_durable: bool, failed: bool, out: &mut Vec<Action>) {
        if failed {
            out.push(Action::Reply { request, reply: Reply::Failed(Failure::Io) });
        } else if is_durable {
            self.unflushed.push(request);
        } else {
            out.push(Action::Reply { request, reply: Reply::Done });
        }
    }

    fn read(&mut self, request: RequestId, first: u64, blocks: u64, out: &mut Vec<Action>) {
        let (map, held) = (&self.map, &self.held);
        let pieces = (first..first + blocks).map(|lbn| match map.get(&lbn) {
            None => Piece::Zero,
            Some(pbn) => held.get(pbn).map_or(Piece::At(u64::from(*pbn)), |slice| Piece::Held(slice.clone())),
        });
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

    fn go_on(&mut self, out: &mut Vec<Action>) {
        if !self.unflushed.is_empty() && !self.is_flushing {
            self.flushing = std::mem::take(&mut self.unflushed);
            self.is_flushing = true;
            self.counts.flushes += 1;
            out.push(Action::Flush { io: self.in_flight.issue(Purpose::Flush) });
        }
        if self.closing && self.in_flight.len() == 0 {
            self.closing = false;
            out.push(Action::Closed { clean: true });
        }
    }
}

impl Machine for Caftl {
    fn step(&mut self, _now: Time, event: Event, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.serving, true) {
            out.push(Action::Notice(Notice::Serving));
        }
        match event {
            Event::Request(request) => self.request(request, out),
            Event::Written { io, result } => {
                let Purpose::Write { request, first, blocks } = self.in_flight.done(io) else { unreachable!("only writes complete so") };
                (first..first + blocks).for_each(|pbn| _ = self.held.remove(&pbn));
                self.part_is_written(request, result, out);
            }
            Event::Flushed { io, result } => {
                self.in_flight.done(io);
                self.is_flushing = false;
                let reply = || if result.is_ok() { Reply::Done } else { Reply::Failed(Failure::Io) };
                out.extend(self.flushing.drain(..).map(|request| Action::Reply { request, reply: reply() }));
            }
            Event::Read { io, buffer, result, .. } => {
                let Purpose::Read { request, segment } = self.in_flight.done(io) else { unreachable!("only reads complete so") };
                out.extend(self.reads.filled(request, segment, buffer, result).map(|reply| Action::Reply { request, reply }));
            }
            Event::Close => self.closing = true,
            _ => {}
        }
        self.go_on(out);
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        assert!(legacy.promises.is_empty(), "a rival has no acknowledgement journal");
    }
}

impl Baseline for Caftl {
    fn device_bytes(&self) -> Bytes {
        Bytes(self.blocks.len() as u64 * BLOCK_BYTES)
    }

    fn format(&self) -> Vec<(Bytes, Slice)> {
        Vec::new()
    }

    fn report(&self) -> Report {
        Report {
            scheme: if self.has_pre_hashing { "caftl" } else { "caftl-without-pre-hashing" },
            persistence: name_of(self.settings.persistence),
            epochs: Vec::new(),
            facts: vec![
                ("device flushes", self.counts.flushes),
                // Zeros and content that an LBN has already are duplicates like others.
                ("duplicates", self.counts.duplicates),
                ("unchanged blocks", 0),
                ("zero blocks", 0),
                ("blocks fingerprinted", self.counts.fingerprinted),
                ("fingerprints in memory", self.fingerprints.len()),
            ],
            in_memory: "the mapping, as the flash's own; CRCs; and a bounded number of fingerprints",
        }
    }
}
