//! One life of a server: a machine over a simulated device, clients, and time that passes as the seed decides.
//!
//! 1. The device completes operations in any order; each sector may be read, written or forgotten at any moment in between.
//! 2. Reads and discards may be delayed past commits; timers may fire between any two events.
//! 3. Any number of requests may be sent at once, even before the opening is over.
//! 4. Everything that the machine does is checked immediately: the interface's invariants, the device's rules (R6), the set checker if
//!    there is one, and every reply against the oracle.

mod device;
mod drive;
mod replies;
mod room;

use crate::checkers::ack_journal::AckJournal;
use crate::checkers::ack_journal_check::AckJournalChecker;
use crate::checkers::checker::Checker;
use crate::checkers::faults::FaultState;
use crate::checkers::logcheck::LogChecker;
use crate::checkers::objection::objection;
use crate::checkers::oracle::Oracle;
use crate::checkers::setcheck::{SetChecker, View};
use crate::device::disk::{IoOutcome, SimDisk};
use crate::device::faulty_device::{Call, CallOutcome, DeviceFault};
use crate::device::squeeze::squeeze;
use crate::device::traffic::{Situation, Traffic};
use crate::device::volume::BlockUse;
use crate::explorer::client::Client;
use crate::explorer::setting::Setting;
use crate::ground::content::{Content, Shared};
use crate::ground::record::record;
use crate::ground::violation::{Violation, violation};
use crate::machine::{Machine, quietly};
use fastrand::Rng;
use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::interface::{Action, Event, IoFailure, IoId, Legacy, Notice};
use onefold_engine::units::{BLOCK_BYTES, Time};

/// The largest number of steps by which a digest is late: enough time for several packs and a commit.
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
    /// The step until which it is delayed.
    not_before: u64,
}

/// One life of a server.
pub struct World {
    pub setting: Setting,
    pub disk: SimDisk,
    pub oracle: Oracle,
    pub checker: Option<Checker>,
    /// The number of device events before the checker began.
    pub checked_from: u64,
    /// Whether a checker of a life with a log has yet to begin: it begins when the volume serves, and nothing on the device is undecided.
    awaits_checker: bool,
    pub traffic: Traffic,
    pub client: Client,
    pub rng: Rng,
    pub notices: Vec<Notice>,
    pub faults: FaultState,
    pub journal: AckJournal,
    /// The checker that what the acknowledgement journal names stays in its place.
    journal_checker: AckJournalChecker,
    /// The fault of the device, if it has one.
    pub device_fault: Option<Box<dyn DeviceFault>>,
    /// The number of device calls so far.
    pub calls: u64,
    /// The number of the call that has to fail.
    pub fault: Option<u64>,
    /// The reports of room in a row that were made because nothing else happened.
    room_reports: u32,
    machine: Box<dyn Machine>,
    /// The number of LBNs that the machine has mapped to another block out of line.
    linked_out_of_line: u64,
    pending: Vec<Pending>,
    now: Time,
    wake: Option<Time>,
    steps: u64,
    closed: Option<bool>,
    actions: Vec<Action>,
}

impl World {
    /// Makes a world with a machine that has just been made for this device.
    #[must_use]
    pub fn new(setting: Setting, disk: SimDisk, oracle: Oracle, machine: Box<dyn Machine>, mut rng: Rng) -> Self {
        let client = Client::new(setting.volume.clone(), setting.options.clone(), setting.stretches.clone(), &mut rng);
        Self {
            traffic: Traffic::new(setting.options.settings.knobs.refs_limit),
            setting,
            disk,
            oracle,
            checker: None,
            checked_from: 0,
            awaits_checker: false,
            client,
            rng,
            notices: Vec::new(),
            faults: FaultState::default(),
            journal: AckJournal::default(),
            journal_checker: AckJournalChecker::default(),
            device_fault: None,
            calls: 0,
            fault: None,
            room_reports: 0,
            machine,
            linked_out_of_line: 0,
            pending: Vec::new(),
            now: Time(1_000_000_000),
            wake: None,
            steps: 0,
            closed: None,
            actions: Vec::new(),
        }
    }

    /// Passes the acknowledgement journal of a killed server to the machine, before the first step.
    pub fn take_over(&mut self, journal: AckJournal, legacy: Legacy) {
        record!("journal: replay {legacy:?}");
        self.faults.doubted = journal.is_in_doubt();
        if !journal.is_in_doubt() {
            self.journal_checker = AckJournalChecker::taking_over(&legacy.promises);
        }
        self.journal = journal;
        self.machine.replay_journal(legacy);
    }

    /// Begins to check all states of the device.
    ///
    /// # Errors
    /// Fails if one of the states possible now is wrong.
    pub fn check_sets(&mut self) -> Result<(), Violation> {
        let view = View { disk: &self.disk, oracle: &self.oracle };
        self.checker = Some(Checker::Ordered(Box::new(SetChecker::new(self.setting.volume.clone(), view)?)));
        Ok(())
    }

    /// Begins to check the states of a life with a log, from the end of its opening on.
    pub fn check_log_sets(&mut self) {
        self.awaits_checker = true;
    }

    fn begin_checking(&mut self) -> Result<(), Violation> {
        let is_quiet = self.disk.idle() && self.disk.undecided().is_empty();
        if !self.awaits_checker || !self.traffic.serving || !is_quiet || self.faults.errors {
            return Ok(());
        }
        self.awaits_checker = false;
        let view = View { disk: &self.disk, oracle: &self.oracle };
        self.checker = LogChecker::new(self.setting.volume.clone(), view)?.map(|checker| Checker::Log(Box::new(checker)));
        self.checked_from = self.traffic.events;
        Ok(())
    }

    /// Returns the number of device events after which the checker ran.
    #[must_use]
    pub fn events_checked(&self) -> u64 {
        if self.checker.is_some() { self.traffic.events - self.checked_from } else { 0 }
    }

    /// Returns the number of containers that the machine opened for streams.
    #[must_use]
    pub fn containers_opened(&self) -> u64 {
        self.machine.containers_opened()
    }

    /// Returns whether the machine reported its end, and whether the end was clean.
    #[must_use]
    pub fn closed(&self) -> Option<bool> {
        self.closed
    }

    /// Returns whether nothing is under way: no request, no I/O.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.pending.is_empty() && self.client.waiting() == 0
    }

    /// Passes an event to the machine and carries out its actions.
    ///
    /// # Errors
    /// Returns what any of the checks finds, or a panic of the machine.
    pub fn feed(&mut self, event: Event) -> Result<(), Violation> {
        crate::ground::watchdog::beat();
        let mut actions = std::mem::take(&mut self.actions);
        let (machine, now) = (&mut self.machine, self.now);
        if let Err(words) = quietly(|| machine.step(now, event, &mut actions)) {
            return Err(violation!("panic: {words}"));
        }
        let linked = self.machine.linked_out_of_line();
        if linked > self.linked_out_of_line {
            self.linked_out_of_line = linked;
            self.traffic.note(Situation::OutOfLine);
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
            Action::Read { io, at, buffer, digest, .. } => {
                self.traffic.tally.reads += 1;
                let fails = self.call(io, Call::Read)?;
                let (first, blocks) = (block_of(at.get())?, buffer.blocks() as u64);
                if first + blocks > self.disk.blocks() {
                    return Err(violation!("interface: a read of {blocks} blocks from block {first} on reaches beyond the device's end"));
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
            Action::Discard { io, at, length, fill } => self.discard(io, block_of(at.get())?, block_of(length.get())?, fill)?,
            Action::Digest { io, block } => self.compute(io, Work::Digest { block }),
            Action::Compress { io, block } => self.compute(io, Work::Compress { block }),
            Action::Reply { request, reply } => self.replied(request, &reply)?,
            Action::Wake { at } => self.wake = Some(at),
            Action::Notice(notice) => self.notice(notice)?,
            Action::Retry => self.client.may_send_again()?,
            Action::Remember(promises) => {
                record!("ring: {promises:?}");
                if self.has_sound_device() {
                    self.journal_checker.remember(&promises, &self.disk, &self.setting.volume)?;
                }
                self.journal.remember(promises)?;
            }
            Action::Forget { epoch, traces } => {
                record!("journal: forget up to {epoch}, {traces:?}");
                self.journal_checker.forget(epoch);
                self.journal.forget(epoch, traces);
            }
            Action::Replayed => {
                record!("journal: replayed");
                self.journal_checker.replayed();
                let lbns = self.journal.replayed(&mut self.oracle)?;
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
        objection(&notice, self.faults)?;
        crate::checkers::mended::check(&notice, &self.disk, &self.setting.volume)?;
        match &notice {
            Notice::Serving => {
                self.traffic.begin_serving();
                // A crash in mode `log` leaves nothing to be recounted.
                let superblock = self.setting.volume.newest_superblock(|block| self.disk.cell(block).newest());
                let is_due = superblock.is_none_or(|superblock| superblock.garbage_possible);
                self.traffic.set_recounting(self.traffic.recounting && is_due);
                self.begin_checking()?;
            }
            Notice::Recounted { .. } => {
                self.traffic.set_recounting(false);
                self.traffic.note(Situation::Recount);
            }
            // A page that has to change and cannot be read is a sufficient reason.
            Notice::WentReadOnly { what } => {
                self.faults.failed = true;
                if *what == "a damaged log" {
                    self.oracle.forgive();
                }
            }
            _ => {}
        }
        self.notices.push(notice);
        Ok(())
    }

    /// Counts a device call, and returns whether it has to fail.
    fn call(&mut self, io: IoId, call: Call) -> Result<bool, Violation> {
        if self.faults.failed && call != Call::Read {
            return Err(violation!("A5: a {call:?} ({}) was issued after the device had failed", io.0));
        }
        let planned = self.fault == Some(self.calls);
        self.calls += 1;
        let sinned = self.device_fault.as_mut().is_some_and(|s| s.issued(call) == CallOutcome::Fail);
        Ok(planned || sinned)
    }

    fn start(&mut self, io: IoId, work: Work, fails: bool, may_wait: bool) {
        let held = may_wait && self.rng.u8(..) < self.setting.options.delay;
        let not_before = if held { self.steps + self.rng.u64(5..120) } else { 0 };
        self.pending.push(Pending { io, work, fails, not_before });
    }

    /// Computes a digest or a compression in a thread of its own, which may be slow.
    fn compute(&mut self, io: IoId, work: Work) {
        // Everything waits for a compression, so that it is late less often.
        let late = if matches!(work, Work::Digest { .. }) { self.setting.options.late } else { self.setting.options.late / 8 };
        let is_late = late > 0 && self.rng.u8(..) < late;
        let not_before = if is_late { self.steps + self.rng.u64(5..LATE_STEPS_MAX) } else { 0 };
        self.pending.push(Pending { io, work, fails: false, not_before });
    }

    fn complete(&mut self, at: usize) -> Result<(), Violation> {
        let Pending { io, work, fails, .. } = self.pending.swap_remove(at);
        record!("device {}: {}", io.0, if fails { "FAILS" } else { "completes" });
        let end = if fails { IoOutcome::Failed } else { IoOutcome::Done };
        let result = if fails { Err(IoFailure) } else { Ok(()) };
        self.faults.errors |= fails;
        let event = match work {
            Work::Read { first, mut buffer, digest, early } => {
                let mut found = early.unwrap_or_else(|| self.look(first, buffer.blocks() as u64));
                if let Some(device_fault) = &mut self.device_fault {
                    device_fault.found(first, &mut found, &mut self.rng);
                }
                if matches!(self.setting.volume.place(first), BlockUse::Data(_)) {
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
                let forgets = self.device_fault.as_mut().is_some_and(|s| s.forgets_flush());
                let decided = self.disk.finish(io, if forgets { IoOutcome::Forgotten } else { end });
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
                let forgets = self.device_fault.as_mut().is_some_and(|s| s.forgets_flush());
                let decided = self.disk.finish(io, if forgets { IoOutcome::Forgotten } else { end });
                self.traffic.flushed();
                self.decided(&decided)?;
                Event::Flushed { io, result }
            }
        };
        self.faults.failed |= fails;
        self.feed(event)
    }
}

fn block_of(bytes: u64) -> Result<u64, Violation> {
    if bytes % BLOCK_BYTES == 0 { Ok(bytes / BLOCK_BYTES) } else { Err(violation!("interface: {bytes} is not a multiple of a block")) }
}
