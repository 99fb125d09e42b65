//! Work that nobody waits for, a little at each step; and when the engine wants to be woken.

use crate::commit::Stage;
use crate::engine::Engine;
use crate::memory::Part;
use crate::units::Time;

impl Engine {
    /// Does a little of everything that nobody waits for. What could go on at once asks to be woken at once.
    pub(crate) fn background(&mut self) {
        self.more_background = false;
        let serves = self.stage == Stage::Serving;
        if !(serves || self.stage == Stage::Recalling) || self.failed {
            return;
        }
        let clients_wait = !self.writes.is_empty() || !self.reads.is_empty() || self.commit.is_some();
        if clients_wait && !self.accountant.within(Part::Pages) {
            return;
        }
        if !self.scan_waits {
            self.scan_refs();
        }
        if serves && !self.refill.waits {
            self.refill_index();
        }
        if !self.recount.waits {
            self.recount();
        }
        self.give_back();
        // What is recalled may need a block too.
        self.find_space_for_waiters();
    }

    /// When time alone makes something due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if self.failed {
            return self.full_deadline();
        }
        if matches!(self.stage, Stage::Created | Stage::Opening) {
            return None;
        }
        let mut at: Option<Time> = None;
        let mut due = |time: Time| at = Some(at.map_or(time, |t| t.min(time)));
        if self.more_background {
            due(self.now);
        }
        // While a commit waits for packs, or for the pages of those before, time does not bring it on.
        if self.commit.is_none() && !self.open.is_empty() && !self.open.is_due && !self.is_behind() {
            if let Some(opened) = self.open.opened {
                due(opened.plus_ms(self.settings.commit_period_ms));
            }
            if let (true, Some(until)) = (self.open.wanted.is_some(), self.anticipation.until) {
                due(until);
            }
        }
        if !self.pages.dirty.is_empty() {
            due(self.writeback_at);
        }
        self.full_deadline().into_iter().chain(self.give_back_at().filter(|&at| at > self.now)).for_each(&mut due);
        if self.stage == Stage::Serving {
            self.recount.next_at().into_iter().chain(self.refill.next_at()).for_each(due);
        }
        at.map(|time| time.max(self.now))
    }
}
