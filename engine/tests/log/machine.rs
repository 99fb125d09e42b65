//! The engine that opens a volume, over a medium that does everything at once.

use super::volume::{Volume, content};
use onefold_engine::Engine;
use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Action, Event, IoFailure, Notice, Op, Payload, Policies, Reply, Request, RequestId, Segment};
use onefold_engine::units::{BLOCK_SIZE, Bytes, Pbn, Time};
use std::collections::{BTreeMap, VecDeque};

pub struct Machine {
    pub volume: Volume,
    pub engine: Engine,
    /// The writes and flushes that the device did: a write to the data region by its block, any other by its class.
    pub done: Vec<String>,
    pub notices: Vec<Notice>,
    /// The number of blocks that were read with their digests.
    pub digested: usize,
    replies: BTreeMap<u64, Reply>,
    /// Writes of this class are not answered until `release` is called.
    pub withholds: Option<&'static str>,
    withheld: Vec<Event>,
    next: u64,
    now: u64,
    wake: Option<u64>,
    stop: Box<dyn Fn(&str) -> bool>,
    pub stopped: bool,
}

impl Machine {
    /// Starts the engine over this volume. The device stops at the first operation for which `stop` returns true.
    pub fn start(volume: Volume, engine: Engine, stop: impl Fn(&str) -> bool + 'static) -> Self {
        let mut machine = Self {
            volume,
            engine,
            done: Vec::new(),
            notices: Vec::new(),
            digested: 0,
            replies: BTreeMap::new(),
            withholds: None,
            withheld: Vec::new(),
            next: 1,
            now: 0,
            wake: None,
            stop: Box::new(stop),
            stopped: false,
        };
        machine.feed(Event::Tick);
        machine
    }

    fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let fingerprinter = self.volume.superblock.fingerprinter();
        while let Some(event) = events.pop_front() {
            let mut out = Vec::new();
            self.engine.step(Time(self.now), event, &mut out);
            for action in out {
                match action {
                    Action::Read { io, at, mut buffer, digest, .. } => {
                        let result = self.read_in(at, &mut buffer);
                        let blocks = if digest { buffer.blocks() } else { 0 };
                        self.digested += blocks;
                        let digests = (0..blocks).map(|i| fingerprinter.digest(buffer.block(i))).collect();
                        events.push_back(Event::Read { io, buffer, digests, result });
                    }
                    Action::Write { io, at, data, class, .. } => {
                        let what = match self.pbn_at(at) {
                            Some(pbn) => format!("{pbn}"),
                            None => format!("{class:?}"),
                        };
                        if self.goes_on(&what) {
                            let bytes: Vec<u8> = data.iter().flat_map(|slice| slice.bytes().to_vec()).collect();
                            for (i, block) in bytes.chunks(BLOCK_SIZE).enumerate() {
                                self.volume.block_at(at + (i * BLOCK_SIZE) as u64).copy_from_slice(block);
                            }
                            let written = Event::Written { io, result: Ok(()) };
                            if self.withholds == Some(&what) {
                                self.withheld.push(written);
                            } else {
                                events.push_back(written);
                            }
                        }
                    }
                    Action::Flush { io } => {
                        if self.goes_on("flush") {
                            events.push_back(Event::Flushed { io, result: Ok(()) });
                        }
                    }
                    Action::Discard { io, .. } => events.push_back(Event::Discarded { io, result: Ok(()) }),
                    Action::Compress { io, .. } => events.push_back(Event::Compressed { io, data: None }),
                    Action::Digest { io, block } => {
                        events.push_back(Event::Digested { io, digest: fingerprinter.digest(block.block(0)) });
                    }
                    Action::Reply { request, reply } => {
                        self.replies.insert(request.0, reply);
                    }
                    Action::Notice(notice) => self.notices.push(notice),
                    Action::Wake { at } => self.wake = Some(at.0),
                    Action::Remember(_) | Action::Forget { .. } | Action::Replayed | Action::Retry | Action::Closed { .. } => {}
                }
            }
        }
    }

    /// Answers the writes that are withheld. Further writes are no longer withheld.
    pub fn release(&mut self) {
        self.withholds = None;
        std::mem::take(&mut self.withheld).into_iter().for_each(|event| self.feed(event));
    }

    /// Returns the bytes of memory that live records take now, and their share.
    pub fn live_records(&self) -> (u64, u64) {
        self.memory("log records")
    }

    /// Returns the bytes that a part of the memory takes now, and its share.
    pub fn memory(&self, part: &str) -> (u64, u64) {
        let stats = self.engine.stats();
        let (_, now, _, share) = stats.memory.into_iter().find(|(name, ..)| *name == part).expect("it is there");
        (now, share)
    }

    /// Notes an operation and returns true, unless the device has stopped.
    fn goes_on(&mut self, what: &str) -> bool {
        self.stopped |= (self.stop)(what);
        if !self.stopped {
            self.done.push(what.to_owned());
        }
        !self.stopped
    }

    fn read_in(&mut self, at: Bytes, buffer: &mut BufferMut) -> Result<(), IoFailure> {
        self.now = Time(self.now).plus_ms(self.volume.read_ms).0;
        if let Some(left) = self.volume.failing.get_mut(&at).filter(|left| **left > 0) {
            *left -= 1;
            return Err(IoFailure);
        }
        for i in 0..buffer.blocks() {
            *buffer.block_mut(i) = *self.volume.block_at(at + (i * BLOCK_SIZE) as u64);
        }
        Ok(())
    }

    fn pbn_at(&self, at: Bytes) -> Option<Pbn> {
        let geometry = &self.volume.superblock.geometry;
        let blocks = at.get().checked_sub(geometry.block_at(Pbn(0)).get())? / BLOCK_SIZE as u64;
        (blocks < geometry.data_blocks && geometry.block_at(Pbn(blocks)) == at).then_some(Pbn(blocks))
    }

    fn request(&mut self, op: Op, lbn: u64, payload: Option<Payload>) -> Reply {
        let blocks = u64::from(op != Op::Flush);
        self.request_of(op, lbn, blocks, payload).expect("it is answered")
    }

    /// Sends a request. Returns its answer, if there is one, however long that takes.
    fn request_of(&mut self, op: Op, lbn: u64, blocks: u64, payload: Option<Payload>) -> Option<Reply> {
        let id = RequestId(self.next);
        self.next += 1;
        let [offset, length] = [lbn, blocks].map(|n| Bytes(n * BLOCK_SIZE as u64));
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua: false, policies: Policies::default() }));
        self.rest(id.0);
        self.replies.remove(&id.0)
    }

    /// Lets time pass as long as the engine wants to be woken and the request is not answered.
    fn rest(&mut self, request: u64) {
        for _ in 0..10_000 {
            let Some(wake) = self.wake.take().filter(|_| !self.replies.contains_key(&request)) else { return };
            self.now = self.now.max(wake);
            self.feed(Event::Tick);
        }
    }

    /// Reads a logical block. Returns the number of its content, 0 for zeros; none for an error.
    pub fn read(&mut self, lbn: u64) -> Option<u64> {
        let Reply::Data(segments) = self.request(Op::Read, lbn, None) else { return None };
        let [segment] = &segments[..] else { panic!("one block is one segment") };
        Some(match segment {
            Segment::Zeroes { .. } => 0,
            Segment::Data { slice, start, .. } => {
                let n = u64::from_le_bytes(slice.bytes()[*start..*start + 8].try_into().expect("eight bytes"));
                assert_eq!(slice.bytes()[*start..*start + BLOCK_SIZE], content(n));
                n
            }
        })
    }

    /// Writes the content of this number. Returns whether the write was answered.
    pub fn try_write_only(&mut self, lbn: u64, n: u64) -> bool {
        let mut buffer = BufferMut::zeroed(1);
        *buffer.block_mut(0) = content(n);
        let digests = vec![self.volume.superblock.fingerprinter().digest(buffer.block(0))];
        let reply = self.request_of(Op::Write, lbn, 1, Some(Payload { buffer: buffer.freeze(), digests }));
        assert!(matches!(reply, None | Some(Reply::Done)), "{reply:?}");
        reply.is_some()
    }

    /// Writes the content of this number.
    pub fn write_only(&mut self, lbn: u64, n: u64) {
        assert!(self.try_write_only(lbn, n), "it is answered");
    }

    /// Writes the content of this number, and flushes. The device may stop meanwhile.
    pub fn try_write(&mut self, lbn: u64, n: u64) {
        let _ = self.try_write_only(lbn, n);
        let _ = self.request_of(Op::Flush, 0, 0, None);
    }

    /// Writes the content of this number, and flushes.
    pub fn write(&mut self, lbn: u64, n: u64) {
        self.write_only(lbn, n);
        self.flush();
    }

    pub fn flush(&mut self) {
        let reply = self.request_of(Op::Flush, 0, 0, None);
        assert!(matches!(reply, Some(Reply::Done)), "{reply:?}");
    }

    pub fn discard(&mut self, lbn: u64, blocks: u64) {
        let reply = self.request_of(Op::Discard, lbn, blocks, None);
        assert!(matches!(reply, Some(Reply::Done)), "{reply:?}");
    }

    /// Returns the damage that the engine has reported.
    pub fn damage(&self) -> Vec<&'static str> {
        self.notices.iter().filter_map(|notice| if let Notice::Damage { what, .. } = notice { Some(*what) } else { None }).collect()
    }

    /// Crashes: only what the device has is left.
    pub fn crash(self) -> Volume {
        self.volume
    }
}
