//! Places of the coming units: free blocks, in runs where there are runs, chosen before they are needed.
//!
//! 1. A place is free in every sense (R4) and belongs to the log from here on; every unit names those behind it.
//! 2. They are at most 1/64 of the free blocks, but for those that the next epoch cannot do without.

use super::Log;
use super::limits::{OLD_RUN_BYTES_MAX, PLACES_LEFT_MIN, RECORDS_A_UNIT, UNIT_RECORD_BYTES};
use crate::format::page::Region;
use crate::format::places::{PLACES_BLOCKS_MAX, PLACES_MAX as RUNS_MAX, Places};
use crate::format::record::RECORD_BYTES_MAX;
use crate::schedule::{Blocked, Task};
use crate::store::Store;
use crate::tables::Epoch;
use crate::units::{Pbn, count, index};

/// The most places that are chosen beforehand.
const PLACES_MAX: u64 = 64;
/// One in so many free blocks.
pub(super) const PLACES_FRACTION: u64 = 64;
/// Units that the records of what is unmapped on one map page take at the most: where every other entry is unmapped, each is a record.
const CLEAR_UNITS_A_PAGE: u64 =
    (Region::Map.entries_per_page() / 2 * (RECORD_BYTES_MAX + OLD_RUN_BYTES_MAX) as u64).div_ceil(UNIT_RECORD_BYTES as u64);

/// What became of a wish for places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Enough,
    Waits,
    /// No free block is ready.
    Lacks,
}

impl Log {
    /// Makes sure of so many places. Where a page has to come first, the task is called.
    pub fn reserve_places(&mut self, store: &mut Store, least: usize, task: Task) -> Reserved {
        if self.places.len() >= least {
            return Reserved::Enough;
        }
        let wanted = least.max(index((store.space.census.free / PLACES_FRACTION).min(PLACES_MAX)));
        while self.places.len() < wanted {
            match store.take_free_block() {
                Ok(Some(pbn)) => self.add_place(store, pbn),
                Ok(None) => break,
                Err(page) => {
                    store.tables.wait(&mut store.io, page, task);
                    return Reserved::Waits;
                }
            }
        }
        if self.places.len() >= least { Reserved::Enough } else { Reserved::Lacks }
    }

    fn add_place(&mut self, store: &mut Store, pbn: Pbn) {
        store.space.joins_scheme(pbn);
        self.places.push_back(pbn);
    }

    /// Whether so many units may take what is kept for the worst: nothing that is under way frees a block, and one place is left behind
    /// them. A checkpoint then gives them back.
    pub(super) fn has_last_places(&self, units: usize) -> bool {
        self.checkpoint.is_none() && !self.keeps_blocks() && self.places.len() > units
    }

    /// A commit, or an opening, waits for a place: what the log keeps has to be given up.
    pub(super) fn starve(&mut self, store: &mut Store) {
        self.starves = Some(store.space.changes);
        self.begin_checkpoint(store);
        store.io.schedule.more_background = true;
    }

    /// Makes sure of places for the units of so many further records, before they are admitted (L9): sealed, they always find them. What is
    /// unmapped is put off where it does not fit.
    pub fn admit_records(&mut self, store: &mut Store, records: usize) -> Result<(), Blocked> {
        while self.room_for_records(store) < records {
            match store.take_free_block() {
                Ok(Some(pbn)) => self.add_place(store, pbn),
                Ok(None) => return Err(Blocked::Space),
                Err(page) => return Err(Blocked::Page(page)),
            }
        }
        Ok(())
    }

    /// Further records of the open epoch that find room in the units for which there are places.
    pub fn room_for_records(&self, store: &Store) -> usize {
        let is_unsent = self.commit.as_ref().is_some_and(|commit| !commit.is_sent());
        let committing = store.tables.committing.as_ref().filter(|_| is_unsent).map_or(0, Epoch::records);
        let units = self.places.len().saturating_sub(PLACES_LEFT_MIN);
        let units = units.saturating_sub(committing.div_ceil(RECORDS_A_UNIT));
        (units * RECORDS_A_UNIT).saturating_sub(store.tables.open.records())
    }

    /// The most map pages on which one epoch may unmap ranges: their records have to find places among those that there are, and half of
    /// the blocks that are free now. What does not fit comes with the next epoch, when checkpoints have given back the places of this one.
    pub fn clear_pages_max(&self, store: &Store, points: usize) -> u64 {
        let blocks = self.places.len() + index(store.space.census.free / 2);
        let units = blocks.saturating_sub(PLACES_LEFT_MIN + points.div_ceil(RECORDS_A_UNIT));
        (count(units) / CLEAR_UNITS_A_PAGE).max(1)
    }

    /// Goes on with what waits for a free block: looks for one, and tries again where something may have become free.
    pub fn feed(&mut self, store: &mut Store) {
        let Some(then) = self.starves else { return };
        let Store { io, tables, space, .. } = store;
        if space.preparing.is_none() && space.fruitless <= space.granules() {
            // Nobody else goes on looking, unless a writer waits too.
            space.prepare_free_blocks(io, tables);
            io.schedule.more_background = true;
        }
        if then != space.changes {
            self.starves = None;
            io.schedule.push(Task::Commit);
            io.schedule.push(Task::OpenLog);
        }
    }
}

/// Runs of these places, as a unit or an anchor names them: as many as they have room for.
pub(crate) fn runs(places: impl Iterator<Item = Pbn>) -> Vec<Places> {
    first_runs(places, RUNS_MAX)
}

/// Runs of these places, the first so many.
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
