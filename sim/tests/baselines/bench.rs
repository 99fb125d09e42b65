//! A device in memory that completes operations in random order, loses what no flush has covered, and counts; and a test bench for a rival
//! on it.

use fastrand::Rng;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::interface::{Action, Class, Event, IoId, Op, Payload, Policies, Reply, Request, RequestId, Segment};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, SECTOR_SIZE, Time};
use onefold_sim::laboratory::counts::names::{digest_of, name_of, write_name};
use onefold_sim::rivals::Baseline;
use std::collections::{BTreeMap, HashMap};

pub type Block = Box<[u8; BLOCK_SIZE]>;

enum Operation {
    Read {
        io: IoId,
        at: u64,
        buffer: BufferMut,
    },
    Write {
        io: IoId,
        at: u64,
        data: Vec<Slice>,
        class: Class,
    },
    /// A flush, with the number of completed writes that it covers.
    Flush {
        io: IoId,
        covers: usize,
    },
    Discard {
        io: IoId,
    },
}

#[derive(Default)]
pub struct Disk {
    /// The content that a read finds.
    pub blocks: HashMap<u64, Block>,
    /// The content that a crash cannot take away.
    pub durable: HashMap<u64, Block>,
    /// The completed writes that no flush has covered, in order.
    volatile: Vec<(u64, Block)>,
}

pub struct Bench<M> {
    pub machine: M,
    pub disk: Disk,
    pub rng: Rng,
    pub now_ms: u64,
    wake: Option<Time>,
    in_flight: Vec<Operation>,
    requests: u64,
    pub replies: BTreeMap<u64, Reply>,
    /// The units written by class, and the flushes.
    pub units: [u64; Class::ALL.len()],
    pub flushes: u64,
    pub closed: bool,
    /// Whether reads, and the classes whose writes, complete only when nothing else is in flight.
    pub late_reads: bool,
    pub late: &'static [Class],
}

fn blocks_of(data: &[Slice]) -> Vec<Block> {
    data.iter().flat_map(|slice| (0..slice.blocks()).map(|i| Box::new(*slice.block(i)))).collect()
}

impl<M: Baseline> Bench<M> {
    pub fn new(machine: M, seed: u64) -> Self {
        let mut disk = Disk::default();
        for (at, data) in machine.format() {
            for (i, block) in blocks_of(&[data]).into_iter().enumerate() {
                disk.blocks.insert(at.0 / BLOCK_BYTES + i as u64, block.clone());
                disk.durable.insert(at.0 / BLOCK_BYTES + i as u64, block);
            }
        }
        Self {
            machine,
            disk,
            rng: Rng::with_seed(seed),
            now_ms: 0,
            wake: None,
            in_flight: Vec::new(),
            requests: 0,
            replies: BTreeMap::new(),
            units: [0; Class::ALL.len()],
            flushes: 0,
            closed: false,
            late_reads: false,
            late: &[],
        }
    }

    fn feed(&mut self, event: Event) {
        let mut out = Vec::new();
        self.machine.step(Time(self.now_ms * 1_000_000), event, &mut out);
        for action in out {
            match action {
                Action::Read { io, at, buffer, .. } => self.in_flight.push(Operation::Read { io, at: at.0 / BLOCK_BYTES, buffer }),
                Action::Write { io, at, data, class, .. } => {
                    let blocks: usize = data.iter().map(Slice::blocks).sum();
                    assert!(at.0 + (blocks * BLOCK_SIZE) as u64 <= self.machine.device_bytes().0, "a write beyond the device");
                    self.units[class as usize] += blocks as u64;
                    self.in_flight.push(Operation::Write { io, at: at.0 / BLOCK_BYTES, data, class });
                }
                Action::Flush { io } => {
                    self.flushes += 1;
                    self.in_flight.push(Operation::Flush { io, covers: self.disk.volatile.len() });
                }
                Action::Discard { io, .. } => self.in_flight.push(Operation::Discard { io }),
                Action::Reply { request, reply } => assert!(self.replies.insert(request.0, reply).is_none(), "one answer a request"),
                Action::Wake { at } => self.wake = Some(at),
                Action::Closed { clean } => {
                    assert!(clean);
                    self.closed = true;
                }
                Action::Notice(_) => {}
                other => panic!("no rival asks for {other:?}"),
            }
        }
    }

    /// Sends a request of whole blocks; a write has contents by name.
    pub fn ask(&mut self, op: Op, first: u64, blocks: u64, contents: &[u64], fua: bool) -> u64 {
        self.requests += 1;
        let payload = (op == Op::Write).then(|| {
            let mut buffer = BufferMut::zeroed(contents.len());
            contents.iter().enumerate().for_each(|(i, &name)| write_name(name, buffer.block_mut(i)));
            Payload { buffer: buffer.freeze(), digests: contents.iter().map(|&name| digest_of(name)).collect() }
        });
        let id = RequestId(self.requests);
        let (offset, length) = (Bytes(first * BLOCK_BYTES), Bytes(blocks * BLOCK_BYTES));
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua, policies: Policies::default() }));
        self.requests
    }

    pub fn write(&mut self, first: u64, contents: &[u64]) -> u64 {
        self.ask(Op::Write, first, contents.len() as u64, contents, false)
    }

    pub fn flush(&mut self) -> u64 {
        self.ask(Op::Flush, 0, 0, &[], false)
    }

    /// Completes any one operation; returns false if none is in flight.
    pub fn complete_one(&mut self) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let late = |in_flight: &Operation| match in_flight {
            Operation::Write { class, .. } => self.late.contains(class),
            Operation::Read { .. } => self.late_reads,
            Operation::Flush { .. } | Operation::Discard { .. } => false,
        };
        let early: Vec<usize> = (0..self.in_flight.len()).filter(|&i| !late(&self.in_flight[i])).collect();
        let which = if early.is_empty() { self.rng.usize(0..self.in_flight.len()) } else { early[self.rng.usize(0..early.len())] };
        let event = match self.in_flight.swap_remove(which) {
            Operation::Read { io, at, mut buffer } => {
                for i in 0..buffer.blocks() {
                    let zero = Box::new([0; BLOCK_SIZE]);
                    buffer.block_mut(i).copy_from_slice(&self.disk.blocks.get(&(at + i as u64)).unwrap_or(&zero)[..]);
                }
                Event::Read { io, buffer, digests: Vec::new(), result: Ok(()) }
            }
            Operation::Write { io, at, data, .. } => {
                for (i, block) in blocks_of(&data).into_iter().enumerate() {
                    self.disk.blocks.insert(at + i as u64, block.clone());
                    self.disk.volatile.push((at + i as u64, block));
                }
                Event::Written { io, result: Ok(()) }
            }
            Operation::Flush { io, covers } => {
                // Later writes stay in line: another flush in flight may have counted them.
                let rest = self.disk.volatile.split_off(covers.min(self.disk.volatile.len()));
                self.disk.durable.extend(std::mem::replace(&mut self.disk.volatile, rest));
                for in_flight in &mut self.in_flight {
                    if let Operation::Flush { covers: other, .. } = in_flight {
                        *other = other.saturating_sub(covers);
                    }
                }
                Event::Flushed { io, result: Ok(()) }
            }
            Operation::Discard { io } => Event::Discarded { io, result: Ok(()) },
        };
        self.feed(event);
        true
    }

    /// Completes fewer operations than `end`.
    pub fn complete_some(&mut self, end: usize) {
        for _ in 0..self.rng.usize(0..end) {
            self.complete_one();
        }
    }

    /// Completes all that is in flight.
    pub fn settle(&mut self) {
        while self.complete_one() {}
    }

    /// Lets time pass; the machine is woken when it asked for it.
    pub fn pass_ms(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(at) = self.wake.filter(|at| at.0 <= end * 1_000_000) {
            self.now_ms = self.now_ms.max(at.0.div_ceil(1_000_000));
            self.wake = None;
            self.feed(Event::Tick);
        }
        self.now_ms = end;
    }

    pub fn close(&mut self) {
        self.feed(Event::Close);
        self.settle();
        assert!(self.closed, "a machine with nothing in flight closes");
    }

    pub fn count(&self, class: Class) -> u64 {
        self.units[class as usize]
    }

    /// Returns the medium after a power loss now: every sector that no flush covers may or may not be there.
    pub fn cut(&mut self) -> HashMap<u64, Block> {
        let mut medium = self.disk.durable.clone();
        let mut lost = self.disk.volatile.clone();
        for in_flight in &self.in_flight {
            if let Operation::Write { at, data, .. } = in_flight {
                lost.extend(blocks_of(data).into_iter().enumerate().map(|(i, block)| (at + i as u64, block)));
            }
        }
        // Independent sectors show torn writes; a fault that needs many writes to have arrived shows only if one or a few are missing.
        let (mode, missing) = (self.rng.u8(0..3), self.rng.usize(0..lost.len().max(1)));
        for (i, (at, block)) in lost.into_iter().enumerate() {
            let target = medium.entry(at).or_insert_with(|| Box::new([0; BLOCK_SIZE]));
            let arrived = if mode == 1 { i != missing } else { self.rng.u8(0..10) > 0 };
            for (to, from) in target.chunks_exact_mut(SECTOR_SIZE).zip(block.chunks_exact(SECTOR_SIZE)) {
                let arrived = if mode == 0 { self.rng.bool() } else { arrived };
                if arrived {
                    to.copy_from_slice(from);
                }
            }
        }
        medium
    }
}

/// Returns the contents in an answer, by name.
pub fn names_in(reply: &Reply) -> Vec<u64> {
    let Reply::Data(segments) = reply else { panic!("a read was answered with {reply:?}") };
    let mut names = Vec::new();
    for segment in segments {
        match segment {
            Segment::Zeroes { bytes } => names.extend(std::iter::repeat_n(0, usize::try_from(bytes / BLOCK_BYTES).expect("small"))),
            Segment::Data { slice, start, bytes } => {
                assert_eq!((*start, bytes % BLOCK_SIZE), (0, 0));
                names.extend((0..bytes / BLOCK_SIZE).map(|i| name_of(slice.block(i))));
            }
        }
    }
    names
}
