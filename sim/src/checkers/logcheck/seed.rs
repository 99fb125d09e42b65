//! Reading the log from a device on which nothing is undecided, as the next opening would: the checker's initial state.

use super::model::Model;
use super::records::{Change, changes_of, entry_of_carrier};
use super::{BlockUse, LogChecker, UnitAt, View};
use crate::device::disk::SimDisk;
use crate::device::volume::Volume;
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::{LogTail, MapEntry, Places, Record, Superblock, Unit, UnitKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Lists the blocks of some runs, in order.
pub(super) fn each(places: &[Places]) -> impl Iterator<Item = u64> + '_ {
    places.iter().flat_map(|run| run.pbns()).map(|pbn| pbn.get())
}

/// The units that a log scan finds, and the places after them.
struct LogScan {
    units: Vec<(u64, Rc<Unit>)>,
    places: Vec<u64>,
}

/// Returns what a place holds with certainty.
fn at<'a>(volume: &Volume, disk: &'a SimDisk, pbn: u64) -> &'a Shared {
    disk.cell(volume.block_of(pbn)).durable()
}

fn scan_log(volume: &Volume, disk: &SimDisk, log_tail: &LogTail) -> LogScan {
    let mut named: BTreeMap<u64, u64> = (log_tail.sequence..).zip(each(&log_tail.places)).collect();
    let (mut units, mut next, mut incarnation) = (Vec::new(), log_tail.sequence, log_tail.incarnation);
    while let Some(&pbn) = named.get(&next) {
        let barrier = log_tail.barrier.filter(|barrier| next > barrier.sequence).map_or(0, |barrier| barrier.incarnation);
        let least = incarnation.max(barrier);
        let fits = |unit: &Rc<Unit>| {
            let header = &unit.header;
            header.kind == UnitKind::Log && header.sequence == next && header.incarnation >= least
        };
        let Some(unit) = volume.unit(pbn, at(volume, disk, pbn)).filter(fits) else { break };
        incarnation = unit.header.incarnation;
        // After a crash a unit may name other places than the earlier ones, and fewer.
        named.split_off(&(next + 1));
        named.extend((next + 1..).zip(each(&unit.places)));
        units.push((pbn, unit));
        next += 1;
    }
    // An epoch whose units are not all there does not count.
    while units.last().is_some_and(|(_, unit)| unit.header.unit + 1 < unit.header.units) {
        units.pop();
        next -= 1;
    }
    LogScan { units, places: named.range(next..).map(|(_, &pbn)| pbn).collect() }
}

/// Returns the changes of the units, each epoch by its last unit: dropped records are left out, and later ones are corrected (L5).
fn replay(units: &[(u64, Rc<Unit>)]) -> Vec<(u64, u64, Vec<Change>)> {
    let mut dropped: FxHashMap<u64, Vec<Range<u64>>> = FxHashMap::default();
    for (_, unit) in units {
        for record in &unit.records {
            if let Record::Closing { first, lost } = record {
                lost.iter().for_each(|pbn| dropped.entry(pbn.get()).or_default().push(*first..unit.header.sequence));
            }
        }
    }
    let is_dropped = |sequence: u64, record: &Record| match record {
        Record::New { pbn, .. } | Record::Link { to: MapEntry::Block { pbn, .. }, .. } => {
            dropped.get(&pbn.get()).is_some_and(|units| units.iter().any(|units| units.contains(&sequence)))
        }
        _ => false,
    };
    let mut former: FxHashMap<u64, Option<u64>> = FxHashMap::default();
    let mut epochs = Vec::new();
    let mut changes = Vec::new();
    for (pbn, unit) in units {
        changes.extend(entry_of_carrier(*pbn, unit));
        for record in &unit.records {
            let is_dropped = is_dropped(unit.header.sequence, record);
            for change in changes_of(record) {
                match change {
                    Change::Link { lbn, old, .. } if is_dropped => {
                        former.entry(lbn).or_insert(old);
                    }
                    _ if is_dropped => {}
                    Change::Link { lbn, to, old } => {
                        let old = former.remove(&lbn).unwrap_or(old);
                        changes.push(Change::Link { lbn, to, old });
                    }
                    other => changes.push(other),
                }
            }
        }
        if unit.header.unit + 1 == unit.header.units {
            epochs.push((unit.header.sequence, unit.header.epoch.get(), std::mem::take(&mut changes)));
        }
    }
    epochs
}

impl LogChecker {
    /// Reads the initial state from a device on which nothing is undecided. Returns none if the volume has no log.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn new(volume: Rc<Volume>, view: View) -> Result<Option<Self>, Violation> {
        let disk = view.disk;
        let superblock = volume.newest_superblock(|block| disk.cell(block).durable());
        let Some(superblock) = superblock.filter(|s| s.is_log_live()) else { return Ok(None) };
        let Some(log_tail) = &superblock.log_tail else { return Ok(None) };
        let model = Model::read(volume.clone(), disk)?;
        let mut checker = Self::empty(volume.clone(), model, superblock.garbage_possible);
        checker.durable = (log_tail.epoch.get(), log_tail.sequence - 1);
        checker.generation = superblock.generation;
        checker.read_compacted(log_tail, disk)?;
        checker.read_log(&superblock, log_tail, disk)?;
        checker.model.count_links(superblock.garbage_possible)?;
        checker.find_pages_without_bits(disk);
        checker.read_superblocks(disk)?;
        checker.check_older_pair(disk)?;
        view.oracle.not_zero().into_iter().try_for_each(|lbn| checker.floor_raised(lbn, view))?;
        Ok(Some(checker))
    }

    fn read_compacted(&mut self, log_tail: &LogTail, disk: &SimDisk) -> Result<(), Violation> {
        self.ends.insert(log_tail.sequence - 1, log_tail.epoch.get());
        for (i, pbn) in each(&log_tail.compacted.places).enumerate() {
            let content = at(&self.volume, disk, pbn);
            let unit = self.volume.unit(pbn, content).filter(|unit| unit.header.kind == UnitKind::Compacted);
            let Some(unit) = unit else {
                return Err(violation!("L2: compacted unit {i}, at PBN {pbn}, is not there"));
            };
            if i == 0 {
                // All that it copies is newer.
                self.ends.insert(log_tail.compacted.since, unit.header.epoch.get() - 1);
            }
            for (epoch, change) in compacted_changes(&unit) {
                self.must_have(&change)?;
                self.model.apply(epoch, &change)?;
            }
            self.copies_known.insert(pbn, content.id());
        }
        Ok(())
    }

    fn read_log(&mut self, superblock: &Superblock, log_tail: &LogTail, disk: &SimDisk) -> Result<(), Violation> {
        let LogScan { units, places } = scan_log(&self.volume, disk, log_tail);
        for (sequence, epoch, changes) in replay(&units) {
            for change in &changes {
                self.must_have(change)?;
                self.model.apply(epoch, change)?;
            }
            self.durable = (epoch, sequence);
            self.ends.insert(sequence, epoch);
            self.history.insert(sequence, (epoch, changes));
        }
        let reported = units.iter().map(|(_, unit)| unit.header.flushed_upto).max().unwrap_or(0);
        self.reported_by_units = reported;
        self.free_held(reported);
        self.model.begin_epoch();
        // The blocks that an epoch of this opening unlinked are held; those unlinked before are not.
        let own = units.last().filter(|(_, unit)| unit.header.incarnation == superblock.incarnation);
        if let (Some(_), Some((&sequence, (_, changes)))) = (own, self.history.last_key_value()) {
            let changes = changes.clone();
            self.hold(sequence, &changes);
        }
        self.next = self.durable.1 + 1;
        for (pbn, unit) in units {
            self.add_unit(UnitAt { pbn, sequence: unit.header.sequence, incarnation: unit.header.incarnation });
        }
        places.into_iter().for_each(|pbn| self.add_place(pbn));
        Ok(())
    }

    /// Finds the pages that were written and have no bit: from now on there may be no others that no live record changes (L8).
    fn find_pages_without_bits(&mut self, disk: &SimDisk) {
        for block in 0..disk.blocks() {
            if let BlockUse::Page(id) = self.volume.place(block) {
                self.note_bit(id, disk);
            }
        }
    }

    /// Checks that the older pair of copies leads to the same end.
    fn check_older_pair(&mut self, disk: &SimDisk) -> Result<(), Violation> {
        let first = self.units.front().map_or(self.next, |unit| unit.sequence);
        let older: Vec<Rc<Superblock>> = self.superblocks.iter().filter(|s| s.is_log_live()).cloned().collect();
        for log_tail in older.iter().filter_map(|s| s.log_tail.as_ref()).filter(|log_tail| log_tail.sequence < first) {
            let units = scan_log(&self.volume, disk, log_tail).units;
            let reaches = log_tail.sequence + units.len() as u64;
            if reaches != self.next {
                return Err(violation!("L8: the older pair's scan from unit {} reaches {reaches}, not {}", log_tail.sequence, self.next));
            }
            let first = self.units.front().map_or(self.next, |unit| unit.sequence);
            let before: Vec<_> = units.into_iter().filter(|(_, unit)| unit.header.sequence < first).collect();
            for (pbn, unit) in before.into_iter().rev() {
                let unit = UnitAt { pbn, sequence: unit.header.sequence, incarnation: unit.header.incarnation };
                self.units.push_front(unit);
                self.unit_blocks.insert(pbn);
            }
        }
        Ok(())
    }

    fn must_have(&self, change: &Change) -> Result<(), Violation> {
        let has = match *change {
            Change::Link { lbn, to, old } => self.model.has(Some(lbn), old) && self.model.has(None, to.pbn().map(|pbn| pbn.get())),
            Change::NewEntry { pbn, .. } | Change::Removed { pbn } => self.model.has(None, Some(pbn)),
        };
        if has { Ok(()) } else { Err(violation!("L2: a record names something that the volume does not have: {change:?}")) }
    }

    /// Checks that the records of units that are being written name only what the volume has.
    pub(super) fn must_have_all(&self, changes: &[Change]) -> Result<(), Violation> {
        changes.iter().try_for_each(|change| self.must_have(change))
    }
}

/// Returns the changes of a compacted unit, each with its epoch.
pub(super) fn compacted_changes(unit: &Unit) -> Vec<(u64, Change)> {
    let mut epoch = unit.header.epoch.get();
    let mut changes = Vec::new();
    for record in &unit.records {
        if let Record::Later { epochs } = record {
            epoch += epochs;
        }
        changes.extend(changes_of(record).into_iter().map(|change| (epoch, change)));
    }
    changes
}
