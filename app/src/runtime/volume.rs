//! A volume that is served: the engine behind a lock, fed with events, its actions carried out.
//!
//! 1. The engine is used only under the lock; nothing under the lock waits. Digests are made before the lock is taken; I/O is submitted and
//!    clients are answered after it is released.
//! 2. A thread that brings events, a front-end's with a batch of requests or a device's with a batch of completions, feeds them all under
//!    one hold of the lock and carries out the actions. Large writes are left to the device's thread, which takes them before anything that
//!    arrived later; their blocks to compress, to a thread of their own.
//! 3. Each request is answered once, by the `done` that came with it.
//! 4. A panic of the engine ends the process: its state in memory cannot be trusted any more.

mod own;
mod served;

use super::codec::{Codec, FEW_BLOCKS, compressed};
use super::digests::{self, Written};
use super::latency::Latencies;
use super::layouts::Layouts;
use super::notices::Notices;
use super::promises::{Left, Promises};
use super::recording::entry::Asked;
use super::recording::tap::{Tap, content_of};
use super::selection::Selection;
use super::tally::Tally;
use super::timer::Timer;
use super::todo::{Todo, Waiting, token};
use super::verdict::verdict;
use crate::abort::AbortOnPanic;
use crate::device::{Command, Completed, Completions, Device, Work};
use crate::hints::Hints;
use crate::machine::Affordable;
use crate::memory::pool::Pool;
use crate::target::{Incoming, Target, TargetInfo, together};
use onefold_engine::Engine;
use onefold_engine::buffer::{BufferMut, Home};
use onefold_engine::fingerprint::Fingerprinter;
use onefold_engine::format::{CommitMode, Superblock};
use onefold_engine::interface::{Action, Event, Failure, IoFailure, IoId, Op, Payload, Request, RequestId, StoreRoom};
use onefold_engine::memory::Part;
use onefold_engine::policy::Policies;
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::units::{BLOCK_BYTES, Bytes, count, index};
use slab::Slab;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The size from which a batch of writes is left to the device's thread, so that the receiving thread goes on receiving. A smaller batch is
/// done before that thread begins.
const LEFT_BYTES_MIN: u64 = 64 << 10;

/// A volume as a target.
pub struct Volume {
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    home: Arc<dyn Home>,
    fingerprinter: Fingerprinter,
    info: TargetInfo,
    timer: Timer,
    /// The codec, where anything is to be compressed.
    codec: Option<Codec>,
    /// The requests that are left to the device's thread, in the order of arrival.
    left: Mutex<Vec<(Request, Waiting)>>,
    core: Mutex<Core>,
    closed: Condvar,
    client: Tally,
    latencies: Latencies,
    /// The commands that the device has failed.
    failed: Tally,
    notices: Notices,
    tap: Arc<Tap>,
    selection: Selection,
    hints: Arc<Hints>,
    layouts: Arc<Layouts>,
    /// The function that asks for requests that were sent back.
    ask_again: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The surroundings in which an opening finds a volume.
#[derive(Default)]
pub struct Surroundings {
    /// The journal where clients outlive their server, with the open records of the last one.
    pub promises: Option<(Promises, Left)>,
    /// The ranges of the store that its host has never written, if the store is a file and its host reports them.
    pub unwritten: Option<Vec<Range<Bytes>>>,
    pub hints: Arc<Hints>,
}

/// The state that the lock guards.
struct Core {
    engine: Engine,
    requests: Slab<Waiting>,
    actions: Vec<Action>,
    /// The journal, where its acknowledgements outlive this process.
    promises: Option<Promises>,
    /// Whether the engine has closed, and whether cleanly.
    closed: Option<bool>,
}

thread_local! {
    /// The vectors that each thread uses again and again.
    static SPARE: RefCell<(Vec<Event>, Todo)> = RefCell::default();
}

impl Volume {
    /// Opens the volume of `superblock` on `device`, with memory of `pool`. Requests may follow at once. `notices` receives what its owner
    /// should know.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn open(
        superblock: Superblock,
        settings: Settings,
        device: Arc<dyn Device>,
        pool: Arc<Pool>,
        surroundings: Surroundings,
        notices: Notices,
    ) -> Arc<Self> {
        let info = TargetInfo {
            bytes: superblock.geometry.logical_blocks * BLOCK_BYTES,
            request_bytes_max: pool.request_bytes_max(),
            sector_bytes: superblock.sector_bytes,
            read_only: settings.read_only,
        };
        let timer = Timer::default();
        let fingerprinter = superblock.fingerprinter();
        let tap = Arc::new(Tap::new(pool.clone(), info.bytes, Some(fingerprinter.clone())));
        // The engine's memory for reads counts among the requests, too, so that they bound the writes beside them.
        let engine_home: Arc<dyn Home> = pool.share_and_charge(Part::Requests);
        let compresses = settings.commit_mode == CommitMode::Log && settings.compression != Compression::Off;
        let mut engine = Engine::open(superblock, settings, engine_home, pool.accountant().clone(), timer.now());
        surroundings.unwritten.into_iter().for_each(|ranges| engine.take_unwritten(&ranges));
        let promises = surroundings.promises.map(|(promises, left)| {
            engine.replay(left.legacy);
            promises
        });
        let volume = Arc::new(Self {
            device,
            home: pool.share(Some(Part::Requests)),
            pool,
            fingerprinter,
            info,
            timer,
            codec: compresses.then(Codec::default),
            left: Mutex::default(),
            core: Mutex::new(Core { engine, requests: Slab::new(), actions: Vec::new(), closed: None, promises }),
            closed: Condvar::new(),
            client: Tally::default(),
            latencies: Latencies::default(),
            failed: Tally::default(),
            notices,
            tap,
            selection: Selection::default(),
            hints: surroundings.hints,
            layouts: Arc::default(),
            ask_again: OnceLock::new(),
        });
        let sink: Arc<dyn Completions> = volume.clone();
        volume.device.connect(Arc::downgrade(&sink));
        let alarmed = volume.clone();
        let timer_thread = move || {
            while alarmed.timer.wait() {
                alarmed.feed(&mut vec![Event::Tick], Vec::new());
            }
        };
        std::thread::Builder::new().name("timer".to_owned()).spawn(timer_thread).expect("the system has threads left");
        if compresses {
            let coder = volume.clone();
            let codec_thread = move || {
                while let Some(blocks) = coder.codec.as_ref().and_then(Codec::take) {
                    coder.feed(&mut compressed(blocks).collect(), Vec::new());
                }
            };
            std::thread::Builder::new().name("codec".to_owned()).spawn(codec_thread).expect("the system has threads left");
        }
        volume.feed(&mut vec![Event::Tick], Vec::new());
        volume
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> MutexGuard<'_, Vec<(Request, Waiting)>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds events, and then requests, to the engine and carries out its actions.
    pub(crate) fn feed(&self, events: &mut Vec<Event>, requests: Vec<(Request, Waiting)>) {
        let mut todo = SPARE.with_borrow_mut(|spare| std::mem::take(&mut spare.1));
        self.step(events, requests, &mut todo);
        loop {
            self.device.submit(&mut todo.commands);
            self.latencies.count_all(&mut todo.replies);
            together(|| todo.answers.drain(..).for_each(|(done, reply)| done(reply)));
            if std::mem::take(&mut todo.tells_of_loss) {
                self.core().promises.iter_mut().for_each(Promises::loss_told);
            }
            if std::mem::take(&mut todo.asks_again) {
                self.ask_again.get().into_iter().for_each(|ask| ask());
            }
            if let Some(codec) = self.codec.as_ref().filter(|_| todo.compressions.len() > FEW_BLOCKS) {
                codec.add(&mut todo.compressions);
            }
            if todo.digests.is_empty() && todo.compressions.is_empty() {
                break;
            }
            let digested =
                todo.digests.drain(..).map(|(io, block)| Event::Digested { io, digest: self.fingerprinter.digest(block.block(0)) });
            events.extend(digested);
            events.extend(compressed(todo.compressions.drain(..)));
            self.step(events, Vec::new(), &mut todo);
        }
        SPARE.with_borrow_mut(|spare| spare.1 = todo);
    }

    /// Does the part under the lock.
    fn step(&self, events: &mut Vec<Event>, requests: Vec<(Request, Waiting)>, todo: &mut Todo) {
        let _guard = AbortOnPanic;
        let mut guard = self.core();
        let core = &mut *guard;
        let now = self.timer.now();
        let owed_word = core.engine.owes_word_of_loss();
        for event in events.drain(..) {
            core.engine.step(now, event, &mut core.actions);
        }
        let left = std::mem::take(&mut *self.left());
        for (mut request, waiting) in left.into_iter().chain(requests) {
            if self.tap.is_on() && waiting.since.is_some() {
                // This is the order of admission.
                self.tap.tell(&Asked::by(&request), |wants| content_of(&request, wants));
            }
            request.id = RequestId(count(core.requests.insert(waiting)));
            core.engine.step(now, Event::Request(request), &mut core.actions);
        }
        todo.tells_of_loss |= owed_word && !core.engine.owes_word_of_loss();
        self.selection.set(core.engine.selectivity());
        let mut actions = std::mem::take(&mut core.actions);
        for action in actions.drain(..) {
            self.sort(core, action, todo);
        }
        core.actions = actions;
    }

    fn sort(&self, core: &mut Core, action: Action, todo: &mut Todo) {
        match action {
            Action::Read { io, at, buffer, digest, is_idle, .. } => {
                let bytes = buffer.bytes().len();
                let work = Work::Read { at: at.get(), buffer, skip: 0, bytes, is_idle };
                todo.commands.push(Command { token: token(io, digest), work });
            }
            Action::Write { io, at, data, fua, .. } => {
                let bytes = data.iter().map(|slice| index(slice.length())).sum();
                todo.commands.push(Command { token: token(io, false), work: Work::Write { at: at.get(), data, skip: 0, bytes, fua } });
            }
            Action::Flush { io } => todo.commands.push(Command { token: token(io, false), work: Work::Flush }),
            Action::Discard { io, at, length, fill } => {
                let (at, length) = (at.get(), length.get());
                let work = if fill { Work::Fill { at, length } } else { Work::Discard { at, length } };
                todo.commands.push(Command { token: token(io, false), work });
            }
            Action::Digest { io, block } => todo.digests.push((io, block)),
            Action::Compress { io, block } => todo.compressions.push((io, block)),
            Action::Reply { request, reply } => {
                let Waiting { done, op, since } = core.requests.remove(index(request.0));
                todo.replies.extend(since.map(|since| (op, since)));
                todo.answers.push((done, reply));
            }
            Action::Wake { at } => self.timer.set(at),
            Action::Notice(notice) => self.notices.tell(&notice),
            Action::Retry => todo.asks_again = true,
            Action::Remember(promises) => core.promises.iter_mut().for_each(|kept| kept.remember(&promises)),
            Action::Forget { epoch, traces } => core.promises.iter_mut().for_each(|kept| kept.forget(epoch, traces)),
            Action::Replayed => core.promises.iter_mut().for_each(Promises::replayed),
            Action::Closed { clean } => {
                if clean {
                    core.promises.iter_mut().for_each(Promises::remove);
                }
                core.closed = Some(clean);
                self.closed.notify_all();
            }
        }
    }

    /// Converts a completed command to an event, with the digests that the engine asked for.
    fn event_of(&self, completed: Completed) -> Event {
        let Completed { token, work, result } = completed;
        let (io, wants_digests) = (IoId(token >> 1), token & 1 == 1);
        if let Err(error) = &result {
            tracing::error!(%error, work = ?work.name(), at = work.at(), "the device failed");
            self.failed.count(work.op(), 0);
        }
        let result = result.map_err(|_| IoFailure);
        match work {
            Work::Read { buffer, .. } => {
                let digests = if wants_digests && result.is_ok() { digests::of_all(&self.fingerprinter, &buffer) } else { Vec::new() };
                Event::Read { io, buffer, digests, result }
            }
            Work::Write { .. } => Event::Written { io, result },
            Work::Flush => Event::Flushed { io, result },
            Work::Discard { .. } | Work::Zero { .. } | Work::Fill { .. } => Event::Discarded { io, result },
        }
    }

    /// Takes the room that is left below the store. Whether writes that the store refuses for want of room are to be sent again.
    pub fn store_has(&self, room: StoreRoom) -> bool {
        self.feed(&mut vec![Event::StoreRoom(room)], Vec::new());
        self.core().engine.waits_for_room()
    }

    /// Takes what the machine can afford from now on.
    pub fn afford(&self, affordable: Affordable) {
        self.selection.afford(affordable);
        self.feed(&mut vec![Event::Allowance(affordable.allowance())], Vec::new());
    }

    /// Converts requests for the engine, with the digests of their data; it numbers them when it gets them.
    fn requests_of(&self, batch: Vec<Incoming>, since: Instant) -> Vec<(Request, Waiting)> {
        let policies: Vec<Policies> =
            batch.iter().map(|request| self.hints.policies_of(request.op, request.offset, request.length)).collect();
        let writes: Vec<Written<'_>> = batch
            .iter()
            .zip(&policies)
            .filter_map(|(request, policies)| {
                // A recording names content by fingerprints.
                let is_deferred = !self.tap.is_on() && self.selection.defers();
                let Incoming { offset, length, ref buffer, .. } = *request;
                Some(Written { buffer: buffer.as_ref()?, offset, length, is_deferred, policies })
            })
            .collect();
        let mut digests = digests::of_writes(&self.fingerprinter, &writes).into_iter();
        let request_of = |(incoming, policies): (Incoming, Policies)| {
            let Incoming { op, offset, length, buffer, fua, done } = incoming;
            let payload =
                buffer.map(|buffer| Payload { buffer: buffer.freeze(), digests: digests.next().expect("each write has digests") });
            let (id, offset, length) = (RequestId(u64::MAX), Bytes(offset), Bytes(length));
            (Request { id, op, offset, length, payload, fua, policies }, Waiting { done, op, since: Some(since) })
        };
        batch.into_iter().zip(policies).map(request_of).collect()
    }
}

impl Target for Volume {
    fn info(&self) -> TargetInfo {
        self.info.clone()
    }

    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure> {
        self.pool.charge_request(blocks).map_err(|_| Failure::Io)?;
        Ok(self.home.clone().take(blocks))
    }

    fn try_buffer(&self, blocks: usize) -> Option<BufferMut> {
        self.pool.try_charge_request(blocks).then(|| self.home.clone().take(blocks))
    }

    fn when_room(&self, ask: Box<dyn Fn() + Send + Sync>) {
        let _ = self.ask_again.set(ask);
    }

    fn submit(&self, batch: &mut Vec<Incoming>) {
        let since = Instant::now();
        let mut admitted = Vec::with_capacity(batch.len());
        for mut incoming in batch.drain(..) {
            self.client.count(incoming.op, incoming.length);
            match verdict(&self.info, &incoming) {
                Some(reply) => (incoming.done)(reply),
                None => {
                    // Only a write brings data.
                    incoming.buffer = incoming.buffer.filter(|_| incoming.op == Op::Write);
                    self.layouts.look_at(&incoming);
                    admitted.push(incoming);
                }
            }
        }
        if self.tap.is_on() {
            self.tap.release(admitted.len());
        }
        if !admitted.is_empty() {
            let is_large = admitted.iter().any(|request| request.op == Op::Write && request.length >= LEFT_BYTES_MIN);
            let requests = self.requests_of(admitted, since);
            if is_large {
                self.left().extend(requests);
                self.device.call();
            } else {
                self.feed(&mut Vec::new(), requests);
            }
        }
    }
}

impl Completions for Volume {
    fn completed(&self, batch: &mut Vec<Completed>) {
        let mut events = SPARE.with_borrow_mut(|spare| std::mem::take(&mut spare.0));
        events.extend(batch.drain(..).map(|completed| self.event_of(completed)));
        self.feed(&mut events, Vec::new());
        SPARE.with_borrow_mut(|spare| spare.0 = events);
    }
}
