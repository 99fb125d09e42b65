//! The changes of a superblock while its volume is open.

use super::{Lifetime, ProtectedRange, ScrubFound, ScrubProgress, Superblock, ToCompare};
use crate::format::log_tail::{Barrier, LogTail};
use crate::units::{Epoch, Pbn};

impl Superblock {
    /// Describes a volume that is open from now on. After a crash without a log some counts may be too high.
    pub(crate) fn open(&mut self) {
        if !self.clean && !self.is_log_live() {
            self.garbage_possible = true;
            // There may be new garbage in the windows that an earlier recount has passed.
            self.recount_position = Pbn(0);
        }
        self.clean = false;
        self.incarnation += 1;
        self.mount_count += 1;
    }

    /// Describes a volume that is closed: its pages have everything.
    pub(crate) fn close(&mut self) {
        self.clean = true;
    }

    /// Begins an update, with these counts, and with the block that was allocated last.
    pub(crate) fn begin_update(&mut self, lifetime: Lifetime, newest: Pbn) {
        self.next_generation();
        self.lifetime = lifetime;
        self.allocation_cursor = newest;
    }

    /// Takes the next generation, for an update.
    pub(crate) fn next_generation(&mut self) {
        self.generation += 1;
    }

    /// Says that no count is too high.
    pub(crate) fn set_counts_exact(&mut self) {
        self.garbage_possible = false;
    }

    /// Says where the next recount begins.
    pub(crate) fn set_recount_position(&mut self, pbn: Pbn) {
        self.recount_position = pbn;
    }

    /// Says that this epoch is durable, unless a later one is.
    pub(crate) fn set_last_epoch(&mut self, epoch: Epoch) {
        self.last_epoch = self.last_epoch.max(epoch);
    }

    /// Says where the log begins.
    pub(crate) fn set_log_tail(&mut self, log_tail: LogTail) {
        self.log_tail = Some(log_tail);
    }

    /// Says that no unit from before counts behind this sequence.
    pub(crate) fn set_barrier(&mut self, barrier: Barrier) {
        self.log_tail.iter_mut().for_each(|log_tail| log_tail.barrier = Some(barrier));
    }

    /// Says that there is no log.
    pub(crate) fn drop_log_tail(&mut self) {
        self.log_tail = None;
    }

    /// Says which sequence the last unit of the log has.
    pub(crate) fn set_last_log_sequence(&mut self, sequence: u64) {
        self.last_log_sequence = sequence;
    }

    /// Says which ranges are protected.
    pub(crate) fn set_protected(&mut self, ranges: Vec<ProtectedRange>) {
        self.protected = ranges;
    }

    /// Says what is still to be compared out of line.
    pub(crate) fn set_to_compare(&mut self, to_compare: ToCompare) {
        self.to_compare = to_compare;
    }

    /// Says how far a scrub is, if there is one.
    pub(crate) fn set_scrub(&mut self, scrub: Option<ScrubProgress>) {
        self.scrub = scrub;
    }

    /// Says that the scrub has ended, and with what result.
    pub(crate) fn end_scrub(&mut self, found: ScrubFound) {
        self.scrub = None;
        self.ended_scrubs.add(found);
    }
}
