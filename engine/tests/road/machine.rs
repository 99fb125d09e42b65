//! A medium that does everything at once, and the engine over it.

use crate::media::{Heap, chosen, content_of, remember};
use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::fingerprint::{Digest, Fingerprinter};
use onefold_engine::format::Superblock;
use onefold_engine::format::codec::compress;
use onefold_engine::format::sieve_page::MAGIC;
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::interface::{
    Action, Class, Event, IoFailure, Legacy, Notice, Op, Payload, Policies, Promise, Reply, Request, RequestId, Traces,
};
use onefold_engine::memory::Accountant;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Time, index};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An operation that the device has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Write { class: Class, first: usize, blocks: usize },
    Flush,
    Fill { first: usize, blocks: usize },
    Discard { first: usize, blocks: usize },
}

/// A medium on which everything happens at once, and the engine over it.
pub struct Machine {
    pub medium: Vec<u8>,
    pub engine: Engine,
    pub accountant: Arc<Accountant>,
    superblock: Superblock,
    pub now: u64,
    next: u64,
    replies: BTreeMap<u64, Reply>,
    pub notices: Vec<Notice>,
    pub flushes: u64,
    pub fua_writes: u64,
    /// The number of times that the engine asked for the writes that it had sent back.
    pub retries: u64,
    /// Blocks written, by class.
    pub written: BTreeMap<Class, u64>,
    /// The operations that the device has done; writes by their first block.
    pub history: Vec<Done>,
    /// The number of blocks that were read with their digests.
    pub digested: u64,
    pub closed: Option<bool>,
    /// The number of times that time passes until an answer is overdue.
    pub patience: usize,
    pub wake: u64,
    /// The number of blocks that the engine asked to compress.
    pub asked: u64,
    /// The number of blocks that may stay with the codec while requests come and go.
    pub codec_keeps: usize,
    compressed: VecDeque<Event>,
    pub policies: Policies,
    /// Whole blocks of writes get their checksum alone.
    pub defers: bool,
    /// Digests are kept back until they are fed by hand.
    pub keeps_digests: bool,
    pub digests: Vec<Event>,
    /// Flushes do not end until they are fed by hand.
    pub keeps_flushes: bool,
    pub flushed: Vec<Event>,
    /// The acknowledgement journal, and the traces by which the next server recognizes its store.
    pub journal: Vec<Promise>,
    /// Whether the replay has ended: nothing is added to the journal before.
    takes_promises: bool,
    pub traces: Traces,
    /// The server is killed just before a write of this class.
    pub dies_at: Option<Class>,
    pub is_dead: bool,
    pub flushes_fail: bool,
    /// Reads, all or those of a class, do not end until they are fed by hand.
    pub keeps_reads: bool,
    pub keeps_reads_of: Option<Class>,
    pub kept_reads: Vec<Event>,
    /// Writes of this class do not end until they are fed by hand.
    pub keeps_writes_of: Option<Class>,
    /// The same for pages of the sieve.
    pub keeps_sieve_pages: bool,
    pub kept_writes: Vec<Event>,
}

impl Machine {
    /// Starts the server after this one, which was killed: on `medium`, with the acknowledgement journal.
    pub fn next(&self, medium: Vec<u8>, settings: Settings) -> Self {
        let mut next = self.left(medium, settings);
        next.feed(Event::Tick);
        next.wait(3);
        next
    }

    /// Opens the volume for the server after this one, which does no step yet.
    pub fn left(&self, medium: Vec<u8>, settings: Settings) -> Self {
        let promises = self.journal.iter().map(|promise| promise.what.clone()).collect();
        Self::opened(medium, settings, Legacy { promises, traces: self.traces })
    }

    pub fn open(medium: Vec<u8>, settings: Settings) -> Self {
        Self::opened(medium, settings, Legacy::default())
    }

    pub fn opened(medium: Vec<u8>, settings: Settings, legacy: Legacy) -> Self {
        let superblock = chosen(&medium).expect("a volume");
        Self::over(medium, superblock, settings, legacy)
    }

    pub fn over(medium: Vec<u8>, superblock: Superblock, settings: Settings, legacy: Legacy) -> Self {
        let accountant = Accountant::divided(settings.memory_bytes, settings.commit_mode.has_log());
        let mut engine = Engine::open(superblock.clone(), settings, Arc::new(Heap::default()), accountant.clone(), Time(0));
        let traces = legacy.traces;
        engine.replay(legacy);
        Self {
            medium,
            engine,
            accountant,
            superblock,
            now: 0,
            next: 1,
            replies: BTreeMap::new(),
            notices: Vec::new(),
            flushes: 0,
            fua_writes: 0,
            retries: 0,
            written: BTreeMap::new(),
            history: Vec::new(),
            digested: 0,
            closed: None,
            patience: 1,
            wake: 0,
            asked: 0,
            codec_keeps: 0,
            compressed: VecDeque::new(),
            policies: Policies::default(),
            defers: false,
            keeps_digests: false,
            digests: Vec::new(),
            keeps_flushes: false,
            flushed: Vec::new(),
            journal: Vec::new(),
            takes_promises: false,
            traces,
            dies_at: None,
            is_dead: false,
            flushes_fail: false,
            keeps_reads: false,
            keeps_reads_of: None,
            kept_reads: Vec::new(),
            keeps_writes_of: None,
            keeps_sieve_pages: false,
            kept_writes: Vec::new(),
        }
    }

    pub fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let fingerprinter = self.superblock.fingerprinter();
        let (mut woken, mut steps) = (0..100_000, 0..1_000_000);
        while let Some(event) = events.pop_front().or_else(|| self.leaves_codec()) {
            assert!(steps.next().is_some(), "one event leads to others again and again");
            let mut out = Vec::new();
            self.engine.step(Time(self.now), event, &mut out);
            for action in out {
                self.is_dead |= matches!(&action, Action::Write { class, .. } if self.dies_at == Some(*class));
                if self.is_dead {
                    return;
                }
                let Some(action) = self.goes_on(action, &mut events) else { continue };
                match action {
                    Action::Read { io, at, mut buffer, digest, class, .. } => {
                        let bytes = buffer.bytes().len();
                        buffer.bytes_mut().copy_from_slice(&self.medium[index(at.0)..index(at.0) + bytes]);
                        let digests: Vec<Digest> =
                            if digest { (0..buffer.blocks()).map(|i| fingerprinter.digest(buffer.block(i))).collect() } else { Vec::new() };
                        self.digested += digests.len() as u64;
                        let read = Event::Read { io, buffer, digests, result: Ok(()) };
                        if self.keeps_reads || self.keeps_reads_of == Some(class) {
                            self.kept_reads.push(read);
                        } else {
                            events.push_back(read);
                        }
                    }
                    Action::Write { io, at, data, class, fua } => {
                        self.fua_writes += u64::from(fua);
                        let blocks = data.iter().map(Slice::blocks).sum();
                        self.history.push(Done::Write { class, first: index(at.0) / BLOCK_SIZE, blocks });
                        *self.written.entry(class).or_default() += blocks as u64;
                        let is_kept = self.keeps_writes_of == Some(class) || self.keeps_sieve_pages && data[0].bytes().starts_with(&MAGIC);
                        let mut at = index(at.0);
                        for slice in data {
                            self.medium[at..at + slice.bytes().len()].copy_from_slice(slice.bytes());
                            at += slice.bytes().len();
                        }
                        let written = Event::Written { io, result: Ok(()) };
                        if is_kept {
                            self.kept_writes.push(written);
                        } else {
                            events.push_back(written);
                        }
                    }
                    Action::Flush { io } => {
                        self.flushes += 1;
                        self.history.push(Done::Flush);
                        let flushed = Event::Flushed { io, result: Ok(()) };
                        if self.keeps_flushes {
                            self.flushed.push(flushed);
                        } else {
                            events.push_back(flushed);
                        }
                    }
                    Action::Discard { io, at, length, fill } => {
                        let (first, blocks) = (index(at.0) / BLOCK_SIZE, index(length.0) / BLOCK_SIZE);
                        self.history.push(if fill { Done::Fill { first, blocks } } else { Done::Discard { first, blocks } });
                        self.medium[index(at.0)..index(at.0 + length.0)].fill(0);
                        events.push_back(Event::Discarded { io, result: Ok(()) });
                    }
                    Action::Compress { io, block } => {
                        self.asked += 1;
                        self.compressed.push_back(Event::Compressed { io, data: compress(block.block(0), SLOT_DATA_MAX) });
                    }
                    Action::Digest { io, block } => {
                        let digested = Event::Digested { io, digest: fingerprinter.digest(block.block(0)) };
                        if self.keeps_digests {
                            self.digests.push(digested);
                        } else {
                            events.push_back(digested);
                        }
                    }
                    Action::Reply { request, reply } => {
                        assert!(self.replies.insert(request.0, reply).is_none(), "one reply a request");
                    }
                    Action::Wake { at } => {
                        if at.0 <= self.now {
                            assert!(woken.next().is_some(), "it asks to be woken at once, again and again");
                            events.push_back(Event::Tick);
                        }
                        self.wake = at.0;
                    }
                    Action::Notice(notice) => self.notices.push(notice),
                    Action::Remember(promises) => remember(&mut self.journal, promises, self.takes_promises),
                    Action::Forget { epoch, traces } => {
                        self.journal.retain(|promise| promise.epoch > epoch);
                        self.traces = traces;
                    }
                    Action::Replayed => self.takes_promises = true,
                    Action::Retry => self.retries += 1,
                    Action::Closed { clean } => self.closed = Some(clean),
                }
            }
        }
    }

    /// Returns the action, unless it is a flush that is to fail.
    fn goes_on(&mut self, action: Action, events: &mut VecDeque<Event>) -> Option<Action> {
        let Action::Flush { io } = action else { return Some(action) };
        if !self.flushes_fail {
            return Some(Action::Flush { io });
        }
        events.push_back(Event::Flushed { io, result: Err(IoFailure) });
        None
    }

    fn leaves_codec(&mut self) -> Option<Event> {
        if self.compressed.len() > self.codec_keeps { self.compressed.pop_front() } else { None }
    }

    pub fn begin(&mut self, op: Op, offset: u64, length: u64, payload: Option<Payload>, fua: bool) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.now += 1_000;
        let (offset, length, policies) = (Bytes(offset), Bytes(length), self.policies.clone());
        self.feed(Event::Request(Request { id, op, offset, length, payload, fua, policies }));
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
        // Sealing waits for more writes; nothing else comes before that time.
        (0..self.patience).for_each(|_| self.wake_unless(|m| m.replies.contains_key(&id.0)));
        self.replies.remove(&id.0).unwrap_or_else(|| panic!("everything happens at once, so it is answered: {}", self.engine.phase()))
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let id = self.begin_write(offset, bytes);
        self.finish(id);
    }

    /// Writes, and returns the answer, which may be a failure.
    pub fn request_write(&mut self, offset: u64, bytes: &[u8]) -> Reply {
        let id = self.begin_write(offset, bytes);
        self.answer(id)
    }

    pub fn is_answered(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id.0)
    }

    pub fn finish(&mut self, id: RequestId) {
        assert!(matches!(self.answer(id), Reply::Done), "{id:?} is answered otherwise");
    }

    pub fn begin_write(&mut self, offset: u64, bytes: &[u8]) -> RequestId {
        let length = u64::try_from(bytes.len()).expect("fits");
        let head = index(offset % 4096);
        let blocks = (head + bytes.len()).div_ceil(BLOCK_SIZE);
        let mut buffer = BufferMut::zeroed(blocks);
        buffer.bytes_mut()[head..head + bytes.len()].copy_from_slice(bytes);
        let fingerprinter = self.superblock.fingerprinter();
        let whole = |i: usize| i * BLOCK_SIZE >= head && (i + 1) * BLOCK_SIZE <= head + bytes.len();
        let name = if self.defers { Fingerprinter::defer } else { Fingerprinter::digest };
        let digests = (0..blocks).map(|i| if whole(i) { name(&fingerprinter, buffer.block(i)) } else { Digest::Partial }).collect();
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
        let bytes = content_of(self.request(Op::Read, offset, length, None, false));
        assert_eq!(bytes.len(), index(length));
        bytes
    }

    /// Lets time pass until the engine does not want to be woken any more, at most this many times.
    pub fn wait(&mut self, times: usize) {
        for _ in 0..times {
            if self.wake <= self.now {
                return;
            }
            self.now = self.wake;
            self.feed(Event::Tick);
        }
    }

    /// Lets this much time pass, and wakes the engine when it wants to be woken.
    pub fn pass_ms(&mut self, ms: u64) {
        let end = self.now + ms * 1_000_000;
        while self.wake > self.now && self.wake <= end {
            self.now = self.wake;
            self.feed(Event::Tick);
        }
        self.now = end;
    }

    pub fn fails_to_read(&mut self, lbn: u64) -> bool {
        matches!(self.request(Op::Read, lbn * 4096, 4096, None, false), Reply::Failed(_))
    }

    pub fn flush_fails(&mut self) -> bool {
        matches!(self.request(Op::Flush, 0, 0, None, false), Reply::Failed(_))
    }

    pub fn flush(&mut self) {
        let reply = self.request(Op::Flush, 0, 0, None, false);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }

    fn wake_unless(&mut self, is_done: impl Fn(&Self) -> bool) {
        if !is_done(self) {
            self.now = self.now.max(self.wake);
            self.feed(Event::Tick);
        }
    }

    /// Closes the volume, and returns whether it is clean then.
    pub fn ends(&mut self) -> bool {
        self.feed(Event::Close);
        (1..self.patience).for_each(|_| self.wake_unless(|m| m.closed.is_some()));
        self.closed.unwrap_or_else(|| panic!("everything happens at once, so it is closed: {}", self.engine.phase()))
    }

    pub fn close(mut self) -> Vec<u8> {
        assert!(self.ends());
        self.medium
    }
}
