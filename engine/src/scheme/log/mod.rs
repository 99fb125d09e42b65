//! The carried log: the records of an epoch in units among the data, one flush behind them (docs/log.md).
//!
//! 1. A page in memory holds what the medium holds and every live record (`tables/live/mod.rs`), and nothing of an epoch that is not
//!    durable (L7). So it may leave the memory unwritten: loaded again, it is put right again.
//! 2. What the epochs in memory do to counts stands beside the pages, in `Tables::beside`, until their commit.
//! 3. Pages are written by a checkpoint (`checkpoint/mod.rs`), each sector tagged with the last epoch that it holds, and only while
//!    something else than the last units vouches for all of it (`checkpoint/vouch.rs`).
//! 4. A block that a unit unlinks is let go of one commit later (L6): when a unit or a superblock is durable that says that unit was
//!    flushed.
//! 5. A unit's block is let go of when both pairs of superblock copies have their anchor behind it: were the newer one lost, or destroyed
//!    by a format that is cut off, the older one would else lead to units that are gone.
//! 6. New content that compresses is held back (`compress/hold.rs`): of small epochs it rides in the units themselves
//!    (`compress/carry.rs`), of large ones it is packed (`compress/pack.rs`).
//! 7. What units of a long walk said is copied into fewer (`checkpoint/condense.rs`): the walk stays short, and pages need not be written
//!    for that.
//! 8. Blocks of coming units are chosen beforehand (`places.rs`); they and those of the walk belong to nobody else.

mod blocks;
mod checkpoint;
mod checkpointing;
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
use checkpointing::Checkpoint;
use commit::Commit;
use copies::Segments;
use estimate::Estimate;
use std::collections::VecDeque;

/// The log of an open volume.
pub(crate) struct Log {
    /// The epoch on its way to the medium.
    commit: Option<Commit>,
    /// A superblock is on its way that vouches for this epoch, and for the units up to this sequence.
    vouching: Option<(Epoch, u64)>,
    /// The sequence of the next unit.
    next: u64,
    /// The sequence of the last unit that is flushed.
    flushed: u64,
    /// Places of the coming units, in order.
    places: VecDeque<Pbn>,
    /// The walk's units, in order, up to the last one.
    walk: VecDeque<Walked>,
    /// What lies before the walk, and is not on pages.
    segments: Segments,
    /// Places of units that lie before the anchor, or were condensed, but not for the older pair of superblock copies.
    passed: Vec<Pbn>,
    held: VecDeque<Held>,
    /// Whether packing pays.
    estimate: Estimate,
    checkpoint: Option<Checkpoint>,
    /// One is to begin when the condensing that is under way is over.
    checkpoint_is_next: bool,
    /// It waits for a free block for a unit; and as of which change of the free blocks it has looked.
    starves: Option<u64>,
    /// Neither a unit nor the anchor names a place: an anchor has to, before there is another unit.
    is_cut_off: bool,
    /// Its opening had no memory for all of its records: some are on pages alone, though no anchor lies behind them (`spill.rs`).
    has_spilled: bool,
    /// The superblock is to forget it, in both pairs of copies.
    is_left: bool,
}

/// A unit of the walk.
struct Walked {
    pbn: Pbn,
    incarnation: u64,
    epoch: Epoch,
}

/// What an epoch unlinked, until it is let go of (L6).
struct Held {
    /// Of the last unit of its epoch.
    sequence: u64,
    unlinked: Vec<Pbn>,
    /// Of those, the ones that lost their fingerprint.
    removed: Vec<Pbn>,
}

impl Log {
    /// A log whose next unit has this sequence.
    pub fn new(next: u64) -> Self {
        Self {
            vouching: None,
            next,
            flushed: next - 1,
            places: VecDeque::new(),
            walk: VecDeque::new(),
            segments: Segments::default(),
            passed: Vec::new(),
            held: VecDeque::new(),
            estimate: Estimate::default(),
            commit: None,
            checkpoint: None,
            checkpoint_is_next: false,
            starves: None,
            is_cut_off: false,
            has_spilled: false,
            is_left: false,
        }
    }

    /// The sequence of the walk's first unit, which need not be there yet.
    fn first(&self) -> u64 {
        self.next - count(self.walk.len())
    }

    /// The sequence of the last unit that was composed.
    pub fn last_sequence(&self) -> u64 {
        self.next - 1
    }

    /// Records that are held back, for the account of memory.
    pub fn held_records(&self) -> usize {
        self.held.iter().map(|held| held.unlinked.len()).sum()
    }

    /// Blocks that have lost a link and are not let go of, each as often.
    pub fn unlinked(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.held.iter().flat_map(|held| held.unlinked.iter().copied())
    }

    /// Whether it has places for no more than the next unit.
    pub fn is_short(&self) -> bool {
        self.places.len() < PLACES_LEFT_MIN
    }

    /// Whether neither a unit nor the anchor names a place: an anchor has to, before there is another unit.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Whether it says nothing that pages on the medium do not, and holds nothing back.
    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.walk.is_empty() && self.segments.places.is_empty()
    }

    /// Whether anything would be let go of by a checkpoint, or by another one after it.
    pub fn keeps_blocks(&self) -> bool {
        !self.is_empty() || !self.passed.is_empty()
    }
}
