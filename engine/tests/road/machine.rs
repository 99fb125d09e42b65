//! A medium that does everything at once, and the engine over it.

use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Frame, Home};
use onefold_engine::fingerprint::{Algorithm, Digest};
use onefold_engine::format::codec::compress;
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::format::{self, FormatStep, Geometry, Superblock, Wish};
use onefold_engine::interface::{Action, Class, Event, Hint, IoFailure, IoId, Notice, Op, Payload, Reply, Request, RequestId, Segment};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Time, index};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

struct Heap;

impl Home for Heap {
    fn take(self: Arc<Self>, blocks: usize) -> BufferMut {
        BufferMut::zeroed(blocks)
    }
    fn give_back(&self, _: Box<[Frame]>, _: u32) {}
}

/// A medium on which everything happens at once, and the engine over it.
pub struct Machine {
    pub medium: Vec<u8>,
    pub engine: Engine,
    superblock: Superblock,
    now: u64,
    next: u64,
    replies: BTreeMap<u64, Reply>,
    pub notices: Vec<Notice>,
    pub flushes: u64,
    pub fua_writes: u64,
    /// Blocks written, by class.
    pub written: BTreeMap<Class, u64>,
    /// Blocks whose digests were wanted with what was read.
    pub digested: u64,
    closed: bool,
    wake: u64,
    /// Blocks that were to be compressed.
    pub asked: u64,
    /// So many blocks may stay with the codec while requests come and go.
    pub codec_keeps: usize,
    compressed: VecDeque<Event>,
    pub flushes_fail: bool,
    /// Reads stay with the medium, in `kept_reads`.
    pub keeps_reads: bool,
    pub kept_reads: Vec<(IoId, BufferMut)>,
}

pub fn blank(bytes: u64, logical: Option<u64>) -> Vec<u8> {
    let geometry = Geometry::plan(Bytes(bytes), &Wish { logical_blocks: logical, reserve_blocks: None }).expect("fits");
    let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &Settings::default());
    let mut medium = vec![0xA5; index(bytes)];
    for step in format::format(&superblock, Bytes(bytes), &[]) {
        match step {
            FormatStep::Zero { at, length } => medium[index(at.0)..index(at.0 + length.0)].fill(0),
            FormatStep::Write { at, page } => medium[index(at.0)..index(at.0) + BLOCK_SIZE].copy_from_slice(&page[..]),
            FormatStep::Flush => {}
        }
    }
    medium
}

impl Machine {
    pub fn open(medium: Vec<u8>, settings: Settings) -> Self {
        let bytes = u64::try_from(medium.len()).expect("fits");
        let places = format::copies(Bytes(bytes));
        let page = |i: usize| medium[index(places[i].0)..index(places[i].0) + BLOCK_SIZE].try_into().expect("a page");
        let pages: [[u8; BLOCK_SIZE]; 4] = [page(0), page(1), page(2), page(3)];
        let chosen = format::choose([Some(&pages[0]), Some(&pages[1]), Some(&pages[2]), Some(&pages[3])], Bytes(bytes)).expect("a volume");
        let superblock = chosen.into_service();
        let accountant = Accountant::for_mode(settings.memory_bytes, settings.commit_mode);
        let engine = Engine::open(superblock.clone(), settings, Arc::new(Heap), accountant, Time(0));
        Self {
            medium,
            engine,
            superblock,
            now: 0,
            next: 1,
            replies: BTreeMap::new(),
            notices: Vec::new(),
            flushes: 0,
            fua_writes: 0,
            written: BTreeMap::new(),
            digested: 0,
            closed: false,
            wake: 0,
            asked: 0,
            codec_keeps: 0,
            compressed: VecDeque::new(),
            flushes_fail: false,
            keeps_reads: false,
            kept_reads: Vec::new(),
        }
    }

    pub fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let fingerprinter = self.superblock.fingerprinter();
        while let Some(event) = events.pop_front().or_else(|| self.leaves_codec()) {
            let mut out = Vec::new();
            self.engine.step(Time(self.now), event, &mut out);
            for action in out {
                let Some(action) = self.goes_on(action, &mut events) else { continue };
                match action {
                    Action::Read { io, at, mut buffer, digest, .. } => {
                        let bytes = buffer.bytes().len();
                        buffer.bytes_mut().copy_from_slice(&self.medium[index(at.0)..index(at.0) + bytes]);
                        let digests: Vec<Digest> =
                            if digest { (0..buffer.blocks()).map(|i| fingerprinter.digest(buffer.block(i))).collect() } else { Vec::new() };
                        self.digested += digests.len() as u64;
                        events.push_back(Event::Read { io, buffer, digests, result: Ok(()) });
                    }
                    Action::Write { io, at, data, class, fua } => {
                        self.fua_writes += u64::from(fua);
                        *self.written.entry(class).or_default() += data.iter().map(|slice| slice.blocks() as u64).sum::<u64>();
                        let mut at = index(at.0);
                        for slice in data {
                            self.medium[at..at + slice.bytes().len()].copy_from_slice(slice.bytes());
                            at += slice.bytes().len();
                        }
                        events.push_back(Event::Written { io, result: Ok(()) });
                    }
                    Action::Flush { io } => {
                        self.flushes += 1;
                        events.push_back(Event::Flushed { io, result: Ok(()) });
                    }
                    Action::Discard { io, at, length } => {
                        self.medium[index(at.0)..index(at.0 + length.0)].fill(0);
                        events.push_back(Event::Discarded { io, result: Ok(()) });
                    }
                    Action::Compress { io, block } => {
                        self.asked += 1;
                        self.compressed.push_back(Event::Compressed { io, data: compress(block.block(0), SLOT_DATA_MAX) });
                    }
                    Action::Digest { io, block } => {
                        events.push_back(Event::Digested { io, digest: fingerprinter.digest(block.block(0)) });
                    }
                    Action::Reply { request, reply } => {
                        assert!(self.replies.insert(request.0, reply).is_none(), "one reply a request");
                    }
                    Action::Wake { at } => {
                        if at.0 <= self.now {
                            events.push_back(Event::Tick);
                        }
                        self.wake = at.0;
                    }
                    Action::Notice(notice) => self.notices.push(notice),
                    Action::Remember(_) | Action::Forget { .. } | Action::Recalled => {}
                    Action::Closed { clean } => {
                        assert!(clean);
                        self.closed = true;
                    }
                }
            }
        }
    }

    /// What the medium does at once; the rest waits, or fails.
    fn goes_on(&mut self, action: Action, events: &mut VecDeque<Event>) -> Option<Action> {
        match action {
            Action::Read { io, buffer, .. } if self.keeps_reads => self.kept_reads.push((io, buffer)),
            Action::Flush { io } if self.flushes_fail => events.push_back(Event::Flushed { io, result: Err(IoFailure) }),
            other => return Some(other),
        }
        None
    }

    fn leaves_codec(&mut self) -> Option<Event> {
        if self.compressed.len() > self.codec_keeps { self.compressed.pop_front() } else { None }
    }

    pub fn begin(&mut self, op: Op, offset: u64, length: u64, payload: Option<Payload>, fua: bool) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.now += 1_000;
        self.feed(Event::Request(Request { id, op, offset: Bytes(offset), length: Bytes(length), payload, fua, hint: Hint::None }));
        id
    }

    pub fn request(&mut self, op: Op, offset: u64, length: u64, payload: Option<Payload>, fua: bool) -> Reply {
        let id = self.begin(op, offset, length, payload, fua);
        self.answer(id)
    }

    pub fn answer(&mut self, id: RequestId) -> Reply {
        let keeps = std::mem::take(&mut self.codec_keeps);
        while !self.replies.contains_key(&id.0) {
            let Some(event) = self.leaves_codec() else { break };
            self.feed(event);
        }
        self.codec_keeps = keeps;
        if !self.replies.contains_key(&id.0) {
            // Sealing waits for more writes; nothing else comes before that time.
            self.now = self.now.max(self.wake);
            self.feed(Event::Tick);
        }
        self.replies.remove(&id.0).unwrap_or_else(|| panic!("everything happens at once, so it is answered: {}", self.engine.phase()))
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let id = self.begin_write(offset, bytes);
        self.finish(id);
    }

    pub fn is_answered(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id.0)
    }

    /// Waits for a write.
    pub fn finish(&mut self, id: RequestId) {
        let reply = self.answer(id);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }

    pub fn begin_write(&mut self, offset: u64, bytes: &[u8]) -> RequestId {
        let length = u64::try_from(bytes.len()).expect("fits");
        let head = index(offset % 4096);
        let blocks = (head + bytes.len()).div_ceil(BLOCK_SIZE);
        let mut buffer = BufferMut::zeroed(blocks);
        buffer.bytes_mut()[head..head + bytes.len()].copy_from_slice(bytes);
        let fingerprinter = self.superblock.fingerprinter();
        let whole = |i: usize| i * BLOCK_SIZE >= head && (i + 1) * BLOCK_SIZE <= head + bytes.len();
        let digests = (0..blocks).map(|i| if whole(i) { fingerprinter.digest(buffer.block(i)) } else { Digest::Partial }).collect();
        self.begin(Op::Write, offset, length, Some(Payload { buffer: buffer.freeze(), digests }), false)
    }

    /// Writes a block whose fingerprint is that of another.
    pub fn write_as(&mut self, offset: u64, block: &[u8], other: &[u8]) {
        let mut buffer = BufferMut::zeroed(1);
        buffer.bytes_mut().copy_from_slice(block);
        let digests = vec![self.superblock.fingerprinter().digest(other.try_into().expect("a block"))];
        let reply = self.request(Op::Write, offset, 4096, Some(Payload { buffer: buffer.freeze(), digests }), false);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }

    pub fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let reply = self.request(Op::Read, offset, length, None, false);
        let Reply::Data(segments) = reply else { panic!("{reply:?}") };
        let mut bytes = Vec::new();
        for segment in segments {
            match segment {
                Segment::Zeroes { bytes: n } => bytes.extend(vec![0; index(n)]),
                Segment::Data { slice, start, bytes: n } => bytes.extend(&slice.bytes()[start..start + n]),
            }
        }
        assert_eq!(bytes.len(), index(length));
        bytes
    }

    /// Lets time pass until there is nothing to wake for, or so many times.
    pub fn wait(&mut self, times: usize) {
        for _ in 0..times {
            if self.wake <= self.now {
                return;
            }
            self.now = self.wake;
            self.feed(Event::Tick);
        }
    }

    pub fn flush(&mut self) {
        let reply = self.request(Op::Flush, 0, 0, None, false);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }

    pub fn close(mut self) -> Vec<u8> {
        self.feed(Event::Close);
        assert!(self.closed, "{}", self.engine.phase());
        self.medium
    }
}

pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()[3]
        })
        .collect()
}
