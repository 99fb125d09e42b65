//! The units of a log that may be damaged, as far as they can be read.

use super::medium::ReadMedium;
use crate::buffer::BufferMut;
use crate::format::unit::{Unit, open};
use crate::format::{LogTail, Superblock};
use crate::scheme::log::recover::{Limits, Scan};
use crate::tables::UnlinkedRecords;
use crate::units::Epoch;
use std::collections::BTreeSet;
use std::ops::Range;

/// The content of a log's units: the records of those that count, and the names in all of them.
pub(crate) struct LogUnits {
    pub(crate) records: UnlinkedRecords,
    /// No unit that counts names what the volume does not have, or a block twice.
    pub(crate) are_inside: bool,
    /// The last unit that counts, and its epoch.
    pub(crate) end: u64,
    pub(crate) end_epoch: Epoch,
    /// The logical blocks that each unit names, with its sequence: 0 for compacted units.
    pub(crate) named: Vec<(u64, Range<u64>)>,
    pub(crate) newest: Epoch,
    pub(crate) sequence: u64,
}

impl LogUnits {
    pub(crate) fn read(medium: &mut dyn ReadMedium, superblock: &Superblock, log_tail: &LogTail) -> Self {
        let (limits, auth, mut block) = (Limits::of(superblock), superblock.authenticator(), BufferMut::zeroed(1));
        let mut scan = Scan::new(log_tail.clone(), limits);
        let mut found = Self {
            records: UnlinkedRecords::default(),
            are_inside: true,
            end: 0,
            end_epoch: Epoch(0),
            named: Vec::new(),
            newest: log_tail.epoch,
            sequence: log_tail.sequence.max(log_tail.flushed_upto),
        };
        while let Some((which, pbn)) = scan.ask() {
            let read = medium.read(superblock.geometry.block_at(pbn), block.bytes_mut());
            let unit = read.ok().and_then(|()| open(&auth, pbn, block.block(0)));
            // Units that are left from before, at these places, are of lower incarnations.
            if let Some(unit) = unit.as_ref().filter(|unit| unit.header.incarnation >= log_tail.incarnation) {
                found.take(unit, limits);
            }
            scan.arrived(which, pbn, unit, &mut |epoch, effect| found.records.push(epoch, effect));
        }
        let mut ended = scan.end();
        found.are_inside = ended.outside.is_none() && ended.block_used_twice().is_none();
        (found.end, found.end_epoch, found.newest) = (ended.end, ended.epoch, found.newest.max(ended.epoch_seen));
        ended.replay(&BTreeSet::new(), &mut |epoch, effect| found.records.push(epoch, effect));
        found
    }

    fn take(&mut self, unit: &Unit, limits: Limits) {
        let sequence = unit.header.sequence;
        self.named.extend(limits.lbns(unit).map(|lbns| (sequence, lbns)));
        self.newest = self.newest.max(unit.header.epoch);
        self.sequence = self.sequence.max(sequence).max(unit.header.flushed_upto);
    }
}
