//! The units of an epoch: composed when its records are known, written to the next places, and one flush behind them.
//!
//! 1. *Small epochs*: content and units go out together, in any order; what of the content is missing after a crash, its fingerprint shows (L5).
//!    *Large epochs*: content is flushed before the units are written, so that no recovery has to read all of it.
//! 2. Every unit says which unit was flushed last when it was composed, and names the places of those behind it.
//! 3. One epoch at a time (L10).

use super::Held;
use super::places::Reserved;
use super::records::effects_of;
use super::walk::runs;
use crate::commit::{FlushFor, Step};
use crate::engine::{Engine, IoFor};
use crate::format::record::{RECORD_BYTES_MAX, Record};
use crate::format::unit::{UnitHeader, UnitKind, UnitWriter};
use crate::interface::Class;
use crate::pages::Task;
use crate::units::{Pbn, count};
use std::collections::BTreeSet;

/// The most new blocks of a small epoch.
const SMALL_BLOCKS_MAX: usize = 64;
/// Places that are named and not used by the epoch itself, at the least (L9).
pub(super) const PLACES_LEFT_MIN: usize = 2;
/// Bytes that records take in a unit at the least, whatever else stands there.
pub(super) const UNIT_RECORD_BYTES: usize = 3600;
/// Bytes of one more run of old blocks in a record, at the most.
pub(super) const OLD_RUN_BYTES_MAX: usize = 12;

/// What belongs to the commit of an epoch in the log.
#[derive(Default)]
pub(crate) struct LogPart {
    pub records: Vec<Record>,
    /// Blocks born in it that no record names yet.
    pub newborn: BTreeSet<Pbn>,
    /// A unit is wanted, though there be no record.
    pub unit_wanted: bool,
    units_left: usize,
    /// The `flushed_upto` of its units.
    flushed_upto: u64,
    /// Its units were sent: how many.
    sent: usize,
    pub is_large: bool,
}

impl LogPart {
    /// Whether its units are on their way, or there.
    pub fn is_sent(&self) -> bool {
        self.sent > 0
    }

    /// Units that these records take at the most.
    fn units_max(&self) -> usize {
        let bytes: usize = self.records.iter().map(bytes_max).sum();
        bytes.div_ceil(UNIT_RECORD_BYTES).max(1)
    }

    pub fn new(newborn: BTreeSet<Pbn>, unit_wanted: bool) -> Self {
        Self { is_large: newborn.len() > SMALL_BLOCKS_MAX, newborn, unit_wanted, ..Self::default() }
    }
}

fn bytes_max(record: &Record) -> usize {
    let olds = match record {
        Record::Extent { olds, .. } | Record::Clear { olds, .. } => olds.len(),
        _ => 0,
    };
    RECORD_BYTES_MAX + olds * OLD_RUN_BYTES_MAX
}

impl Engine {
    /// All records are gathered.
    pub(crate) fn records_are_gathered(&mut self) {
        self.gather_rest();
        let commit = self.commit.as_mut().expect("a step belongs to a commit");
        if commit.log.records.is_empty() && !commit.log.unit_wanted {
            return self.epoch_is_durable();
        }
        commit.step = if commit.log.is_large { Step::Content } else { Step::Units };
        self.go_on_committing();
    }

    /// A large epoch's content is on its way: when it is there, it is flushed.
    pub(crate) fn step_large_content(&mut self) {
        let commit = self.commit.as_mut().expect("a step belongs to a commit");
        if commit.content_left == 0 {
            commit.step = Step::FlushOne;
            self.flush(FlushFor::CommitContent);
        }
    }

    /// Sends the units, and when they and the content are on the device, flushes.
    pub(crate) fn step_units(&mut self) {
        let commit = self.commit.as_ref().expect("a step belongs to a commit");
        if commit.log.sent == 0 {
            let units = commit.log.units_max();
            match self.reserve_places(units + PLACES_LEFT_MIN, Task::Commit) {
                Reserved::Enough => {}
                Reserved::Waits => return,
                Reserved::Lacks if self.has_last_places(units) => {}
                Reserved::Lacks => return self.starve(),
            }
            self.send_units();
        }
        let commit = self.commit.as_mut().expect("it is there");
        if commit.log.units_left == 0 && commit.content_left == 0 {
            commit.step = Step::FlushTwo;
            self.flush(FlushFor::CommitLinks);
        }
    }

    fn send_units(&mut self) {
        let (log, commit) = (self.log.as_mut().expect("units are the log's"), self.commit.as_mut().expect("it is there"));
        let mut records = std::mem::take(&mut commit.log.records);
        let mut rest = records.iter().cloned();
        let mut carried: Option<Record> = rest.next();
        let mut writers = Vec::new();
        loop {
            let mut writer = UnitWriter::new(runs(log.places.iter().skip(writers.len() + 1).copied()));
            while let Some(record) = carried.take() {
                carried = writer.push(record);
                if carried.is_some() {
                    break;
                }
                carried = rest.next();
            }
            writers.push(writer);
            if carried.is_none() {
                break;
            }
        }
        drop(rest);
        std::mem::swap(&mut commit.log.records, &mut records);
        commit.log.flushed_upto = log.flushed;
        let units = u32::try_from(writers.len()).expect("an epoch's units are bounded by memory");
        commit.log.units_left = writers.len();
        commit.log.sent = writers.len();
        let epoch = commit.epoch.number;
        let (incarnation, is_large) = (self.superblock.incarnation, commit.log.is_large);
        for (unit, writer) in (0..units).zip(writers) {
            let log = self.log.as_mut().expect("it is there");
            let pbn = log.places.pop_front().expect("places were reserved");
            let header = UnitHeader {
                kind: UnitKind::Log,
                incarnation,
                sequence: log.next,
                epoch,
                unit,
                units,
                flushed_upto: log.flushed,
                content_flushed: is_large,
            };
            let mut block = self.home.clone().take(1);
            let _ = writer.seal(&log.auth, &header, pbn, block.block_mut(0));
            log.walk.push_back((pbn, incarnation));
            log.next += 1;
            let at = self.geometry.block_at(pbn);
            self.write_out(IoFor::Unit, at, vec![block.freeze().slice(0, 1)], Class::Log);
        }
    }

    /// A unit is on the device.
    pub(crate) fn unit_written(&mut self) {
        if let Some(commit) = &mut self.commit {
            commit.log.units_left = commit.log.units_left.saturating_sub(1);
            self.ready.push_back(Task::Commit);
        }
        self.opening_unit_written();
    }

    /// The epoch is durable: its effects enter the pages, and what it unlinked is held.
    pub(crate) fn log_epoch_is_durable(&mut self, number: crate::units::Epoch, part: LogPart, removed: Vec<Pbn>) {
        if part.sent == 0 {
            return;
        }
        let log = self.log.as_mut().expect("it is the log's");
        log.flushed = log.next - 1;
        log.epoch = number;
        let sequence = log.flushed;
        self.release_held(part.flushed_upto);
        let mut unlinked = Vec::new();
        for record in &part.records {
            let mut effects = Vec::new();
            effects_of(record, &mut |effect| effects.push(effect));
            effects.iter().for_each(|effect| self.commit_effect(number, effect, &mut unlinked));
            match record {
                Record::New { pbn, .. } => self.end_fresh(*pbn, number.0),
                Record::Extent { pbn, olds, .. } => {
                    let blocks: u64 = olds.iter().map(|run| run.blocks).sum();
                    self.settle.born((0..blocks).map(|i| *pbn + i).collect(), number.0);
                }
                _ => {}
            }
        }
        if !unlinked.is_empty() {
            self.log.as_mut().expect("it is there").held.push_back(Held { sequence, unlinked, removed });
        }
        self.checkpoint_if_due();
    }

    /// Lets go of what units up to this sequence unlinked: it is durable that they were flushed (L6).
    pub(super) fn release_held(&mut self, flushed_upto: u64) {
        let log = self.log.as_mut().expect("only a log holds");
        while log.held.front().is_some_and(|held| held.sequence <= flushed_upto) {
            let Held { unlinked, removed, .. } = log.held.pop_front().expect("it was seen in front");
            self.reclaim.sent -= count(removed.len());
            self.settle.unlink(unlinked);
            removed.iter().for_each(|pbn| self.space.reclaimed(pbn.0 / crate::space::GRANULE_BLOCKS));
            self.ready.push_back(Task::Settle);
        }
    }
}
