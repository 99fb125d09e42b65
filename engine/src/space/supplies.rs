//! The supplies of free blocks that are ready, and the host's map of the store, as the rest of the engine uses them.

use super::Space;
use super::supply::{Ground, Supply};
use super::unwritten::Unwritten;
use crate::units::{Bytes, Pbn};
use std::ops::Range;

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
        self.supplies().iter().flat_map(|supply| supply.ready.iter().copied().chain(supply.containers.ready()))
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
            self.supply(ground).ready_around(pbn).push_front(pbn);
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
