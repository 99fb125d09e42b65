//! Whose turn it is: work that nobody waits for, a little at each step; and when the engine wants to be called.

use crate::engine::Engine;
use crate::io::Stage;
use crate::memory::Part;
use crate::units::Time;

impl Engine {
    /// Does a little of everything that nobody waits for. What could go on at once asks to be woken at once.
    pub(crate) fn background(&mut self) {
        self.store.io.schedule.more_background = false;
        let serves = self.store.io.stage == Stage::Serving;
        if !(serves || self.store.io.stage == Stage::Recalling) || self.store.io.failed {
            return;
        }
        let clients_wait = !self.requests.writes.is_empty() || !self.requests.reads.is_empty() || self.scheme.commit.is_some();
        if clients_wait && !self.store.memory.accountant.within(Part::Pages) {
            return;
        }
        if !self.store.space.scan_waits {
            self.store.space.scan_refs(&mut self.store.io, &mut self.store.tables);
        }
        if serves && !self.background.refill.waits {
            self.refill_index();
        }
        if !self.background.recount.waits {
            self.recount();
        }
        self.give_back();
        // What is recalled may need a block too.
        self.find_space_for_waiters();
    }

    /// When time alone makes something due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if self.store.io.failed {
            return self.store.space.full_deadline(&self.store.io);
        }
        if matches!(self.store.io.stage, Stage::Created | Stage::Opening) {
            return None;
        }
        let mut at: Option<Time> = None;
        let mut due = |time: Time| at = Some(at.map_or(time, |t| t.min(time)));
        if self.store.io.schedule.more_background {
            due(self.store.io.now);
        }
        // While a commit waits for packs, or for the pages of those before, time does not bring it on.
        if self.scheme.commit.is_none() && !self.store.tables.open.is_empty() && !self.store.tables.open.is_due && !self.is_behind() {
            if let Some(opened) = self.store.tables.open.opened {
                due(opened.plus_ms(self.store.settings.commit_period_ms));
            }
            if let (true, Some(until)) = (self.store.tables.open.wanted.is_some(), self.scheme.anticipation.until) {
                due(until);
            }
        }
        self.store
            .tables
            .write_back_at()
            .into_iter()
            .chain(self.store.space.full_deadline(&self.store.io))
            .chain(self.store.space.give_back_at(&self.store.io, self.has_unlinked()).filter(|&at| at > self.store.io.now))
            .for_each(&mut due);
        if self.store.io.stage == Stage::Serving {
            self.background.recount.next_at().into_iter().chain(self.background.refill.next_at()).for_each(due);
        }
        at.map(|time| time.max(self.store.io.now))
    }

    /// Fills the index.
    pub(crate) fn refill_index(&mut self) {
        let is_recounting = self.background.recount.running();
        self.background.refill.go_on(&mut self.store, is_recounting);
    }

    /// Counts links, and returns what counts exceed them by.
    pub(crate) fn recount(&mut self) {
        if !self.background.recount.go_on(&mut self.store) {
            return;
        }
        if self.store.tables.has_records() {
            self.begin_checkpoint();
        } else {
            self.write_superblock();
            self.background.refill.go_again(&mut self.store);
        }
    }

    /// What a recount has returned is durable.
    pub(crate) fn recount_is_durable(&mut self) {
        self.store.space.returns_are_durable();
        self.store.medium.superblock.garbage_possible = false;
    }
}
