//! Condensing: what the older half of a long walk says is copied, in order, into few units, and the walk begins behind it.
//!
//! 1. Synced single writes make a unit each, with one record or two; a condensed unit holds hundreds. So the walk stays short, and no page has to be
//!    written for that: a checkpoint comes when memory asks for one.
//! 2. **Units** with the copies; *flush*. **Superblock** that names them, with the anchor behind what was copied; *flush*. Units that were copied
//!    are let go of as after a checkpoint; carriers are ordinary data from then on, and their entries are among what was copied.
//! 3. Copied is what is live: records as replay applied them, each with its own epoch. So what a recovery dropped is left out, and pages take from a
//!    copy what they would take from the unit.
//! 4. The cut is the end of a flushed epoch. What was condensed is not copied again; a checkpoint makes all of it needless.
//! 5. Where it would not save half of the units, or there is no free block beyond the reserve, it is not made. Checkpoints need none.
//! 6. Neither a checkpoint nor another condensing is under way meanwhile.

use super::Log;
use super::places::PLACES_FRACTION;
use super::records::record_of;
use super::walk::first_runs;
use crate::commit::{FlushFor, Stage};
use crate::engine::{Engine, IoFor};
use crate::format::anchor::{CONDENSED_RUNS_MAX, Condensed};
use crate::format::record::{LATER_BYTES_MAX, RECORD_BYTES_MAX, Record};
use crate::format::unit::{UNIT_ROOM_BYTES, UnitHeader, UnitKind, UnitWriter};
use crate::interface::Class;
use crate::memory::Part;
use crate::pages::Task;
use crate::units::{BLOCK_BYTES, Epoch, Pbn, count, index};
use std::collections::VecDeque;

/// The most units that one condensing writes.
const SEGMENT_UNITS_MAX: u64 = 64;
/// The share of the memory for records that the copies take while they are made.
const SEGMENT_MEMORY_FRACTION: u64 = 16;
/// The least units that are copied into one.
const GAIN_MIN: usize = 2;
/// Blocks that are chosen for copies at once, so that they lie side by side, if there are so many.
const RESERVE_UNITS_MAX: u64 = 64;

/// What is condensed, and where.
#[derive(Default)]
pub(super) struct Segments {
    /// The last unit before what was copied; 0 where nothing was.
    since: u64,
    /// Where the copies lie, in order.
    pub places: Vec<Pbn>,
    /// Places of the coming ones.
    pub reserve: VecDeque<Pbn>,
    /// So long a walk is to be condensed next: before, it would not have been worth it.
    again: usize,
}

impl Segments {
    /// As an anchor has named them.
    pub fn read(since: u64, places: Vec<Pbn>) -> Self {
        Self { since, places, ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Places,
    Units,
    UnitsFlush,
    /// Another update of the superblock is under way.
    SuperblockDue,
    Superblock,
}

/// A condensing under way.
pub(super) struct Condensing {
    at: At,
    /// The last unit that is copied, and its epoch.
    cut: u64,
    epoch: Epoch,
    /// The copies, each with the epoch of its first record, until they are sent.
    units: Vec<(Epoch, UnitWriter)>,
    places: Vec<Pbn>,
    writes_left: usize,
}

impl Log {
    /// The last unit of this epoch, or of the last one before it that has any.
    fn cut_behind(&self, epoch: Epoch) -> Option<(u64, Epoch)> {
        let units = self.walk.partition_point(|unit| unit.epoch <= epoch);
        let last = self.walk.get(units.checked_sub(1)?)?;
        let sequence = self.first() + count(units) - 1;
        (sequence <= self.flushed).then_some((sequence, last.epoch))
    }

    /// The copies up to the middle of the walk, or as far as so many units take them; none where that saves too little.
    fn copies(&self, units_max: u64) -> Option<Condensing> {
        let before = |epoch: Epoch| self.cut_behind(Epoch(epoch.get() - 1));
        let (mut cut, mut epoch) = before(self.walk.get(self.walk.len() / 2)?.epoch)?;
        let most = units_max * count(UNIT_ROOM_BYTES) / count(LATER_BYTES_MAX + RECORD_BYTES_MAX) - units_max;
        if let Some((first_left, _)) = self.live.uncondensed().take_while(|(of, _)| *of <= epoch).nth(index(most)) {
            // Of this epoch not all finds room.
            (cut, epoch) = before(first_left)?;
        }
        let mut units: Vec<(Epoch, UnitWriter)> = Vec::new();
        let mut last = Epoch(0);
        for (of, piece) in self.live.uncondensed().take_while(|(of, _)| *of <= epoch) {
            push(&mut units, last, of, record_of(&piece));
            last = of;
        }
        if units.is_empty() {
            // Nothing of it is live. Segments follow each other all the same.
            units.push((epoch, UnitWriter::new(Vec::new())));
        }
        let passed = index(cut + 1 - self.first());
        (units.len() * GAIN_MIN <= passed).then(|| Condensing { at: At::Places, cut, epoch, units, places: Vec::new(), writes_left: 0 })
    }
}

/// Adds a copy to the last of the units, or to another one; `last` is the epoch of the copy before.
fn push(units: &mut Vec<(Epoch, UnitWriter)>, last: Epoch, epoch: Epoch, record: Record) {
    let needs = LATER_BYTES_MAX + RECORD_BYTES_MAX;
    if units.last().is_none_or(|(_, writer)| writer.room_left() < needs) {
        units.push((epoch, UnitWriter::new(Vec::new())));
    } else if epoch > last {
        let (_, writer) = units.last_mut().expect("it was seen");
        let rest = writer.push(Record::Later { epochs: epoch - last });
        debug_assert!(rest.is_none(), "there was room");
    }
    let (_, writer) = units.last_mut().expect("there is one");
    let rest = writer.push(record);
    assert!(rest.is_none(), "a record of one part has a limit");
}

impl Engine {
    /// Begins one where the walk is long.
    pub(super) fn condense_if_due(&mut self) {
        let log = self.log.as_ref().expect("condensing is the log's");
        let beyond = index(self.settings.condense_beyond).max(log.segments.again);
        let is_idle = log.checkpoint.is_none() && log.condensing.is_none() && self.stage == Stage::Serving;
        if log.walk.len() <= beyond || !is_idle || self.failed {
            return;
        }
        let units_max = (self.accountant.limit(Part::Log) / SEGMENT_MEMORY_FRACTION / BLOCK_BYTES).clamp(1, SEGMENT_UNITS_MAX);
        let copies = log.copies(units_max);
        let log = self.log.as_mut().expect("it was just there");
        log.segments.again = log.walk.len() + log.walk.len() / 8;
        if copies.is_some() {
            log.condensing = copies;
            self.go_on_condensing();
        }
    }

    pub(crate) fn go_on_condensing(&mut self) {
        let at = self.log.as_ref().and_then(|log| log.condensing.as_ref()).map(|condensing| condensing.at);
        match at {
            _ if self.failed => {}
            Some(At::Places) => self.condensing_places(),
            Some(At::SuperblockDue) => self.condensing_superblock(),
            _ => {}
        }
    }

    fn condensing(&mut self) -> &mut Condensing {
        self.log.as_mut().and_then(|log| log.condensing.as_mut()).expect("a step belongs to a condensing")
    }

    /// Chooses free blocks for the copies. No other ones than are free beyond the reserve: clients may want those.
    fn condensing_places(&mut self) {
        let needed = self.condensing().units.len();
        let wanted = needed.max(index((self.space.census.free / PLACES_FRACTION).min(RESERVE_UNITS_MAX)));
        let mut held = self.log.as_ref().expect("it is there").segments.reserve.len();
        if held < needed {
            while held < wanted && self.space.census.free > self.geometry.reserve_blocks {
                match self.take_free_block() {
                    Ok(Some(pbn)) => {
                        self.joins_log(pbn);
                        self.log.as_mut().expect("it is there").segments.reserve.push_back(pbn);
                        held += 1;
                    }
                    Ok(None) => break,
                    Err(page) => return self.wait(page, Task::Condense),
                }
            }
        }
        if held < needed {
            return self.end_condensing(false);
        }
        let log = self.log.as_mut().expect("it is there");
        let places: Vec<Pbn> = log.segments.reserve.drain(..needed).collect();
        let all = log.segments.places.iter().chain(&places).copied();
        let named: usize = first_runs(all, CONDENSED_RUNS_MAX).iter().map(|run| usize::from(run.blocks)).sum();
        let has_room = named == log.segments.places.len() + needed;
        self.condensing().places = places;
        if has_room { self.send_copies() } else { self.end_condensing(false) }
    }

    fn send_copies(&mut self) {
        let (incarnation, log) = (self.superblock.incarnation, self.log.as_mut().expect("it is there"));
        let before = log.first() - 1;
        let condensing = log.condensing.as_mut().expect("a step belongs to a condensing");
        condensing.at = At::Units;
        let cut = condensing.cut;
        let (writers, places) = (std::mem::take(&mut condensing.units), condensing.places.clone());
        let units = u32::try_from(writers.len()).expect("a segment is short");
        condensing.writes_left = writers.len();
        for (((epoch, writer), pbn), unit) in writers.into_iter().zip(places).zip(0..) {
            let kind = UnitKind::Condensed;
            let header = UnitHeader { kind, incarnation, sequence: cut, epoch, unit, units, flushed_upto: before, content_flushed: false };
            self.ledger.units.filled(kind, &writer);
            let mut block = self.home.clone().take(1);
            let _ = writer.seal(&self.authenticator, &header, pbn, block.block_mut(0));
            let at = self.geometry.block_at(pbn);
            self.write_out(IoFor::CondensedUnit, at, vec![block.freeze().slice(0, 1)], Class::Log);
        }
    }

    pub(crate) fn condensed_unit_written(&mut self) {
        if self.failed {
            return;
        }
        let condensing = self.condensing();
        condensing.writes_left -= 1;
        if condensing.writes_left == 0 {
            condensing.at = At::UnitsFlush;
            self.flush(FlushFor::Condensing);
        }
    }

    pub(crate) fn condensing_flushed(&mut self) {
        if !self.failed {
            self.condensing_superblock();
        }
    }

    fn condensing_superblock(&mut self) {
        if self.superblock_busy {
            self.condensing().at = At::SuperblockDue;
            return;
        }
        self.condensing().at = At::Superblock;
        let log = self.log.as_mut().expect("it is there");
        let before = log.first() - 1;
        let condensing = log.condensing.as_ref().expect("a step belongs to a condensing");
        let (cut, epoch) = (condensing.cut, condensing.epoch);
        if log.segments.places.is_empty() {
            log.segments.since = before;
        }
        log.segments.places.extend(&condensing.places);
        let places = first_runs(log.segments.places.iter().copied(), CONDENSED_RUNS_MAX);
        let condensed = Condensed { since: log.segments.since, places };
        self.superblock.anchor = Some(self.anchor_behind(cut, epoch, condensed));
        self.superblock.last_log_sequence = self.log.as_ref().expect("it is there").next - 1;
        self.write_superblock();
    }

    /// A superblock update is over: perhaps the condensing's, perhaps one that it waited for.
    pub(crate) fn condensing_after_superblock(&mut self) {
        let Some(at) = self.log.as_ref().and_then(|log| log.condensing.as_ref()).map(|condensing| condensing.at) else { return };
        match at {
            At::SuperblockDue => self.ready.push_back(Task::Condense),
            At::Superblock if !self.failed => self.end_condensing(true),
            _ => {}
        }
    }

    /// It is over: the anchor lies behind what was copied, or it was not made.
    fn end_condensing(&mut self, is_made: bool) {
        let log = self.log.as_mut().expect("it is there");
        let Condensing { cut, epoch, places, .. } = log.condensing.take().expect("it is the condensing's end");
        if is_made {
            log.segments.again = 0;
            log.live.condensed_upto(epoch);
            self.anchor_has_moved(cut, Vec::new());
        } else {
            log.segments.reserve.extend(places);
        }
        let log = self.log.as_mut().expect("it is there");
        if std::mem::take(&mut log.checkpoint_is_next) {
            self.begin_checkpoint();
        }
        if self.log.as_ref().is_some_and(|log| log.checkpoint.is_none()) {
            self.after_checkpoint();
        }
    }
}
