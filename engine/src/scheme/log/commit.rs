//! The commit of an epoch in the log: how far it is, and what it is about to say.

use super::counting::Counting;
use super::limits::{OLD_RUN_BYTES_MAX, SMALL_BLOCKS_MAX};
use crate::fingerprint::Fingerprint;
use crate::format::entry::SHORT_NAME_SIZE;
use crate::format::record::{EXTENT_BYTES_MAX, EXTENT_PART_BYTES_MAX, LINK_BYTES_MAX, RECORD_BYTES_MAX, Record};
use crate::scheme::parts::{Content, MapPages};
use crate::tables::Epoch as Records;
use crate::units::{Lbn, Pbn};
use std::collections::{BTreeSet, VecDeque};

/// Where a commit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What the epoch's LBNs meant before is gathered.
    Gather,
    /// A large epoch waits for its content.
    Content,
    FlushContent,
    Units,
    Flush,
}

/// An epoch on its way to the medium.
pub(crate) struct Commit {
    pub step: Step,
    pub content: Content,
    /// Map pages that were not looked at.
    pub map: MapPages,
    pub records: Vec<Record>,
    /// Where the last run of new blocks ends.
    pub extent_end: Option<(Lbn, Pbn)>,
    /// Blocks born in it that no record names yet.
    pub newborn: BTreeSet<Pbn>,
    /// Units with slots, and their authenticators.
    pub carriers: Vec<(Pbn, Fingerprint)>,
    /// For the ledger (`sizes.rs`).
    pub counts: Counting,
    pub units_left: usize,
    /// The `flushed_upto` of its units.
    pub flushed_upto: u64,
    /// Its units were sent: how many.
    pub sent: usize,
    pub is_large: bool,
}

impl Records {
    /// Whether it is to go out as a large epoch, as far as it has come: nothing of it rides in units.
    pub fn is_large(&self) -> bool {
        self.births.len() > SMALL_BLOCKS_MAX || self.has_packs
    }
}

impl Commit {
    pub fn new(newborn: BTreeSet<Pbn>, epoch: &Records, content: Content, map: VecDeque<u64>) -> Self {
        Self {
            step: Step::Gather,
            content,
            map: MapPages::new(map),
            records: Vec::new(),
            extent_end: None,
            is_large: newborn.len() > SMALL_BLOCKS_MAX || epoch.has_packs,
            newborn,
            carriers: Vec::new(),
            counts: Counting::of(epoch),
            units_left: 0,
            flushed_upto: 0,
            sent: 0,
        }
    }

    /// Whether its units are on their way, or there.
    pub fn is_sent(&self) -> bool {
        self.sent > 0
    }

    pub fn sent(&mut self, units: usize, flushed_upto: u64) {
        (self.sent, self.units_left, self.flushed_upto) = (units, units, flushed_upto);
    }

    /// Bytes that its records take at the most, if these new blocks ride.
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
}
