//! The contents of superblocks, and the rules for them (L3, L8).

use super::records::TotalEffect;
use super::seed::{compacted_changes, each};
use super::{BlockUse, LogChecker, View};
use crate::device::disk::{SimDisk, to_index};
use crate::ground::content::{Content, Shared};
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::copies::copies;
use onefold_engine::format::{LogTail, PageId, Region, Superblock, Unit, UnitKind, pair_of};
use onefold_engine::units::BLOCK_BYTES;
use rustc_hash::FxHashSet;
use std::rc::Rc;

impl LogChecker {
    /// Checks a copy of the superblock that is about to be written: what it refers to has to be durable.
    pub(super) fn superblock_written(&self, block: u64, content: &Shared, view: View) -> Result<(), Violation> {
        let places = copies(self.volume.geometry.device_bytes).map(|at| at.get() / BLOCK_BYTES);
        let copy = places.iter().position(|&at| at == block).expect("a copy's place");
        let Some(superblock) = self.volume.superblock(copy, content) else {
            return Err(violation!("L8: what is written as copy {copy} of the superblock is not a superblock"));
        };
        let pair = pair_of(superblock.generation);
        for (other, &at) in places.iter().enumerate().filter(|(other, _)| !pair.contains(other)) {
            if view.disk.cell(at).settled().is_none() {
                return Err(violation!(
                    "L8: copy {copy} of the superblock is written while copy {other}, of the other pair, is not durable"
                ));
            }
        }
        if !pair.contains(&copy) {
            return Err(violation!("L8: generation {} is written to copy {copy}", superblock.generation));
        }
        let (epoch, sequence) = self.durable;
        // What precedes the log tail is on pages or in compacted units: fingerprints up to one epoch, map and refs up to another.
        let (mut names, mut links) = (epoch, epoch);
        if let Some(log_tail) = superblock.log_tail.as_ref().filter(|_| superblock.is_log_live()) {
            self.check_log_tail(log_tail, &superblock, sequence)?;
            self.check_compacted(log_tail, view.disk)?;
            (names, links) = (log_tail.epoch.get(), log_tail.epoch.get());
            if !log_tail.compacted.places.is_empty() {
                let since = log_tail.compacted.since;
                links = *self
                    .ends
                    .get(&since)
                    .ok_or_else(|| violation!("L8: the compacted units begin after unit {since}, which ends no epoch"))?;
            }
        } else if self.pending.is_some() {
            return Err(violation!("L8: the superblock says that the log is empty while an epoch is under way"));
        }
        if let Some(((region, sector), missing)) = self.model.lacking(names, links) {
            return Err(violation!("L8: the log tail moves past epoch {names}, but sector {sector} of {} lacks {missing}", region.name()));
        }
        self.check_bits(&superblock, names, links, view.disk)?;
        let page = |block: &&u64| matches!(self.volume.place(**block), BlockUse::Page(_));
        match view.disk.undecided().iter().find(page) {
            Some(block) if superblock.clean => {
                Err(violation!("P1: the superblock says clean while {:?} is undecided", self.volume.place(*block)))
            }
            _ => Ok(()),
        }
    }

    fn check_log_tail(&self, log_tail: &LogTail, superblock: &Superblock, flushed: u64) -> Result<(), Violation> {
        let before = log_tail.sequence - 1;
        if before > flushed || log_tail.flushed_upto > flushed {
            return Err(violation!(
                "L8: the log tail lies after unit {before} and says that {} is flushed, but {flushed} is",
                log_tail.flushed_upto
            ));
        }
        if self.ends.get(&before) != Some(&log_tail.epoch.get()) {
            return Err(violation!(
                "L8: the log tail lies after unit {before} and epoch {}; ends are {:?}",
                log_tail.epoch.get(),
                self.ends
            ));
        }
        let back = self.superblocks.iter().filter_map(|s| s.log_tail.as_ref()).find(|tail| tail.sequence > log_tail.sequence);
        if let Some(tail) = back {
            return Err(violation!("L8: the log tail moves back from unit {} to {}", tail.sequence, log_tail.sequence));
        }
        let behind: Vec<_> = self.units.iter().filter(|unit| unit.sequence >= log_tail.sequence).collect();
        let least = behind.first().map_or(superblock.incarnation, |unit| unit.incarnation);
        if log_tail.incarnation > least {
            return Err(violation!("L3: the log tail has incarnation {}, what follows it {least}", log_tail.incarnation));
        }
        let known = behind.iter().map(|unit| unit.pbn).chain(self.places.iter().copied());
        if let Some((named, known)) = each(&log_tail.places).zip(known).find(|(named, known)| named != known) {
            return Err(violation!("L8: the log tail names PBN {named} where PBN {known} is a unit or a place"));
        }
        if log_tail.places.is_empty() {
            return Err(violation!("L9: the log tail names no place"));
        }
        if log_tail.flushed_upto.max(self.reported_by_units) < self.reported {
            return Err(violation!(
                "L7: the log tail says that {} is flushed, units that {} is, and pages rely on {}",
                log_tail.flushed_upto,
                self.reported_by_units,
                self.reported
            ));
        }
        let (behind, named) = (behind.len(), each(&log_tail.places).collect::<Vec<_>>());
        let unknown = named.iter().skip(behind + self.places.len());
        unknown.copied().try_for_each(|pbn| self.must_be_free(pbn, "a place"))
    }

    /// Checks that the compacted units are durable, and have the same effects as the units that they stand for.
    fn check_compacted(&self, log_tail: &LogTail, disk: &SimDisk) -> Result<(), Violation> {
        let mut segment: Vec<Rc<Unit>> = Vec::new();
        for pbn in each(&log_tail.compacted.places) {
            let cell = disk.cell(self.volume.block_of(pbn));
            let Some(content) = cell.settled() else {
                return Err(violation!("L8: the log tail names a compacted unit at PBN {pbn}, which is not durable"));
            };
            if self.copies_known.get(&pbn) == Some(&content.id()) {
                continue;
            }
            let unit = self.volume.unit(pbn, content).filter(|unit| unit.header.kind == UnitKind::Compacted);
            let Some(unit) = unit else {
                return Err(violation!("L8: the log tail names a compacted unit at PBN {pbn}, where there is none"));
            };
            if unit.header.unit as usize != segment.len() {
                return Err(violation!("L8: compacted unit {} is number {} of its segment", unit.header.unit, segment.len()));
            }
            let is_last = unit.header.unit + 1 == unit.header.units;
            segment.push(unit);
            if is_last {
                self.check_segment(&std::mem::take(&mut segment))?;
            }
        }
        if segment.is_empty() { Ok(()) } else { Err(violation!("L8: the last segment of the compacted units lacks units")) }
    }

    fn check_segment(&self, segment: &[Rc<Unit>]) -> Result<(), Violation> {
        let header = segment[0].header;
        let copied: Vec<_> = segment.iter().flat_map(|unit| compacted_changes(unit)).collect();
        let mut rest = &copied[..];
        for (epoch, changes) in self.history.range(header.flushed_upto + 1..=header.sequence).map(|(_, epoch)| epoch) {
            let (these, others) = rest.split_at(rest.iter().take_while(|(of, _)| of == epoch).count());
            let (summed, did) = (TotalEffect::of(these.iter().map(|(_, change)| change)), TotalEffect::of(changes));
            if summed != did {
                return Err(violation!("L8: the compacted units say of epoch {epoch} {summed:?}, but its units {did:?}"));
            }
            rest = others;
        }
        match rest.first() {
            Some((epoch, _)) => Err(violation!("L8: the compacted units mention epoch {epoch} out of order")),
            None => Ok(()),
        }
    }

    /// Checks that pages that were written have their bit, or live records that change them.
    fn check_bits(&self, superblock: &Superblock, names: u64, links: u64, disk: &SimDisk) -> Result<(), Violation> {
        if superblock.garbage_possible {
            return Ok(());
        }
        let bare = self.without_bit.iter().find(|id| !self.has_bit(**id, disk) && !self.model.is_live(**id, names, links));
        match bare {
            Some(id) => Err(violation!("L8: the log tail moves past epoch {names}, but {} page {} has no bit", id.region.name(), id.index)),
            None => Ok(()),
        }
    }

    /// Returns whether the *written* bit of a page is set in every possible state.
    fn has_bit(&self, id: PageId, disk: &SimDisk) -> bool {
        let (page, bit) = self.volume.geometry.written_of(id);
        disk.cell(self.volume.block_of_page(page)).possible().all(|content| bit_of(content, bit))
    }

    /// Notes that a page was written, or was found written.
    pub(super) fn note_bit(&mut self, id: PageId, disk: &SimDisk) {
        let is_written = id.region != Region::Written && disk.cell(self.volume.block_of_page(id)).newest().id() != Content::zero().id();
        if is_written && !self.has_bit(id, disk) {
            self.without_bit.insert(id);
        }
    }

    /// Checks a page of *written* bits that is about to be written: a bit is new only if no sector of its page can be zero, and no bit is
    /// cleared (P6).
    pub(super) fn bits_written(&self, id: PageId, content: &Shared, disk: &SimDisk) -> Result<(), Violation> {
        let before = disk.cell(self.volume.block_of_page(id)).newest();
        for bit in 0..to_index(Region::Written.entries_per_page()) {
            let (now, then) = (bit_of(content, bit), bit_of(before, bit));
            if now == then {
                continue;
            }
            let page = self.volume.geometry.page_of_written(id, bit);
            let Some(page) = page.filter(|_| now) else {
                return Err(violation!("P6: written bit {bit} of page {} becomes {now}; it stands for {page:?}", id.index));
            };
            let may_be_zero = |content: &Shared| (0..8).any(|i| content.sector_id(i) == Content::zero().sector_id(i));
            if disk.cell(self.volume.block_of_page(page)).possible().any(may_be_zero) {
                return Err(violation!(
                    "P6: {} page {} gets its written bit while a sector of it may be zero",
                    page.region.name(),
                    page.index
                ));
            }
        }
        Ok(())
    }

    /// Reads the superblocks that may be on the device again.
    pub(super) fn read_superblocks(&mut self, disk: &SimDisk) -> Result<(), Violation> {
        self.superblocks.clear();
        let mut newest: Option<Rc<Superblock>> = None;
        for (copy, at) in copies(self.volume.geometry.device_bytes).into_iter().enumerate() {
            let cell = disk.cell(at.get() / BLOCK_BYTES);
            let decoded: Vec<_> = cell.possible().filter_map(|content| self.volume.superblock(copy, content)).collect();
            if cell.settled().is_some() {
                let older = |s: &&Rc<Superblock>| newest.as_ref().is_none_or(|newest| newest.generation < s.generation);
                newest = decoded.first().filter(older).cloned().or(newest);
            }
            self.superblocks.extend(decoded);
        }
        self.superblocks.sort_unstable_by_key(|s| s.generation);
        self.superblocks.dedup_by_key(|s| s.generation);
        let Some(newest) = newest else { return Err(violation!("L8: no copy of the superblock is durable")) };
        self.incarnation = newest.incarnation;
        self.compacted =
            self.superblocks.iter().filter_map(|s| s.log_tail.as_ref()).flat_map(|a| each(&a.compacted.places)).collect::<FxHashSet<_>>();
        if let Some(log_tail) = &newest.log_tail {
            for (sequence, pbn) in (log_tail.sequence..).zip(each(&log_tail.places)) {
                if newest.generation > self.generation && sequence == self.next + self.places.len() as u64 {
                    self.add_place(pbn);
                }
            }
            self.free_held(log_tail.flushed_upto);
        }
        self.forget_passed(disk);
        Ok(())
    }

    /// Forgets units that precede every log tail.
    fn forget_passed(&mut self, disk: &SimDisk) {
        let log_tails = self.superblocks.iter().filter_map(|s| s.log_tail.as_ref());
        let first = log_tails.clone().map(|log_tail| log_tail.sequence).min().unwrap_or(self.next);
        while self.units.front().is_some_and(|unit| unit.sequence < first) {
            let unit = self.units.pop_front().expect("it was seen");
            self.unit_blocks.remove(&unit.pbn);
        }
        let since = log_tails.filter(|log_tail| !log_tail.compacted.places.is_empty()).map(|log_tail| log_tail.compacted.since).min();
        let oldest = since.unwrap_or(first).min(first - 1);
        self.history = self.history.split_off(&first);
        self.ends = self.ends.split_off(&oldest);
        let (volume, compacted) = (&self.volume, &self.compacted);
        for &pbn in compacted {
            if let Some(content) = disk.cell(volume.block_of(pbn)).settled() {
                self.copies_known.insert(pbn, content.id());
            }
        }
        self.copies_known.retain(|pbn, _| compacted.contains(pbn));
    }
}

fn bit_of(content: &Content, bit: usize) -> bool {
    let (sector, bit) = (bit / 4000, bit % 4000);
    content.sector(sector)[bit / 8] & (1 << (bit % 8)) != 0
}
