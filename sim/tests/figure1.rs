//! The four cases of the paper's Figure 1 (OrderMergeDedup section 2.1): in which order the device is asked for what, on the real engine.
//!
//! 1. A scene is told as the device's operations in the order of issue. What a page's write changed is read off the page itself.
//! 2. Completions come in three orders: as issued, last first, drawn. Whenever a flush is issued no write is in flight, so all that was
//!    issued before it is covered by it; whenever a client is answered the last thing that completed was a flush.
//! 3. Nothing is delayed (delay 0, strong persistence), so that the non-critical writes show where they stand. Writes of *written* bits, which
//!    the paper does not have, are left out.

use fastrand::Rng;
use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::{Geometry, MapEntry, PageContent, PageId, Region, Superblock, Wish, page};
use onefold_engine::interface::{Action, Class, Event, Hint, Op, Payload, Reply, Request, RequestId};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::{Persistence, Settings};
use onefold_engine::units::{BLOCK_BYTES, Bytes, Pbn, Time, index};
use onefold_sim::counts::device::{Device, write_name};
use onefold_sim::counts::drive::digest_of;
use onefold_sim::machine::PlainHome;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which of the operations in flight completes next.
#[derive(Clone, Copy, Debug)]
enum Order {
    FirstFirst,
    LastFirst,
    Drawn,
}

struct Scene {
    engine: Engine,
    device: Device,
    geometry: Geometry,
    uuid: [u8; 16],
    /// Metadata pages as they were last sent.
    pages: BTreeMap<PageId, PageContent>,
    order: Order,
    rng: Rng,
    in_flight: Vec<Event>,
    writes_in_flight: usize,
    last_was_flush: bool,
    now: u64,
    wake: Option<u64>,
    requests: u64,
    told: Vec<String>,
}

impl Scene {
    fn new(order: Order, noncritical_delay_ms: u64) -> Self {
        let settings = Settings { persistence: Persistence::Strong, noncritical_delay_ms, ..Settings::default() };
        let geometry = Geometry::plan(Bytes(16 << 20), &Wish::default()).expect("16 MiB are enough");
        let superblock = Superblock::new(geometry.clone(), [7; 16], [9; 32], Algorithm::Blake3, &settings);
        let (device, superblock) = Device::formatted(&superblock);
        let uuid = superblock.uuid;
        let accountant = Accountant::new(settings.memory_bytes);
        let engine = Engine::open(superblock, settings, Arc::new(PlainHome), accountant, Time(0));
        let mut scene = Self {
            engine,
            device,
            geometry,
            uuid,
            pages: BTreeMap::new(),
            order,
            rng: Rng::with_seed(1),
            in_flight: Vec::new(),
            writes_in_flight: 0,
            last_was_flush: false,
            now: 0,
            wake: None,
            requests: 0,
            told: Vec::new(),
        };
        scene.feed(Event::Tick);
        scene.rest();
        scene
    }

    /// What a write does, in words; none for what the figure does not have.
    fn tell(&mut self, at: Bytes, data: &[Slice], class: Class) -> Option<String> {
        let region = match class {
            Class::Data => {
                let blocks = self.geometry.data_blocks;
                let pbn = (0..blocks).find(|&p| self.geometry.block_at(Pbn(p)) == at).expect("content goes to a block");
                return Some(format!("content P{pbn}"));
            }
            Class::Superblock | Class::Written => return None,
            Class::Refs => Region::Refs,
            Class::Map => Region::Map,
            Class::Fingerprints => Region::Fingerprints,
        };
        let id = (0..self.geometry.pages(region)).map(|index| PageId { region, index }).find(|&id| self.geometry.page_at(id) == at);
        let id = id.expect("a page has its place");
        let opened = page::open(&self.uuid, id, data[0].block(0), true);
        assert_eq!(opened.damaged, 0, "{id:?} is written with a wrong check");
        let before = self.pages.insert(id, opened.content.clone()).unwrap_or_default();
        let now = opened.content;
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

    fn feed(&mut self, event: Event) {
        let mut out = Vec::new();
        self.engine.step(Time(self.now), event, &mut out);
        for action in out {
            match action {
                Action::Write { io, at, data, class } => {
                    let told = self.tell(at, &data, class);
                    self.told.extend(told);
                    self.device.write(at, &data, class);
                    self.writes_in_flight += 1;
                    self.in_flight.push(Event::Written { io, result: Ok(()) });
                }
                Action::Flush { io } => {
                    assert_eq!(self.writes_in_flight, 0, "a flush is issued when everything that it has to cover has completed (A1)");
                    self.told.push("flush".to_owned());
                    self.in_flight.push(Event::Flushed { io, result: Ok(()) });
                }
                Action::Read { io, at, mut buffer, class, .. } => {
                    assert_ne!(class, Class::Data, "these scenes read no content");
                    self.device.read(at, &mut buffer, class);
                    self.in_flight.push(Event::Read { io, buffer, digests: Vec::new(), result: Ok(()) });
                }
                Action::Reply { reply, .. } => {
                    assert!(matches!(reply, Reply::Done), "{reply:?}");
                    assert!(self.last_was_flush, "a strong write is answered by the flush that covers its link (R5)");
                    self.told.push("answer".to_owned());
                }
                Action::Wake { at } => self.wake = Some(at.0),
                Action::Discard { io, .. } => self.in_flight.push(Event::Discarded { io, result: Ok(()) }),
                _ => {}
            }
        }
    }

    /// Lets everything happen that will within two seconds: what is delayed further stays so.
    fn rest(&mut self) {
        for _ in 0..10_000 {
            if self.in_flight.is_empty() {
                let now = self.now;
                let Some(at) = self.wake.take_if(|at| *at <= now + 2_000_000_000) else { return };
                self.now = self.now.max(at);
                self.feed(Event::Tick);
                continue;
            }
            let i = match self.order {
                Order::FirstFirst => 0,
                Order::LastFirst => self.in_flight.len() - 1,
                Order::Drawn => self.rng.usize(0..self.in_flight.len()),
            };
            let event = self.in_flight.remove(i);
            self.writes_in_flight -= usize::from(matches!(event, Event::Written { .. }));
            self.last_was_flush = matches!(event, Event::Flushed { .. });
            self.now += 1000;
            self.feed(event);
        }
        panic!("it never comes to rest; so far: {:?}", self.told);
    }

    /// Writes a content to a block, lets everything come to rest, and returns what the device was asked for.
    fn write(&mut self, lbn: u64, content: u64) -> Vec<String> {
        self.told.clear();
        let mut buffer = BufferMut::zeroed(1);
        write_name(content, buffer.block_mut(0));
        let payload = Some(Payload { buffer: buffer.freeze(), digests: vec![digest_of(content)] });
        self.requests += 1;
        let (id, offset) = (RequestId(self.requests), Bytes(lbn * BLOCK_BYTES));
        self.feed(Event::Request(Request { id, op: Op::Write, offset, length: Bytes(BLOCK_BYTES), payload, fua: false, hint: Hint::None }));
        self.rest();
        self.told.clone()
    }
}

/// Plays a scene with every order of completion.
fn play(noncritical_delay_ms: u64, scene: impl Fn(&mut Scene)) {
    for order in [Order::FirstFirst, Order::LastFirst, Order::Drawn] {
        let mut stage = Scene::new(order, noncritical_delay_ms);
        assert!(stage.told.iter().all(|told| told == "flush"), "opening: {:?}", stage.told);
        scene(&mut stage);
    }
}

/// Case 1. The count begins at two: the logical block's link and the fingerprint's.
#[test]
fn new_write_not_duplicate() {
    play(0, |scene| {
        let told = scene.write(3, 100);
        assert_eq!(told, ["content P0", "refs P0: 2", "flush", "map L3: P0", "flush", "answer", "fingerprints P0"]);
    });
}

/// Case 2. No content, no fingerprint: the count is durable before the link.
#[test]
fn new_write_duplicate() {
    play(0, |scene| {
        scene.write(3, 100);
        let told = scene.write(9, 100);
        assert_eq!(told, ["refs P0: 3", "flush", "map L9: P0", "flush", "answer"]);
    });
}

/// Case 3. As case 1; and only after the link is durably gone does the old block's count fall. Its fingerprint still holds it.
#[test]
fn overwrite_not_duplicate() {
    play(0, |scene| {
        scene.write(3, 100);
        let told = scene.write(3, 200);
        let critical = ["content P1", "refs P1: 2", "flush", "map L3: P1", "flush", "answer"];
        assert_eq!(told[..6], critical);
        let mut later = told[6..].to_vec();
        later.sort();
        assert_eq!(later, ["fingerprints P1", "refs P0: 1"], "no order is needed between these");
    });
}

/// Case 4. As case 2; the decrement of the old block's count comes later, although both counts stand on one page: the cycle of section 2.1
/// does not arise.
#[test]
fn overwrite_duplicate() {
    play(0, |scene| {
        scene.write(3, 100);
        scene.write(9, 200);
        let told = scene.write(9, 100);
        assert_eq!(told, ["refs P0: 3", "flush", "map L9: P0", "flush", "answer", "refs P1: 1"]);
    });
}

/// With the default delay the decrement of case 3 waits for a page that is written anyway: the next increment's.
#[test]
fn a_delayed_decrement_rides_along_with_the_next_increment() {
    play(30_000, |scene| {
        scene.write(3, 100);
        scene.write(3, 200);
        let told = scene.write(3, 300);
        assert_eq!(told, ["content P2", "refs P0: 1, P2: 2", "flush", "map L3: P2", "flush", "answer"]);
    });
}
