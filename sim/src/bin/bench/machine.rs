//! The engine, a counting device, and time that passes only where the job lets it.

use crate::device::{CountingDevice, Counts};
use onefold_engine::Engine;
use onefold_engine::buffer::{Buffer, BufferMut, Frame, Home};
use onefold_engine::fingerprint::{Algorithm, Digest, Fingerprint};
use onefold_engine::format::{self, FormatStep, Geometry, Superblock, Wish};
use onefold_engine::interface::{Action, Event, Hint, Notice, Op, Payload, Reply, Request, RequestId};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, Bytes, Time, count};
use std::collections::VecDeque;
use std::sync::Arc;

struct Heap;

impl Home for Heap {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::zeroed(blocks)
    }

    fn give_back(&self, _: Box<[Frame]>, _: u32) {}
}

/// One volume at work.
pub struct Machine {
    engine: Engine,
    pub device: CountingDevice,
    now: u64,
    wake: Option<u64>,
    next: u64,
    answered: u64,
    closed: bool,
    /// The bytes of every write: no one looks at them.
    bytes: Buffer,
    out: Vec<Action>,
    events: VecDeque<Event>,
}

impl Machine {
    /// Formats a volume of `bytes` and opens it.
    pub fn new(bytes: u64, settings: Settings) -> Self {
        let bytes = Bytes(bytes);
        let geometry = Geometry::plan(bytes, &Wish { logical_blocks: None, reserve_blocks: None }).expect("the volume is large enough");
        let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &settings);
        let mut device = CountingDevice::default();
        for step in format::format(&superblock, bytes, &[]) {
            match step {
                FormatStep::Zero { at, length } => device.zero(at, length),
                FormatStep::Write { at, page } => device.store(at, &page[..]),
                FormatStep::Flush => {}
            }
        }
        let pages = format::copies(bytes).map(|at| device.page(at));
        let chosen = format::choose([Some(&pages[0]), Some(&pages[1]), Some(&pages[2]), Some(&pages[3])], bytes).expect("a volume");
        let accountant = Accountant::new(settings.memory_bytes);
        let engine = Engine::open(chosen.superblock, settings, Arc::new(Heap), accountant, Time(0));
        let mut machine = Self {
            engine,
            device,
            now: 0,
            wake: None,
            next: 1,
            answered: 0,
            closed: false,
            bytes: BufferMut::zeroed(32).freeze(),
            out: Vec::new(),
            events: VecDeque::new(),
        };
        machine.feed(Event::Tick);
        // The opening, and what it does in the background, are over before anything is counted.
        machine.pass(2_000_000_000);
        machine
    }

    fn feed(&mut self, event: Event) {
        self.events.push_back(event);
        while let Some(event) = self.events.pop_front() {
            let mut out = std::mem::take(&mut self.out);
            self.engine.step(Time(self.now), event, &mut out);
            for action in out.drain(..) {
                match self.device.carry_out(action) {
                    Ok(event) => self.events.push_back(event),
                    Err(Action::Reply { reply, .. }) => {
                        assert!(matches!(reply, Reply::Done), "a request failed: {reply:?}");
                        self.answered += 1;
                    }
                    Err(Action::Wake { at }) => self.wake = Some(at.get()),
                    Err(Action::Notice(notice)) => {
                        assert!(!matches!(notice, Notice::Damage { .. } | Notice::WentReadOnly { .. }), "{notice:?}");
                    }
                    Err(Action::Closed { clean }) => {
                        assert!(clean, "the volume was not closed clean");
                        self.closed = true;
                    }
                    Err(other) => panic!("nobody expected {other:?}"),
                }
            }
            self.out = out;
        }
    }

    /// Lets time pass, timers included.
    pub fn pass(&mut self, nanoseconds: u64) {
        let until = self.now + nanoseconds;
        while let Some(at) = self.wake.filter(|at| *at <= until) {
            self.wake = None;
            self.now = self.now.max(at);
            self.feed(Event::Tick);
        }
        self.now = until;
    }

    fn send(&mut self, op: Op, offset: u64, length: u64, payload: Option<Payload>) {
        let id = RequestId(self.next);
        self.next += 1;
        self.feed(Event::Request(Request { id, op, offset: Bytes(offset), length: Bytes(length), payload, fua: false, hint: Hint::None }));
    }

    /// Waits for the answers to everything that was sent.
    fn settle(&mut self) {
        while self.answered + 1 < self.next {
            let at = self.wake.take().expect("an answer is owed, so something is waited for");
            self.now = self.now.max(at);
            self.feed(Event::Tick);
        }
    }

    /// Writes blocks whose contents have these names. Name 0 is all zeros; no bytes are moved and none are hashed.
    pub fn write(&mut self, lbn: u64, names: &[u64]) {
        let digests = names.iter().map(|name| digest(*name)).collect();
        let buffer = self.bytes.clone();
        assert!(names.len() <= buffer.blocks());
        self.send(Op::Write, lbn * BLOCK_BYTES, count(names.len()) * BLOCK_BYTES, Some(Payload { buffer, digests }));
        self.settle();
    }

    pub fn flush(&mut self) {
        self.send(Op::Flush, 0, 0, None);
        self.settle();
    }

    /// Lets the non-critical delay pass and closes: nothing is left to write. Compares the device's counts with the engine's own.
    pub fn finish(&mut self) {
        self.pass(40_000_000_000);
        self.feed(Event::Close);
        while !self.closed {
            let at = self.wake.take().expect("the volume closes, so something is waited for");
            self.now = self.now.max(at);
            self.feed(Event::Tick);
        }
        let ledger = self.engine.ledger();
        assert_eq!(ledger.device_units(), self.device.counts.total(), "the ledger tells of all units");
        assert_eq!(ledger.device_flushes, self.device.counts.flushes, "the ledger tells of all flushes");
    }

    pub fn counts(&self) -> Counts {
        self.device.counts
    }
}

/// The digest of the content of that name: as evenly spread as a hash.
fn digest(name: u64) -> Digest {
    if name == 0 {
        return Digest::Zero;
    }
    let mut bytes = [0; 20];
    let mut x = name;
    for piece in bytes.chunks_mut(8) {
        x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = x;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        piece.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..piece.len()]);
    }
    Digest::Of(Fingerprint::of_digest(&bytes))
}
