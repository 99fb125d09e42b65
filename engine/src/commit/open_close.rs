//! The beginning and the end of a volume's service.
//!
//! 1. Opening flushes the device before anything is decided from what was read (R8), then makes *not clean* and the new incarnation durable
//!    before any other write.
//! 2. Closing writes all pages, flushes, sets the *written* bits that are due, writes their pages, flushes, and only then writes and flushes
//!    *clean*: a volume that says so has nothing but exact pages.
//! 3. After a failure nothing more is written, *clean* least of all (A5).

use crate::engine::Engine;
use crate::interface::{Action, Notice};
use crate::io::{FlushFor, Stage};
use crate::schedule::Task;
use crate::units::Pbn;

impl Engine {
    pub(crate) fn begin_opening(&mut self) {
        self.store.io.stage = Stage::Opening;
        self.look_at_counters();
        self.store.io.flush(FlushFor::Opening);
    }

    /// The device's cache holds nothing any more that no flush has covered.
    pub(super) fn opening_flushed(&mut self) {
        // What lies in the device's cache may yet be lost: nothing that was read from it may be given out (R8).
        self.state.unflushed = self.store.io.failed;
        if self.store.io.failed {
            return self.serve();
        }
        self.open_log();
    }

    /// The log is read, and places are chosen for its next units: the superblock comes next.
    pub(crate) fn say_opened(&mut self) {
        let s = &mut self.store.medium.superblock;
        if !s.clean && !s.is_log_live() {
            s.garbage_possible = true;
            // Where another recount had come to, there may be new garbage before it.
            s.recount_position = Pbn(0);
        }
        s.clean = false;
        s.incarnation += 1;
        s.mount_count += 1;
        self.open_log_in_superblock();
        self.update_opened();
    }

    /// Says *not clean* in one pair of copies, then in the other: were the newest pair lost, or destroyed by a format that is cut off, the
    /// older one would else pass for a clean volume.
    pub(crate) fn update_opened(&mut self) {
        self.recovery.updates += 1;
        self.write_superblock();
    }

    /// A superblock update is durable (or the volume has failed).
    pub(super) fn superblock_flushed(&mut self) {
        self.store.medium.is_busy = false;
        self.checkpoint_after_superblock();
        if self.store.medium.is_busy {
            // The end of a checkpoint has begun another.
            return;
        }
        match self.store.io.stage {
            Stage::Opening if self.store.io.failed => self.opening_failed(),
            Stage::Opening if self.recovery.updates < 2 => self.update_opened(),
            Stage::Opening => self.settle_end(),
            Stage::ClosingSuperblock if self.store.medium.writes_left == 0 => self.closed(),
            _ => {}
        }
    }

    pub(crate) fn serve(&mut self) {
        if matches!(self.store.io.stage, Stage::Opening | Stage::Recalling) {
            self.store.io.stage = Stage::Serving;
            self.store.io.notice(Notice::Serving);
            self.store.io.schedule.push(Task::Admit);
            // What an opening found may be more than memory is meant for, and nobody need write for a long time.
            if self.scheme.log.is_some() && !self.store.io.failed && !self.store.io.read_only {
                self.checkpoint_if_due();
            }
        }
    }

    pub(crate) fn begin_closing(&mut self) {
        self.state.close_asked = true;
        self.store.space.end_waiting();
    }

    /// Begins to close when that was asked for and nobody waits for an answer any more; goes on with it.
    pub(crate) fn close_if_asked(&mut self) {
        if !self.state.close_asked || self.store.io.stage.is_before_service() {
            return;
        }
        if self.store.io.stage == Stage::Serving
            && self.requests.admission.is_empty()
            && self.requests.writes.is_empty()
            && self.requests.reads.is_empty()
        {
            self.store.io.stage = Stage::ClosingEpochs;
        }
        self.go_on_closing();
    }

    pub(crate) fn go_on_closing(&mut self) {
        if self.store.io.failed && self.store.io.stage.is_closing() && self.store.io.stage != Stage::Closed {
            return self.closed();
        }
        match self.store.io.stage {
            Stage::ClosingEpochs => {
                let idle = self.store.tables.open.is_empty() && self.scheme.commit.is_none() && self.store.settle.is_empty();
                if idle && self.store.io.read_only {
                    self.closed();
                } else if idle && self.checkpoint_empties_log() {
                    // An empty log: all that it says is on the pages.
                } else if idle && !self.store.medium.is_busy {
                    self.store.space.discard_freed(&mut self.store.io, &mut self.store.tables, true);
                    self.store.io.stage = Stage::ClosingPages;
                    self.go_on_closing();
                }
            }
            Stage::ClosingPages => self.flush_when_sent(Stage::ClosingPagesFlush),
            Stage::ClosingBits if self.store.settle.is_empty() && self.store.io.durability.bits_ready.is_empty() => {
                self.flush_when_sent(Stage::ClosingBitsFlush);
            }
            _ => {}
        }
    }

    fn flush_when_sent(&mut self, next: Stage) {
        if self.all_pages_sent() {
            self.store.io.stage = next;
            self.store.io.flush(FlushFor::Closing);
        }
    }

    /// Whether no page waits to be written any more; what does is sent.
    fn all_pages_sent(&mut self) -> bool {
        if !self.store.tables.pages.dirty.is_empty() {
            self.write_all_dirty();
        }
        !self.store.tables.are_pages_under_way()
    }

    pub(super) fn closing_flushed(&mut self) {
        if self.store.io.failed {
            return self.go_on_closing();
        }
        match self.store.io.stage {
            Stage::ClosingPagesFlush => {
                self.store.io.stage = Stage::ClosingBits;
                self.store.tables.set_written_bits(&mut self.store.io);
                self.go_on_closing();
            }
            Stage::ClosingBitsFlush => {
                self.store.io.stage = Stage::ClosingSuperblock;
                self.store.medium.superblock.clean = true;
                self.close_log_in_superblock();
                self.keep_for_next_time();
                self.write_superblock();
            }
            _ => {}
        }
    }

    /// What the superblock remembers from one opening to the next.
    fn keep_for_next_time(&mut self) {
        self.store.medium.superblock.recount_position = self.background.recount.position();
        self.store.medium.superblock.garbage_possible &= !self.store.space.returned.is_unsaid;
    }

    fn closed(&mut self) {
        self.store.io.stage = Stage::Closed;
        self.store.io.out.push(Action::Closed { clean: !self.store.io.failed });
    }
}
