//! The read cache: blocks by PBN, so that what many LBNs share is kept once (SmartDedup section 3.4).
//!
//! 1. A block's entry goes when the block is freed; a read that began before that does not fill the cache (R7, `read.rs`).
//! 2. The clock's hand takes the entries not used since its last round.

use crate::Map;
use crate::buffer::{BufferMut, Slice};
use crate::memory::{Accountant, Part};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Pbn};
use std::sync::Arc;

/// Bytes charged for each block.
const COST_BYTES: u64 = BLOCK_BYTES + 128;

pub(crate) struct ReadCache {
    places: Map<Pbn, u32>,
    slots: Vec<Option<(Pbn, Slice, bool)>>,
    vacant: Vec<u32>,
    hand: usize,
    accountant: Arc<Accountant>,
}

impl ReadCache {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        Self { places: Map::default(), slots: Vec::new(), vacant: Vec::new(), hand: 0, accountant }
    }

    pub fn get(&mut self, pbn: Pbn) -> Option<Slice> {
        let slot = self.slots[*self.places.get(&pbn)? as usize].as_mut().expect("a named place is filled");
        slot.2 = true;
        Some(slot.1.clone())
    }

    /// Keeps a copy, so that one block does not hold on to the request it came with.
    pub fn fill(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) {
        if self.places.contains_key(&pbn) {
            return;
        }
        while !self.accountant.try_take(Part::ReadCache, COST_BYTES) {
            self.evict();
        }
        let mut copy = BufferMut::zeroed(1);
        copy.block_mut(0).copy_from_slice(block);
        let slot = Some((pbn, copy.freeze().slice(0, 1), false));
        let place = if let Some(place) = self.vacant.pop() {
            self.slots[place as usize] = slot;
            place
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("blocks in memory are bounded by the budget")
        };
        self.places.insert(pbn, place);
    }

    pub fn forget(&mut self, pbn: Pbn) {
        if let Some(place) = self.places.remove(&pbn) {
            self.slots[place as usize] = None;
            self.vacant.push(place);
            self.accountant.give(Part::ReadCache, COST_BYTES);
        }
    }

    fn evict(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            if let Some((pbn, _, used)) = &mut self.slots[self.hand] {
                if !std::mem::take(used) {
                    let pbn = *pbn;
                    return self.forget(pbn);
                }
            }
        }
    }
}
