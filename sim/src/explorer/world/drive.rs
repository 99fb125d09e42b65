//! The way through a life, step by step: what happens next, and how long it goes on.

use super::World;
use super::room::{ROOM_REPORTS, STEPS_OF_ROOM};
use crate::device::traffic::Situation;
use crate::ground::record::record;
use crate::ground::violation::{Violation, violation};
use onefold_engine::interface::{Event, Op, Request};
use onefold_engine::units::{BLOCK_BYTES, Time};

/// The number of steps without progress after which a run counts as stuck; and the additional number for each promise that is replayed
/// first, one after the other.
const STEPS_STUCK: u64 = 20_000;
const STEPS_A_PROMISE: u64 = 400;

impl World {
    /// Sends a request.
    ///
    /// # Errors
    /// Fails like [`World::feed`].
    pub fn send(&mut self, request: Request) -> Result<(), Violation> {
        match request.op {
            Op::Discard => self.traffic.note(Situation::ClientDiscard),
            Op::Write if request.offset.get() % BLOCK_BYTES != 0 || request.length.get() % BLOCK_BYTES != 0 => {
                self.traffic.note(Situation::SubBlock);
            }
            _ => {}
        }
        if self.faults.failed {
            self.client.is_late(request.id);
        }
        self.feed(Event::Request(request))
    }

    /// Takes one step: a completion, a timer, or with `clients` a new request. Returns false when there is nothing left to do.
    ///
    /// # Errors
    /// Fails like [`World::feed`], and if requests wait but nothing can happen any more.
    pub fn step(&mut self, clients: bool) -> Result<bool, Violation> {
        self.steps += 1;
        if self.setting.options.runs_short && self.steps % STEPS_OF_ROOM == 0 {
            self.report_room()?;
        }
        if self.setting.options.orders > 0 && self.rng.u8(..) < self.setting.options.orders {
            let order = self.client.order_out_of_line(&mut self.rng);
            self.feed(order)?;
        }
        if self.setting.options.scrubs > 0 && self.rng.u8(..) < self.setting.options.scrubs {
            let order = self.client.order_scrub(&mut self.rng);
            self.feed(order)?;
        }
        // Each brings moves: a life that is to come to rest needs an end of them.
        if clients && self.setting.options.protects > 0 && self.rng.u8(..) < self.setting.options.protects {
            let order = self.client.order_protection(&mut self.rng);
            self.feed(order)?;
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
            self.client.set_selectivity(self.machine.selectivity());
            let request = self.client.next(&mut self.oracle, &mut self.rng);
            return self.send(request).map(|()| true);
        }
        if !ready.is_empty() {
            let at = ready[self.rng.usize(0..ready.len())];
            return self.complete(at).map(|()| true);
        }
        if !self.pending.is_empty() {
            return Ok(true); // It is delayed until a later step.
        }
        let expects_more = self.client.waiting() > 0 || (self.traffic.closing && self.closed.is_none());
        match self.wake {
            Some(wake) if expects_more || self.now >= wake => self.tick(wake).map(|()| true),
            None if expects_more && self.setting.options.runs_out && self.room_reports < ROOM_REPORTS => self.report_that_room_is_back(),
            None if expects_more => Err(violation!("stuck: nothing is under way, but these wait: {}", self.client.describe_waiting())),
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
    /// Fails like [`World::feed`].
    pub fn pass_time(&mut self) -> Result<bool, Violation> {
        match self.wake {
            Some(wake) => self.tick(wake).map(|()| true),
            None => Ok(false),
        }
    }

    /// Continues until `done` returns true.
    ///
    /// # Errors
    /// Fails like [`World::step`], and if it takes forever.
    pub fn run_until(&mut self, clients: bool, mut done: impl FnMut(&Self) -> bool) -> Result<(), Violation> {
        let mut oldest = None;
        let most = STEPS_STUCK + self.journal.being_replayed() * STEPS_A_PROMISE;
        for i in 0..most {
            if done(self) || !self.step(clients)? {
                return Ok(());
            }
            if i == most / 2 {
                oldest = self.client.oldest_waiting();
            }
        }
        // If every request is answered in time, even if only by reads from memory and refusals, the run is not stuck.
        let waits = self.client.oldest_waiting().is_some_and(|now| oldest.is_some_and(|then| now <= then));
        if clients && !self.traffic.closing && !waits {
            return Ok(());
        }
        Err(violation!("stuck: no end after {most} steps; these wait: {}", self.client.describe_waiting()))
    }

    /// Continues without new requests until all replies have arrived and all I/O has ended.
    ///
    /// # Errors
    /// Fails like [`World::run_until`].
    pub fn settle(&mut self) -> Result<(), Violation> {
        self.run_until(false, Self::quiet)
    }

    /// Reads every block that writes go to, and compares the replies with the oracle.
    ///
    /// # Errors
    /// Fails like [`World::run_until`].
    pub fn read_all(&mut self) -> Result<(), Violation> {
        self.send_reads()?;
        self.run_until(false, |w| w.client.waiting() == 0)
    }

    /// Sends reads of every block that writes go to.
    ///
    /// # Errors
    /// Fails like [`World::feed`].
    pub fn send_reads(&mut self) -> Result<(), Violation> {
        for (first, blocks) in self.setting.stretches.clone().iter() {
            let request = self.client.read(first * BLOCK_BYTES, blocks * BLOCK_BYTES, &mut self.oracle);
            self.send(request)?;
        }
        Ok(())
    }

    /// Writes every block that writes go to, and reads them back: no error may be left then.
    ///
    /// # Errors
    /// Fails like [`World::run_until`], and if a block that was written cannot be read.
    pub fn heal(&mut self) -> Result<(), Violation> {
        let content = crate::ground::content::pattern("healed");
        for (first, blocks) in self.setting.stretches.clone().iter() {
            let contents = vec![content.clone(); crate::device::disk::to_index(*blocks)];
            let request = self.client.write(*first, &contents, false, &mut self.oracle);
            self.send(request)?;
            self.run_until(false, |w| w.client.waiting() == 0)?;
        }
        // Writes may fail (if refs are unknown, or space is lost); reads after a successful write may not.
        self.read_all()
    }

    /// Asks for a clean end, and waits for it.
    ///
    /// # Errors
    /// Fails like [`World::run_until`].
    pub fn close(&mut self) -> Result<(), Violation> {
        self.begin_close()?;
        self.run_until(false, |w| w.closed.is_some())
    }

    /// Asks for a clean end, once no request waits.
    ///
    /// # Errors
    /// Fails like [`World::run_until`].
    pub fn begin_close(&mut self) -> Result<(), Violation> {
        self.run_until(false, |w| w.client.waiting() == 0)?;
        record!("close");
        self.traffic.begin_closing();
        self.feed(Event::Close)
    }
}
