//! The life of an open volume: it opens, serves, may fail, and closes.
//!
//! 1. Closing writes all pages, flushes, sets the *written* bits that are due, writes their pages, flushes, and only then writes and
//!    flushes *clean*: a volume with this mark has exact pages only.
//! 2. After a failure nothing more is written, *clean* least of all (A5).

use super::Engine;
use crate::buffer::BufferMut;
use crate::format::ProtectedRange;
use crate::interface::{Action, Failure, IoFailure, Notice};
use crate::io::{FlushFor, Stage};
use crate::recovery::{NextStep, Recovery, StepOutcome};
use crate::schedule::Task;
use crate::scheme::{Progress, Reached};
use crate::units::Epoch;

impl Engine {
    /// Does what a step of the opening says is next.
    pub(super) fn go_on_opening(&mut self, step: StepOutcome) {
        match step {
            Ok(NextStep::Wait) => {}
            Ok(NextStep::Serve) => self.serve(),
            Ok(NextStep::Replay) => self.go_on_replaying(),
            Err(last) => self.log_is_damaged(last),
        }
    }

    /// Goes read-only since flushed records are missing. Records count up to epoch `last`, and only proved content is served. This may be
    /// found while the volume opens, or later, when a page is loaded.
    pub(super) fn log_is_damaged(&mut self, last: Epoch) {
        let store = &mut self.store;
        store.pool.serve_only_proved(last);
        self.fail("a damaged log");
        self.recovery.give_up();
        self.serve();
    }

    /// Serves once everything that was replayed is durable.
    fn serve_when_replayed(&mut self) {
        if Recovery::is_replayed(&mut self.store.pool, &mut self.answers) {
            self.serve();
        }
    }

    /// Answers reads from now on, and, if nothing has failed, writes.
    #[cold]
    pub(super) fn serve(&mut self) {
        let Self { store, scheme, .. } = self;
        if matches!(store.pool.io.stage(), Stage::Opening | Stage::Replaying) {
            store.pool.io.enter(Stage::Serving);
            store.pool.io.notice(Notice::Serving);
            store.pool.io.schedule.push(Task::Admit);
            store.pool.contents.go_on_marking(&mut store.pool.io);
            // The opening may have found more than memory is meant for, and the next write may be far off.
            if !store.pool.io.has_failed() && !store.pool.io.is_opened_to_read() {
                scheme.serves(&mut store.pool);
            }
        }
    }

    /// Goes read-only (A5).
    pub(super) fn fail(&mut self, what: &'static str) {
        self.fail_with(Notice::WentReadOnly { what });
    }

    /// Goes read-only for the reason that the notice gives. Requests that wait for durability fail (A5).
    #[cold]
    pub(super) fn fail_with(&mut self, notice: Notice) {
        let Self { store, requests, answers, .. } = self;
        if store.pool.io.has_failed() {
            return;
        }
        store.pool.io.fail();
        store.pool.io.notice(notice);
        store.pool.release_unsent_content();
        answers.fail_waiters(&mut store.pool.io, &mut store.pool.tables, &mut store.pool.space, Failure::Io);
        requests.fail_writes(&mut store.pool.io, &mut store.pool.space);
        answers.fail_content_waiters(&mut store.pool, Failure::Io);
        // No find is kept any more.
        store.pool.contents.end_waits_for_finds(&mut store.pool.io);
        // An opening may wait for a checkpoint.
        store.pool.io.schedule.push(Task::Checkpoint);
    }

    /// Acts on the progress of a commit. At its end the epoch is durable.
    #[inline(never)]
    pub(super) fn commit_progressed(&mut self, progress: Progress) {
        match progress {
            Ok(false) => {}
            Ok(true) => {
                let Self { store, answers, scheme, .. } = self;
                scheme.end_commit(&mut store.pool, answers);
                store.pool.warn_when_filling();
                store.pool.contents.go_on_marking(&mut store.pool.io);
                self.serve_when_replayed();
                if self.store.pool.medium.is_ledger_update_due(&self.store.pool.io, self.store.pool.settings.knobs.ledger_units_max) {
                    self.scheme.update_superblock(&mut self.store.pool);
                }
            }
            Err(what) => self.fail(what),
        }
    }

    /// Writes the superblock for its ledger; if an update is under way, the next commit does.
    pub(super) fn save_ledger(&mut self) {
        self.store.pool.medium.ask_for_update(!self.store.pool.io.is_read_only());
        if self.store.pool.medium.is_ledger_update_due(&self.store.pool.io, self.store.pool.settings.knobs.ledger_units_max) {
            self.scheme.update_superblock(&mut self.store.pool);
        }
    }

    /// Protects these ranges from now on; the superblock that has them is written at once, or, if an update is under way, by the next
    /// commit.
    #[cold]
    pub(super) fn protect(&mut self, ranges: Vec<ProtectedRange>) {
        self.background.parting.protect(&mut self.store.pool.io, &mut self.store.pool.medium, &self.store.pool.geometry, ranges);
        if self.store.pool.medium.is_ledger_update_due(&self.store.pool.io, self.store.pool.settings.knobs.ledger_units_max) {
            self.scheme.update_superblock(&mut self.store.pool);
        }
    }

    /// Goes on with the commit.
    pub(super) fn go_on_committing(&mut self) {
        let Self { store, answers, scheme, .. } = self;
        if !store.pool.io.has_failed() {
            let progress = scheme.go_on(&mut store.pool, answers);
            self.commit_progressed(progress);
        }
    }

    /// Goes on with a checkpoint.
    pub(super) fn go_on_with_checkpoint(&mut self) {
        let Self { store, answers, scheme, recovery, .. } = self;
        if store.pool.io.has_failed() {
            if scheme.has_checkpoint() && store.pool.io.stage() == Stage::Opening {
                let then = recovery.fail(&mut store.pool.io, scheme, answers);
                self.go_on_opening(Ok(then));
            }
            return;
        }
        let reached = scheme.go_on_with_checkpoint(&mut store.pool);
        self.checkpoint_progressed(reached);
    }

    /// Acts on the progress of a checkpoint.
    pub(super) fn checkpoint_progressed(&mut self, reached: Result<Reached, &'static str>) {
        let Self { store, answers, scheme, recovery, .. } = self;
        match reached {
            Ok(Reached::Nothing) => {}
            Ok(Reached::Overflowed) => {
                let step = recovery.spilled(&mut store.pool, scheme, answers);
                self.go_on_opening(step);
            }
            Ok(Reached::End) => {
                let then = recovery.checkpoint_ended(&mut store.pool, scheme, answers);
                self.go_on_opening(Ok(then));
                self.go_on_closing_if_begun();
            }
            Err(what) => self.fail(what),
        }
    }

    /// Writes the superblock update when the front copies have been read, unless another server wrote them.
    pub(super) fn superblock_read(&mut self, front: &BufferMut, result: Result<(), IoFailure>) {
        if let Some(notice) = self.store.pool.medium.other_server(front, result) {
            self.fail_with(notice);
        }
        if self.store.pool.io.has_failed() {
            self.store.pool.medium.drop_update();
            return self.superblock_flushed();
        }
        self.store.pool.medium.send_update(&mut self.store.pool.io);
    }

    /// Flushes once both copies of the superblock are written.
    pub(super) fn superblock_copy_written(&mut self) {
        let store = &mut self.store;
        store.pool.medium.copy_written();
        if store.pool.io.has_failed() {
            return self.superblock_flushed();
        }
        if !store.pool.medium.are_copies_under_way() {
            store.pool.io.flush(FlushFor::Superblock);
        }
    }

    /// Goes on when a superblock update is durable (or the volume has failed).
    pub(super) fn superblock_flushed(&mut self) {
        self.store.pool.medium.update_ended();
        if !self.store.pool.io.has_failed() {
            self.store.pool.medium.update_is_durable();
        }
        self.store.pool.contents.go_on_marking(&mut self.store.pool.io);
        let reached = self.scheme.superblock_written(&mut self.store.pool);
        self.checkpoint_progressed(Ok(reached));
        let Self { store, answers, scheme, recovery, .. } = self;
        if store.pool.medium.is_busy() {
            // The end of a checkpoint has begun another.
            return;
        }
        match store.pool.io.stage() {
            Stage::Opening => {
                let then = recovery.superblock_written(&mut store.pool, scheme, answers);
                self.go_on_opening(Ok(then));
            }
            Stage::ClosingSuperblock if !store.pool.medium.are_copies_under_way() => self.closed(),
            _ => {}
        }
    }

    /// Goes on to the next stage of the volume's life, if it is time: a step asks where a stage may end without an event of its own.
    #[cold]
    pub(super) fn close_or_serve(&mut self) {
        self.close_if_asked();
        self.serve_when_replayed();
    }

    /// Begins to close when that was asked for and no request waits for an answer any more; goes on with closing.
    fn close_if_asked(&mut self) {
        if !self.close_asked || self.store.pool.io.stage().is_before_service() {
            return;
        }
        if self.store.pool.io.stage() == Stage::Serving
            && self.requests.are_none()
            && self.store.pool.contents.is_damage_kept(&self.store.pool.io)
        {
            self.store.pool.io.enter(Stage::ClosingEpochs);
        }
        self.go_on_closing();
    }

    /// Goes on with closing, if that has begun.
    pub(super) fn go_on_closing_if_begun(&mut self) {
        if self.store.pool.io.stage().is_closing() {
            self.go_on_closing();
        }
    }

    #[cold]
    fn go_on_closing(&mut self) {
        let Self { store, scheme, .. } = self;
        if store.pool.io.has_failed() && store.pool.io.stage().is_closing() && store.pool.io.stage() != Stage::Closed {
            return self.closed();
        }
        match store.pool.io.stage() {
            Stage::ClosingEpochs => {
                let idle = store.pool.tables.open.is_empty() && store.pool.tables.committing.is_none() && store.pool.settle.is_empty();
                if idle && store.pool.io.is_opened_to_read() {
                    self.closed();
                } else if idle && scheme.owes(&mut store.pool.io, &mut store.pool.tables, &store.pool.space) {
                    // It waits until the log is empty: then all that it says is on the pages.
                } else if idle && !store.pool.medium.is_busy() {
                    store.pool.space.discard_freed(&mut store.pool.io, &mut store.pool.tables, true);
                    store.pool.io.enter(Stage::ClosingPages);
                    self.go_on_closing();
                }
            }
            Stage::ClosingPages => self.flush_when_sent(Stage::ClosingPagesFlush),
            Stage::ClosingBits if store.pool.settle.is_empty() && store.pool.io.durability.bits_ready.is_empty() => {
                self.flush_when_sent(Stage::ClosingBitsFlush);
            }
            _ => {}
        }
    }

    /// Sends the pages that wait to be written; flushes when none is under way any more.
    fn flush_when_sent(&mut self, next: Stage) {
        self.write_all_dirty();
        if !self.store.pool.tables.are_pages_under_way() {
            self.store.pool.io.enter(next);
            self.store.pool.io.flush(FlushFor::Closing);
        }
    }

    /// Writes all dirty pages that may be.
    pub(super) fn write_all_dirty(&mut self) {
        let Self { store, scheme, .. } = self;
        if store.pool.tables.write_all_dirty(&mut store.pool.io) {
            scheme.confirm(&mut store.pool);
        }
    }

    /// Goes on with closing after a flush.
    pub(super) fn closing_flushed(&mut self) {
        let Self { store, scheme, answers, background, .. } = self;
        if store.pool.io.has_failed() {
            return self.go_on_closing();
        }
        match store.pool.io.stage() {
            Stage::ClosingPagesFlush => {
                store.pool.io.enter(Stage::ClosingBits);
                store.pool.tables.set_written_bits(&mut store.pool.io);
                self.go_on_closing();
            }
            Stage::ClosingBitsFlush => {
                store.pool.io.enter(Stage::ClosingSuperblock);
                store.pool.medium.superblock.close();
                scheme.close_superblock(&mut store.pool.tables, &mut store.pool.medium);
                // The next opening goes on with these.
                store.pool.medium.recount_begins_at(background.recount.position());
                background.scrub.closes(&mut store.pool.medium);
                background.parting.closes(&mut store.pool.medium, answers);
                if store.pool.space.is_recount_unsaid() {
                    store.pool.medium.counts_are_exact();
                }
                store.pool.write_superblock();
            }
            _ => {}
        }
    }

    fn closed(&mut self) {
        let io = &mut self.store.pool.io;
        io.enter(Stage::Closed);
        io.act(Action::Closed { clean: !io.has_failed() });
    }
}
