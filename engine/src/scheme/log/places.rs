//! Places of the coming units: free blocks, in runs where there are runs, chosen before they are needed.
//!
//! 1. A place is free in every sense (R4) and belongs to the log from then on; every unit names the places that follow it.
//! 2. They are at most 1/64 of the free blocks, but for those that the next epoch needs.

use super::Log;
use super::limits::{OLD_RUN_BYTES_MAX, PLACES_LEFT_MIN, RECORDS_A_UNIT, UNIT_RECORD_BYTES};
use crate::format::page::Region;
use crate::format::places::{PLACES_BLOCKS_MAX, PLACES_MAX as RUNS_MAX, Places};
use crate::format::record::RECORD_BYTES_MAX;
use crate::io::Io;
use crate::pool::Pool;
use crate::schedule::{Blocked, Task};
use crate::space::Space;
use crate::tables::{EpochRecords, Tables};
use crate::units::{Pbn, count, index};

/// The most places that are chosen in advance.
const PLACES_MAX: u64 = 64;
/// The number of places that are reserved together for the records of writes.
const TOGETHER: usize = 16;
/// One free block of this many becomes a place.
pub(super) const PLACES_FRACTION: u64 = 64;
/// The most units that the records of ranges unmapped on one map page take: where every other entry is unmapped, each is a record.
const CLEAR_UNITS_A_PAGE: u64 =
    (Region::Map.entries_per_page() / 2 * (RECORD_BYTES_MAX + OLD_RUN_BYTES_MAX) as u64).div_ceil(UNIT_RECORD_BYTES as u64);

/// The result of a request for places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Enough,
    Waits,
    /// No free block is ready.
    Lacks,
}

impl Log {
    /// Reserves at least this many places. Where a page has to be loaded first, the task is called.
    pub fn reserve_places(&mut self, pool: &mut Pool, least: usize, task: Task) -> Reserved {
        if self.places.len() >= least {
            return Reserved::Enough;
        }
        let wanted = least.max(index((pool.space.census.free / PLACES_FRACTION).min(PLACES_MAX)));
        while self.places.len() < wanted {
            match pool.take_free_block() {
                Ok(Some(pbn)) => self.add_place(&mut pool.space, pbn),
                Ok(None) => break,
                Err(page) => {
                    pool.tables.wait(&mut pool.io, page, task);
                    return Reserved::Waits;
                }
            }
        }
        if self.places.len() >= least { Reserved::Enough } else { Reserved::Lacks }
    }

    fn add_place(&mut self, space: &mut Space, pbn: Pbn) {
        space.joins_scheme(pbn);
        self.places.push_back(pbn);
    }

    /// Whether this many units may take the places that are kept for the worst case: nothing that is under way frees a block, and one place
    /// is left behind the units. A checkpoint then frees blocks.
    pub(super) fn has_last_places(&self, units: usize) -> bool {
        self.checkpoint.is_none() && !self.keeps_blocks() && self.places.len() > units
    }

    /// Notes that a commit, or an opening, waits for a place, and begins a checkpoint that frees blocks.
    pub(super) fn starve(&mut self, io: &mut Io, tables: &mut Tables, space: &Space) {
        self.starved_since = Some(space.changes());
        self.begin_checkpoint(io, tables, space);
        io.schedule.ask_for_background();
    }

    /// Reserves places for the units of this many further records, before they are admitted (L9): so they always find places when they are
    /// sealed. Ranges to be unmapped are put off where they do not fit.
    pub fn admit_records(&mut self, pool: &mut Pool, records: usize) -> Result<(), Blocked> {
        if self.room_for_records(&pool.tables) >= records {
            return Ok(());
        }
        // Several at a time, so that they lie together: each one alone would cut what is being written around it.
        let most = index(pool.space.census.free / PLACES_FRACTION).saturating_sub(self.places.len()).min(TOGETHER);
        let together = self.places.len() + most;
        loop {
            let has_room = self.room_for_records(&pool.tables) >= records;
            if has_room && self.places.len() >= together {
                return Ok(());
            }
            match pool.take_free_block() {
                Ok(Some(pbn)) => self.add_place(&mut pool.space, pbn),
                _ if has_room => return Ok(()),
                Ok(None) => return Err(Blocked::Space),
                Err(page) => return Err(Blocked::Page(page)),
            }
        }
    }

    /// The number of further records of the open epoch for which units at the reserved places have room.
    pub fn room_for_records(&self, tables: &Tables) -> usize {
        let is_unsent = self.commit.as_ref().is_some_and(|commit| !commit.is_sent());
        let committing = tables.committing.as_ref().filter(|_| is_unsent).map_or(0, EpochRecords::records);
        let units = self.places.len().saturating_sub(PLACES_LEFT_MIN);
        let units = units.saturating_sub(committing.div_ceil(RECORDS_A_UNIT));
        (units * RECORDS_A_UNIT).saturating_sub(tables.open.records())
    }

    /// The most map pages on which one epoch may unmap ranges: their records have to fit the places that there are, and half of the free
    /// blocks. The rest comes with the next epoch, when checkpoints have freed the places of this one.
    pub fn clear_pages_max(&self, space: &Space, points: usize) -> u64 {
        let blocks = self.places.len() + index(space.census.free / 2);
        let units = blocks.saturating_sub(PLACES_LEFT_MIN + points.div_ceil(RECORDS_A_UNIT));
        (count(units) / CLEAR_UNITS_A_PAGE).max(1)
    }

    /// Looks for a free block if the log waits for one, and retries where a block may have become free.
    pub fn retry_starved(&mut self, io: &mut Io, tables: &mut Tables, space: &mut Space) {
        if let Some(since) = self.starved_since {
            self.retry(io, tables, space, since);
        }
    }

    #[cold]
    fn retry(&mut self, io: &mut Io, tables: &mut Tables, space: &mut Space, then: u64) {
        if !space.search_waits() && space.is_searching() {
            // Nothing else continues the search, unless a writer waits too.
            space.prepare_free_blocks(io, tables);
            io.schedule.ask_for_background();
        }
        if then != space.changes() {
            self.starved_since = None;
            io.schedule.push(Task::Commit);
            io.schedule.push(Task::OpenLog);
        }
    }
}

/// Runs of these places, as a unit or a log tail names them: as many as they have room for.
pub(crate) fn runs(places: impl Iterator<Item = Pbn>) -> Vec<Places> {
    first_runs(places, RUNS_MAX)
}

/// The first `most` runs of these places.
pub(super) fn first_runs(places: impl Iterator<Item = Pbn>, most: usize) -> Vec<Places> {
    let mut runs: Vec<Places> = Vec::new();
    for pbn in places {
        if let Some(run) = runs.last_mut().filter(|run| run.end() == pbn && run.blocks < PLACES_BLOCKS_MAX) {
            run.blocks += 1;
        } else if runs.len() < most {
            runs.push(Places { first: pbn, blocks: 1 });
        } else {
            break;
        }
    }
    runs
}
