//! A machine over the counting device, in virtual time.
//!
//! 1. An operation of the device completes at the time that its [`Times`] say; operations of one moment complete in the order of issue.
//! 2. At one moment completions come first, then the client, then the machine's own timer.
//! 3. Any [`Stepped`] machine is driven in the same way. Anything that is never allowed (to report damage, go read-only, close unclean)
//!    ends the run with an error.

use super::device::Device;
use super::slots::Slots;
use super::times::Times;
use crate::replay::names::{digest_of, name_of};
use onefold_engine::Engine;
use onefold_engine::buffer::Slice;
use onefold_engine::format::unit::SLOT_DATA_MAX;
use onefold_engine::interface::{Action, Event, Notice, Reply, RequestId};
use onefold_engine::units::{BLOCK_BYTES, Time};
use std::collections::BTreeMap;

/// The next to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Completion,
    Client,
    Timer,
}

/// A state machine with the engine's interface.
pub trait Stepped {
    /// Handles one event and appends the resulting actions to `out`.
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>);
}

impl Stepped for Engine {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        Self::step(self, now, event, out);
    }
}

/// The machine, its device, and the time.
pub struct Rig<M, T> {
    pub machine: M,
    pub device: Device,
    pub times: T,
    now_ns: u64,
    /// The completions by time and order of issue.
    due: BTreeMap<(u64, u64), Event>,
    issued: u64,
    wake_ns: Option<u64>,
    serving: bool,
    closed: bool,
    /// The machine's answers, until they are taken.
    pub replies: Vec<(RequestId, Reply)>,
    out: Vec<Action>,
    /// The sizes to which content compresses.
    pub slots: Slots,
}

impl<M: Stepped, T: Times> Rig<M, T> {
    /// Begins at time 0 and runs until the machine serves; a machine that never reports that serves when nothing is left to do.
    ///
    /// # Errors
    /// Fails if the machine does something that is never allowed.
    pub fn open(machine: M, device: Device, times: impl Into<T>) -> Result<Self, String> {
        let mut rig = Self {
            machine,
            device,
            times: times.into(),
            now_ns: 0,
            due: BTreeMap::new(),
            issued: 0,
            wake_ns: None,
            serving: false,
            closed: false,
            replies: Vec::new(),
            out: Vec::new(),
            slots: Slots::default(),
        };
        rig.feed(Event::Tick)?;
        while !rig.serving && !rig.due.is_empty() {
            rig.take_turn(None)?;
        }
        Ok(rig)
    }

    /// Returns the time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Advances to the next event: returns true if the client is to act, whose time has come. A client that waits for an answer has no
    /// time.
    ///
    /// # Errors
    /// Fails if nothing can happen any more, or the machine does something that is never allowed.
    pub fn take_turn(&mut self, client_ns: Option<u64>) -> Result<bool, String> {
        let completion = self.due.first_key_value().map(|(&(at, _), _)| (at, Turn::Completion));
        let client = client_ns.map(|at| (at, Turn::Client));
        let timer = self.wake_ns.map(|at| (at, Turn::Timer));
        let next = [completion, client, timer].into_iter().flatten().min_by_key(|&(at, _)| at);
        let (at, turn) = next.ok_or("nothing can happen any more, but something still waits")?;
        self.now_ns = self.now_ns.max(at);
        match turn {
            Turn::Client => return Ok(true),
            Turn::Completion => {
                let (_, event) = self.due.pop_first().expect("it was seen");
                self.feed(event)?;
            }
            Turn::Timer => {
                self.wake_ns = None;
                self.feed(Event::Tick)?;
            }
        }
        Ok(false)
    }

    /// Advances to `until_ns` without a client.
    ///
    /// # Errors
    /// Fails like [`Self::take_turn`].
    pub fn idle(&mut self, until_ns: u64) -> Result<(), String> {
        while !self.take_turn(Some(until_ns))? {}
        Ok(())
    }

    /// Closes what the machine serves.
    ///
    /// # Errors
    /// Fails like [`Self::take_turn`].
    pub fn close(&mut self) -> Result<(), String> {
        self.feed(Event::Close)?;
        while !self.closed {
            self.take_turn(None)?;
        }
        Ok(())
    }

    /// Passes an event to the machine now.
    ///
    /// # Errors
    /// Fails if the machine does something that is never allowed.
    pub fn feed(&mut self, event: Event) -> Result<(), String> {
        let mut out = std::mem::take(&mut self.out);
        self.machine.step(Time(self.now_ns), event, &mut out);
        let result = out.drain(..).try_for_each(|action| self.act(action));
        self.out = out;
        result
    }

    fn completes(&mut self, at_ns: u64, event: Event) {
        self.issued += 1;
        self.due.insert((at_ns, self.issued), event);
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        let now = self.now_ns;
        match action {
            Action::Read { io, at, mut buffer, digest, class, .. } => {
                self.device.read(at, &mut buffer, class);
                let digests = if digest { (0..buffer.blocks()).map(|i| digest_of(name_of(buffer.block(i)))).collect() } else { Vec::new() };
                let done = self.times.read(now, at.0, buffer.blocks() as u64 * BLOCK_BYTES)?;
                self.completes(done, Event::Read { io, buffer, digests, result: Ok(()) });
            }
            Action::Write { io, at, data, class, fua } => {
                self.device.write(at, &data, class);
                self.device.count_fua(fua);
                let bytes = data.iter().map(Slice::length).sum();
                let done = self.times.write(now, at.0, bytes, fua)?;
                self.completes(done, Event::Written { io, result: Ok(()) });
            }
            Action::Flush { io } => {
                self.device.count_flush();
                let done = self.times.flush(now);
                self.completes(done, Event::Flushed { io, result: Ok(()) });
            }
            Action::Discard { io, at, length, .. } => {
                self.device.discard(at, length);
                let done = self.times.discard(now, at.0, length.0)?;
                self.completes(done, Event::Discarded { io, result: Ok(()) });
            }
            Action::Digest { io, block } => self.completes(now, Event::Digested { io, digest: digest_of(name_of(block.block(0))) }),
            Action::Compress { io, block } => {
                let data = self.slots.slot(block.block(0), SLOT_DATA_MAX);
                self.completes(now, Event::Compressed { io, data });
            }
            Action::Reply { request, reply } => self.replies.push((request, reply)),
            Action::Wake { at } => self.wake_ns = Some(at.0),
            Action::Remember(_) | Action::Forget { .. } | Action::Replayed | Action::Retry => {}
            Action::Notice(Notice::Serving) => self.serving = true,
            Action::Notice(notice @ (Notice::Damage { .. } | Notice::WentReadOnly { .. } | Notice::OtherServer { .. })) => {
                return Err(format!("{notice:?}, although nothing was damaged"));
            }
            Action::Notice(_) => {}
            Action::Closed { clean: true } => self.closed = true,
            Action::Closed { clean: false } => return Err("the volume was not closed clean, although nothing failed".to_owned()),
        }
        Ok(())
    }
}
