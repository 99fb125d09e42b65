//! The commit of an epoch in the log: its state, and the records to be written.

use super::counting::Counting;
use super::limits::{OLD_RUN_BYTES_MAX, SMALL_BLOCKS_MAX};
use crate::fingerprint::Fingerprint;
use crate::format::entry::SHORT_NAME_SIZE;
use crate::format::record::{EXTENT_BYTES_MAX, EXTENT_PART_BYTES_MAX, LINK_BYTES_MAX, RECORD_BYTES_MAX, Record};
use crate::scheme::parts::{Content, MapPages};
use crate::tables::EpochRecords;
use crate::units::{Lbn, Pbn};
use std::collections::{BTreeSet, VecDeque};

/// The steps of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The old blocks of the epoch's LBNs are gathered.
    Gather,
    /// A large epoch waits for its content.
    Content,
    FlushContent,
    Units,
    Flush,
}

/// An epoch that commits.
pub(crate) struct Commit {
    pub step: Step,
    pub content: Content,
    /// Map pages whose records are not gathered yet.
    pub map: MapPages,
    pub records: Vec<Record>,
    /// The end of the last run of new blocks.
    pub extent_end: Option<(Lbn, Pbn)>,
    /// New blocks of the epoch that no record names yet.
    pub pending: BTreeSet<Pbn>,
    /// Units with slots, and their authenticators.
    pub carriers: Vec<(Pbn, Fingerprint)>,
    /// Counts for the ledger.
    pub counts: Counting,
    pub units_left: usize,
    /// The `flushed_upto` of its units.
    pub flushed_upto: u64,
    /// The number of its units; 0 before they are sent.
    pub sent: usize,
    pub is_large: bool,
}

impl EpochRecords {
    /// Whether the epoch, as far as it has come, is a large one: none of its blocks ride in units.
    pub fn is_large(&self) -> bool {
        self.new_blocks.len() > SMALL_BLOCKS_MAX || self.has_packs
    }
}

impl Commit {
    pub fn new(pending: BTreeSet<Pbn>, epoch: &EpochRecords, content: Content, map: VecDeque<u64>) -> Self {
        Self {
            step: Step::Gather,
            content,
            map: MapPages::new(map),
            records: Vec::new(),
            extent_end: None,
            is_large: pending.len() > SMALL_BLOCKS_MAX || epoch.has_packs,
            pending,
            carriers: Vec::new(),
            counts: Counting::of(epoch),
            units_left: 0,
            flushed_upto: 0,
            sent: 0,
        }
    }

    /// Whether its units were sent.
    pub fn is_sent(&self) -> bool {
        self.sent > 0
    }

    pub fn sent(&mut self, units: usize, flushed_upto: u64) {
        (self.sent, self.units_left, self.flushed_upto) = (units, units, flushed_upto);
    }

    /// The most bytes that its records take, if these new blocks ride.
    pub fn record_bytes(&self, rides: impl Fn(Pbn) -> bool) -> usize {
        let bytes = |record: &Record| match record {
            Record::New { pbn, .. } if rides(*pbn) => LINK_BYTES_MAX,
            Record::Link { .. } => LINK_BYTES_MAX,
            Record::Extent { olds, shorts, .. } => EXTENT_BYTES_MAX + olds.len() * EXTENT_PART_BYTES_MAX + shorts.len() * SHORT_NAME_SIZE,
            Record::Clear { olds, .. } => RECORD_BYTES_MAX + olds.len() * OLD_RUN_BYTES_MAX,
            _ => RECORD_BYTES_MAX,
        };
        self.records.iter().map(bytes).sum()
    }

    /// Counts units that are on the device.
    pub fn units_written(&mut self, units: usize) {
        self.units_left = self.units_left.saturating_sub(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{FingerprintEntry, MapEntry, PBN_MAX};
    use crate::format::geometry::LOGICAL_BLOCKS_MAX;
    use crate::format::record::{EXTENT_PART_BLOCKS_MAX, OldRun};
    use crate::format::unit::UnitWriter;
    use crate::units::{Epoch, index};

    /// The places of an epoch's units are reserved by this number, before any of them is composed.
    #[test]
    fn records_take_no_more_bytes_than_are_counted_for_them() {
        // Numbers far from those before take the most bytes.
        let (lbn, pbn, name) = (Lbn(LOGICAL_BLOCKS_MAX - 10_000), Pbn(PBN_MAX.get() - 10_000), FingerprintEntry::of(Fingerprint([9; 20])));
        let olds = |runs: u64, blocks: u64| -> Vec<OldRun> {
            let first = |i| Some(if i % 2 == 0 { pbn } else { Pbn(i) });
            (0..runs).map(|i| OldRun { first: first(i), blocks }).collect()
        };
        let shorts = vec![u32::MAX; index(20 * EXTENT_PART_BLOCKS_MAX)];
        for record in [
            Record::New { lbn, pbn, old: Some(pbn), name },
            Record::Link { lbn, to: MapEntry::Block { pbn, slot: 15 }, old: Some(pbn) },
            Record::Link { lbn, to: MapEntry::Zero, old: Some(pbn) },
            Record::Removed { pbn, blocks: 10_000 },
            Record::Clear { lbn, to: MapEntry::Unmapped, olds: olds(1, 1) },
            Record::Clear { lbn, to: MapEntry::Unmapped, olds: olds(300, 20) },
            Record::Extent { lbn, pbn, olds: olds(1, 1), shorts: vec![u32::MAX], is_apart: false },
            Record::Extent { lbn, pbn, olds: olds(20, EXTENT_PART_BLOCKS_MAX), shorts, is_apart: true },
        ] {
            let mut writer = UnitWriter::new(Vec::new());
            let room = writer.room_left();
            assert_eq!(writer.push(record.clone()), None);
            let epoch = EpochRecords::new(Epoch(1));
            let commit = Commit { records: vec![record], ..Commit::new(BTreeSet::new(), &epoch, Content::none(), VecDeque::new()) };
            let (taken, counted) = (room - writer.room_left(), commit.record_bytes(|_| false));
            assert!(taken <= counted, "{taken} bytes, {counted} counted: {:?}", commit.records);
        }
    }
}
