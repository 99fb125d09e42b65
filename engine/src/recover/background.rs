//! Work that nobody waits for, a little at each step; and when the engine wants to be woken.

use crate::engine::Engine;
use crate::io::Stage;
use crate::memory::Part;
use crate::units::Time;

impl Engine {
    /// Does a little of everything that nobody waits for. What could go on at once asks to be woken at once.
    pub(crate) fn background(&mut self) {
        self.io.schedule.more_background = false;
        let serves = self.io.stage == Stage::Serving;
        if !(serves || self.io.stage == Stage::Recalling) || self.io.failed {
            return;
        }
        let clients_wait = !self.requests.writes.is_empty() || !self.requests.reads.is_empty() || self.scheme.commit.is_some();
        if clients_wait && !self.memory.accountant.within(Part::Pages) {
            return;
        }
        if !self.space.scan_waits {
            self.space.scan_refs(&mut self.io, &mut self.tables);
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
        if self.io.failed {
            return self.space.full_deadline(&self.io);
        }
        if matches!(self.io.stage, Stage::Created | Stage::Opening) {
            return None;
        }
        let mut at: Option<Time> = None;
        let mut due = |time: Time| at = Some(at.map_or(time, |t| t.min(time)));
        if self.io.schedule.more_background {
            due(self.io.now);
        }
        // While a commit waits for packs, or for the pages of those before, time does not bring it on.
        if self.scheme.commit.is_none() && !self.tables.open.is_empty() && !self.tables.open.is_due && !self.is_behind() {
            if let Some(opened) = self.tables.open.opened {
                due(opened.plus_ms(self.settings.commit_period_ms));
            }
            if let (true, Some(until)) = (self.tables.open.wanted.is_some(), self.scheme.anticipation.until) {
                due(until);
            }
        }
        self.tables
            .write_back_at()
            .into_iter()
            .chain(self.space.full_deadline(&self.io))
            .chain(self.space.give_back_at(&self.io, self.has_unlinked()).filter(|&at| at > self.io.now))
            .for_each(&mut due);
        if self.io.stage == Stage::Serving {
            self.background.recount.next_at().into_iter().chain(self.background.refill.next_at()).for_each(due);
        }
        at.map(|time| time.max(self.io.now))
    }
}
