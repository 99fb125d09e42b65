//! Overflow to pages: an opening reads more records than memory has room for. They enter the pages, and the scan continues.
//!
//! 1. The scan stands still meanwhile, with no read under way. The pages that records up to the certain epoch touch are loaded, corrected
//!    and written, as by a checkpoint, with their bits; but the log tail stays. So a crash finds the same log, and tags show what pages
//!    hold of it.
//! 2. The certain epoch is the last one that every later recovery counts too ([`Scan::certain`](super::scan::Scan::certain)): the end of
//!    the log is not durable yet, so no page may hold more (L4).
//! 3. A sector that a checkpoint before the crash wrote may be newer than that epoch, and keeps its tag.
//! 4. Pages leave memory then: they lack the records that come next.
//! 5. A checkpoint follows as soon as the volume serves: a compaction would miss what only pages hold.
//! 6. All records stay in memory where the volume is read-only, where a page cannot be read, and where they belong to the last two epochs.

use super::reading::Reading;
use super::{LogReader, State};
use crate::io::Io;
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::scheme::log::checkpoint_state::Checkpoint;
use crate::tables::{Committed, Tables, UnlinkedRecords};
use std::collections::VecDeque;

impl LogReader {
    /// Begins a checkpoint of the records that were read. Returns a log with that checkpoint.
    pub(super) fn begin_overflow(&mut self, io: &mut Io, tables: &mut Tables, mut reading: Reading) -> Box<Log> {
        let certain = reading.scan.certain();
        let live = std::mem::take(&mut reading.live).chained();
        self.state = State::Overflowing(reading);
        let due: VecDeque<_> = live.pages(certain).collect();
        tables.keep_records(Committed { is_end_known: false, ..Committed::new(live, certain, certain) });
        io.schedule.push(Task::Checkpoint);
        let mut log = Log::new(1);
        log.checkpoint = Some(Checkpoint::overflow(certain, due));
        Box::new(log)
    }

    /// Ends the overflow: the pages, and their bits, are flushed; or one of them cannot be read, and all records stay.
    pub fn end_overflow(&mut self, tables: &mut Tables, log: Log) {
        let (State::Overflowing(mut reading), Some(committed)) = (std::mem::take(&mut self.state), tables.committed.take()) else {
            unreachable!("only the pages of an overflow end one")
        };
        let Committed { mut records, epoch: certain, .. } = committed;
        let is_whole = log.checkpoint.is_some_and(|checkpoint| !checkpoint.lacks_page);
        let before = records.len();
        if is_whole {
            records.forget_upto(certain);
        }
        tables.pages.evict_clean();
        self.read.overflowed += before - records.len();
        reading.records_left = if is_whole { records.len() } else { u64::MAX };
        reading.live = UnlinkedRecords::of(records);
        self.state = State::Reading(reading);
    }
}
