//! Commits: one epoch after the other, each as its scheme prescribes.

use super::{Cause, Dedup, Epoch, PageWrite, Purpose, Scheme, Stage};
use onefold_engine::interface::{Action, IoFailure, Reply};
use onefold_engine::units::Time;

impl<S: Scheme> Dedup<S> {
    /// Returns the epoch with this number, which exists while any of its content is in flight.
    pub(super) fn epoch(&mut self, number: u64) -> &mut Epoch {
        let epochs = self.committing.iter_mut().chain(&mut self.sealed).chain(std::iter::once(&mut self.filling));
        epochs.into_iter().find(|epoch| epoch.number == number).expect("an epoch outlives its content writes")
    }

    /// Ends the epoch that is filling. It commits after the earlier ones.
    pub(super) fn seal(&mut self, cause: Cause) {
        let next = Epoch::new(self.filling.number + 1);
        self.sealed.push_back(std::mem::replace(&mut self.filling, next));
        self.epochs[cause as usize] += 1;
    }

    /// Continues everything that can proceed now.
    pub(super) fn go_on(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.failed {
            return self.close_failed(out);
        }
        self.admit_stalled(now, out);
        loop {
            self.seal_if_due(now);
            let before = (self.stage, self.busy());
            self.commit(out);
            self.work(now, out);
            if before == (self.stage, self.busy()) {
                break;
            }
        }
        if self.closing && !self.busy() && self.stage == Stage::Idle && self.scheme.work_done() && self.in_flight.len() == 0 {
            self.closing = false;
            out.push(Action::Closed { clean: true });
        }
        self.set_wake(out);
    }

    fn close_failed(&mut self, out: &mut Vec<Action>) {
        if self.closing && self.in_flight.len() == 0 {
            self.closing = false;
            out.push(Action::Closed { clean: false });
        }
    }

    /// Seals the epoch as late as its waiters allow: never while another one commits.
    fn seal_if_due(&mut self, now: Time) {
        if self.filling.changes.is_empty() || self.busy() || self.stage != Stage::Idle {
            return;
        }
        let timer = self.filling_due().is_some_and(|due| due <= now);
        let cause = self.filling.wanted.or(timer.then_some(Cause::Timer)).or(self.closing.then_some(Cause::Close));
        if let Some(cause) = cause {
            self.seal(cause);
        }
    }

    fn filling_due(&self) -> Option<Time> {
        self.filling.since.map(|since| since.plus_ms(self.settings.commit_period_ms))
    }

    fn commit(&mut self, out: &mut Vec<Action>) {
        match self.stage {
            Stage::Idle => {
                if self.sealed.front().is_some_and(|epoch| self.scheme.has_room(&epoch.changes)) {
                    self.committing = self.sealed.pop_front();
                    self.stage = Stage::Content;
                }
            }
            Stage::Content => {
                let epoch = self.committing.as_ref().expect("a commit is in progress");
                if S::CONTENT_FIRST && epoch.content_left > 0 {
                    return;
                }
                if S::CONTENT_FIRST && epoch.content_completed > self.durable {
                    return self.flush(Stage::ContentFlush, out);
                }
                let writes = self.scheme.compose(&epoch.changes);
                self.stage = Stage::Pages(writes.len());
                self.send(writes, || Purpose::Page, out);
            }
            Stage::Pages(0) if self.committing.as_ref().is_some_and(|epoch| epoch.content_left == 0) => {
                self.flush(Stage::PagesFlush, out);
            }
            Stage::Pages(_) | Stage::ContentFlush | Stage::PagesFlush | Stage::WorkFlush => {}
        }
    }

    fn send(&mut self, writes: Vec<PageWrite>, purpose: impl Fn() -> Purpose, out: &mut Vec<Action>) {
        for write in writes {
            out.push(Action::Write {
                io: self.in_flight.issue(purpose()),
                at: write.at,
                data: vec![write.data],
                class: write.class,
                fua: false,
            });
        }
    }

    fn flush(&mut self, stage: Stage, out: &mut Vec<Action>) {
        self.stage = stage;
        self.flush_covers = self.completed;
        self.flush_covers_work = self.work_is_written;
        self.counts.flushes += 1;
        out.push(Action::Flush { io: self.in_flight.issue(Purpose::Flush) });
    }

    pub(super) fn page_written(&mut self) {
        let Stage::Pages(left) = self.stage else { unreachable!("pages are written in their stage") };
        self.stage = Stage::Pages(left - 1);
    }

    pub(super) fn flushed(&mut self, now: Time, result: Result<(), IoFailure>, out: &mut Vec<Action>) {
        if result.is_err() {
            return self.failure("a flush failed", out);
        }
        self.durable = self.flush_covers;
        if std::mem::take(&mut self.flush_covers_work) {
            self.work_is_written = false;
            self.scheme.work_flushed();
        }
        match self.stage {
            Stage::ContentFlush => self.stage = Stage::Content,
            Stage::PagesFlush => {
                let epoch = self.committing.take().expect("a commit is in progress");
                self.stage = Stage::Idle;
                self.scheme.durable(now, &epoch.changes);
                self.tables.give_back(&epoch.changes.freed);
                out.extend(epoch.waiters.into_iter().map(|request| Action::Reply { request, reply: Reply::Done }));
            }
            Stage::WorkFlush => self.stage = Stage::Idle,
            Stage::Idle | Stage::Content | Stage::Pages(_) => unreachable!("no flush is in flight in {:?}", self.stage),
        }
    }

    /// Issues the scheme's own writes, beside the commits, and the flush for them if a commit or the close waits for it.
    fn work(&mut self, now: Time, out: &mut Vec<Action>) {
        let blocked = self.stage == Stage::Idle && !self.sealed.is_empty();
        let pressing = blocked || (self.closing && !self.busy());
        if self.work_in_flight == 0 {
            let writes = self.scheme.work(now, pressing);
            self.work_in_flight = writes.len();
            self.send(writes, || Purpose::Work, out);
        }
        if pressing && self.stage == Stage::Idle && self.work_in_flight == 0 && self.scheme.work_wants_flush() {
            self.flush(Stage::WorkFlush, out);
        }
    }

    fn set_wake(&mut self, out: &mut Vec<Action>) {
        // While a commit is in progress its completions drive the next step: a time that has passed must not be requested again.
        let filling = if self.busy() || self.stage != Stage::Idle { None } else { self.filling_due() };
        let work = if self.work_in_flight > 0 { None } else { self.scheme.work_due() };
        let next = [filling, work].into_iter().flatten().min();
        if next.is_some() && next != self.wake {
            self.wake = next;
            out.extend(next.map(|at| Action::Wake { at }));
        }
    }
}
