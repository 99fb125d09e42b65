//! The units of an epoch, from the first that is written to the flush after the last or, for a single unit that was written with FUA, to
//! its completion.

use super::pending::Pending;
use super::records::{Change, changes_of, entry_of_carrier};
use super::seed::each;
use super::{LogChecker, UnitAt, View};
use crate::device::volume::entry_in_run;
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::{FingerprintEntry, MapEntry, Record, Unit, UnitHeader};
use std::rc::Rc;

impl LogChecker {
    /// Checks a unit of the log that is about to be written.
    pub(super) fn unit_written(&mut self, pbn: u64, unit: &Rc<Unit>, content: &Shared, view: View) -> Result<(), Violation> {
        let header = unit.header;
        self.check_header(pbn, &header)?;
        self.check_places(pbn, unit)?;
        let mut pending = self.pending.take().unwrap_or_else(|| Pending::new(header));
        let result = self.take_records(&mut pending, pbn, unit, view);
        pending.add_sent(pbn, content.clone());
        self.next += 1;
        self.add_unit(UnitAt { pbn, sequence: header.sequence, incarnation: header.incarnation });
        let is_sent = pending.is_sent();
        self.pending = Some(pending);
        result?;
        if is_sent { self.check_sent(view) } else { Ok(()) }
    }

    fn check_header(&mut self, pbn: u64, header: &UnitHeader) -> Result<(), Violation> {
        let (epoch, sequence) = self.durable;
        if header.sequence != self.next {
            return Err(violation!("L2: unit {} is written to PBN {pbn}, but {} comes next", header.sequence, self.next));
        }
        if self.places.front() != Some(&pbn) {
            return Err(violation!(
                "L2: unit {} is written to PBN {pbn}; the place that was named is {:?}",
                header.sequence,
                self.places.front()
            ));
        }
        if header.incarnation > self.incarnation {
            let durable = self.incarnation;
            return Err(violation!("L3: unit {} has incarnation {}, but {durable} is durable", header.sequence, header.incarnation));
        }
        if self.units.back().is_some_and(|last| last.incarnation > header.incarnation) {
            return Err(violation!("L3: unit {} has incarnation {}, less than the one before", header.sequence, header.incarnation));
        }
        if header.flushed_upto != sequence {
            return Err(violation!("L2: unit {} says that {} is flushed, but {sequence} is", header.sequence, header.flushed_upto));
        }
        match &self.pending {
            Some(pending) if !pending.is_sent() && pending.goes_on_with(header) => Ok(()),
            Some(pending) => {
                let before = pending.epoch();
                Err(violation!("L10: unit {} of epoch {}, but epoch {before} is not durable", header.sequence, header.epoch.get()))
            }
            None if header.unit == 0 && header.epoch.get() > epoch => Ok(()),
            None => Err(violation!(
                "L10: unit {} begins epoch {} with number {}, after epoch {epoch}",
                header.sequence,
                header.epoch,
                header.unit
            )),
        }
    }

    fn check_places(&mut self, pbn: u64, unit: &Unit) -> Result<(), Violation> {
        self.places.pop_front();
        self.place_blocks.remove(&pbn);
        self.must_be_free(pbn, "a unit")?;
        let sequence = unit.header.sequence;
        if unit.places.is_empty() {
            return Err(violation!("L9: unit {sequence} names no place for the next one"));
        }
        for (i, place) in each(&unit.places).enumerate() {
            match self.places.get(i) {
                Some(&known) if known != place => {
                    return Err(violation!("L2: unit {sequence} names PBN {place} where PBN {known} was named before"));
                }
                Some(_) => {}
                None => {
                    if place == pbn {
                        return Err(violation!("L9: unit {sequence} names its own PBN {pbn} as a place"));
                    }
                    self.must_be_free(place, "a place")?;
                    self.add_place(place);
                }
            }
        }
        Ok(())
    }

    fn take_records(&self, pending: &mut Pending, pbn: u64, unit: &Unit, view: View) -> Result<(), Violation> {
        let mut changes: Vec<Change> = entry_of_carrier(pbn, unit).into_iter().collect();
        for record in &unit.records {
            if matches!(record, Record::Closing { .. }) {
                return Err(violation!("L4: unit {} closes a log that is in use", unit.header.sequence));
            }
            match record {
                Record::New { pbn, name, .. } => pending.add_new([(pbn.get(), *name)]),
                Record::Extent { pbn, shorts, is_apart, .. } => {
                    pending.add_new((pbn.get()..).zip(shorts.iter().map(|&short| entry_in_run(short, *is_apart))));
                }
                _ => {}
            }
            changes.extend(changes_of(record));
        }
        self.must_have_all(&changes)?;
        let epoch = unit.header.epoch.get();
        for change in &changes {
            match *change {
                Change::Link { lbn, to, old } => {
                    let before = pending.meaning(lbn).unwrap_or_else(|| self.model.map(lbn).pbn().map(|pbn| pbn.get()));
                    if old != before {
                        return Err(violation!("L1: epoch {epoch} says that LBN {lbn} referred to PBN {old:?}, but it was {before:?}"));
                    }
                    pending.link(lbn, to.pbn().map(|pbn| pbn.get()));
                }
                Change::NewEntry { pbn: new_pbn, .. } => {
                    if self.model.links(new_pbn) > 0 || self.held.contains_key(&new_pbn) {
                        return Err(violation!(
                            "R4: epoch {epoch} gives PBN {new_pbn} an entry, but it is in use: {}",
                            self.users(new_pbn)
                        ));
                    }
                    let cell = view.disk.cell(self.volume.block_of(new_pbn));
                    if unit.header.content_flushed && new_pbn != pbn && cell.settled().is_none() {
                        return Err(violation!("R1: large epoch {epoch} names PBN {new_pbn}, whose content is not durable"));
                    }
                    pending.add_entry(new_pbn);
                }
                Change::Removed { .. } => {}
            }
        }
        pending.add_changes(changes);
        Ok(())
    }

    /// Checks an epoch whose units are all issued: the blocks that it names have links or entries, and content is correct, or being written
    /// too.
    fn check_sent(&self, view: View) -> Result<(), Violation> {
        let pending = self.pending.as_ref().expect("it was just sent");
        for change in pending.changes() {
            let Change::Link { lbn, to, .. } = *change else { continue };
            let Some(pbn) = to.pbn().map(|pbn| pbn.get()) else { continue };
            if self.model.links(pbn) == 0 && !pending.gives_entry(pbn) {
                return Err(violation!("R1: epoch {} links LBN {lbn} to PBN {pbn}, which has no entry", pending.epoch()));
            }
            let sent = pending.sent().iter().find(|(at, _)| *at == pbn).map(|(_, content)| content);
            let newest = sent.unwrap_or_else(|| view.disk.cell(self.volume.block_of(pbn)).newest());
            self.check_content(lbn, to, newest, view)?;
        }
        for (pbn, name) in pending.new_blocks() {
            self.check_new(*pbn, name, view.disk.cell(self.volume.block_of(*pbn)).newest())?;
        }
        Ok(())
    }

    fn check_new(&self, pbn: u64, name: &FingerprintEntry, content: &Shared) -> Result<(), Violation> {
        if self.volume.says(name, content) {
            Ok(())
        } else {
            Err(violation!("L5: the record of PBN {pbn} is not of its content {content:?}"))
        }
    }

    /// Handles the end of a flush, or of a write with FUA: the epoch under way may be durable.
    pub(super) fn commit_if_durable(&mut self, view: View) -> Result<(), Violation> {
        let settled = |pbn: u64| view.disk.cell(self.volume.block_of(pbn)).settled();
        let Some(pending) = self.pending.as_ref().filter(|pending| pending.is_sent()) else { return Ok(()) };
        let is_there = |(pbn, sent): &(u64, Shared)| settled(*pbn).is_some_and(|content| content.id() == sent.id());
        if !pending.sent().iter().all(is_there) || pending.new_blocks().iter().any(|&(pbn, _)| settled(pbn).is_none()) {
            return Ok(());
        }
        let pending = self.pending.take().expect("it was just there");
        let epoch = pending.epoch();
        for (pbn, name) in pending.new_blocks() {
            self.check_new(*pbn, name, settled(*pbn).expect("it was seen"))?;
        }
        self.model.begin_epoch();
        pending.changes().iter().try_for_each(|change| self.model.apply(epoch, change))?;
        let sequence = self.next - 1;
        self.durable = (epoch, sequence);
        self.reported_by_units = pending.flushed_upto();
        self.free_held(self.reported_by_units);
        self.hold(sequence, pending.changes());
        let lbns: Vec<u64> = pending.lbns().collect();
        self.ends.insert(sequence, epoch);
        self.history.insert(sequence, (epoch, pending.into_changes()));
        lbns.into_iter().try_for_each(|lbn| self.floor_raised(lbn, view))
    }

    /// Holds the blocks that an epoch unlinked (L6).
    pub(super) fn hold(&mut self, sequence: u64, changes: &[Change]) {
        let olds = changes.iter().filter_map(|change| match *change {
            Change::Link { old, .. } => old,
            Change::Removed { pbn } => Some(pbn),
            Change::NewEntry { .. } => None,
        });
        let olds: Vec<u64> = olds.collect();
        olds.iter().for_each(|&pbn| *self.held.entry(pbn).or_default() += 1);
        self.held_by.push_back((sequence, olds));
    }

    /// Frees the held blocks of epochs whose units are durably said to be flushed.
    pub(super) fn free_held(&mut self, flushed_upto: u64) {
        let reported = self.ends.range(..=flushed_upto).next_back().map_or(0, |(_, &epoch)| epoch);
        (self.confirmed, self.reported) = (self.confirmed.max(reported), self.reported.max(flushed_upto));
        while self.held_by.front().is_some_and(|(sequence, _)| *sequence <= flushed_upto) {
            let (_, olds) = self.held_by.pop_front().expect("it was seen");
            for pbn in olds {
                let held = self.held.get_mut(&pbn).expect("it is held");
                *held -= 1;
                if *held == 0 {
                    self.held.remove(&pbn);
                }
            }
        }
    }

    /// Checks P1 and P2 for an LBN with this content in its block.
    pub(super) fn check_content(&self, lbn: u64, to: MapEntry, block: &Shared, view: View) -> Result<(), Violation> {
        let id = match to {
            MapEntry::Block { slot: 0, .. } => block.id(),
            MapEntry::Block { pbn, slot } => self
                .volume
                .in_slot(block, slot)
                .ok_or_else(|| violation!("R1: LBN {lbn} refers to slot {slot} of {pbn}, which has none"))?,
            MapEntry::Unmapped | MapEntry::Zero | MapEntry::Lost => crate::ground::content::Content::zero().id(),
        };
        if view.oracle.may_survive(lbn, id) {
            return Ok(());
        }
        let promise = if view.oracle.remembers(lbn, id) { "P1" } else { "P2" };
        Err(violation!("{promise}: LBN {lbn} may be {to:?} with content {id:016x}; allowed are {}", view.oracle.describe(lbn)))
    }
}
