//! The commit scheme, which makes epochs durable. It is chosen when the volume opens.
//!
//! 1. One epoch commits at a time; meanwhile the next one fills.
//! 2. A scheme decides when the content of a new block is written, now or when its epoch is sealed, and whether there is room for a further
//!    record. It learns that an epoch is sealed, and that an operation of its own has ended. It reports how far it is, and what has to
//!    happen before the volume closes.
//! 3. Only a scheme, the opening and the closing of the volume, and an update of the superblock ask for flushes.

pub(crate) mod log;
mod ordered;
mod parts;
mod seal;

pub(crate) use log::Log;
pub(crate) use parts::{Progress, Reached, Step};

use crate::answers::Answers;
use crate::buffer::Slice;
use crate::contents::Contents;
use crate::format::page::PageId;
use crate::interface::{IoId, Reply, Trace};
use crate::io::Io;
use crate::policy::Policy;
use crate::pool::{Medium, Pool};
use crate::schedule::{Blocked, Task};
use crate::space::Space;
use crate::stats::LogBlocks;
use crate::tables::{EpochRecords, Tables};
use crate::units::{Lbn, Pbn};
use std::collections::VecDeque;

/// The commit scheme of an open volume.
pub(crate) enum Scheme {
    /// Content and increments, links, decrements; with the commit that is under way.
    Ordered(Option<ordered::Commit>),
    /// The carried log, in its mode, and while a live log is emptied.
    Log(Box<Log>),
}

impl Default for Scheme {
    fn default() -> Self {
        Self::Ordered(None)
    }
}

impl Scheme {
    /// Reserves room for this many further records of the open epoch, before they are admitted: so they always find it when they are
    /// sealed.
    pub fn admit_records(&mut self, pool: &mut Pool, records: usize) -> Result<(), Blocked> {
        match self {
            Self::Ordered(_) => Ok(()),
            Self::Log(log) => log.admit_records(pool, records),
        }
    }

    /// The number of further records of the open epoch for which there is room.
    pub fn room_for_records(&self, tables: &Tables) -> usize {
        match self {
            Self::Ordered(_) => usize::MAX,
            Self::Log(log) => log.room_for_records(tables),
        }
    }

    /// Whether further records have to wait for some that are under way.
    pub fn is_crowded(&self, pool: &Pool, answers: &Answers) -> bool {
        match self {
            Self::Ordered(_) => answers.ack_journal.waits_for_content(&pool.settings),
            Self::Log(log) => log.holds_enough(pool, answers) || log.waits_for_checkpoint(&pool.tables, &pool.memory, &pool.settings),
        }
    }

    /// Holds back the content of a new block of the open epoch, if it may. Returns the content to be kept.
    pub fn hold_back(&mut self, pool: &mut Pool, answers: &Answers, lbn: Lbn, pbn: Pbn, slice: &Slice, policy: Policy) -> Option<Slice> {
        match self {
            Self::Ordered(_) => None,
            Self::Log(log) => log.hold_back(pool, answers, lbn, pbn, slice, policy),
        }
    }

    /// Bytes of memory that held content takes, besides itself.
    pub fn held_bytes(&self, io: &Io, contents: &Contents) -> u64 {
        match self {
            Self::Ordered(_) => 0,
            Self::Log(log) => log.held_bytes(io, contents),
        }
    }

    /// Takes the compressed content of a held block; `None`: it does not compress.
    pub fn compressed(&mut self, pool: &mut Pool, answers: &mut Answers, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) {
        if let Self::Log(log) = self {
            log.compressed(pool, answers, io, pbn, data);
        }
    }

    /// Notes that the open epoch has another new block, which may have made it a large one.
    pub fn epoch_has_grown(&mut self, pool: &mut Pool, answers: &mut Answers) {
        if let Self::Log(log) = self {
            log.release_large_epoch(pool, answers);
        }
    }

    /// Packs the held blocks of the open epoch, if there are enough of them.
    pub fn pack_if_large(&mut self, pool: &mut Pool, answers: &mut Answers) {
        if let Self::Log(log) = self {
            log.pack_if_large(pool, answers, pool.tables.open.number);
        }
    }

    /// Prepares the open epoch for a pack that was made in another one. Returns whether it takes the pack.
    pub fn takes_foreign_pack(&mut self, pool: &mut Pool, answers: &mut Answers) -> bool {
        match self {
            Self::Ordered(_) => false,
            Self::Log(log) => {
                log.release_epoch_of_packs(pool, answers);
                true
            }
        }
    }

    /// Whether the seal of the open epoch should wait for packs that are being made.
    fn waits_before_seal(&self, tables: &Tables, contents: &Contents) -> bool {
        matches!(self, Self::Log(log) if log.waits_for_packs(tables, contents))
    }

    /// Prepares the open epoch for its seal.
    fn before_seal(&mut self, pool: &mut Pool, answers: &mut Answers) {
        if let Self::Log(log) = self {
            log.pack_before_seal(pool, answers);
        }
    }

    /// The sequence of the last unit of a log.
    pub fn last_sequence(&self) -> u64 {
        match self {
            Self::Ordered(_) => 0,
            Self::Log(log) => log.last_sequence(),
        }
    }

    /// The most map pages on which an epoch with this many points may unmap ranges.
    fn clear_pages_max(&self, space: &Space, points: usize) -> u64 {
        match self {
            Self::Ordered(_) => u64::MAX,
            Self::Log(log) => log.clear_pages_max(space, points),
        }
    }

    /// Begins to commit the sealed epoch, which touches these map pages.
    fn begin_commit(&mut self, pool: &mut Pool, epoch: &mut EpochRecords, map: VecDeque<u64>) {
        match self {
            Self::Ordered(commit) => *commit = Some(ordered::Commit::new(pool, epoch, map)),
            Self::Log(log) => log.begin_commit(pool, epoch, map),
        }
    }

    /// Continues the commit.
    ///
    /// # Errors
    /// The operation that failed.
    #[inline(never)]
    pub fn write_epoch(&mut self, pool: &mut Pool, answers: &mut Answers) -> Progress {
        match self {
            Self::Ordered(Some(commit)) => commit.write_epoch(pool, &answers.ack_journal),
            Self::Ordered(None) => Ok(false),
            Self::Log(log) => log.write_epoch(pool, answers),
        }
    }

    /// Continues after a flush of the commit.
    ///
    /// # Errors
    /// The operation that failed.
    pub fn commit_flushed(&mut self, pool: &mut Pool, answers: &mut Answers) -> Progress {
        match self {
            Self::Ordered(Some(commit)) => commit.flushed(pool, &answers.ack_journal),
            Self::Ordered(None) => Ok(false),
            Self::Log(log) => log.commit_flushed(pool, answers),
        }
    }

    /// Notes that a write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        match self {
            Self::Ordered(commit) => commit.iter_mut().for_each(|commit| commit.content_arrived(io)),
            Self::Log(log) => log.content_arrived(io),
        }
    }

    /// Continues after a write of units at neighbouring places, among them these carriers. `is_good`: they are on the device.
    pub fn units_written(&mut self, pool: &mut Pool, units: usize, carriers: Vec<Pbn>, is_good: bool) {
        if let Self::Log(log) = self {
            log.units_written(pool, units, carriers, is_good);
        }
    }

    /// Notes that copies of records at neighbouring places are on the device.
    pub fn copies_written(&mut self, io: &mut Io, units: usize) {
        if let Self::Log(log) = self {
            log.copies_written(io, units);
        }
    }

    /// Notes that a page was written.
    pub fn page_written(&mut self, io: &mut Io, tables: &Tables, id: PageId, stamp: u64) {
        match self {
            Self::Ordered(commit) => commit.iter_mut().for_each(|commit| commit.page_written(id, stamp)),
            Self::Log(log) => log.page_written(io, id),
        }
        tables.commit_may_go_on(io);
    }

    /// Ends the commit of a durable epoch: answers the requests that wait for it, and passes on what may enter pages now.
    pub fn end_commit(&mut self, pool: &mut Pool, answers: &mut Answers) {
        let Some(mut epoch) = pool.tables.committing.take() else { return };
        pool.medium.epoch_is_durable(epoch.number);
        answers.anticipation.durable(pool.io.now());
        if answers.ack_journal.has_journal(&pool.settings) {
            let trace = self.trace();
            answers.ack_journal.promises_are_kept(&mut pool.io, &mut pool.space, epoch.number, trace);
        }
        for request in std::mem::take(&mut epoch.waiters) {
            pool.io.reply(request, Reply::Done);
        }
        match self {
            Self::Ordered(commit) => commit.take().into_iter().for_each(|commit| commit.end(&mut pool.settle, &mut epoch)),
            Self::Log(log) => log.end_commit(pool, &mut epoch),
        }
        pool.settle.unlink(epoch.cancelled);
        pool.tables.reuse(epoch.points);
        pool.io.schedule.push(Task::Settle);
    }

    /// The trace of the commit on the medium, by which the store is known.
    fn trace(&self) -> Option<Trace> {
        match self {
            Self::Ordered(commit) => commit.as_ref().and_then(ordered::Commit::trace),
            Self::Log(log) => log.trace(),
        }
    }

    /// The step of the commit in one word, for reports.
    pub fn phase(&self) -> Option<&'static str> {
        match self {
            Self::Ordered(commit) => commit.as_ref().map(ordered::Commit::phase),
            Self::Log(log) => log.phase(),
        }
    }

    /// Confirms committed epochs durably, so that pages can be written.
    pub fn confirm(&mut self, pool: &mut Pool) {
        if let Self::Log(log) = self {
            log.confirm(pool);
        }
    }

    /// Retries what waits for a free block.
    pub fn retry_starved(&mut self, io: &mut Io, tables: &mut Tables, space: &mut Space) {
        if let Self::Log(log) = self {
            log.retry_starved(io, tables, space);
        }
    }

    /// Blocks that have lost a link which counts until a later commit, once for each link.
    pub fn unlinked(&self) -> impl Iterator<Item = Pbn> + '_ {
        let log = if let Self::Log(log) = self { Some(log) } else { None };
        log.into_iter().flat_map(|log| log.unlinked())
    }

    /// Whether there are any.
    pub fn has_unlinked(&self) -> bool {
        matches!(self, Self::Log(log) if log.has_unlinked())
    }

    /// The number of these, for the account of memory.
    pub fn unlinked_records(&self) -> usize {
        if let Self::Log(log) = self { log.unlinked_records() } else { 0 }
    }

    /// The numbers of blocks that the scheme keeps for itself.
    pub fn blocks_kept(&self, space: &Space) -> Option<LogBlocks> {
        if let Self::Log(log) = self { Some(log.blocks_kept(space)) } else { None }
    }

    /// Whether a checkpoint is under way.
    pub fn has_checkpoint(&self) -> bool {
        matches!(self, Self::Log(log) if log.has_checkpoint())
    }

    /// Continues a checkpoint.
    ///
    /// # Errors
    /// The operation that failed.
    pub fn go_on_with_checkpoint(&mut self, pool: &mut Pool) -> Step {
        if let Self::Log(log) = self { log.go_on_with_checkpoint(pool) } else { Ok(Reached::Nothing) }
    }

    /// Continues after a flush of a checkpoint.
    pub fn checkpoint_flushed(&mut self, pool: &mut Pool) -> Reached {
        if let Self::Log(log) = self { log.checkpoint_flushed(pool) } else { Reached::Nothing }
    }

    /// Continues after an update of the superblock: a checkpoint's own, or one that it waited for.
    pub fn superblock_written(&mut self, pool: &mut Pool) -> Reached {
        if let Self::Log(log) = self { log.superblock_written(pool) } else { Reached::Nothing }
    }

    /// Begins what can free blocks before writers get ENOSPC. Returns whether it is under way.
    pub fn frees_blocks(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) -> bool {
        if let Self::Log(log) = self { log.checkpoint_frees_blocks(io, tables, space) } else { false }
    }

    /// Begins what has to happen before the volume closes. Returns whether it is under way.
    pub fn owes(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) -> bool {
        if let Self::Log(log) = self { log.checkpoint_empties_log(io, tables, space) } else { false }
    }

    /// Makes the result of a recount durable. Returns whether the recount was exact although commits continued, with all fingerprints
    /// known.
    pub fn recounted(&mut self, pool: &mut Pool) -> bool {
        match self {
            Self::Ordered(_) => pool.write_superblock(),
            Self::Log(log) => log.begin_checkpoint(&mut pool.io, &mut pool.tables, &pool.space),
        }
        matches!(self, Self::Log(_))
    }

    /// Writes the superblock again, for a change outside of the scheme. No update is under way.
    pub fn update_superblock(&mut self, pool: &mut Pool) {
        match self {
            Self::Ordered(_) => pool.write_superblock(),
            Self::Log(log) => log.update_superblock(pool),
        }
    }

    /// The place of a compacted unit, by its index, if there is one.
    pub fn compacted_unit(&self, index: usize) -> Option<Pbn> {
        if let Self::Log(log) = self { log.compacted_unit(index) } else { None }
    }

    /// The first flushed unit of the log with this sequence, or with a later one: its sequence and its place.
    pub fn flushed_unit(&self, sequence: u64) -> Option<(u64, Pbn)> {
        if let Self::Log(log) = self { log.flushed_unit(sequence) } else { None }
    }

    /// Whether an opening would read this unit of the log.
    pub fn needs_unit(&self, pbn: Pbn) -> bool {
        matches!(self, Self::Log(log) if log.needs_unit(pbn))
    }

    /// Has all records of the log written to their pages, so that no opening needs its units.
    pub fn empty_log(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) {
        if let Self::Log(log) = self {
            log.begin_checkpoint(io, tables, space);
        }
    }

    /// Begins to serve.
    pub fn serves(&mut self, pool: &mut Pool) {
        if let Self::Log(log) = self {
            log.checkpoint_if_due(pool);
        }
    }

    /// Prepares the superblock for the close of the volume.
    pub fn close_superblock(&self, tables: &mut Tables, medium: &mut Medium) {
        if let Self::Log(log) = self {
            log.close_superblock(tables, medium);
        }
    }
}
