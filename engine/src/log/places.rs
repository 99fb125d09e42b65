//! Places of the coming units: free blocks, in runs where there are runs, chosen before they are needed.
//!
//! 1. A place is free in every sense (R4) and belongs to the log from here on; every unit names those behind it.
//! 2. They are at most 1/64 of the free blocks, but for those that the next epoch cannot do without.

use super::units::{OLD_RUN_BYTES_MAX, PLACES_LEFT_MIN, UNIT_RECORD_BYTES};
use crate::engine::Engine;
use crate::format::page::Region;
use crate::format::record::RECORD_BYTES_MAX;
use crate::schedule::{Blocked, Task};
use crate::tables::Epoch;
use crate::units::{Pbn, count};

/// The most places that are chosen beforehand.
const PLACES_MAX: u64 = 64;
/// One in so many free blocks.
pub(super) const PLACES_FRACTION: u64 = 64;
/// Records that a unit takes at the least.
pub(super) const RECORDS_A_UNIT: usize = UNIT_RECORD_BYTES / RECORD_BYTES_MAX;

/// Units that the records of what is unmapped on one map page take at the most: where every other entry is unmapped, each is a record.
const CLEAR_UNITS_A_PAGE: u64 =
    (Region::Map.entries_per_page() / 2 * (RECORD_BYTES_MAX + OLD_RUN_BYTES_MAX) as u64).div_ceil(UNIT_RECORD_BYTES as u64);

/// What became of a wish for places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    Enough,
    Waits,
    /// No free block is ready.
    Lacks,
}

impl Engine {
    /// Makes sure of so many places. Where a page has to come first, the task is called.
    pub(super) fn reserve_places(&mut self, least: usize, task: Task) -> Reserved {
        let log = self.scheme.log.as_ref().expect("places are the log's");
        if log.places.len() >= least {
            return Reserved::Enough;
        }
        let wanted = least.max(crate::units::index((self.store.space.census.free / PLACES_FRACTION).min(PLACES_MAX)));
        while self.scheme.log.as_ref().expect("it is there").places.len() < wanted {
            match self.store.space.take_free_block(&mut self.store.io, &mut self.store.tables, &mut self.store.contents.cache) {
                Ok(Some(pbn)) => self.add_place(pbn),
                Ok(None) => break,
                Err(page) => {
                    self.store.tables.wait(&mut self.store.io, page, task);
                    return Reserved::Waits;
                }
            }
        }
        let enough = self.scheme.log.as_ref().expect("it is there").places.len() >= least;
        if enough { Reserved::Enough } else { Reserved::Lacks }
    }

    fn add_place(&mut self, pbn: Pbn) {
        self.store.space.joins_scheme(pbn);
        self.scheme.log.as_mut().expect("places are the log's").places.push_back(pbn);
    }

    /// Whether so many units may take what is kept for the worst: nothing that is under way frees a block, and one place is left behind them. A
    /// checkpoint then gives them back.
    pub(super) fn has_last_places(&self, units: usize) -> bool {
        let log = self.scheme.log.as_ref().expect("places are the log's");
        log.checkpoint.is_none() && !log.keeps_blocks() && log.places.len() > units
    }

    /// A commit, or an opening, waits for a place: what the log keeps has to be let go of.
    pub(super) fn starve(&mut self) {
        let changes = self.store.space.changes;
        self.scheme.log.as_mut().expect("only the log starves").starves = Some(changes);
        self.begin_checkpoint();
        self.store.io.schedule.more_background = true;
    }

    /// Makes sure of places for the units of so many further records, before they are admitted (L9): sealed, they always find them. What is unmapped
    /// is put off where it does not fit.
    pub(crate) fn admit_records(&mut self, records: usize) -> Result<(), Blocked> {
        while self.log_room() < records {
            match self.store.space.take_free_block(&mut self.store.io, &mut self.store.tables, &mut self.store.contents.cache) {
                Ok(Some(pbn)) => self.add_place(pbn),
                Ok(None) => return Err(Blocked::Space),
                Err(page) => return Err(Blocked::Page(page)),
            }
        }
        Ok(())
    }

    /// Further records of the open epoch that find room in the units for which there are places.
    pub(crate) fn log_room(&self) -> usize {
        let Some(log) = &self.scheme.log else { return usize::MAX };
        let committing = self
            .store
            .tables
            .committing
            .as_ref()
            .filter(|_| self.scheme.commit.as_ref().is_some_and(|commit| !commit.log.is_sent()))
            .map_or(0, Epoch::records);
        let units = log.places.len().saturating_sub(PLACES_LEFT_MIN);
        let units = units.saturating_sub(committing.div_ceil(RECORDS_A_UNIT));
        (units * RECORDS_A_UNIT).saturating_sub(self.store.tables.open.records())
    }

    /// The most map pages on which one epoch may unmap ranges: their records have to find places among those that there are, and half of the blocks
    /// that are free now. What does not fit comes with the next epoch, when checkpoints have given back the places of this one.
    pub(crate) fn clear_pages_max(&self, points: usize) -> u64 {
        let Some(log) = &self.scheme.log else { return u64::MAX };
        let blocks = log.places.len() + crate::units::index(self.store.space.census.free / 2);
        let units = blocks.saturating_sub(PLACES_LEFT_MIN + points.div_ceil(RECORDS_A_UNIT));
        (count(units) / CLEAR_UNITS_A_PAGE).max(1)
    }

    /// Goes on with what waits for a free block: looks for one, and tries again where something may have become free.
    pub(crate) fn feed_log(&mut self) {
        let starves = self.scheme.log.as_ref().is_some_and(|log| log.starves.is_some());
        if starves && self.store.space.preparing.is_none() && self.store.space.fruitless <= self.store.space.granules() {
            // Nobody else goes on looking, unless a writer waits too.
            self.store.space.prepare_free_blocks(&mut self.store.io, &mut self.store.tables);
            self.store.io.schedule.more_background = true;
        }
        let changes = self.store.space.changes;
        if self.scheme.log.as_ref().is_some_and(|log| log.starves.is_some_and(|then| then != changes)) {
            self.scheme.log.as_mut().expect("it was just there").starves = None;
            self.store.io.schedule.push(Task::Commit);
            self.store.io.schedule.push(Task::OpenLog);
        }
    }
}
