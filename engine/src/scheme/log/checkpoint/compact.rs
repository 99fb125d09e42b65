//! Log compaction: the records of a long log, but for those of its newest units, are copied in order into few units, and the log tail moves
//! behind what was copied.
//!
//! 1. A synced single write makes a unit of its own, with one or two records; a compacted unit holds hundreds. So the next log scan stays
//!    short without writes of map and refs pages: a checkpoint comes when memory asks for one.
//! 2. **Copies** are written, and with them the fingerprint pages that the copied records touch. Blocks are allocated in order, so these
//!    pages are few, and neither the copies nor memory has to keep fingerprints any more. *Flush*. **Bits** of such pages are written, as
//!    in a checkpoint. The **superblock** names the copies, with the log tail behind what was copied; *flush*. Units that were copied are
//!    freed as after a checkpoint; carriers become ordinary data.
//! 3. Live records are copied, as replay applied them, each with its own epoch. So the copies lack what a recovery dropped, and pages take
//!    from a copy what they would take from the unit.
//! 4. The last copied unit ends a flushed epoch. Records that were compacted before are not copied again; a checkpoint makes all copies
//!    needless.
//! 5. A compaction is not made where it would save less than half of the units, or where no block beyond the reserve is free. Checkpoints
//!    need no free block.
//! 6. A compaction counts as a checkpoint: there is one of either at a time.

use crate::format::log_tail::{COMPACTED_RUNS_MAX, Compacted};
use crate::format::record::{LATER_BYTES_MAX, RECORD_BYTES_MAX, Record};
use crate::format::unit::{UNIT_ROOM_BYTES, UnitWriter};
use crate::io::{Io, Stage};
use crate::memory::Part;
use crate::pool::Pool;
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::scheme::log::checkpoint_state::{Checkpoint, CheckpointStep};
use crate::scheme::log::copies::{Copies, Segments};
use crate::scheme::log::places::{PLACES_FRACTION, first_runs};
use crate::scheme::log::records::record_of;
use crate::scheme::parts::{Reached, Step};
use crate::tables::Live;
use crate::units::{BLOCK_BYTES, Epoch, count, index};

/// The most units that one compaction writes.
const SEGMENT_UNITS_MAX: u64 = 64;
/// The share of the memory for records that the copies take while they are made.
const SEGMENT_MEMORY_FRACTION: u64 = 16;
/// One unit of this many is not copied: the newest ones.
const KEPT_FRACTION: usize = 8;
/// The least number of units whose records are copied into one.
const UNITS_A_COPY_MIN: usize = 2;
/// The most blocks that are chosen for copies at once, so that they lie side by side.
const RESERVE_UNITS_MAX: u64 = 64;
/// The most bytes of a copy, with the step to its epoch.
const COPY_BYTES_MAX: usize = LATER_BYTES_MAX + RECORD_BYTES_MAX;

impl Log {
    /// The last unit of this epoch, or of the last epoch before it that has any.
    fn flushed_end_of(&self, epoch: Epoch) -> Option<(u64, Epoch)> {
        let units = self.units.partition_point(|unit| unit.epoch <= epoch);
        let last = self.units.get(units.checked_sub(1)?)?;
        let sequence = self.first() + count(units) - 1;
        (sequence <= self.flushed).then_some((sequence, last.epoch))
    }

    /// The copies of all but the newest units, as far as this many units hold them; none where that saves too little.
    fn copies(&self, live: &Live, units_max: u64) -> Option<Checkpoint> {
        let before = |epoch: Epoch| self.flushed_end_of(Epoch(epoch.get() - 1));
        let newest = self.units.len() / KEPT_FRACTION + 1;
        let (mut end, mut epoch) = before(self.units.get(self.units.len().checked_sub(newest)?)?.epoch)?;
        let most = units_max * (count(UNIT_ROOM_BYTES) / count(COPY_BYTES_MAX));
        if let Some((first_left, _)) = live.not_compacted().take_while(|(of, _)| *of <= epoch).nth(index(most)) {
            // This epoch has more records than there is room for.
            (end, epoch) = before(first_left)?;
        }
        let mut units: Vec<(Epoch, UnitWriter)> = Vec::new();
        let mut last = Epoch(0);
        for (of, piece) in live.not_compacted().take_while(|(of, _)| *of <= epoch) {
            push(&mut units, last, of, record_of(&piece)?);
            last = of;
        }
        if units.is_empty() {
            // No record is live. The segment is needed all the same, since each one begins where another ends.
            units.push((epoch, UnitWriter::new(Vec::new())));
        }
        let passed = index(end + 1 - self.first());
        let is_worth_it = units.len() * UNITS_A_COPY_MIN <= passed;
        let copies = Copies { units, places: Vec::new(), blocks_left: 0 };
        is_worth_it.then(|| Checkpoint::new(epoch, end, live.name_pages(epoch).collect(), Some(copies)))
    }
}

/// Adds a copy to the last of the units, or begins another one; `last` is the epoch of the copy before.
fn push(units: &mut Vec<(Epoch, UnitWriter)>, last: Epoch, epoch: Epoch, record: Record) {
    let add = |writer: &mut UnitWriter, record| {
        let rest = writer.push(record);
        assert!(rest.is_none(), "a record of one part has a limit");
    };
    match units.last_mut().filter(|(_, writer)| writer.room_left() >= COPY_BYTES_MAX) {
        Some((_, writer)) => {
            if epoch > last {
                add(writer, Record::Later { epochs: epoch - last });
            }
            add(writer, record);
        }
        None => {
            let mut writer = UnitWriter::new(Vec::new());
            add(&mut writer, record);
            units.push((epoch, writer));
        }
    }
}

impl Log {
    /// Begins a compaction where the log is long.
    pub(super) fn compact_if_due(&mut self, pool: &mut Pool) {
        let beyond = index(pool.settings.knobs.compact_beyond).max(self.segments.retry_at);
        if self.units.len() <= beyond || self.checkpoint.is_some() || pool.io.stage() != Stage::Serving || pool.io.has_failed() {
            return;
        }
        let units_max = (pool.memory.accountant.limit(Part::Log) / SEGMENT_MEMORY_FRACTION / BLOCK_BYTES).clamp(1, SEGMENT_UNITS_MAX);
        let compaction = self.copies(&pool.tables.committed().records, units_max);
        self.segments.retry_behind(self.units.len());
        if compaction.is_some() {
            self.checkpoint = compaction;
            pool.io.schedule.push(Task::Checkpoint);
        }
    }

    /// Chooses free blocks for the copies. They come from beyond the reserve only: clients may need the others.
    pub(super) fn choose_places_of_copies(&mut self, mut checkpoint: Checkpoint, pool: &mut Pool) -> Step {
        let Some(copies) = &mut checkpoint.copies else { return Ok(Reached::Nothing) };
        let needed = copies.units.len();
        let ahead = index((pool.space.census.free / PLACES_FRACTION).min(RESERVE_UNITS_MAX));
        let reserve = &mut self.segments.reserve;
        let wanted = if reserve.len() < needed { needed.max(ahead) } else { needed };
        while reserve.len() < wanted && pool.space.census.free > pool.geometry.reserve_blocks {
            match pool.take_free_block() {
                Ok(Some(pbn)) => {
                    pool.space.joins_scheme(pbn);
                    reserve.push_back(pbn);
                }
                Ok(None) => break,
                Err(page) => {
                    pool.tables.wait(&mut pool.io, page, Task::Checkpoint);
                    return Ok(self.wait(checkpoint));
                }
            }
        }
        let taken = needed.min(reserve.len());
        let all = self.segments.places.iter().chain(reserve.iter().take(taken)).copied();
        let named: usize = first_runs(all, COMPACTED_RUNS_MAX).iter().map(|run| usize::from(run.blocks)).sum();
        if taken < needed || named < self.segments.places.len() + needed {
            return Ok(self.go_on_behind_checkpoint(&mut pool.io, &mut pool.tables, &pool.space));
        }
        copies.lie_at(reserve.drain(..needed).collect());
        copies.send(pool, checkpoint.sequence, self.next - count(self.units.len()) - 1);
        checkpoint.step = CheckpointStep::Pages;
        self.checkpoint_pages(checkpoint, pool)
    }

    /// Counts copies at neighbouring places that are on the device.
    pub fn copies_written(&mut self, io: &mut Io, units: usize) {
        if let Some(copies) = self.checkpoint.as_mut().and_then(|checkpoint| checkpoint.copies.as_mut()).filter(|_| !io.has_failed()) {
            copies.blocks_left -= units;
            io.schedule.push(Task::Checkpoint);
        }
    }

    /// The compacted units that the superblock of a checkpoint names: none where it has no copies.
    pub(super) fn compacted_by(&self, copies: Option<&Copies>) -> Compacted {
        let Some(copies) = copies else { return Compacted::default() };
        let Segments { since, places, .. } = &self.segments;
        let since = if places.is_empty() { self.first() - 1 } else { *since };
        Compacted { since, places: first_runs(places.iter().chain(&copies.places).copied(), COMPACTED_RUNS_MAX) }
    }
}
