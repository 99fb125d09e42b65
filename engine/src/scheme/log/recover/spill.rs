//! An opening that reads more records than memory is meant for: they enter the pages, and the walk goes on.
//!
//! 1. The walk stands still meanwhile: nothing of the log is being read. The pages that records up to the cut touch are loaded, put right
//!    and written, as a checkpoint does it, with their bits; but the anchor stays. So a crash finds the same log, and tags say what pages
//!    hold of it.
//! 2. The cut is the last epoch that every later recovery counts too ([`Walk::certain`](super::walk::Walk::certain)): where the log ends is
//!    not settled yet, so no page may hold more (L4).
//! 3. A sector that a checkpoint before the crash wrote may be newer than the cut, and keeps its tag.
//! 4. Pages leave memory then: the records that come next are not in them.
//! 5. A checkpoint follows as soon as the volume serves: a condensing would leave out what only pages say.
//! 6. All records stay in memory where the volume is read-only, where a page cannot be read, and where they belong to the last two epochs.

use super::reading::Reading;
use super::{Opening, State};
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::scheme::log::checkpointing::Checkpoint;
use crate::store::Store;
use crate::tables::{Committed, Unchained};
use std::collections::VecDeque;

impl Opening {
    /// Nothing of the log is being read: a checkpoint of what was read begins, with this log.
    pub(super) fn begin_spill(&mut self, store: &mut Store, mut reading: Reading) -> Box<Log> {
        let cut = reading.walk.certain();
        let live = std::mem::take(&mut reading.live).chained();
        self.state = State::Spilling(reading);
        let due: VecDeque<_> = live.pages(cut).collect();
        store.tables.committed = Some(Committed { is_end_known: false, ..Committed::new(live, cut, cut) });
        store.io.schedule.push(Task::Checkpoint);
        let mut log = Log::new(1);
        log.checkpoint = Some(Checkpoint::spill(cut, due));
        Box::new(log)
    }

    /// The pages, and their bits, are flushed; or one of them cannot be read, and all records stay.
    pub fn end_spill(&mut self, store: &mut Store, log: Log) {
        let (mut reading, Committed { mut records, epoch: cut, .. }) =
            match (std::mem::take(&mut self.state), store.tables.committed.take()) {
                (State::Spilling(reading), Some(committed)) => (reading, committed),
                // No spill is under way.
                (state, committed) => {
                    (self.state, store.tables.committed) = (state, committed);
                    return;
                }
            };
        let is_whole = log.checkpoint.is_some_and(|spill| !spill.lacks_page);
        let before = records.len();
        if is_whole {
            records.forget_upto(cut);
        }
        store.tables.pages.evict_clean();
        self.spilled += before - records.len();
        reading.records_left = if is_whole { records.len() } else { u64::MAX };
        reading.live = Unchained::of(records);
        self.state = State::Reading(reading);
    }
}
