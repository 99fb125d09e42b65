//! Reading the log from a device on which nothing is undecided, as the next opening would: where the checker begins.

use super::model::Model;
use super::records::{Change, birth_of_carrier, changes_of};
use super::{LogChecker, Place, UnitAt, View};
use crate::content::Shared;
use crate::disk::SimDisk;
use crate::violation::{Violation, violation};
use crate::volume::Volume;
use onefold_engine::format::{Anchor, MapEntry, Places, Record, Superblock, Unit, UnitKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// The blocks of some runs, in order.
pub(super) fn each(places: &[Places]) -> impl Iterator<Item = u64> + '_ {
    places.iter().flat_map(|run| run.pbns()).map(|pbn| pbn.get())
}

/// Units of a walk, and the places behind it.
struct Walk {
    units: Vec<(u64, Rc<Unit>)>,
    places: Vec<u64>,
}

/// What a place holds for sure.
fn at<'a>(volume: &Volume, disk: &'a SimDisk, pbn: u64) -> &'a Shared {
    disk.cell(volume.block_of(pbn)).durable()
}

fn walk(volume: &Volume, disk: &SimDisk, anchor: &Anchor) -> Walk {
    let mut named: BTreeMap<u64, u64> = (anchor.sequence..).zip(each(&anchor.places)).collect();
    let (mut units, mut next, mut incarnation) = (Vec::new(), anchor.sequence, anchor.incarnation);
    while let Some(&pbn) = named.get(&next) {
        let barrier = anchor.barrier.filter(|barrier| next > barrier.sequence).map_or(0, |barrier| barrier.incarnation);
        let least = incarnation.max(barrier);
        let fits = |unit: &Rc<Unit>| {
            let header = &unit.header;
            header.kind == UnitKind::Log && header.sequence == next && header.incarnation >= least
        };
        let Some(unit) = volume.unit(pbn, at(volume, disk, pbn)).filter(fits) else { break };
        incarnation = unit.header.incarnation;
        // After a crash a unit may name other places than those before it, and fewer.
        named.split_off(&(next + 1));
        named.extend((next + 1..).zip(each(&unit.places)));
        units.push((pbn, unit));
        next += 1;
    }
    // An epoch whose units are not all there is not there.
    while units.last().is_some_and(|(_, unit)| unit.header.unit + 1 < unit.header.units) {
        units.pop();
        next -= 1;
    }
    Walk { units, places: named.range(next..).map(|(_, &pbn)| pbn).collect() }
}

/// What the units do, each epoch by its last unit: what was dropped is left out, and what comes after it is put right (L5).
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
        changes.extend(birth_of_carrier(*pbn, unit));
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
    /// Begins with what a device holds on which nothing is undecided. None where the volume has no log.
    ///
    /// # Errors
    /// The first violation.
    pub fn new(volume: Rc<Volume>, view: View) -> Result<Option<Self>, Violation> {
        let disk = view.disk;
        let superblock = volume.newest_superblock(|block| disk.cell(block).durable());
        let Some(superblock) = superblock.filter(|s| s.is_log_live()) else { return Ok(None) };
        let Some(anchor) = &superblock.anchor else { return Ok(None) };
        let model = Model::read(volume.clone(), disk)?;
        let mut checker = Self::empty(volume.clone(), model, superblock.garbage_possible);
        checker.durable = (anchor.epoch.get(), anchor.sequence - 1);
        checker.generation = superblock.generation;
        checker.read_condensed(anchor, disk)?;
        checker.read_walk(&superblock, anchor, disk)?;
        checker.model.count_links(superblock.garbage_possible)?;
        checker.find_pages_without_bits(disk);
        checker.read_superblocks(disk)?;
        checker.check_older_pair(disk)?;
        view.oracle.not_zero().into_iter().try_for_each(|lbn| checker.floor_raised(lbn, view))?;
        Ok(Some(checker))
    }

    fn read_condensed(&mut self, anchor: &Anchor, disk: &SimDisk) -> Result<(), Violation> {
        self.ends.insert(anchor.sequence - 1, anchor.epoch.get());
        for (i, pbn) in each(&anchor.condensed.places).enumerate() {
            let content = at(&self.volume, disk, pbn);
            let unit = self.volume.unit(pbn, content).filter(|unit| unit.header.kind == UnitKind::Condensed);
            let Some(unit) = unit else {
                return Err(violation!("L2: condensed unit {i}, at PBN {pbn}, is not there"));
            };
            if i == 0 {
                // All that it copies is newer.
                self.ends.insert(anchor.condensed.since, unit.header.epoch.get() - 1);
            }
            for (epoch, change) in condensed_changes(&unit) {
                self.must_have(&change)?;
                self.model.apply(epoch, &change)?;
            }
            self.copies_known.insert(pbn, content.id());
        }
        Ok(())
    }

    fn read_walk(&mut self, superblock: &Superblock, anchor: &Anchor, disk: &SimDisk) -> Result<(), Violation> {
        let Walk { units, places } = walk(&self.volume, disk, anchor);
        for (sequence, epoch, changes) in replay(&units) {
            for change in &changes {
                self.must_have(change)?;
                self.model.apply(epoch, change)?;
            }
            self.durable = (epoch, sequence);
            self.ends.insert(sequence, epoch);
            self.history.insert(sequence, (epoch, changes));
        }
        let told = units.iter().map(|(_, unit)| unit.header.flushed_upto).max().unwrap_or(0);
        self.told_by_units = told;
        self.let_go(told);
        self.model.begin_epoch();
        // What an epoch of this opening unlinked is held; what was before it, not.
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

    /// Pages that were written and have no bit: no more are to come that no live record touches (L8).
    fn find_pages_without_bits(&mut self, disk: &SimDisk) {
        for block in 0..disk.blocks() {
            if let Place::Page(id) = self.volume.place(block) {
                self.note_bit(id, disk);
            }
        }
    }

    /// The older pair of copies leads to the same end.
    fn check_older_pair(&mut self, disk: &SimDisk) -> Result<(), Violation> {
        let first = self.units.front().map_or(self.next, |unit| unit.sequence);
        let older: Vec<Rc<Superblock>> = self.said.iter().filter(|s| s.is_log_live()).cloned().collect();
        for anchor in older.iter().filter_map(|s| s.anchor.as_ref()).filter(|anchor| anchor.sequence < first) {
            let units = walk(&self.volume, disk, anchor).units;
            let reaches = anchor.sequence + units.len() as u64;
            if reaches != self.next {
                return Err(violation!("L8: the older pair's walk from unit {} comes to {reaches}, not {}", anchor.sequence, self.next));
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
            Change::Birth { pbn, .. } | Change::Removed { pbn } => self.model.has(None, Some(pbn)),
        };
        if has { Ok(()) } else { Err(violation!("L2: a record names what the volume does not have: {change:?}")) }
    }

    /// That a record names only what the volume has, for units that are being written.
    pub(super) fn must_have_all(&self, changes: &[Change]) -> Result<(), Violation> {
        changes.iter().try_for_each(|change| self.must_have(change))
    }
}

/// What a condensed unit says, each with its epoch.
pub(super) fn condensed_changes(unit: &Unit) -> Vec<(u64, Change)> {
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
