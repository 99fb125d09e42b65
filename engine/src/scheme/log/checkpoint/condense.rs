//! Condensing: what the units of a long walk say, but for the newest ones, is copied, in order, into few units, and the walk begins behind
//! it.
//!
//! 1. Synced single writes make a unit each, with one record or two; a condensed unit holds hundreds. So the walk stays short, and no page
//!    of map or refs has to be written for that: a checkpoint comes when memory asks for one.
//! 2. **Copies**, and the pages of fingerprints that the copied records touch: blocks are taken in order, so these are few, and neither the
//!    copies nor memory have to hold fingerprints any more. *Flush*. **Bits** of such pages, as in a checkpoint. **Superblock** that names
//!    the copies, with the anchor behind what was copied; *flush*. Units that were copied are let go of as after a checkpoint; carriers are
//!    ordinary data from then on.
//! 3. Copied is what is live: records as replay applied them, each with its own epoch. So what a recovery dropped is left out, and pages
//!    take from a copy what they would take from the unit.
//! 4. The cut is the end of a flushed epoch. What was condensed is not copied again; a checkpoint makes all of it needless.
//! 5. Where it would not save half of the units, or there is no free block beyond the reserve, it is not made. Checkpoints need none.
//! 6. It is a checkpoint itself, as far as one at a time is concerned.

use crate::format::anchor::{CONDENSED_RUNS_MAX, Condensed};
use crate::format::record::{LATER_BYTES_MAX, RECORD_BYTES_MAX, Record};
use crate::format::unit::{UNIT_ROOM_BYTES, UnitWriter};
use crate::io::Stage;
use crate::memory::Part;
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::scheme::log::checkpointing::{At, Checkpoint};
use crate::scheme::log::copies::{Copies, Segments};
use crate::scheme::log::places::{PLACES_FRACTION, first_runs};
use crate::scheme::log::records::record_of;
use crate::scheme::parts::{Reached, Step};
use crate::store::Store;
use crate::tables::Live;
use crate::units::{BLOCK_BYTES, Epoch, count, index};

/// The most units that one condensing writes.
const SEGMENT_UNITS_MAX: u64 = 64;
/// The share of the memory for records that the copies take while they are made.
const SEGMENT_MEMORY_FRACTION: u64 = 16;
/// One in so many units of the walk stays: the newest ones.
const KEPT_FRACTION: usize = 8;
/// The least units that are copied into one.
const GAIN_MIN: usize = 2;
/// Blocks that are chosen for copies at once, so that they lie side by side, if there are so many.
const RESERVE_UNITS_MAX: u64 = 64;
/// The most bytes of a copy, with the step to its epoch.
const COPY_BYTES_MAX: usize = LATER_BYTES_MAX + RECORD_BYTES_MAX;

impl Log {
    /// The last unit of this epoch, or of the last one before it that has any.
    fn cut_behind(&self, epoch: Epoch) -> Option<(u64, Epoch)> {
        let units = self.walk.partition_point(|unit| unit.epoch <= epoch);
        let last = self.walk.get(units.checked_sub(1)?)?;
        let sequence = self.first() + count(units) - 1;
        (sequence <= self.flushed).then_some((sequence, last.epoch))
    }

    /// The copies of all but the newest units, or as far as so many units take them; none where that saves too little.
    fn copies(&self, live: &Live, units_max: u64) -> Option<Checkpoint> {
        let before = |epoch: Epoch| self.cut_behind(Epoch(epoch.get() - 1));
        let newest = self.walk.len() / KEPT_FRACTION + 1;
        let (mut cut, mut epoch) = before(self.walk.get(self.walk.len().checked_sub(newest)?)?.epoch)?;
        let most = units_max * (count(UNIT_ROOM_BYTES) / count(COPY_BYTES_MAX));
        if let Some((first_left, _)) = live.uncondensed().take_while(|(of, _)| *of <= epoch).nth(index(most)) {
            // Of this epoch not all finds room.
            (cut, epoch) = before(first_left)?;
        }
        let mut units: Vec<(Epoch, UnitWriter)> = Vec::new();
        let mut last = Epoch(0);
        for (of, piece) in live.uncondensed().take_while(|(of, _)| *of <= epoch) {
            push(&mut units, last, of, record_of(&piece)?);
            last = of;
        }
        if units.is_empty() {
            // Nothing of it is live. Segments follow each other all the same.
            units.push((epoch, UnitWriter::new(Vec::new())));
        }
        let passed = index(cut + 1 - self.first());
        let is_worth_it = units.len() * GAIN_MIN <= passed;
        let copies = Copies { units, places: Vec::new(), blocks_left: 0 };
        is_worth_it.then(|| Checkpoint::new(epoch, cut, live.name_pages(epoch).collect(), Some(copies)))
    }
}

/// Adds a copy to the last of the units, or to another one; `last` is the epoch of the copy before.
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
    /// Begins one where the walk is long.
    pub(super) fn condense_if_due(&mut self, store: &mut Store) {
        let beyond = index(store.settings.condense_beyond).max(self.segments.again);
        if self.walk.len() <= beyond || self.checkpoint.is_some() || store.io.stage != Stage::Serving || store.io.failed {
            return;
        }
        let units_max = (store.memory.accountant.limit(Part::Log) / SEGMENT_MEMORY_FRACTION / BLOCK_BYTES).clamp(1, SEGMENT_UNITS_MAX);
        let condensing = self.copies(&store.tables.committed().records, units_max);
        self.segments.again = self.walk.len() + self.walk.len() / 8;
        if condensing.is_some() {
            self.checkpoint = condensing;
            store.io.schedule.push(Task::Checkpoint);
        }
    }

    /// Chooses free blocks for the copies, none but such as are free beyond the reserve: clients may want those.
    pub(super) fn choose_places_of_copies(&mut self, mut checkpoint: Checkpoint, store: &mut Store) -> Step {
        let Some(copies) = &mut checkpoint.copies else { return Ok(Reached::Nothing) };
        let needed = copies.units.len();
        let ahead = index((store.space.census.free / PLACES_FRACTION).min(RESERVE_UNITS_MAX));
        let reserve = &mut self.segments.reserve;
        let wanted = if reserve.len() < needed { needed.max(ahead) } else { needed };
        while reserve.len() < wanted && store.space.census.free > store.geometry.reserve_blocks {
            match store.take_free_block() {
                Ok(Some(pbn)) => {
                    store.space.joins_scheme(pbn);
                    reserve.push_back(pbn);
                }
                Ok(None) => break,
                Err(page) => {
                    store.tables.wait(&mut store.io, page, Task::Checkpoint);
                    return Ok(self.wait(checkpoint));
                }
            }
        }
        let taken = needed.min(reserve.len());
        let all = self.segments.places.iter().chain(reserve.iter().take(taken)).copied();
        let named: usize = first_runs(all, CONDENSED_RUNS_MAX).iter().map(|run| usize::from(run.blocks)).sum();
        if taken < needed || named < self.segments.places.len() + needed {
            return Ok(self.go_on_behind_checkpoint(store));
        }
        copies.places = reserve.drain(..needed).collect();
        copies.send(store, checkpoint.sequence, self.next - count(self.walk.len()) - 1);
        checkpoint.at = At::Pages;
        self.checkpoint_pages(checkpoint, store)
    }

    /// Copies at neighbouring places are on the device.
    pub fn copies_written(&mut self, store: &mut Store, units: usize) {
        if let Some(copies) = self.checkpoint.as_mut().and_then(|checkpoint| checkpoint.copies.as_mut()).filter(|_| !store.io.failed) {
            copies.blocks_left -= units;
            store.io.schedule.push(Task::Checkpoint);
        }
    }

    /// What is condensed once the superblock of a checkpoint is durable: with its copies, or, where it has none, nothing.
    pub(super) fn condensed_by(&self, copies: Option<&Copies>) -> Condensed {
        let Some(copies) = copies else { return Condensed::default() };
        let Segments { since, places, .. } = &self.segments;
        let since = if places.is_empty() { self.first() - 1 } else { *since };
        Condensed { since, places: first_runs(places.iter().chain(&copies.places).copied(), CONDENSED_RUNS_MAX) }
    }
}
