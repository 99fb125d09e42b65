//! The carried log: the records of an epoch in units among the data, followed by one flush (docs/log.md).
//!
//! 1. A page in memory holds what the medium holds and every live record (`tables/live/mod.rs`), and nothing of an epoch that is not
//!    durable (L7). So it may leave memory unwritten: live records correct it when it is loaded again.
//! 2. The changes that epochs in memory make to counts stand beside the pages, in `Tables::beside`, until their commit.
//! 3. A checkpoint writes pages (`checkpoint/mod.rs`), each sector tagged with the last epoch that it holds, and only while more than the
//!    last units confirms all of it (`checkpoint/confirm.rs`).
//! 4. A block that a unit unlinks is freed one commit later (L6): once a durable unit or superblock confirms the flush of that unit.
//! 5. A unit's block is freed when the log tails of both pairs of superblock copies lie behind it. Otherwise, were the newer pair lost, or
//!    destroyed by a format that is interrupted, the older one would lead to units that are gone.
//! 6. New content that compresses is held back (`compress/hold.rs`): in small epochs it rides in the units themselves
//!    (`compress/carry.rs`), in large ones it is packed (`compress/pack.rs`).
//! 7. The records of a long log are copied into fewer units (`checkpoint/compact.rs`): a log scan stays short, and no pages have to be
//!    written for that.
//! 8. Blocks of coming units are chosen in advance (`places.rs`); these and the blocks of units are used for nothing else.

mod blocks;
mod checkpoint;
mod checkpoint_state;
mod commit;
mod compress;
mod copies;
mod counting;
mod estimate;
mod limits;
mod places;
pub(crate) mod records;
pub(crate) mod recover;
mod sealed;
mod write;

pub(crate) use limits::{PLACES_LEFT_MIN, RECORDS_A_UNIT};
pub(crate) use places::Reserved;

use crate::units::{Epoch, Pbn, count};
use checkpoint_state::Checkpoint;
use commit::Commit;
use copies::Segments;
use estimate::Estimate;
use std::collections::VecDeque;

/// The log of an open volume.
pub(crate) struct Log {
    /// The epoch that commits.
    commit: Option<Commit>,
    /// The epoch, and the last unit, that a superblock under way confirms.
    confirming: Option<(Epoch, u64)>,
    /// The sequence of the next unit.
    next: u64,
    /// The sequence of the last unit that is flushed.
    flushed: u64,
    /// Places of the coming units, in order.
    places: VecDeque<Pbn>,
    /// The units from the log tail on, in order.
    units: VecDeque<LogUnit>,
    /// The compacted units: records from before the log tail that are not on pages.
    segments: Segments,
    /// Places of units that lie before the log tail, or were compacted, but are still needed by the older pair of superblock copies.
    passed: Vec<Pbn>,
    unlinked: VecDeque<Unlinked>,
    /// Whether packing pays.
    estimate: Estimate,
    checkpoint: Option<Checkpoint>,
    /// A checkpoint begins when the compaction that is under way is over.
    checkpoint_is_next: bool,
    /// The log waits for a free block for a unit: the version of the free list that it examined last.
    starved_since: Option<u64>,
    /// Neither a unit nor the log tail names a place: a log tail has to, before there is another unit.
    is_cut_off: bool,
    /// Its opening had no memory for all of its records: some are on pages alone, though no log tail lies behind them
    /// (`recover/overflow.rs`).
    has_overflowed: bool,
    /// The superblock is to forget the log, in both pairs of copies.
    is_left: bool,
}

/// A unit of the log.
struct LogUnit {
    pbn: Pbn,
    incarnation: u64,
    epoch: Epoch,
}

/// Blocks that lost a link in an epoch, until they are freed (L6).
struct Unlinked {
    /// The sequence of the last unit of the epoch.
    sequence: u64,
    blocks: Vec<Pbn>,
    /// Those of them that lost their fingerprint.
    removed: Vec<Pbn>,
}

impl Log {
    /// A log whose next unit has this sequence.
    pub fn new(next: u64) -> Self {
        Self {
            confirming: None,
            next,
            flushed: next - 1,
            places: VecDeque::new(),
            units: VecDeque::new(),
            segments: Segments::default(),
            passed: Vec::new(),
            unlinked: VecDeque::new(),
            estimate: Estimate::default(),
            commit: None,
            checkpoint: None,
            checkpoint_is_next: false,
            starved_since: None,
            is_cut_off: false,
            has_overflowed: false,
            is_left: false,
        }
    }

    /// The sequence of the first unit behind the log tail, which need not be there yet.
    fn first(&self) -> u64 {
        self.next - count(self.units.len())
    }

    /// The sequence of the last unit that was composed.
    pub fn last_sequence(&self) -> u64 {
        self.next - 1
    }

    /// The number of links whose blocks are not freed yet, for the account of memory.
    pub fn unlinked_records(&self) -> usize {
        self.unlinked.iter().map(|of| of.blocks.len()).sum()
    }

    /// Whether links that are gone still count.
    pub fn has_unlinked(&self) -> bool {
        self.unlinked.iter().any(|of| !of.blocks.is_empty())
    }

    /// Blocks that have lost a link and are not freed yet, once for each link.
    pub fn unlinked(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.unlinked.iter().flat_map(|of| of.blocks.iter().copied())
    }

    /// Whether it has places for no more than the next unit.
    pub fn is_short(&self) -> bool {
        self.places.len() < PLACES_LEFT_MIN
    }

    /// Whether neither a unit nor the log tail names a place: a log tail has to, before there is another unit.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Whether the log holds nothing that pages on the medium lack, and keeps no unlinked block.
    fn is_empty(&self) -> bool {
        self.unlinked.is_empty() && self.units.is_empty() && self.segments.places.is_empty()
    }

    /// Whether a checkpoint, or another one after it, would free any block.
    pub fn keeps_blocks(&self) -> bool {
        !self.is_empty() || !self.passed.is_empty()
    }
}
