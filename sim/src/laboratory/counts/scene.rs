//! Scenes: a few requests to the real engine, described as the device's operations in the order of issue.
//!
//! 1. The change that a page's write makes is derived from the page itself. Writes of *written* bits and of the superblock are left out.
//! 2. If nothing runs beside the commit, no write is in flight when a flush is issued, so that the flush covers all that was issued before
//!    it. Whenever a client of strong persistence is answered, the last completed operation was a flush.
//! 3. A scene may delay completions, to let something happen before them, and may make commands fail.

use crate::laboratory::counts::device::Device;
use crate::laboratory::counts::names::{digest_of, name_of, write_name};
use crate::machine::PlainHome;
use crate::machine::transcript;
use fastrand::Rng;
use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::check::{CheckSettings, Finding, ReadMedium, check};
use onefold_engine::fingerprint::{Algorithm, Digest};
use onefold_engine::format::codec::compress;
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::format::{Geometry, MapEntry, PageId, Region, Superblock, Wish, page};
use onefold_engine::interface::{Action, Class, Event, IoFailure, Notice, Op, Payload, Policies, Promise, Reply, Request, RequestId};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::{Persistence, Settings};
use onefold_engine::units::{BLOCK_BYTES, Bytes, Pbn, SECTOR_BYTES, Time, index};
use std::sync::Arc;

/// The choice of the operation in flight that completes next.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    FirstFirst,
    LastFirst,
    Drawn,
}

/// The class of an operation, and its place on the device (0 for a flush).
pub type ClassAndPlace = (Class, Bytes);

/// A condition for completions to be delayed.
pub type Hold = Box<dyn Fn(&Event, ClassAndPlace) -> bool>;

pub struct Scene {
    pub engine: Engine,
    pub accountant: Arc<Accountant>,
    pub device: Device,
    geometry: Geometry,
    uuid: [u8; 16],
    strong: bool,
    /// Whether nothing runs beside the commit, so that each write belongs to it.
    pub alone: bool,
    order: Order,
    rng: Rng,
    /// The completions to come, each with its class and place.
    in_flight: Vec<(ClassAndPlace, Event)>,
    pub hold: Hold,
    /// A condition for commands to fail.
    pub fails: Hold,
    writes_in_flight: usize,
    last_was_flush: bool,
    now: u64,
    wake: Option<u64>,
    requests: u64,
    /// The device operations, and "answer" for each answer to a client.
    pub operations: Vec<String>,
    pub answers: Vec<Reply>,
    pub notices: Vec<Notice>,
    /// The promises in force.
    pub journal: Vec<Promise>,
    pub closed: bool,
}

impl Scene {
    /// Makes a new volume, and opens it.
    pub fn new(device_bytes: u64, wish: &Wish, order: Order, settings: Settings) -> Self {
        let geometry = Geometry::plan(Bytes(device_bytes), wish).expect("the device is large enough");
        let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &settings);
        let (device, superblock) = Device::formatted(&superblock);
        Self::open(device, superblock, order, settings, Box::new(|_, _| false))
    }

    /// Opens the volume on a device. Its background work has been done, as far as it is not delayed.
    pub fn open(device: Device, superblock: Superblock, order: Order, settings: Settings, hold: Hold) -> Self {
        Self::open_failing(device, superblock, order, settings, hold, Box::new(|_, _| false))
    }

    /// Opens the volume, with commands that fail.
    pub fn open_failing(device: Device, superblock: Superblock, order: Order, settings: Settings, hold: Hold, fails: Hold) -> Self {
        Self { hold, fails, ..Self::before_opening(device, superblock, order, settings) }.begin()
    }

    /// Makes a scene of the volume on a device, before anything has happened.
    pub fn before_opening(device: Device, superblock: Superblock, order: Order, settings: Settings) -> Self {
        let accountant = Accountant::divided(settings.memory_bytes, settings.commit_mode.has_log());
        let (geometry, uuid) = (superblock.geometry.clone(), superblock.uuid);
        let strong = settings.persistence == Persistence::Strong;
        let engine = Engine::open(superblock, settings, Arc::new(PlainHome), accountant.clone(), Time(0));
        Self {
            engine,
            accountant,
            device,
            geometry,
            uuid,
            strong,
            alone: false,
            order,
            rng: Rng::with_seed(1),
            in_flight: Vec::new(),
            hold: Box::new(|_, _| false),
            fails: Box::new(|_, _| false),
            writes_in_flight: 0,
            last_was_flush: false,
            now: 0,
            wake: None,
            requests: 0,
            operations: Vec::new(),
            answers: Vec::new(),
            notices: Vec::new(),
            journal: Vec::new(),
            closed: false,
        }
    }

    /// Opens it, and lets everything happen that can.
    pub fn begin(mut self) -> Self {
        self.feed(Event::Tick);
        self.rest();
        self
    }

    /// Closes the volume, and returns its device.
    pub fn close(mut self) -> Device {
        self.feed(Event::Close);
        self.rest();
        assert!(self.closed, "{}", self.engine.phase());
        self.device
    }

    /// Returns the findings of the offline check.
    pub fn findings(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let settings = CheckSettings { memory_bytes: 1 << 20, data: false };
        check(&mut self.device, self.geometry.device_bytes, &settings, &mut |f| findings.push(f)).expect("a volume");
        findings
    }

    /// Describes a write; returns none for one that is left out.
    fn describe(&mut self, at: Bytes, data: &[Slice], class: Class) -> Option<String> {
        let region = match class {
            Class::Data => {
                let pbn = first_at(self.geometry.data_blocks, at, |p| self.geometry.block_at(Pbn(p)));
                return Some(format!("content P{pbn}"));
            }
            // This is a unit, or content that is written again beside one.
            Class::Log => return Some("log".to_owned()),
            Class::Superblock | Class::Written => return None,
            Class::Refs => Region::Refs,
            Class::Map => Region::Map,
            Class::Fingerprints => Region::Fingerprints,
        };
        let number = first_at(self.geometry.pages(region), at, |index| self.geometry.page_at(PageId { region, index }));
        let id = PageId { region, index: number };
        let opened = page::open(&self.uuid, id, data[0].block(0), true);
        assert_eq!(opened.damaged, 0, "{id:?} is written with a wrong check");
        let mut there = BufferMut::zeroed(1);
        ReadMedium::read(&mut self.device, at, there.bytes_mut()).expect("the device reads");
        let (before, now) = (page::open(&self.uuid, id, there.block(0), false).content, opened.content);
        let first = id.index * region.entries_per_page();
        let changes = (0..index(region.entries_per_page())).filter_map(|i| {
            let entry = first + i as u64;
            match region {
                Region::Refs => (before.refs(i) != now.refs(i)).then(|| format!("P{entry}: {}", now.refs(i))),
                Region::Map => (before.map(i) != now.map(i)).then(|| match now.map(i) {
                    MapEntry::Block { pbn, .. } => format!("L{entry}: P{}", pbn.0),
                    other => format!("L{entry}: {other:?}"),
                }),
                _ => (before.fingerprint(i) != now.fingerprint(i)).then(|| format!("P{entry}")),
            }
        });
        Some(format!("{} {}", region.name(), changes.collect::<Vec<_>>().join(", ")))
    }

    /// Passes an event to the engine, and its actions to the device.
    pub fn feed(&mut self, event: Event) {
        let mut out = Vec::new();
        self.engine.step(Time(self.now), event, &mut out);
        transcript::hear(&out);
        for action in out {
            match action {
                Action::Write { io, at, data, class, fua } => {
                    let operations = self.describe(at, &data, class);
                    self.operations.extend(operations.map(|what| if fua { what + " with FUA" } else { what }));
                    self.device.write(at, &data, class);
                    self.device.tally.fua_writes += u64::from(fua);
                    self.writes_in_flight += 1;
                    self.in_flight.push(((class, at), Event::Written { io, result: Ok(()) }));
                }
                Action::Flush { io } => {
                    let covered = !self.alone || self.writes_in_flight == 0;
                    assert!(covered, "a flush is issued when everything that it has to cover has completed (A1)");
                    self.operations.push("flush".to_owned());
                    self.in_flight.push(((Class::Superblock, Bytes(0)), Event::Flushed { io, result: Ok(()) }));
                }
                Action::Read { io, at, mut buffer, class, digest, .. } => {
                    self.device.read(at, &mut buffer, class);
                    let names = (0..if digest { buffer.blocks() } else { 0 }).map(|i| name_of(buffer.block(i)));
                    let digests = names.map(digest_of).collect();
                    self.in_flight.push(((class, at), Event::Read { io, buffer, digests, result: Ok(()) }));
                }
                Action::Reply { reply, .. } => {
                    assert!(self.last_was_flush || !self.strong, "a strong write is answered by the flush that covers its link (R5)");
                    self.operations.push("answer".to_owned());
                    self.answers.push(reply);
                }
                Action::Remember(promises) => {
                    self.operations.extend(promises.iter().map(|p| format!("ring {:?}", p.what)));
                    self.journal.extend(promises);
                }
                Action::Forget { epoch, .. } => self.journal.retain(|promise| promise.epoch > epoch),
                Action::Wake { at } => self.wake = Some(at.0),
                Action::Discard { io, at, length, .. } => {
                    self.device.discard(at, length);
                    self.in_flight.push(((Class::Data, at), Event::Discarded { io, result: Ok(()) }));
                }
                Action::Closed { clean } => {
                    assert!(clean, "nothing failed");
                    self.closed = true;
                }
                Action::Notice(notice) => self.notices.push(notice),
                Action::Compress { io, block } => {
                    let data = compress(block.block(0), SLOT_DATA_MAX);
                    self.in_flight.push(((Class::Data, Bytes(0)), Event::Compressed { io, data }));
                }
                Action::Digest { io, block } => {
                    let digest = digest_of(name_of(block.block(0)));
                    self.in_flight.push(((Class::Data, Bytes(0)), Event::Digested { io, digest }));
                }
                _ => {}
            }
        }
    }

    /// Lets one thing happen that is due within `within_ns`; returns false if there is none.
    fn one(&mut self, within_ns: u64) -> bool {
        let free: Vec<usize> = (0..self.in_flight.len()).filter(|&i| !(self.hold)(&self.in_flight[i].1, self.in_flight[i].0)).collect();
        if free.is_empty() {
            let now = self.now;
            let Some(at) = self.wake.take_if(|at| *at <= now + within_ns) else { return false };
            self.now = self.now.max(at);
            self.feed(Event::Tick);
            return true;
        }
        let i = free[match self.order {
            Order::FirstFirst => 0,
            Order::LastFirst => free.len() - 1,
            Order::Drawn => self.rng.usize(0..free.len()),
        }];
        self.complete(i);
        true
    }

    fn complete(&mut self, i: usize) {
        let (about, mut event) = self.in_flight.remove(i);
        if (self.fails)(&event, about) {
            let (Event::Written { result, .. } | Event::Flushed { result, .. } | Event::Read { result, .. }) = &mut event else {
                panic!("{event:?} does not fail here");
            };
            *result = Err(IoFailure);
        }
        self.writes_in_flight -= usize::from(matches!(event, Event::Written { .. }));
        self.last_was_flush = matches!(event, Event::Flushed { .. });
        self.now += 1000;
        self.feed(event);
    }

    /// Lets this many things happen.
    pub fn go_on(&mut self, things: usize) {
        for _ in 0..things {
            self.one(2_000_000_000);
        }
    }

    /// Lets everything happen that is due within two seconds: what is scheduled later stays so, and what is delayed stays delayed.
    pub fn rest(&mut self) {
        for _ in 0..1_000_000 {
            if !self.one(2_000_000_000) {
                return;
            }
        }
        panic!("it never comes to rest; so far: {:?}", self.operations);
    }

    /// Returns the number of delayed completions.
    pub fn held(&self) -> usize {
        self.in_flight.iter().filter(|(about, event)| (self.hold)(event, *about)).count()
    }

    /// Stops delaying completions.
    pub fn release(&mut self) {
        self.hold = Box::new(|_, _| false);
    }

    /// Sends a request, and lets nothing happen except what it does at once.
    pub fn ask(&mut self, op: Op, lbn: u64, blocks: u64, payload: Option<Payload>) {
        self.ask_fua(op, lbn, blocks, payload, false);
    }

    /// Sends a request, with FUA or without.
    pub fn ask_fua(&mut self, op: Op, lbn: u64, blocks: u64, payload: Option<Payload>, fua: bool) {
        self.requests += 1;
        let (id, offset, length) = (RequestId(self.requests), Bytes(lbn * BLOCK_BYTES), Bytes(blocks * BLOCK_BYTES));
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua, policies: Policies::default() }));
    }

    /// Writes a content to a block, lets everything come to rest, and returns the device operations.
    pub fn write(&mut self, lbn: u64, content: u64) -> Vec<String> {
        self.operations.clear();
        let mut buffer = BufferMut::zeroed(1);
        write_name(content, buffer.block_mut(0));
        self.ask(Op::Write, lbn, 1, Some(Payload { buffer: buffer.freeze(), digests: vec![digest_of(content)] }));
        self.rest();
        self.operations.clone()
    }

    /// Writes some sectors of a block, and lets everything happen that can.
    pub fn write_sectors(&mut self, lbn: u64, sectors: std::ops::Range<u64>, content: u64) {
        let mut buffer = BufferMut::zeroed(1);
        write_name(content, buffer.block_mut(0));
        let payload = Some(Payload { buffer: buffer.freeze(), digests: vec![Digest::Partial] });
        self.requests += 1;
        let (offset, length) =
            (Bytes(lbn * BLOCK_BYTES + sectors.start * SECTOR_BYTES), Bytes((sectors.end - sectors.start) * SECTOR_BYTES));
        let (id, op, fua, policies) = (RequestId(self.requests), Op::Write, false, Policies::default());
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua, policies }));
        self.rest();
    }

    /// Makes the device hold another content in a block than was written.
    pub fn rot(&mut self, pbn: Pbn, content: u64) {
        let mut buffer = BufferMut::zeroed(1);
        write_name(content, buffer.block_mut(0));
        self.device.write(self.geometry.block_at(pbn), &[buffer.freeze().slice(0, 1)], Class::Data);
    }

    /// Flushes, lets everything come to rest, and returns the device operations.
    pub fn flush(&mut self) -> Vec<String> {
        self.operations.clear();
        self.ask(Op::Flush, 0, 0, None);
        self.rest();
        self.operations.clone()
    }
}

/// Finds the one among `count` that lies at `at`: they lie in ascending order.
fn first_at(count: u64, at: Bytes, place: impl Fn(u64) -> Bytes) -> u64 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if place(middle) < at { low = middle + 1 } else { high = middle }
    }
    assert_eq!(place(low), at, "what is written has its place");
    low
}
