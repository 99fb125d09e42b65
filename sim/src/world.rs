//! One life of a server: a machine over a simulated device, clients, and time that passes as the seed will have it.
//!
//! 1. What the machine asks of the device completes in any order; each sector may be read, written or forgotten at any moment in between.
//! 2. Reads and discards may be held back past commits; timers may fire between any two events.
//! 3. Requests are sent in any number at once, before the opening is over too.
//! 4. Whatever the machine does is checked as it does it: the interface's invariants, the device's rules (R6), the set checker where there is
//!    one, every reply against the oracle.

mod device;
mod replies;

use crate::checker::Checker;
use crate::client::{Client, Stretch, Weather};
use crate::content::{Content, Shared};
use crate::disk::{End, SimDisk};
use crate::logcheck::LogChecker;
use crate::machine::{Machine, quietly};
use crate::objection::objection;
use crate::options::Options;
use crate::oracle::Oracle;
use crate::record::record;
use crate::ring::Ring;
use crate::ringcheck::RingChecker;
use crate::setcheck::{SetChecker, View};
use crate::sin::{Call, Sin, Verdict};
use crate::squeeze::squeeze;
use crate::traffic::{Situation, Traffic};
use crate::violation::{Violation, violation};
use crate::volume::Volume;
use fastrand::Rng;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::interface::{Action, Event, IoFailure, IoId, Legacy, Notice, Op, Request, StoreRoom};
use onefold_engine::units::{BLOCK_BYTES, Time};
use std::rc::Rc;

/// Steps without any end in sight before a run is called stuck; and so many more for each promise that is recalled first, one after the other.
const STEPS_STUCK: u64 = 20_000;
const STEPS_A_PROMISE: u64 = 400;

/// Steps until the room below the store is another one, where it changes.
const STEPS_OF_ROOM: u64 = 97;

/// The most steps by which a digest is late: time for several packs and a commit.
const LATE_STEPS_MAX: u64 = 300;

enum Work {
    Read { first: u64, buffer: BufferMut, digest: bool, early: Option<Vec<Shared>> },
    Write { fua: bool },
    Discard,
    Flush,
    Digest { block: Slice },
    Compress { block: Slice },
}

struct Pending {
    io: IoId,
    work: Work,
    fails: bool,
    /// Held back until this step.
    not_before: u64,
}

/// What a world is made of, apart from the machine.
#[derive(Clone)]
pub struct Setting {
    pub volume: Rc<Volume>,
    pub options: Rc<Options>,
    pub stretches: Rc<Vec<Stretch>>,
}

/// One life of a server.
pub struct World {
    pub setting: Setting,
    pub disk: SimDisk,
    pub oracle: Oracle,
    pub checker: Option<Checker>,
    /// Device events before the checker began.
    pub checked_from: u64,
    /// The checker of a life with a log begins when the volume serves, and nothing on the device is undecided.
    awaits_checker: bool,
    pub traffic: Traffic,
    pub client: Client,
    pub rng: Rng,
    pub notices: Vec<Notice>,
    pub weather: Weather,
    pub ring: Ring,
    /// What the ring names stays where it is.
    ring_checker: RingChecker,
    /// What spoils the device, if anything does.
    pub sin: Option<Box<dyn Sin>>,
    /// Device calls so far.
    pub calls: u64,
    /// The number of the call that is to fail.
    pub fault: Option<u64>,
    machine: Box<dyn Machine>,
    pending: Vec<Pending>,
    now: Time,
    wake: Option<Time>,
    steps: u64,
    closed: Option<bool>,
    actions: Vec<Action>,
}

impl World {
    /// The machine has just been made for this device.
    #[must_use]
    pub fn new(setting: Setting, disk: SimDisk, oracle: Oracle, machine: Box<dyn Machine>, mut rng: Rng) -> Self {
        let client = Client::new(setting.volume.clone(), setting.options.clone(), setting.stretches.clone(), &mut rng);
        Self {
            traffic: Traffic::new(setting.options.settings.refs_limit),
            setting,
            disk,
            oracle,
            checker: None,
            checked_from: 0,
            awaits_checker: false,
            client,
            rng,
            notices: Vec::new(),
            weather: Weather::default(),
            ring: Ring::default(),
            ring_checker: RingChecker::default(),
            sin: None,
            calls: 0,
            fault: None,
            machine,
            pending: Vec::new(),
            now: Time(1_000_000_000),
            wake: None,
            steps: 0,
            closed: None,
            actions: Vec::new(),
        }
    }

    /// The machine takes over from one that was killed. Before the first step.
    pub fn take_over(&mut self, ring: Ring, legacy: Legacy) {
        record!("recall: {legacy:?}");
        self.weather.doubted = ring.is_in_doubt();
        if !ring.is_in_doubt() {
            self.ring_checker = RingChecker::taking_over(&legacy.promises);
        }
        self.ring = ring;
        self.machine.recall(legacy);
    }

    /// Checks all states of the device from here on.
    ///
    /// # Errors
    /// When one of those possible now is wrong.
    pub fn check_sets(&mut self) -> Result<(), Violation> {
        let view = View { disk: &self.disk, oracle: &self.oracle };
        self.checker = Some(Checker::Ordered(Box::new(SetChecker::new(self.setting.volume.clone(), view)?)));
        Ok(())
    }

    /// The same for a life with a log, from the end of its opening on.
    pub fn check_log_sets(&mut self) {
        self.awaits_checker = true;
    }

    fn begin_checking(&mut self) -> Result<(), Violation> {
        let is_quiet = self.disk.idle() && self.disk.undecided().is_empty();
        if !self.awaits_checker || !self.traffic.serving || !is_quiet || self.weather.errors {
            return Ok(());
        }
        self.awaits_checker = false;
        let view = View { disk: &self.disk, oracle: &self.oracle };
        self.checker = LogChecker::new(self.setting.volume.clone(), view)?.map(|checker| Checker::Log(Box::new(checker)));
        self.checked_from = self.traffic.events;
        Ok(())
    }

    /// Device events after which the checker looked.
    #[must_use]
    pub fn events_checked(&self) -> u64 {
        if self.checker.is_some() { self.traffic.events - self.checked_from } else { 0 }
    }

    /// Whether a clean end was announced, and how it was.
    #[must_use]
    pub fn closed(&self) -> Option<bool> {
        self.closed
    }

    /// Whether nothing is under way: no request, no I/O.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.pending.is_empty() && self.client.waiting() == 0
    }

    /// Gives the machine an event and carries out what it asks for.
    ///
    /// # Errors
    /// What any of the checks finds; a panic of the machine.
    pub fn feed(&mut self, event: Event) -> Result<(), Violation> {
        crate::watchdog::beat();
        let mut actions = std::mem::take(&mut self.actions);
        let (machine, now) = (&mut self.machine, self.now);
        if let Err(words) = quietly(|| machine.step(now, event, &mut actions)) {
            return Err(violation!("panic: {words}"));
        }
        for action in actions.drain(..) {
            self.carry_out(action)?;
        }
        self.actions = actions;
        self.client.has_seen_content(&mut self.rng);
        self.begin_checking()
    }

    fn carry_out(&mut self, action: Action) -> Result<(), Violation> {
        match action {
            Action::Read { io, at, buffer, digest, class: _ } => {
                self.traffic.tally.reads += 1;
                let fails = self.call(io, Call::Read)?;
                let (first, blocks) = (block_of(at.get())?, buffer.blocks() as u64);
                if first + blocks > self.disk.blocks() {
                    return Err(violation!("interface: a read of {blocks} blocks from block {first} on, beyond the device's end"));
                }
                let early = self.rng.bool().then(|| self.look(first, blocks));
                self.start(io, Work::Read { first, buffer, digest, early }, fails, true);
            }
            Action::Write { io, at, data, class, fua } => {
                let contents: Vec<Shared> = data.iter().flat_map(|s| (0..s.blocks()).map(|i| Content::of(s.block(i)))).collect();
                self.write(io, block_of(at.get())?, &contents, class, fua)?;
            }
            Action::Flush { io } => {
                record!("device {}: flush", io.0);
                let fails = self.call(io, Call::Flush)?;
                self.disk.flush(io);
                self.traffic.flush();
                self.start(io, Work::Flush, fails, false);
            }
            Action::Discard { io, at, length } => self.discard(io, block_of(at.get())?, block_of(length.get())?)?,
            Action::Digest { io, block } => self.compute(io, Work::Digest { block }),
            Action::Compress { io, block } => self.compute(io, Work::Compress { block }),
            Action::Reply { request, reply } => self.replied(request, &reply)?,
            Action::Wake { at } => self.wake = Some(at),
            Action::Notice(notice) => self.notice(notice)?,
            Action::Retry => self.client.may_send_again()?,
            Action::Remember(promises) => {
                record!("ring: {promises:?}");
                if self.has_sound_device() {
                    self.ring_checker.remember(&promises, &self.disk, &self.setting.volume)?;
                }
                self.ring.remember(promises);
            }
            Action::Forget { epoch, traces } => {
                record!("ring: forget up to {epoch}, {traces:?}");
                self.ring_checker.forget(epoch);
                self.ring.forget(epoch, traces);
            }
            Action::Recalled => {
                record!("ring: recalled");
                self.ring_checker.recalled();
                let lbns = self.ring.recalled(&mut self.oracle)?;
                self.floors_raised(lbns.into_iter())?;
            }
            Action::Closed { clean } => {
                record!("closed, clean: {clean}");
                self.closed = Some(clean);
            }
        }
        Ok(())
    }

    fn notice(&mut self, notice: Notice) -> Result<(), Violation> {
        record!("notice: {notice:?}");
        objection(&notice, self.weather)?;
        match &notice {
            Notice::Serving => {
                self.traffic.serving = true;
                // A crash in mode `log` leaves nothing to be recounted.
                let superblock = self.setting.volume.newest_superblock(|block| self.disk.cell(block).newest());
                self.traffic.recounting &= superblock.is_none_or(|superblock| superblock.garbage_possible);
                self.begin_checking()?;
            }
            Notice::Recounted { .. } => {
                self.traffic.recounting = false;
                self.traffic.note(Situation::Recount);
            }
            // A page that has to change and cannot be read is reason enough.
            Notice::WentReadOnly { what } => {
                self.weather.failed = true;
                if *what == "a damaged log" {
                    self.oracle.forgive();
                }
            }
            _ => {}
        }
        self.notices.push(notice);
        Ok(())
    }

    /// Counts a device call; says whether it is to fail.
    fn call(&mut self, io: IoId, call: Call) -> Result<bool, Violation> {
        if self.weather.failed && call != Call::Read {
            return Err(violation!("A5: a {call:?} ({}) was issued after the device had failed", io.0));
        }
        let planned = self.fault == Some(self.calls);
        self.calls += 1;
        let sinned = self.sin.as_mut().is_some_and(|s| s.issued(call) == Verdict::Fail);
        Ok(planned || sinned)
    }

    fn start(&mut self, io: IoId, work: Work, fails: bool, may_wait: bool) {
        let held = may_wait && self.rng.u8(..) < self.setting.options.delay;
        let not_before = if held { self.steps + self.rng.u64(5..120) } else { 0 };
        self.pending.push(Pending { io, work, fails, not_before });
    }

    /// Digests and compressions are made by threads of their own, which may be slow.
    fn compute(&mut self, io: IoId, work: Work) {
        // What compresses is waited for by everyone, so that it is late less often.
        let late = if matches!(work, Work::Digest { .. }) { self.setting.options.late } else { self.setting.options.late / 8 };
        let is_late = late > 0 && self.rng.u8(..) < late;
        let not_before = if is_late { self.steps + self.rng.u64(5..LATE_STEPS_MAX) } else { 0 };
        self.pending.push(Pending { io, work, fails: false, not_before });
    }

    fn complete(&mut self, at: usize) -> Result<(), Violation> {
        let Pending { io, work, fails, .. } = self.pending.swap_remove(at);
        record!("device {}: {}", io.0, if fails { "FAILS" } else { "completes" });
        let end = if fails { End::Failed } else { End::Done };
        let result = if fails { Err(IoFailure) } else { Ok(()) };
        self.weather.errors |= fails;
        let event = match work {
            Work::Read { first, mut buffer, digest, early } => {
                let mut found = early.unwrap_or_else(|| self.look(first, buffer.blocks() as u64));
                if let Some(sin) = &mut self.sin {
                    sin.found(first, &mut found, &mut self.rng);
                }
                if matches!(self.setting.volume.place(first), crate::volume::Place::Data(_)) {
                    record!("device {}: found {:?} {found:?}", io.0, self.setting.volume.place(first));
                }
                for (i, content) in found.iter().enumerate() {
                    buffer.block_mut(i).copy_from_slice(content.bytes());
                }
                let digests = if digest { found.iter().map(|c| self.setting.volume.digest(c)).collect() } else { Vec::new() };
                return self.feed(Event::Read { io, buffer, digests, result });
            }
            Work::Digest { block } => {
                let digest = self.setting.volume.digest(&Content::of(block.block(0)));
                return self.feed(Event::Digested { io, digest });
            }
            Work::Compress { block } => {
                let data = squeeze(&Content::of(block.block(0)), SLOT_DATA_MAX);
                return self.feed(Event::Compressed { io, data });
            }
            Work::Write { fua: false } => {
                self.disk.finish(io, end);
                self.traffic.completed();
                Event::Written { io, result }
            }
            Work::Write { fua: true } => {
                let forgets = self.sin.as_mut().is_some_and(|s| s.forgets_flush());
                let decided = self.disk.finish(io, if forgets { End::Forgotten } else { end });
                self.traffic.fua_completed();
                self.decided(&decided)?;
                Event::Written { io, result }
            }
            Work::Discard => {
                self.disk.finish(io, end);
                self.traffic.completed();
                // A discard is advice: its failure promises nothing and breaks nothing.
                return self.feed(Event::Discarded { io, result });
            }
            Work::Flush => {
                let forgets = self.sin.as_mut().is_some_and(|s| s.forgets_flush());
                let decided = self.disk.finish(io, if forgets { End::Forgotten } else { end });
                self.traffic.flushed();
                self.decided(&decided)?;
                Event::Flushed { io, result }
            }
        };
        self.weather.failed |= fails;
        self.feed(event)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// As [`World::feed`].
    pub fn send(&mut self, request: Request) -> Result<(), Violation> {
        match request.op {
            Op::Discard => self.traffic.note(Situation::ClientDiscard),
            Op::Write if request.offset.get() % BLOCK_BYTES != 0 || request.length.get() % BLOCK_BYTES != 0 => {
                self.traffic.note(Situation::SubBlock);
            }
            _ => {}
        }
        if self.weather.failed {
            self.client.is_late(request.id);
        }
        self.feed(Event::Request(request))
    }

    /// One step: a completion, a timer, or with `clients` a new request. False when there is nothing left to do.
    ///
    /// # Errors
    /// As [`World::feed`]; or when requests wait and nothing will ever happen.
    pub fn step(&mut self, clients: bool) -> Result<bool, Violation> {
        self.steps += 1;
        if self.setting.options.runs_short && self.steps % STEPS_OF_ROOM == 0 {
            let room = StoreRoom { is_short: self.steps / STEPS_OF_ROOM % 2 == 1, ..StoreRoom::default() };
            self.feed(Event::StoreRoom(room))?;
        }
        self.now = Time(self.now.get() + self.rng.u64(1_000..100_000));
        if let Some(wake) = self.wake {
            let due = wake <= self.now && self.rng.bool();
            if due || self.rng.u8(..) < self.setting.options.jump {
                return self.tick(wake).map(|()| true);
            }
        }
        let may_send = clients && self.closed.is_none() && !self.traffic.closing && self.client.waiting() < self.setting.options.depth;
        let ready: Vec<usize> = (0..self.pending.len()).filter(|&i| self.pending[i].not_before <= self.steps).collect();
        if may_send && (ready.is_empty() || self.rng.u8(..) < 100) {
            let request = self.client.next(&mut self.oracle, &mut self.rng);
            return self.send(request).map(|()| true);
        }
        if !ready.is_empty() {
            let at = ready[self.rng.usize(0..ready.len())];
            return self.complete(at).map(|()| true);
        }
        if !self.pending.is_empty() {
            return Ok(true); // Held back; the steps go by.
        }
        let expects_more = self.client.waiting() > 0 || (self.traffic.closing && self.closed.is_none());
        match self.wake {
            Some(wake) if expects_more || self.now >= wake => self.tick(wake).map(|()| true),
            None if expects_more => Err(violation!("stuck: nothing is under way, and these wait: {}", self.client.describe_waiting())),
            _ => Ok(false),
        }
    }

    fn tick(&mut self, wake: Time) -> Result<(), Violation> {
        self.now = self.now.max(wake);
        self.wake = None;
        record!("time: {} ms", self.now.get() / 1_000_000);
        self.feed(Event::Tick)
    }

    /// Lets time pass until the next timer fires, if there is one.
    ///
    /// # Errors
    /// As [`World::feed`].
    pub fn pass_time(&mut self) -> Result<bool, Violation> {
        match self.wake {
            Some(wake) => self.tick(wake).map(|()| true),
            None => Ok(false),
        }
    }

    /// Goes on until `done` says so.
    ///
    /// # Errors
    /// As [`World::step`]; or when it takes for ever.
    pub fn run_until(&mut self, clients: bool, mut done: impl FnMut(&Self) -> bool) -> Result<(), Violation> {
        let mut oldest = None;
        let most = STEPS_STUCK + self.ring.being_recalled() * STEPS_A_PROMISE;
        for i in 0..most {
            if done(self) || !self.step(clients)? {
                return Ok(());
            }
            if i == most / 2 {
                oldest = self.client.oldest_waiting();
            }
        }
        // Where every request is answered in time, if only by reads from memory and refusals, nobody is stuck.
        let waits = self.client.oldest_waiting().is_some_and(|now| oldest.is_some_and(|then| now <= then));
        if clients && !self.traffic.closing && !waits {
            return Ok(());
        }
        Err(violation!("stuck: {most} steps and no end; these wait: {}", self.client.describe_waiting()))
    }

    /// Goes on with no new requests until all replies are there and all I/O is over.
    ///
    /// # Errors
    /// As [`World::run_until`].
    pub fn settle(&mut self) -> Result<(), Violation> {
        self.run_until(false, Self::quiet)
    }

    /// Reads every block that writes go to; the replies are held against the oracle as any.
    ///
    /// # Errors
    /// As [`World::run_until`].
    pub fn read_all(&mut self) -> Result<(), Violation> {
        self.send_reads()?;
        self.run_until(false, |w| w.client.waiting() == 0)
    }

    /// Sends reads of every block that writes go to.
    ///
    /// # Errors
    /// As [`World::feed`].
    pub fn send_reads(&mut self) -> Result<(), Violation> {
        for (first, blocks) in self.setting.stretches.clone().iter() {
            let request = self.client.read(first * BLOCK_BYTES, blocks * BLOCK_BYTES, &mut self.oracle);
            self.send(request)?;
        }
        Ok(())
    }

    /// Writes every block that writes go to, and reads them back: now there is no error any more.
    ///
    /// # Errors
    /// As [`World::run_until`]; and when a block that was written cannot be read.
    pub fn heal(&mut self) -> Result<(), Violation> {
        let content = crate::content::pattern("healed");
        for (first, blocks) in self.setting.stretches.clone().iter() {
            let contents = vec![content.clone(); crate::disk::to_index(*blocks)];
            let request = self.client.write(*first, &contents, false, &mut self.oracle);
            self.send(request)?;
            self.run_until(false, |w| w.client.waiting() == 0)?;
        }
        // Errors of writes are possible (where refs are unknown, or space is gone); those of reads after a good write are not.
        self.read_all()
    }

    /// Asks for a clean end, and waits for it.
    ///
    /// # Errors
    /// As [`World::run_until`].
    pub fn close(&mut self) -> Result<(), Violation> {
        self.begin_close()?;
        self.run_until(false, |w| w.closed.is_some())
    }

    /// Asks for a clean end, once no request waits.
    ///
    /// # Errors
    /// As [`World::run_until`].
    pub fn begin_close(&mut self) -> Result<(), Violation> {
        self.run_until(false, |w| w.client.waiting() == 0)?;
        record!("close");
        self.traffic.closing = true;
        self.feed(Event::Close)
    }
}

fn block_of(bytes: u64) -> Result<u64, Violation> {
    if bytes % BLOCK_BYTES == 0 { Ok(bytes / BLOCK_BYTES) } else { Err(violation!("interface: {bytes} is no multiple of a block")) }
}
