//! The beginning and the end of a volume's service.
//!
//! 1. Opening flushes the device before anything is decided from what was read (R8), then makes *not clean* and the new incarnation durable
//!    before any other write.
//! 2. Closing writes all pages, flushes, sets the *written* bits that are due, writes their pages, flushes, and only then writes and flushes
//!    *clean*: a volume that says so has nothing but exact pages.
//! 3. After a failure nothing more is written, *clean* least of all (A5).

use crate::commit::FlushFor;
use crate::engine::Engine;
use crate::interface::{Action, Notice};
use crate::pages::Task;
use crate::units::Pbn;

/// Where the service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Created,
    /// Waiting for the flush of R8, then for the superblock.
    Opening,
    /// What the last server had promised is applied and committed.
    Recalling,
    Serving,
    /// Epochs are committed, what is waiting settles.
    ClosingEpochs,
    /// Pages go out; then a flush.
    ClosingPages,
    ClosingPagesFlush,
    /// *Written* bits are set, their pages go out; then a flush.
    ClosingBits,
    ClosingBitsFlush,
    ClosingSuperblock,
    Closed,
}

impl Stage {
    pub fn is_before_service(self) -> bool {
        matches!(self, Self::Created | Self::Opening | Self::Recalling)
    }

    pub fn commits(self) -> bool {
        matches!(self, Self::Recalling | Self::Serving | Self::ClosingEpochs)
    }

    pub fn is_closing(self) -> bool {
        !matches!(self, Self::Created | Self::Opening | Self::Recalling | Self::Serving)
    }

    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Created | Self::Opening | Self::Recalling => Some("opening"),
            Self::Serving | Self::ClosingEpochs => None,
            Self::ClosingPages | Self::ClosingPagesFlush | Self::ClosingBits | Self::ClosingBitsFlush | Self::ClosingSuperblock => {
                Some("closing")
            }
            Self::Closed => Some("closed"),
        }
    }
}

impl Engine {
    pub(crate) fn begin_opening(&mut self) {
        self.stage = Stage::Opening;
        self.look_at_counters();
        self.flush(FlushFor::Opening);
    }

    /// The device's cache holds nothing any more that no flush has covered.
    pub(super) fn opening_flushed(&mut self) {
        // What lies in the device's cache may yet be lost: nothing that was read from it may be given out (R8).
        self.unflushed = self.failed;
        if self.failed {
            return self.serve();
        }
        self.open_log();
    }

    /// The log is read, and places are chosen for its next units: the superblock comes next.
    pub(crate) fn say_opened(&mut self) {
        let s = &mut self.superblock;
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
        self.opening_updates += 1;
        self.write_superblock();
    }

    /// A superblock update is durable (or the volume has failed).
    pub(super) fn superblock_flushed(&mut self) {
        self.superblock_busy = false;
        self.checkpoint_after_superblock();
        if self.superblock_busy {
            // The end of a checkpoint has begun another.
            return;
        }
        match self.stage {
            Stage::Opening if self.failed => self.opening_failed(),
            Stage::Opening if self.opening_updates < 2 => self.update_opened(),
            Stage::Opening => self.settle_end(),
            Stage::ClosingSuperblock if self.superblock_writes == 0 => self.closed(),
            _ => {}
        }
    }

    pub(crate) fn serve(&mut self) {
        if matches!(self.stage, Stage::Opening | Stage::Recalling) {
            self.stage = Stage::Serving;
            self.notice(Notice::Serving);
            self.ready.push_back(Task::Admit);
            // What an opening found may be more than memory is meant for, and nobody need write for a long time.
            if self.log.is_some() && !self.failed && !self.settings.read_only {
                self.checkpoint_if_due();
            }
        }
    }

    pub(crate) fn begin_closing(&mut self) {
        self.close_asked = true;
        self.end_waiting();
    }

    /// Begins to close when that was asked for and nobody waits for an answer any more; goes on with it.
    pub(crate) fn close_if_asked(&mut self) {
        if !self.close_asked || self.stage.is_before_service() {
            return;
        }
        if self.stage == Stage::Serving && self.admission.is_empty() && self.writes.is_empty() && self.reads.is_empty() {
            self.stage = Stage::ClosingEpochs;
        }
        self.go_on_closing();
    }

    pub(crate) fn go_on_closing(&mut self) {
        if self.failed && self.stage.is_closing() && self.stage != Stage::Closed {
            return self.closed();
        }
        match self.stage {
            Stage::ClosingEpochs => {
                let idle = self.open.is_empty() && self.commit.is_none() && self.settle.is_empty();
                if idle && self.settings.read_only {
                    self.closed();
                } else if idle && self.checkpoint_empties_log() {
                    // An empty log: all that it says is on the pages.
                } else if idle && !self.superblock_busy {
                    self.discard_freed(true);
                    self.stage = Stage::ClosingPages;
                    self.go_on_closing();
                }
            }
            Stage::ClosingPages => self.flush_when_sent(Stage::ClosingPagesFlush),
            Stage::ClosingBits if self.settle.is_empty() && self.durability.bits_ready.is_empty() => {
                self.flush_when_sent(Stage::ClosingBitsFlush);
            }
            _ => {}
        }
    }

    fn flush_when_sent(&mut self, next: Stage) {
        if self.all_pages_sent() {
            self.stage = next;
            self.flush(FlushFor::Closing);
        }
    }

    /// Whether no page waits to be written any more; what does is sent.
    fn all_pages_sent(&mut self) -> bool {
        if !self.pages.dirty.is_empty() {
            self.write_all_dirty();
        }
        self.page_writes == 0
    }

    pub(super) fn closing_flushed(&mut self) {
        if self.failed {
            return self.go_on_closing();
        }
        match self.stage {
            Stage::ClosingPagesFlush => {
                self.stage = Stage::ClosingBits;
                self.set_written_bits();
                self.go_on_closing();
            }
            Stage::ClosingBitsFlush => {
                self.stage = Stage::ClosingSuperblock;
                self.superblock.clean = true;
                self.close_log_in_superblock();
                self.keep_for_next_time();
                self.write_superblock();
            }
            _ => {}
        }
    }

    /// What the superblock remembers from one opening to the next.
    fn keep_for_next_time(&mut self) {
        self.superblock.recount_position = self.recount.position();
        self.superblock.garbage_possible &= !self.recount.is_unsaid;
    }

    fn closed(&mut self) {
        self.stage = Stage::Closed;
        self.out.push(Action::Closed { clean: !self.failed });
    }
}
