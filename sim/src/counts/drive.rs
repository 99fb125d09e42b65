//! Runs a load on the real engine over the counting device, in virtual time.
//!
//! 1. What the device is asked completes when the pace says so; what completes at one moment, in the order of issue.
//! 2. The client asks the accountant for each request's memory, as a front-end does, and waits while there is none.

use crate::counts::device::{Device, Tally, name_of, write_name};
use crate::counts::load::{Ask, Load};
use crate::counts::pace::Pace;
use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::check::{CheckSettings, Finding, check};
use onefold_engine::fingerprint::{Algorithm, Digest, Fingerprint};
use onefold_engine::format::{Geometry, Superblock, Wish};
use onefold_engine::interface::{Action, Event, Hint, Notice, Op, Payload, Reply, Request, RequestId};
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::settings::Settings;
use onefold_engine::stats::Ledger;
use onefold_engine::units::{BLOCK_BYTES, Blocks, Bytes, Time};
use onefold_trace::model::Timetable;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Requests that may be unanswered.
const DEPTH: usize = 32;

/// The digest of a content, made from its name: no bytes are hashed.
#[must_use]
pub fn digest_of(name: u64) -> Digest {
    if name == 0 {
        return Digest::Zero;
    }
    let mix = |x: u64| {
        let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let mut digest = [0; 24];
    digest[..8].copy_from_slice(&mix(name.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    digest[8..16].copy_from_slice(&name.to_le_bytes());
    Digest::Of(Fingerprint::of_digest(&digest))
}

/// Plain memory for the engine's own buffers.
struct Plain;

impl Home for Plain {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::zeroed(blocks)
    }

    fn give_back(&self, _: Box<[Frame]>, _: u32) {}
}

/// The client's buffers: their share of the budget returns with them.
struct Charged(Arc<Accountant>);

impl Home for Charged {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::of_pool(vec![Frame::ZERO; blocks].into_boxed_slice(), 0, self)
    }

    fn give_back(&self, frames: Box<[Frame]>, _: u32) {
        self.0.give(Part::Requests, frames.len() as u64 * BLOCK_BYTES);
    }
}

/// What a run was.
#[derive(Clone, Debug)]
pub struct Plan {
    pub device_bytes: u64,
    pub settings: Settings,
    pub pace: Pace,
}

/// What a run counted.
pub struct Outcome {
    pub load: Load,
    /// When service began, when the load was over, and when the volume was closed.
    pub opened: Tally,
    pub served: Tally,
    pub closed: Tally,
    pub ledger: Ledger,
    pub client_units: u64,
    pub client_flushes: u64,
    /// Virtual time that the load took.
    pub served_ns: u64,
    /// Times that content came back wrong, or `check` found something; empty.
    pub findings: Vec<Finding>,
}

struct Run {
    engine: Engine,
    device: Device,
    accountant: Arc<Accountant>,
    timetable: Timetable,
    think_ns: u64,
    now_ns: u64,
    /// Completions by time and order of issue.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    issued: u64,
    wake_ns: Option<u64>,
    load: Load,
    ask: Option<Ask>,
    client_ns: u64,
    unanswered: usize,
    flushing: bool,
    requests: u64,
    client_units: u64,
    client_flushes: u64,
    serving: bool,
    opened: Option<Tally>,
    closed: bool,
    out: Vec<Action>,
}

/// Runs a load on a new volume, from its opening to its clean close.
///
/// # Errors
/// When the engine's ledger does not agree with the device's account.
///
/// # Panics
/// When a request fails, damage is reported, or the engine stops answering.
pub fn run(plan: &Plan, load: Load) -> Result<Outcome, String> {
    let geometry = Geometry::plan(Bytes(plan.device_bytes), &Wish::default()).map_err(|e| e.to_string())?;
    let superblock = Superblock::new(geometry, *b"onefold-sim-uuid", [7; 32], Algorithm::Blake3, &plan.settings);
    let (device, superblock) = Device::formatted(&superblock);
    let accountant = Accountant::new(plan.settings.memory_bytes);
    let engine = Engine::open(superblock, plan.settings.clone(), Arc::new(Plain), accountant.clone(), Time(0));
    let mut run = Run {
        engine,
        device,
        accountant,
        timetable: Timetable::new(plan.pace.model),
        think_ns: plan.pace.think_ns,
        now_ns: 0,
        due: BinaryHeap::new(),
        events: BTreeMap::new(),
        issued: 0,
        wake_ns: None,
        load,
        ask: None,
        client_ns: 0,
        unanswered: 0,
        flushing: false,
        requests: 0,
        client_units: 0,
        client_flushes: 0,
        serving: false,
        opened: None,
        closed: false,
        out: Vec::new(),
    };
    run.feed(Event::Tick);
    while !run.serving {
        run.next_event();
    }
    let began_ns = run.now_ns;
    run.client_ns = began_ns;
    while run.client_goes_on() {
        run.next_event();
    }
    let (served, served_ns) = (run.device.tally.clone(), run.now_ns - began_ns);
    run.feed(Event::Close);
    while !run.closed {
        run.next_event();
    }
    let tally = run.device.tally.clone();
    tally.compare(run.engine.ledger())?;
    let mut findings = Vec::new();
    let settings = CheckSettings { memory_bytes: 64 << 20, data: false };
    check(&mut run.device, Bytes(plan.device_bytes), &settings, &mut |f| findings.push(f)).map_err(|e| e.to_string())?;
    Ok(Outcome {
        ledger: run.engine.ledger().clone(),
        opened: run.opened.expect("it served"),
        served,
        closed: tally,
        client_units: run.client_units,
        client_flushes: run.client_flushes,
        served_ns,
        load: run.load,
        findings,
    })
}

impl Run {
    /// Waits for whatever happens next.
    fn next_event(&mut self) {
        let completion = self.due.peek().map(|&Reverse((at, _))| at);
        let client = self.client_may_send().then_some(self.client_ns);
        let next = [completion, client, self.wake_ns].into_iter().flatten().min();
        let next =
            next.unwrap_or_else(|| panic!("nothing will ever happen ({}), and {} requests wait", self.engine.phase(), self.unanswered));
        self.now_ns = self.now_ns.max(next);
        if completion == Some(next) {
            let Reverse((_, number)) = self.due.pop().expect("it was seen");
            let event = self.events.remove(&number).expect("each completion has its event");
            self.feed(event);
        } else if client == Some(next) {
            self.send();
        } else {
            self.wake_ns = None;
            self.feed(Event::Tick);
        }
    }

    /// False when the load is over and everything is answered.
    fn client_goes_on(&mut self) -> bool {
        if self.ask.is_none() {
            self.ask = self.load.next();
        }
        self.ask.is_some() || self.unanswered > 0
    }

    fn client_may_send(&self) -> bool {
        if !self.serving || self.flushing {
            return false;
        }
        match &self.ask {
            None => false,
            Some(Ask::Flush) => self.unanswered == 0,
            Some(Ask::Write { contents, .. }) => {
                let bytes = Blocks(contents.len() as u64).bytes().0;
                let held = self.accountant.used(Part::Requests);
                self.unanswered < DEPTH && (held == 0 || held + bytes <= self.accountant.limit(Part::Requests))
            }
        }
    }

    fn send(&mut self) {
        let ask = self.ask.take().expect("there was something to send");
        self.requests += 1;
        self.unanswered += 1;
        self.client_ns = self.now_ns + self.think_ns;
        let (op, offset, length, payload) = match ask {
            Ask::Flush => {
                self.flushing = true;
                self.client_flushes += 1;
                (Op::Flush, 0, 0, None)
            }
            Ask::Write { first, contents } => {
                let blocks = contents.len() as u64;
                assert!(self.accountant.try_take(Part::Requests, blocks * BLOCK_BYTES), "there was room");
                self.client_units += blocks;
                let mut buffer = Arc::new(Charged(self.accountant.clone())).take(contents.len());
                contents.iter().enumerate().for_each(|(i, &name)| write_name(name, buffer.block_mut(i)));
                let digests = contents.iter().map(|&name| digest_of(name)).collect();
                (Op::Write, first * BLOCK_BYTES, blocks * BLOCK_BYTES, Some(Payload { buffer: buffer.freeze(), digests }))
            }
        };
        let id = RequestId(self.requests);
        self.feed(Event::Request(Request { id, op, offset: Bytes(offset), length: Bytes(length), payload, fua: false, hint: Hint::None }));
    }

    fn feed(&mut self, event: Event) {
        let mut out = std::mem::take(&mut self.out);
        self.engine.step(Time(self.now_ns), event, &mut out);
        out.drain(..).for_each(|action| self.act(action));
        self.out = out;
    }

    fn completes(&mut self, at_ns: u64, event: Event) {
        self.issued += 1;
        self.due.push(Reverse((at_ns, self.issued)));
        self.events.insert(self.issued, event);
    }

    fn act(&mut self, action: Action) {
        let now = self.now_ns;
        match action {
            Action::Read { io, at, mut buffer, digest, class } => {
                self.device.read(at, &mut buffer, class);
                let digests = if digest { (0..buffer.blocks()).map(|i| digest_of(name_of(buffer.block(i)))).collect() } else { Vec::new() };
                let done = self.timetable.read(now, buffer.blocks() as u64 * BLOCK_BYTES);
                self.completes(done, Event::Read { io, buffer, digests, result: Ok(()) });
            }
            Action::Write { io, at, data, class } => {
                self.device.write(at, &data, class);
                let done = self.timetable.write(now, data.iter().map(onefold_engine::buffer::Slice::length).sum());
                self.completes(done, Event::Written { io, result: Ok(()) });
            }
            Action::Flush { io } => {
                self.device.tally.flushes += 1;
                let done = self.timetable.flush(now);
                self.completes(done, Event::Flushed { io, result: Ok(()) });
            }
            Action::Discard { io, at, length } => {
                self.device.discard(at, length);
                let done = self.timetable.discard(now);
                self.completes(done, Event::Discarded { io, result: Ok(()) });
            }
            Action::Digest { .. } => unreachable!("the loads write whole blocks"),
            Action::Reply { request, reply } => {
                assert!(matches!(reply, Reply::Done), "request {} was answered with {reply:?}", request.0);
                self.unanswered -= 1;
                self.flushing = false;
            }
            Action::Wake { at } => self.wake_ns = Some(at.0),
            Action::Remember(_) | Action::Forget { .. } | Action::Recalled => {}
            Action::Notice(Notice::Serving) => {
                self.serving = true;
                self.opened = Some(self.device.tally.clone());
            }
            Action::Notice(notice) => {
                assert!(!matches!(notice, Notice::Damage { .. } | Notice::WentReadOnly { .. }), "{notice:?}, and nothing was damaged");
            }
            Action::Closed { clean } => {
                assert!(clean, "nothing failed");
                self.closed = true;
            }
        }
    }
}
