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
use crate::recovery::{NextStep, OpeningEvent, StepOutcome, replay};
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
        let parts = &mut self.parts;
        parts.pool.serve_only_proved(last);
        self.fail("a damaged log");
        self.phase.give_up();
        self.serve();
    }

    /// Serves once everything that was replayed is durable.
    fn serve_when_replayed(&mut self) {
        if replay::is_replayed(&mut self.parts.pool, &mut self.answers) {
            self.serve();
        }
    }

    /// Answers reads from now on, and, if nothing has failed, writes.
    #[cold]
    pub(super) fn serve(&mut self) {
        let Self { parts, scheme, .. } = self;
        if matches!(parts.pool.io.stage(), Stage::Opening | Stage::Replaying) {
            parts.pool.io.enter(Stage::Serving);
            parts.pool.io.notice(Notice::Serving);
            parts.pool.io.schedule.push(Task::Admit);
            parts.pool.contents.go_on_marking(&mut parts.pool.io);
            // The opening may have found more than memory is meant for, and the next write may be far off.
            if !parts.pool.io.has_failed() && !parts.pool.io.is_opened_to_read() {
                scheme.serves(&mut parts.pool);
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
        let Self { parts, requests, answers, .. } = self;
        if parts.pool.io.has_failed() {
            return;
        }
        parts.pool.io.fail();
        parts.pool.io.notice(notice);
        parts.pool.release_unsent_content();
        answers.fail_waiters(&mut parts.pool.io, &mut parts.pool.tables, &mut parts.pool.space, Failure::Io);
        requests.fail_writes(&mut parts.pool.io, &mut parts.pool.space);
        answers.fail_content_waiters(&mut parts.pool, Failure::Io);
        // No find is kept any more.
        parts.pool.contents.end_waits_for_finds(&mut parts.pool.io);
        // An opening may wait for a checkpoint.
        parts.pool.io.schedule.push(Task::Checkpoint);
    }

    /// Acts on the progress of a commit. At its end the epoch is durable.
    #[inline(never)]
    pub(super) fn commit_progressed(&mut self, progress: Progress) {
        match progress {
            Ok(false) => {}
            Ok(true) => {
                let Self { parts, answers, scheme, .. } = self;
                scheme.end_commit(&mut parts.pool, answers);
                parts.pool.warn_when_filling();
                parts.pool.contents.go_on_marking(&mut parts.pool.io);
                self.serve_when_replayed();
                if self.parts.pool.medium.is_ledger_update_due(&self.parts.pool.io, self.parts.pool.settings.knobs.ledger_units_max) {
                    self.scheme.update_superblock(&mut self.parts.pool);
                }
            }
            Err(what) => self.fail(what),
        }
    }

    /// Writes the superblock for its ledger; if an update is under way, the next commit does.
    pub(super) fn save_ledger(&mut self) {
        self.parts.pool.medium.ask_for_update(!self.parts.pool.io.is_read_only());
        if self.parts.pool.medium.is_ledger_update_due(&self.parts.pool.io, self.parts.pool.settings.knobs.ledger_units_max) {
            self.scheme.update_superblock(&mut self.parts.pool);
        }
    }

    /// Protects these ranges from now on; the superblock that has them is written at once, or, if an update is under way, by the next
    /// commit.
    #[cold]
    pub(super) fn protect(&mut self, ranges: Vec<ProtectedRange>) {
        self.background.parting.protect(&mut self.parts.pool.io, &mut self.parts.pool.medium, &self.parts.pool.geometry, ranges);
        if self.parts.pool.medium.is_ledger_update_due(&self.parts.pool.io, self.parts.pool.settings.knobs.ledger_units_max) {
            self.scheme.update_superblock(&mut self.parts.pool);
        }
    }

    /// Goes on with the commit.
    pub(super) fn go_on_committing(&mut self) {
        let Self { parts, answers, scheme, .. } = self;
        if !parts.pool.io.has_failed() {
            let progress = scheme.write_epoch(&mut parts.pool, answers);
            self.commit_progressed(progress);
        }
    }

    /// Goes on with a checkpoint.
    pub(super) fn go_on_with_checkpoint(&mut self) {
        let Self { parts, answers, scheme, phase, .. } = self;
        if parts.pool.io.has_failed() {
            if scheme.has_checkpoint() && parts.pool.io.stage() == Stage::Opening {
                let step = phase.on(OpeningEvent::Failed, &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            return;
        }
        let reached = scheme.go_on_with_checkpoint(&mut parts.pool);
        self.checkpoint_progressed(reached);
    }

    /// Acts on the progress of a checkpoint.
    pub(super) fn checkpoint_progressed(&mut self, reached: Result<Reached, &'static str>) {
        let Self { parts, answers, scheme, phase, .. } = self;
        match reached {
            Ok(Reached::Nothing) => {}
            Ok(Reached::Overflowed) => {
                let step = phase.on(OpeningEvent::Overflowed, &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            Ok(Reached::End) => {
                let step = phase.on(OpeningEvent::CheckpointEnded, &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
                self.go_on_closing_if_begun();
            }
            Err(what) => self.fail(what),
        }
    }

    /// Writes the superblock update when the front copies have been read, unless another server wrote them.
    pub(super) fn superblock_read(&mut self, front: &BufferMut, result: Result<(), IoFailure>) {
        if let Some(notice) = self.parts.pool.medium.other_server(front, result) {
            self.fail_with(notice);
        }
        if self.parts.pool.io.has_failed() {
            self.parts.pool.medium.drop_update();
            return self.superblock_flushed();
        }
        self.parts.pool.medium.send_update(&mut self.parts.pool.io);
    }

    /// Flushes once both copies of the superblock are written.
    pub(super) fn superblock_copy_written(&mut self) {
        let parts = &mut self.parts;
        parts.pool.medium.copy_written();
        if parts.pool.io.has_failed() {
            return self.superblock_flushed();
        }
        if !parts.pool.medium.are_copies_under_way() {
            parts.pool.io.flush(FlushFor::Superblock);
        }
    }

    /// Goes on when a superblock update is durable (or the volume has failed).
    pub(super) fn superblock_flushed(&mut self) {
        self.parts.pool.medium.update_ended();
        if !self.parts.pool.io.has_failed() {
            self.parts.pool.medium.update_is_durable();
        }
        self.parts.pool.contents.go_on_marking(&mut self.parts.pool.io);
        let reached = self.scheme.superblock_written(&mut self.parts.pool);
        self.checkpoint_progressed(Ok(reached));
        let Self { parts, answers, scheme, phase, .. } = self;
        if parts.pool.medium.is_busy() {
            // The end of a checkpoint has begun another.
            return;
        }
        match parts.pool.io.stage() {
            Stage::Opening => {
                let step = phase.on(OpeningEvent::SuperblockWritten, &mut parts.pool, scheme, answers);
                self.go_on_opening(step);
            }
            Stage::ClosingSuperblock if !parts.pool.medium.are_copies_under_way() => self.closed(),
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
        if !self.close_asked || self.parts.pool.io.stage().is_before_service() {
            return;
        }
        if self.parts.pool.io.stage() == Stage::Serving
            && self.requests.are_none()
            && self.parts.pool.contents.is_damage_kept(&self.parts.pool.io)
        {
            self.parts.pool.io.enter(Stage::ClosingEpochs);
        }
        self.go_on_closing();
    }

    /// Goes on with closing, if that has begun.
    pub(super) fn go_on_closing_if_begun(&mut self) {
        if self.parts.pool.io.stage().is_closing() {
            self.go_on_closing();
        }
    }

    #[cold]
    fn go_on_closing(&mut self) {
        let Self { parts, scheme, .. } = self;
        if parts.pool.io.has_failed() && parts.pool.io.stage().is_closing() && parts.pool.io.stage() != Stage::Closed {
            return self.closed();
        }
        match parts.pool.io.stage() {
            Stage::ClosingEpochs => {
                let idle = parts.pool.tables.open.is_empty() && parts.pool.tables.committing.is_none() && parts.pool.settle.is_empty();
                if idle && parts.pool.io.is_opened_to_read() {
                    self.closed();
                } else if idle && scheme.owes(&mut parts.pool.io, &mut parts.pool.tables, &parts.pool.space) {
                    // It waits until the log is empty: then all that it says is on the pages.
                } else if idle && !parts.pool.medium.is_busy() {
                    parts.pool.space.discard_freed(&mut parts.pool.io, &mut parts.pool.tables, true);
                    parts.pool.io.enter(Stage::ClosingPages);
                    self.go_on_closing();
                }
            }
            Stage::ClosingPages => self.flush_when_sent(Stage::ClosingPagesFlush),
            Stage::ClosingBits if parts.pool.settle.is_empty() && parts.pool.io.durability.bits_ready.is_empty() => {
                self.flush_when_sent(Stage::ClosingBitsFlush);
            }
            _ => {}
        }
    }

    /// Sends the pages that wait to be written; flushes when none is under way any more.
    fn flush_when_sent(&mut self, next: Stage) {
        self.write_all_dirty();
        if !self.parts.pool.tables.are_pages_under_way() {
            self.parts.pool.io.enter(next);
            self.parts.pool.io.flush(FlushFor::Closing);
        }
    }

    /// Writes all dirty pages that may be.
    pub(super) fn write_all_dirty(&mut self) {
        let Self { parts, scheme, .. } = self;
        if parts.pool.tables.write_all_dirty(&mut parts.pool.io) {
            scheme.confirm(&mut parts.pool);
        }
    }

    /// Goes on with closing after a flush.
    pub(super) fn closing_flushed(&mut self) {
        let Self { parts, scheme, answers, background, .. } = self;
        if parts.pool.io.has_failed() {
            return self.go_on_closing();
        }
        match parts.pool.io.stage() {
            Stage::ClosingPagesFlush => {
                parts.pool.io.enter(Stage::ClosingBits);
                parts.pool.tables.set_written_bits(&mut parts.pool.io);
                self.go_on_closing();
            }
            Stage::ClosingBitsFlush => {
                parts.pool.io.enter(Stage::ClosingSuperblock);
                parts.pool.medium.superblock.close();
                scheme.close_superblock(&mut parts.pool.tables, &mut parts.pool.medium);
                // The next opening goes on with these.
                parts.pool.medium.recount_begins_at(background.recount.position());
                background.scrub.closes(&mut parts.pool.medium);
                background.parting.closes(&mut parts.pool.medium, answers);
                if parts.pool.space.is_recount_unsaid() {
                    parts.pool.medium.counts_are_exact();
                }
                parts.pool.write_superblock();
            }
            _ => {}
        }
    }

    fn closed(&mut self) {
        let io = &mut self.parts.pool.io;
        io.enter(Stage::Closed);
        io.act(Action::Closed { clean: !io.has_failed() });
    }
}
