//! An opening that reads more records than memory is meant for: they enter the pages, and the walk goes on.
//!
//! 1. The walk stands still meanwhile: nothing of the log is being read. The pages that records up to the cut touch are loaded, put right and
//!    written, as a checkpoint does it, with their bits; but the anchor stays. So a crash finds the same log, and tags say what pages hold of it.
//! 2. The cut is the last epoch that every later recovery counts too ([`Walk::certain`](super::walk::Walk::certain)): where the log ends is not
//!    settled yet, so no page may hold more (L4).
//! 3. A sector that a checkpoint before the crash wrote may be newer than the cut, and keeps its tag.
//! 4. Pages leave memory then: the records that come next are not in them.
//! 5. A checkpoint follows as soon as the volume serves: a condensing would leave out what only pages say.
//! 6. All records stay in memory where the volume is read-only, where a page cannot be read, and where they belong to the last two epochs.

use super::Log;
use super::checkpoint::Checkpoint;
use crate::engine::Engine;
use crate::format::superblock::CommitMode;
use crate::memory::Part;
use crate::schedule::Task;
use crate::tables::{Committed, Unchained};
use std::collections::VecDeque;

impl Engine {
    /// Whether live records of so many bytes, and so many of them, are more than memory is meant for.
    pub(super) fn are_too_many(&self, bytes: u64, records: u64) -> bool {
        // Mode `ordered` has no share for a log that it empties; nothing else is there yet.
        let part = if self.store.settings.commit_mode == CommitMode::Log { Part::Log } else { Part::Dirty };
        bytes > self.store.memory.accountant.limit(part) || records > self.store.settings.live_records_max
    }

    /// Whether records are to leave memory before the walk goes on. Where few could leave it the last time, twice as many have to be there.
    pub(super) fn is_spill_due(&self) -> bool {
        let Some(opening) = &self.recovery.opening else { return false };
        let Some(live) = opening.live.as_ref().filter(|_| !self.store.io.read_only) else { return false };
        live.len() >= opening.records_left.saturating_mul(2) && self.are_too_many(live.bytes(), live.len())
    }

    /// Whether pages are being written before the end of the log is known.
    #[must_use]
    pub fn spills(&self) -> bool {
        self.scheme.log.is_some() && !self.end_of_log_is_known()
    }

    /// Nothing of the log is being read.
    pub(super) fn begin_spill(&mut self) {
        let opening = self.log_opening();
        let cut = opening.walk.as_ref().expect("a spill is the walk's").certain();
        let live = opening.live.take().expect("what was read is live").chained();
        let due: VecDeque<_> = live.pages(cut).collect();
        self.store.tables.committed = Some(Committed { is_end_known: false, ..Committed::new(live, cut, cut) });
        let mut log = Log::new(1);
        log.checkpoint = Some(Checkpoint::spill(cut, due));
        self.scheme.log = Some(log);
        self.store.io.schedule.push(Task::Checkpoint);
    }

    /// The pages, and their bits, are flushed; or one of them cannot be read, and all records stay.
    pub(super) fn end_spill(&mut self) {
        let Log { checkpoint, .. } = self.scheme.log.take().expect("the spill's");
        let Committed { records: mut live, epoch: cut, .. } = self.store.tables.committed.take().expect("the spill's");
        let is_whole = checkpoint.is_some_and(|spill| !spill.lacks_page);
        let before = live.len();
        if is_whole {
            live.forget_upto(cut);
        }
        self.store.tables.pages.let_go();
        let opening = self.log_opening();
        opening.spilled += before - live.len();
        opening.records_left = if is_whole { live.len() } else { u64::MAX };
        opening.live = Some(Unchained::of(live));
        self.read_walk();
    }
}
