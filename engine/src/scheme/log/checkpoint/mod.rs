//! A checkpoint writes every page that live records touch, and moves the log tail behind these records.
//!
//! 1. **Pages** are written, each with what is committed by then; *flush*. **Bits** of pages that were written for the first time are
//!    written; *flush*, where there were any. The **superblock** has the new log tail; *flush*. The units before the tail are free (L8).
//! 2. Epochs commit meanwhile: the tail moves to where the log ended when the checkpoint began.
//! 3. There is one checkpoint at a time; the tail is composed when its superblock is written, so nothing overtakes it. A compaction
//!    (`compact.rs`) is a checkpoint that writes copies of records instead of the pages of map and refs.
//! 4. The bits are durable before the tail moves. So a page that was written and has no bit is one that live records touch, and no other
//!    page has to be verified after a crash.

mod compact;
mod confirm;
mod superblock;

use super::Log;
use super::checkpoint_state::{Checkpoint, CheckpointStep};
use super::commit::Commit;
use super::copies::{Copies, Segments};
use super::limits::PLACES_LEFT_MIN;
use super::places::runs;
use crate::charge::Memory;
use crate::format::log_tail::{Compacted, LogTail};
use crate::format::page::{PageId, Region};
use crate::format::superblock::CommitMode;
use crate::io::{FlushFor, Io};
use crate::memory::Part;
use crate::pool::{Medium, Pool};
use crate::schedule::Task;
use crate::scheme::parts::{Reached, Step};
use crate::settings::Settings;
use crate::space::{SchemeBlock, Space};
use crate::tables::{Access, Committed, Live, Page, Tables};
use crate::units::{Epoch, Pbn, count, index};
use std::collections::VecDeque;

/// The most pages loading, and the most being written, at once.
const PAGES_IN_FLIGHT_MAX: usize = 64;
/// While a checkpoint is under way, live records may take this many times their share.
const LIVE_SHARES_MAX: u64 = 2;

/// Whether this many live records, of this many bytes, are more than memory has room for.
pub(super) fn are_too_many(memory: &Memory, settings: &Settings, bytes: u64, records: u64) -> bool {
    // In mode `ordered` the log has no share of memory. It is emptied while nothing else is there.
    let part = if settings.commit_mode == CommitMode::Log { Part::Log } else { Part::Dirty };
    bytes > memory.accountant.limit(part) || records > settings.knobs.live_records_max
}

impl Log {
    /// Begins a checkpoint where memory or space asks for it.
    pub fn checkpoint_if_due(&mut self, pool: &mut Pool) {
        let records = &pool.tables.committed().records;
        let (bytes, number) = (records.bytes(), records.len());
        // Where blocks are scarce, the units of the log, and those that the checkpoint before has passed, take blocks of the reserve.
        let reserve = pool.geometry.reserve_blocks;
        let most = pool.settings.knobs.checkpoint_beyond;
        let most = if pool.space.census.free > 2 * reserve { most } else { most.min(reserve / 4) };
        let units = count(self.units.len() + self.segments.places.len()) > most;
        if are_too_many(&pool.memory, &pool.settings, bytes, number) || units || self.has_overflowed || self.places.len() < PLACES_LEFT_MIN
        {
            self.begin_checkpoint(&mut pool.io, &mut pool.tables, &pool.space);
        } else {
            self.compact_if_due(pool);
        }
    }

    /// Whether further writes should wait for the checkpoint that is under way: there are too many live records.
    pub fn waits_for_checkpoint(&self, tables: &Tables, memory: &Memory, settings: &Settings) -> bool {
        let too_many = |live: &Live| are_too_many(memory, settings, live.bytes() / LIVE_SHARES_MAX, live.len() / LIVE_SHARES_MAX);
        self.checkpoint.is_some() && tables.committed.as_ref().is_some_and(|committed| too_many(&committed.records))
    }

    /// Begins a checkpoint, if none is under way and there is anything before the new log tail, or anything that the superblock has to
    /// report.
    pub fn begin_checkpoint(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) {
        let ends_recount = space.is_recount_unsaid();
        let is_wanted = self.keeps_blocks() || self.is_cut_off || ends_recount;
        if !is_wanted || io.has_failed() || io.is_opened_to_read() {
            return;
        }
        if let Some(under_way) = &self.checkpoint {
            self.checkpoint_is_next |= under_way.copies.is_some();
            return;
        }
        let Committed { records, epoch, .. } = tables.committed();
        let (mut due, epoch): (VecDeque<PageId>, _) = (records.pages(*epoch).collect(), *epoch);
        if ends_recount {
            due.extend(tables.pages.unwritten());
        }
        self.checkpoint = Some(Checkpoint { ends_recount, ..Checkpoint::new(epoch, self.flushed, due, None) });
        io.schedule.push(Task::Checkpoint);
    }

    /// Continues the checkpoint that is under way.
    ///
    /// # Errors
    /// The operation that failed.
    pub fn go_on_with_checkpoint(&mut self, pool: &mut Pool) -> Step {
        let Some(checkpoint) = self.checkpoint.take() else { return Ok(Reached::Nothing) };
        match checkpoint.step {
            CheckpointStep::Places => self.choose_places_of_copies(checkpoint, pool),
            CheckpointStep::Pages => self.checkpoint_pages(checkpoint, pool),
            CheckpointStep::Bits => Ok(self.checkpoint_bits(checkpoint, pool)),
            CheckpointStep::SuperblockDue => Ok(self.checkpoint_superblock(checkpoint, pool)),
            CheckpointStep::PagesFlush | CheckpointStep::BitsFlush | CheckpointStep::Superblock => Ok(self.wait(checkpoint)),
        }
    }

    /// The checkpoint continues when an operation has ended.
    fn wait(&mut self, checkpoint: Checkpoint) -> Reached {
        self.checkpoint = Some(checkpoint);
        Reached::Nothing
    }

    fn checkpoint_pages(&mut self, mut checkpoint: Checkpoint, pool: &mut Pool) -> Step {
        let most = PAGES_IN_FLIGHT_MAX.min(pool.tables.pages.waiting_max());
        if let Err(what) = checkpoint.send_pages(pool, most) {
            self.checkpoint = Some(checkpoint);
            return Err(what);
        }
        let all_are_looked_at = checkpoint.due.is_empty() && checkpoint.loading.is_empty();
        let is_blocked = checkpoint.not_yet.len() >= most || all_are_looked_at;
        let are_copied = checkpoint.copies.as_ref().is_none_or(Copies::are_written);
        let may_go_on = is_blocked && checkpoint.writing.is_empty() && are_copied;
        if may_go_on && checkpoint.not_yet.is_empty() {
            checkpoint.step = CheckpointStep::PagesFlush;
            pool.io.flush(FlushFor::Checkpoint);
        }
        let waits_for_confirmation = may_go_on && !checkpoint.not_yet.is_empty();
        self.checkpoint = Some(checkpoint);
        if waits_for_confirmation && !self.commit.as_ref().is_some_and(Commit::is_sent) {
            // No epoch will confirm it soon.
            self.confirm(pool);
        }
        Ok(Reached::Nothing)
    }

    /// Notes that a page was written.
    pub fn page_written(&mut self, io: &mut Io, id: PageId) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.writing.remove(&id);
            io.schedule.push(Task::Checkpoint);
        }
    }

    /// Continues after a flush of the checkpoint.
    pub fn checkpoint_flushed(&mut self, pool: &mut Pool) -> Reached {
        let Some(mut checkpoint) = self.checkpoint.take() else { return Reached::Nothing };
        if checkpoint.step == CheckpointStep::PagesFlush {
            checkpoint.step = CheckpointStep::Bits;
            return self.checkpoint_bits(checkpoint, pool);
        }
        self.checkpoint_superblock(checkpoint, pool)
    }

    /// Writes the bits of pages that are durable for the first time.
    fn checkpoint_bits(&mut self, mut checkpoint: Checkpoint, pool: &mut Pool) -> Reached {
        let Pool { io, tables, .. } = &mut *pool;
        if !io.durability.bits_ready.is_empty() {
            io.schedule.push(Task::Bits);
            return self.wait(checkpoint);
        }
        let due: Vec<PageId> = tables.pages.dirty.iter().copied().filter(|id| id.region == Region::Written).collect();
        for id in due {
            if !tables.pages.expect(id).writing {
                tables.write_page(io, id);
            }
        }
        // Others may have sent some of them.
        if io.durability.are_bits_under_way() {
            return self.wait(checkpoint);
        }
        if io.durability.last_bits() > io.durability.mark() {
            checkpoint.step = CheckpointStep::BitsFlush;
            io.flush(FlushFor::Checkpoint);
            return self.wait(checkpoint);
        }
        self.checkpoint_superblock(checkpoint, pool)
    }

    fn checkpoint_superblock(&mut self, mut checkpoint: Checkpoint, pool: &mut Pool) -> Reached {
        if checkpoint.is_spill {
            self.checkpoint = Some(checkpoint);
            return Reached::Overflowed;
        }
        if pool.medium.is_busy() {
            checkpoint.step = CheckpointStep::SuperblockDue;
            return self.wait(checkpoint);
        }
        checkpoint.step = CheckpointStep::Superblock;
        if checkpoint.ends_recount {
            pool.recount_is_durable();
        }
        let compacted = self.compacted_by(checkpoint.copies.as_ref());
        let log_tail = self.log_tail_behind(&pool.medium, checkpoint.sequence, checkpoint.epoch, compacted);
        pool.medium.superblock.set_log_tail(log_tail);
        pool.medium.superblock.set_last_log_sequence(self.next - 1);
        self.checkpoint = Some(checkpoint);
        self.write_confirming_superblock(pool);
        Reached::Nothing
    }

    /// A log tail behind the unit of this sequence.
    pub fn log_tail_behind(&self, medium: &Medium, sequence: u64, epoch: Epoch, compacted: Compacted) -> LogTail {
        let before = index(sequence + 1 - self.first());
        // The incarnation is that of the unit behind it, or of those to come. A crash may have left a unit there of a lower incarnation,
        // though not always of a lower one than the unit before.
        let incarnation = self.units.get(before).map_or(medium.superblock.incarnation, |unit| unit.incarnation);
        let places = self.units.iter().skip(before).map(|unit| unit.pbn).chain(self.places.iter().copied());
        // It is never less than in an earlier superblock.
        let flushed_upto = self.flushed.max(sequence);
        LogTail { sequence: sequence + 1, incarnation, epoch, flushed_upto, places: runs(places), barrier: None, compacted }
    }

    /// Continues after an update of the superblock: the checkpoint's own, or one that it waited for.
    pub fn superblock_written(&mut self, pool: &mut Pool) -> Reached {
        self.superblock_confirms(pool);
        match self.checkpoint.as_ref().map(|checkpoint| checkpoint.step) {
            // The checkpoint may need a confirmation.
            Some(CheckpointStep::Pages | CheckpointStep::SuperblockDue) => {
                pool.io.schedule.push(Task::Checkpoint);
                Reached::Nothing
            }
            Some(CheckpointStep::Superblock) if !pool.io.has_failed() => self.end_checkpoint(pool),
            _ => Reached::Nothing,
        }
    }

    fn end_checkpoint(&mut self, pool: &mut Pool) -> Reached {
        let Some(Checkpoint { epoch, sequence, copies, .. }) = self.checkpoint.take() else { return Reached::Nothing };
        let names_places = pool.medium.superblock.log_tail.as_ref().is_some_and(|log_tail| !log_tail.places.is_empty());
        self.is_cut_off &= !names_places;
        match copies {
            Some(copies) => {
                self.segments.add(copies, self.next - count(self.units.len()) - 1);
                pool.tables.committed().records.compacted_upto(epoch);
                self.log_tail_has_moved(pool, sequence, Vec::new());
            }
            None => {
                pool.tables.committed().records.forget_upto(epoch);
                self.has_overflowed = false;
                let Segments { places, reserve, .. } = std::mem::take(&mut self.segments);
                // No superblock has ever named these.
                reserve.into_iter().for_each(|pbn| Self::leaves_log(&mut pool.space, &mut pool.settle, pbn));
                self.log_tail_has_moved(pool, sequence, places);
            }
        }
        self.go_on_behind_checkpoint(&mut pool.io, &mut pool.tables, &pool.space)
    }

    /// The checkpoint is over, or was not made. Another one may wait for it.
    fn go_on_behind_checkpoint(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) -> Reached {
        if std::mem::take(&mut self.checkpoint_is_next) {
            self.begin_checkpoint(io, tables, space);
        }
        if self.checkpoint.is_none() { Reached::End } else { Reached::Nothing }
    }

    /// Notes that the log tail of one pair of superblock copies lies behind the unit of this sequence, and leads to these compacted units
    /// no more. The units to which the other pair leads stay.
    fn log_tail_has_moved(&mut self, pool: &mut Pool, sequence: u64, compacted: Vec<Pbn>) {
        let units = index(sequence + 1 - self.first());
        let passed = self.units.drain(..units).map(|unit| unit.pbn).chain(compacted).collect();
        for pbn in std::mem::replace(&mut self.passed, passed) {
            // Where free blocks are scarce, the log keeps its blocks as places.
            if self.places.len() <= PLACES_LEFT_MIN && pool.space.scheme_block(pbn) == Some(SchemeBlock::Plain) {
                self.places.push_back(pbn);
            } else {
                Self::leaves_log(&mut pool.space, &mut pool.settle, pbn);
            }
        }
        pool.io.schedule.push(Task::Settle);
        pool.space.no_longer_busy();
        self.release_unlinked(pool, sequence);
    }

    /// Begins a checkpoint, if one can free blocks before writers get ENOSPC. Returns whether one is under way.
    pub fn checkpoint_frees_blocks(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) -> bool {
        self.begin_checkpoint(io, tables, space);
        self.checkpoint.is_some()
    }

    /// Begins a checkpoint, if one has to empty the log before the volume closes. Returns whether one is under way.
    pub fn checkpoint_empties_log(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) -> bool {
        (!self.is_empty() || self.checkpoint.is_some()) && self.checkpoint_frees_blocks(io, tables, space)
    }

    /// Whether a checkpoint is under way.
    pub fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }
}

impl Checkpoint {
    /// Sends pages that are due and in memory, with at most this many under way at once.
    fn send_pages(&mut self, pool: &mut Pool, most: usize) -> Result<(), &'static str> {
        let Pool { io, tables, .. } = pool;
        let mut loading = std::mem::take(&mut self.loading);
        let mut again = Vec::new();
        while self.writing.len() < most && again.len() < most && self.not_yet.len() < most {
            let Some(id) = loading.pop().or_else(|| self.due.pop_front()) else { break };
            match tables.ensure(io, id) {
                Access::Ready(resident) => {
                    let Page { writing, unsaved, dirty, .. } = *resident.page();
                    match (writing, unsaved || dirty.is_some()) {
                        // It is asked again when that write is over.
                        (true, _) => again.push(id),
                        // Somebody sent it since its last record.
                        (false, false) => {}
                        _ if !tables.may_be_written(id) => self.not_yet.push(id),
                        _ => {
                            tables.write_page(io, id);
                            self.writing.insert(id);
                        }
                    }
                }
                Access::Unreadable if self.is_spill => self.lacks_page = true,
                Access::Unreadable => return Err("a read of a page that has to change"),
                Access::Loading => {
                    tables.wait(io, id, Task::Checkpoint);
                    again.push(id);
                }
            }
        }
        self.loading = again;
        self.loading.append(&mut loading);
        Ok(())
    }

    /// Sends the pages that waited for a confirmation and are still in memory.
    fn send_what_waited(&mut self, io: &mut Io, tables: &mut Tables) {
        for id in std::mem::take(&mut self.not_yet) {
            if tables.pages.get(id).is_some_and(|page| !page.writing) && tables.may_be_written(id) {
                tables.write_page(io, id);
                self.writing.insert(id);
            } else {
                self.loading.push(id);
            }
        }
    }
}
