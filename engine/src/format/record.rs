//! The records of the log, about LBNs, blocks and fingerprints, and their bytes.
//!
//! 1. A record stands behind another and counts from it: LBNs from the end of the last LBNs, new blocks from the end of the last new
//!    blocks, old blocks from the end of the last old ones. In each unit all three begin at 0, so a unit is read without any other.
//! 2. A record has one encoding, and what is decoded names only LBNs and blocks that a volume can have.
//! 3. A run has one part or more, each with a bit that says whether another follows. So a run that does not fit a unit is cut between two
//!    parts, and either piece is a record.

mod coding;

use super::counter::COUNTER_MAX;
use super::entry::{FINGERPRINT_ENTRY_SIZE, FingerprintEntry, Kind, MapEntry, PBN_MAX, SHORT_NAME_SIZE, SLOT_MAX};
use super::limits::LOGICAL_BLOCKS_MAX;
use crate::fingerprint::Fingerprint;
use crate::units::{Lbn, Pbn, count, index};

pub(super) use coding::Coder;

/// The most bytes of a record that is no run, and of a run of one part: a kind, LBN, block and old block of six bytes each, a fingerprint.
pub const RECORD_BYTES_MAX: usize = 1 + 3 * 6 + FINGERPRINT_ENTRY_SIZE;

/// The most bytes of a step to a later epoch.
pub const LATER_BYTES_MAX: usize = 1 + 10;

/// The most bytes of a link.
pub const LINK_BYTES_MAX: usize = RECORD_BYTES_MAX - FINGERPRINT_ENTRY_SIZE;

/// The most blocks of one part of an extent: a unit is cut between parts, and what stays empty for a part that finds no room is little.
pub const EXTENT_PART_BLOCKS_MAX: u64 = SHORT_NAMES_MAX as u64;
const SHORT_NAMES_MAX: usize = 32;

/// The most bytes of an extent, but for its parts; of each of these, but for its short names; and of the short names of one.
pub const EXTENT_BYTES_MAX: usize = 1 + 2 * 6;
pub const EXTENT_PART_BYTES_MAX: usize = 2 + 6;
pub const SHORT_NAMES_BYTES_MAX: usize = SHORT_NAMES_MAX * SHORT_NAME_SIZE;

// A new block of a run takes no more than one that has a record of its own.
const _: () = assert!(EXTENT_BYTES_MAX + EXTENT_PART_BYTES_MAX + SHORT_NAME_SIZE <= RECORD_BYTES_MAX);

/// The blocks to which a run of neighbouring LBNs was mapped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldRun {
    /// The first one's block; the next has the next block, and so on. None: none of them had one.
    pub first: Option<Pbn>,
    /// The number of LBNs, at least 1.
    pub blocks: u64,
}

/// One record. An old block is the one whose link goes; none where the LBN had none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A new block and what is known of its content, of kind 1 or 2: counts two in refs, the link and the fingerprint.
    New { lbn: Lbn, pbn: Pbn, old: Option<Pbn>, name: FingerprintEntry },
    /// A link to a block that is there, or to none: a duplicate, zeros, a discard. Never `Lost`.
    Link { lbn: Lbn, to: MapEntry, old: Option<Pbn> },
    /// A run of new blocks, as long as what it replaces, of at most [`EXTENT_PART_BLOCKS_MAX`] a part, and the short name of each
    /// ([`Fingerprint::short`]): of its checksum where they stay apart, of its fingerprint otherwise. Counts two in refs of each.
    Extent { lbn: Lbn, pbn: Pbn, olds: Vec<OldRun>, shorts: Vec<u32>, is_apart: bool },
    /// A run of LBNs that now are all `Unmapped` or all `Zero`.
    Clear { lbn: Lbn, to: MapEntry, olds: Vec<OldRun> },
    /// The fingerprint entries of a run of blocks go, of one block at least.
    Removed { pbn: Pbn, blocks: u64 },
    /// A pack, which gets its entry: it counts one in refs. A carrier needs no such record, since its unit has the same meaning.
    Carrier { pbn: Pbn, authenticator: Fingerprint },
    /// The first record behind a crash: new blocks, in order, whose content was not there. Records of the units from `first` on, up to this
    /// one, that name one of them count for nothing; `first` is 0 where there are none.
    Closing { first: u64, lost: Vec<Pbn> },
    /// A link, in a compacted unit, to a new block, or to a slot of one. It counts two in refs, and the block's entry is on its
    /// page.
    NewLink { lbn: Lbn, to: MapEntry, old: Option<Pbn> },
    /// Links, in a compacted unit, to a run of new whole blocks, as long as the run that it replaces.
    NewRun { lbn: Lbn, pbn: Pbn, olds: Vec<OldRun> },
    /// A step, in a compacted unit: the records behind are of an epoch that is later by this number.
    Later { epochs: u64 },
}

impl Record {
    /// Whether invariant 2 holds, when it is read and when it is written.
    fn is_sound(&self) -> bool {
        let ends = |first: u64, blocks: u64, end: u64| first.checked_add(blocks).is_some_and(|last| last <= end);
        let lbns = |lbn: &Lbn, blocks| ends(lbn.get(), blocks, LOGICAL_BLOCKS_MAX);
        let pbns = |pbn: &Pbn, blocks| ends(pbn.get(), blocks, PBN_MAX.get() + 1);
        let old = |old: &Option<Pbn>| old.as_ref().is_none_or(|pbn| pbns(pbn, 1));
        let length = |olds: &[OldRun]| {
            let is_sound = |run: &OldRun| run.blocks > 0 && run.first.as_ref().is_none_or(|first| pbns(first, run.blocks));
            let length = olds.iter().try_fold(0, |sum: u64, run| sum.checked_add(run.blocks));
            length.filter(|&length| length > 0 && olds.iter().all(is_sound))
        };
        match self {
            Self::New { lbn, pbn, old: before, name } => {
                lbns(lbn, 1) && pbns(pbn, 1) && old(before) && matches!(name.kind, Kind::Fingerprint | Kind::Checksum)
            }
            Self::Link { lbn, to, old: before } => {
                let possible = match to {
                    MapEntry::Unmapped | MapEntry::Zero => true,
                    MapEntry::Lost => false,
                    MapEntry::Block { pbn, slot } => pbns(pbn, 1) && *slot <= SLOT_MAX,
                };
                possible && lbns(lbn, 1) && old(before)
            }
            Self::Extent { lbn, pbn, olds, shorts, .. } => length(olds).is_some_and(|blocks| {
                let named = count(shorts.len()) == blocks && shorts.iter().all(|&short| short > 0);
                named && olds.iter().all(|run| run.blocks <= EXTENT_PART_BLOCKS_MAX) && lbns(lbn, blocks) && pbns(pbn, blocks)
            }),
            Self::NewRun { lbn, pbn, olds } => length(olds).is_some_and(|blocks| lbns(lbn, blocks) && pbns(pbn, blocks)),
            Self::Clear { lbn, to, olds } => {
                matches!(to, MapEntry::Unmapped | MapEntry::Zero) && length(olds).is_some_and(|blocks| lbns(lbn, blocks))
            }
            Self::Removed { pbn, blocks } => *blocks > 0 && pbns(pbn, *blocks),
            Self::Carrier { pbn, authenticator } => pbns(pbn, 1) && *authenticator == Fingerprint::of_digest(&authenticator.0),
            Self::Closing { first, lost } => {
                let ascends = lost.windows(2).all(|pair| pair[0] < pair[1]) && lost.last().is_none_or(|last| pbns(last, 1));
                ascends && lost.is_empty() == (*first == 0) && *first <= COUNTER_MAX
            }
            Self::NewLink { lbn, to, old: before } => {
                matches!(to, MapEntry::Block { pbn, slot } if pbns(pbn, 1) && *slot <= SLOT_MAX) && lbns(lbn, 1) && old(before)
            }
            Self::Later { epochs } => (1..=COUNTER_MAX).contains(epochs),
        }
    }

    /// The rest of a run behind its first parts, if there is any.
    pub(super) fn behind(self, parts: usize) -> Option<Self> {
        let cut = |olds: &mut Vec<OldRun>| olds.drain(..parts).map(|run| run.blocks).sum::<u64>();
        match self {
            Self::New { .. } | Self::Link { .. } | Self::Removed { .. } => None,
            Self::Carrier { .. } | Self::NewLink { .. } | Self::Later { .. } => None,
            Self::Extent { lbn, pbn, mut olds, mut shorts, is_apart } => {
                let blocks = cut(&mut olds);
                shorts.drain(..index(blocks));
                (!olds.is_empty()).then(|| Self::Extent { lbn: lbn + blocks, pbn: pbn + blocks, olds, shorts, is_apart })
            }
            Self::NewRun { lbn, pbn, mut olds } => {
                let blocks = cut(&mut olds);
                (!olds.is_empty()).then(|| Self::NewRun { lbn: lbn + blocks, pbn: pbn + blocks, olds })
            }
            Self::Clear { lbn, to, mut olds } => {
                let blocks = cut(&mut olds);
                (!olds.is_empty()).then(|| Self::Clear { lbn: lbn + blocks, to, olds })
            }
            Self::Closing { first, mut lost } => {
                lost.drain(..parts);
                (!lost.is_empty()).then_some(Self::Closing { first, lost })
            }
        }
    }
}
