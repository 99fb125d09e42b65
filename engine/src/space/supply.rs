//! Free blocks that were checked, and the search for further ones.
//!
//! 1. On a device there is one kind of them. On a file there are two: blocks at which the host has written before, and others
//!    (`unwritten.rs`).
//! 2. A search visits the granules in turn, and goes round. It skips those that have no block of its kind.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use super::unwritten::Unwritten;
use crate::format::geometry::Geometry;
use crate::units::{Bytes, Pbn};
use std::collections::VecDeque;
use std::ops::Range;

/// The number of free blocks that are kept ready.
pub(super) const READY_BLOCKS: usize = 512;

/// What the host knows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// It was written before, or the host makes no difference.
    Written,
    Unwritten,
}

impl Ground {
    pub const fn other(self) -> Self {
        match self {
            Self::Written => Self::Unwritten,
            Self::Unwritten => Self::Written,
        }
    }
}

/// Free blocks of one kind.
pub(super) struct Supply {
    /// The blocks, in the order in which they will be allocated.
    pub ready: VecDeque<Pbn>,
    /// The granule whose pages the search waits for.
    pub preparing: Option<u64>,
    /// The number of granules examined since the last one that had a free block.
    pub fruitless: u64,
    /// A free block was skipped since then, because it was in use.
    pub passed_over: bool,
    /// The granule that is examined next.
    pub cursor: u64,
}

impl Supply {
    pub fn from(granule: u64) -> Self {
        Self { ready: VecDeque::new(), preparing: None, fruitless: 0, passed_over: false, cursor: granule }
    }

    /// Some block is no longer in use. It may be one that was skipped.
    pub fn no_longer_busy(&mut self) {
        if std::mem::take(&mut self.passed_over) {
            self.fruitless = 0;
        }
    }
}

/// The number of granules from this one on, of `granules`, that have no block of this kind for certain.
pub(super) fn granules_without(unwritten: &Unwritten, geometry: &Geometry, ground: Ground, granule: u64) -> u64 {
    let first = Pbn(granule * GRANULE_BLOCKS);
    let end = match ground {
        Ground::Written => unwritten.end_of_run(first).unwrap_or(first),
        Ground::Unwritten => unwritten.next_from(first).unwrap_or(Pbn(geometry.data_blocks)),
    };
    if end.0 == geometry.data_blocks { geometry.data_blocks.div_ceil(GRANULE_BLOCKS) - granule } else { (end - first) / GRANULE_BLOCKS }
}

impl Space {
    /// The kind of a block.
    pub(super) fn ground_of(&self, pbn: Pbn) -> Ground {
        if self.unwritten.contains(pbn) { Ground::Unwritten } else { Ground::Written }
    }

    pub(super) fn supply(&mut self, ground: Ground) -> &mut Supply {
        &mut self.supplies[ground as usize]
    }

    /// The supplies that may have blocks.
    fn supplies(&self) -> &[Supply] {
        &self.supplies[..if self.unwritten.is_empty() { 1 } else { 2 }]
    }

    /// The blocks that are about to be allocated.
    pub(super) fn ready_blocks(&self) -> impl Iterator<Item = Pbn> {
        self.supplies().iter().flat_map(|supply| supply.ready.iter().copied())
    }

    /// Whether free blocks are ready to be allocated.
    pub fn has_ready(&self) -> bool {
        self.supplies().iter().any(|supply| !supply.ready.is_empty())
    }

    /// Whether a search for free blocks waits for a page.
    pub fn search_waits(&self) -> bool {
        self.supplies().iter().any(|supply| supply.preparing.is_some())
    }

    /// Whether a search for free blocks has not yet been everywhere.
    pub fn is_searching(&self) -> bool {
        self.supplies().iter().any(|supply| supply.fruitless <= self.granules())
    }

    /// Blocks were allocated and not written. They are allocated again, in this order, before others.
    pub fn take_back(&mut self, blocks: impl DoubleEndedIterator<Item = Pbn>) {
        for pbn in blocks.rev() {
            let ground = self.ground_of(pbn);
            self.supply(ground).ready.push_front(pbn);
        }
        self.no_longer_busy();
    }

    /// Takes the ranges of the store at which its host has never written.
    pub fn take_unwritten(&mut self, ranges: &[Range<Bytes>]) {
        self.unwritten = Unwritten::of(&self.geometry, ranges);
    }

    /// Blocks are about to be written.
    pub fn writes(&mut self, first: Pbn, blocks: u64) {
        if !self.unwritten.is_empty() {
            self.unwritten.written(first, blocks);
        }
    }
}
