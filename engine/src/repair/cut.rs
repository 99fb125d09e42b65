//! A damaged log is cut off before its damage.
//!
//! 1. Its records count up to the last whole epoch before the damage, as for a server that serves what is proved (`pool/proved.rs`): none
//!    of them if a compacted unit is missing, if a block cannot be read, or if a unit names what the volume does not have.
//! 2. A link stays if its content is what its entry says, in sectors of one age. So every block is read. A checksum or a short name is
//!    enough, where a server wants a fingerprint or a carrier.
//! 3. A logical block that a unit behind the cut names is lost. Nothing tells which blocks the missing units named: these are as they
//!    were before, as far as that is proved.
//! 4. The log stays damaged until the repair has ended, whatever the device finds again: until then a server serves what is proved, and
//!    writes nothing.
//! 5. No epoch and no sequence that the log may have had is used again.

use super::error::RepairError;
use super::write::{RepairMedium, Writer};
use crate::check::{Finding, LiveLog, LogUnits, Look, ReadMedium, Scan, Teller, read_log};
use crate::format::page::SECTORS;
use crate::format::{Geometry, LogTail, MapEntry, Region, Superblock};
use crate::interface::IoFailure;
use crate::tables::UnlinkedRecords;
use crate::units::{Epoch, Lbn, Pbn, count, index};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that one newer sector, or one run of logical blocks, takes.
const ITEM_BYTES: u64 = 64;

/// A log up to its damage, and what is known of the rest.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) damage: Finding,
    log: Rc<LiveLog>,
    /// The epoch up to which records count; 0 where none does.
    last: Epoch,
    /// The logical blocks that units behind the cut name, in order.
    later: Vec<Range<u64>>,
    /// The sectors of fingerprints that are newer than the cut, with their tags.
    newer: BTreeMap<u64, u64>,
    /// The highest epoch and sequence of anything that was found.
    newest: Epoch,
    sequence: u64,
    log_tail: LogTail,
}

impl Cut {
    /// Reads the log of a volume. Returns none where it is not damaged, or where there is none.
    pub(super) fn read<M: ReadMedium>(medium: &mut M, superblock: &Superblock, memory_bytes: u64) -> Result<Option<Self>, RepairError> {
        let Some(log_tail) = superblock.log_tail.clone().filter(|_| !superblock.is_whole_in_pages()) else { return Ok(None) };
        let Some(damage) = damage(medium, superblock) else { return Ok(None) };
        let mut units = LogUnits::read(medium, superblock, &log_tail);
        let is_replayed = matches!(damage, Finding::LogUnitMissing { .. } | Finding::UnexpectedTag { .. }) && units.are_inside;
        let last = if is_replayed { units.end_epoch } else { Epoch(0) };
        let records = if is_replayed { std::mem::take(&mut units.records) } else { UnlinkedRecords::default() };
        let behind = units.named.into_iter().filter(|(sequence, _)| !is_replayed || *sequence > units.end);
        let mut cut = Self {
            damage,
            log: Rc::new(LiveLog::of(records.chained(), last)),
            last,
            later: merged(behind.map(|(_, lbns)| lbns).collect()),
            newer: BTreeMap::new(),
            newest: units.newest.max(superblock.last_epoch),
            sequence: units.sequence.max(superblock.last_log_sequence),
            log_tail,
        };
        cut.read_tags(medium, superblock);
        let most = index(memory_bytes / 4 / ITEM_BYTES);
        if cut.newer.len() + cut.later.len() > most {
            return Err(RepairError::TooMuch { blocks: most });
        }
        // No counter is left for another log.
        if cut.closed(superblock).used_up().is_some() {
            return Err(RepairError::ReadOnly);
        }
        Ok(Some(cut))
    }

    /// Finds the newest tag, and the sectors of fingerprints that are newer than the cut.
    fn read_tags<M: ReadMedium>(&mut self, medium: &mut M, superblock: &Superblock) {
        tags(medium, superblock, &mut |region, sector, tag| {
            self.newest = self.newest.max(Epoch(tag));
            if region == Region::Fingerprints && tag > self.last.get() {
                self.newer.insert(sector, tag);
            }
        });
    }

    /// Reads a medium with the records that count before the content of pages.
    pub(super) fn scan<'a>(&self, mut scan: Scan<'a>) -> Scan<'a> {
        scan.take_log(self.log.clone());
        scan
    }

    /// Whether a logical block cannot stay as its entry has it. The sector of that has this tag.
    pub(super) fn doubts(&self, geometry: &Geometry, lbn: Lbn, entry: MapEntry, tag: u64) -> bool {
        let at = self.later.partition_point(|lbns| lbns.end <= lbn.get());
        if self.later.get(at).is_some_and(|lbns| lbns.contains(&lbn.get())) {
            return true;
        }
        matches!(entry, MapEntry::Block { pbn, .. } if tag.max(self.last.get()) != self.age_of_name(geometry, pbn))
    }

    /// The age of the sector with a block's fingerprint.
    fn age_of_name(&self, geometry: &Geometry, pbn: Pbn) -> u64 {
        let (id, entry) = geometry.fingerprint_of(pbn);
        self.newer.get(&id.sector(entry / index(Region::Fingerprints.entries_per_sector()))).copied().unwrap_or(self.last.get())
    }

    /// The superblock of the repaired volume. The missing units may have had as many epochs and sequences as the volume has blocks.
    pub(super) fn closed(&self, superblock: &Superblock) -> Superblock {
        let most = superblock.geometry.data_blocks;
        let mut closed = Superblock {
            clean: true,
            log_tail: None,
            last_epoch: Epoch(self.newest.get() + most),
            last_log_sequence: self.sequence + most,
            ..superblock.clone()
        };
        closed.set_log_live(false);
        closed
    }

    /// The superblock with a log that nothing makes whole again: it says that more units were flushed than there can be.
    pub(super) fn kept_damaged(&self, superblock: &Superblock) -> Superblock {
        let flushed_upto = self.log_tail.sequence - 1 + superblock.geometry.data_blocks;
        Superblock { log_tail: Some(LogTail { flushed_upto, ..self.log_tail.clone() }), ..superblock.clone() }
    }

    /// The number of pages that records change.
    pub(super) fn pages(&self) -> u64 {
        count(self.log.pages().count())
    }

    /// Writes the pages that records change, with these records.
    pub(super) fn write<M: RepairMedium>(&self, medium: &mut M, superblock: &Superblock, writer: &mut Writer) -> Result<(), IoFailure> {
        let mut mute = |_| ();
        for id in self.log.pages() {
            let mut teller = Teller::new(&mut mute, 0);
            let mut content = self.scan(Scan::new(medium, superblock, 1)).page(id, &mut teller, Look::Again, |_, _| ()).content;
            writer.page(medium, id, &mut content)?;
        }
        medium.flush()
    }
}

/// The damage of a log: in its units, or a page that is newer than its end, which shows that units are missing.
fn damage<M: ReadMedium>(medium: &mut M, superblock: &Superblock) -> Option<Finding> {
    let end = match read_log(medium, superblock) {
        Ok(log) => log.epoch().get(),
        Err(damage) => return Some(damage),
    };
    let mut found = None;
    tags(medium, superblock, &mut |region, sector, tag| {
        if tag > end {
            found.get_or_insert(Finding::UnexpectedTag { region, sector, tag });
        }
    });
    found
}

/// Visits the tag of each sector that is sound.
fn tags<M: ReadMedium>(medium: &mut M, superblock: &Superblock, visit: &mut dyn FnMut(Region, u64, u64)) {
    let mut mute = |_| ();
    let mut teller = Teller::new(&mut mute, 0);
    let mut scan = Scan::new(medium, superblock, 16);
    for region in [Region::Written, Region::Refs, Region::Fingerprints, Region::Map] {
        scan.pages(region, 0..superblock.geometry.pages(region), Look::Again, &mut teller, &mut |_, id, opened| {
            let sound = (0..SECTORS).filter(|&sector| opened.is_sound(sector));
            sound.for_each(|sector| visit(region, id.sector(sector), opened.content.tag(sector)));
        });
    }
}

/// The same ranges, in order, without overlaps.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}
