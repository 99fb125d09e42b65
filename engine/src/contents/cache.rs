//! The read cache: blocks by PBN, so that what many LBNs share is kept once (SmartDedup section 3.4).
//!
//! 1. A block's entry goes when the block is freed; a read that began before that does not fill the cache (R7, `read.rs`).
//! 2. The clock's hand takes the entries not used since its last round.
//! 3. A full cache takes in only what it has not long ago let pass: a stream that reads everything once neither costs copies nor drives out
//!    what is used (Johnson and Shasha's 2Q).
//! 4. A quarter of it holds the newest of the blocks that were just written. Such a block stays when it has been used by the time that
//!    newer ones push it out.

use crate::buffer::{BufferMut, Slice};
use crate::map::Map;
use crate::memory::{Accountant, Part};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Pbn, count, index};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes charged for each block.
const COST_BYTES: u64 = BLOCK_BYTES + 128;

pub(crate) struct ReadCache {
    places: Map<Pbn, usize>,
    slots: Vec<Option<(Pbn, Slice, bool)>>,
    vacant: Vec<usize>,
    hand: usize,
    passed: Passed,
    /// The blocks that were taken in as they were written, the oldest first. Some may have been forgotten since, and hold other content by
    /// now.
    written: VecDeque<Pbn>,
    /// The most of them.
    written_max: usize,
    accountant: Arc<Accountant>,
}

/// The blocks that a full cache let pass, some time back: each place remembers the last of those that share it.
struct Passed {
    /// For each place PBN ÷ places + 1 of the block whose PBN modulo places it is; 0 is none. A power of two of places.
    places: Box<[u32]>,
}

impl Passed {
    /// Remembers twice as many blocks as the cache holds.
    fn new(blocks: u64) -> Self {
        let places = index(blocks.saturating_mul(2)).next_power_of_two();
        Self { places: vec![0; places].into_boxed_slice() }
    }

    fn bytes(&self) -> u64 {
        count(size_of_val(&*self.places))
    }

    /// Whether the block passed not long ago; if not, it does now.
    fn again(&mut self, pbn: Pbn) -> bool {
        let places = count(self.places.len());
        let place = &mut self.places[index(pbn.0 % places)];
        // Where there are so many blocks that this wraps round, two would be taken for one: no more than a needless copy.
        let [a, b, c, d, ..] = (pbn.0 / places + 1).to_le_bytes();
        let name = u32::from_le_bytes([a, b, c, d]);
        std::mem::replace(place, name) == name
    }
}

impl ReadCache {
    pub fn new(accountant: Arc<Accountant>) -> Self {
        let blocks = accountant.limit(Part::ReadCache) / COST_BYTES;
        let passed = Passed::new(blocks);
        accountant.take(Part::ReadCache, passed.bytes());
        let (written, written_max) = (VecDeque::new(), index(blocks / 4));
        Self { places: Map::default(), slots: Vec::new(), vacant: Vec::new(), hand: 0, passed, written, written_max, accountant }
    }

    pub fn get(&mut self, pbn: Pbn) -> Option<Slice> {
        let slot = self.slots[*self.places.get(&pbn)?].as_mut().expect("the place of a block is filled until it is forgotten");
        slot.2 = true;
        Some(slot.1.clone())
    }

    /// Takes a block in where there is room, or where it came by before. Keeps a copy, so that one block does not keep the buffer of the
    /// whole request alive.
    pub fn fill(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) {
        if self.places.contains_key(&pbn) {
            return;
        }
        if !self.accountant.try_take(Part::ReadCache, COST_BYTES) {
            if !self.passed.again(pbn) {
                return;
            }
            self.evict();
            self.accountant.take(Part::ReadCache, COST_BYTES);
        }
        self.insert(pbn, block);
    }

    /// Takes in a block that was just written: a write of the same content that follows soon finds it here.
    pub fn fill_written(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) {
        self.forget(pbn);
        if self.written.len() >= self.written_max {
            let oldest = self.written.pop_front();
            oldest.into_iter().for_each(|pbn| self.forget_unused(pbn));
        }
        if !self.accountant.try_take(Part::ReadCache, COST_BYTES) {
            self.evict();
            self.accountant.take(Part::ReadCache, COST_BYTES);
        }
        self.written.push_back(pbn);
        self.insert(pbn, block);
    }

    fn insert(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) {
        let mut copy = BufferMut::zeroed(1);
        copy.block_mut(0).copy_from_slice(block);
        let slot = Some((pbn, copy.freeze().slice(0, 1), false));
        let place = if let Some(place) = self.vacant.pop() {
            self.slots[place] = slot;
            place
        } else {
            self.slots.push(slot);
            self.slots.len() - 1
        };
        self.places.insert(pbn, place);
    }

    pub fn forget(&mut self, pbn: Pbn) {
        if let Some(place) = self.places.remove(&pbn) {
            self.slots[place] = None;
            self.vacant.push(place);
            self.accountant.give(Part::ReadCache, COST_BYTES);
        }
    }

    fn forget_unused(&mut self, pbn: Pbn) {
        let is_unused = |&place: &usize| matches!(self.slots[place], Some((_, _, false)));
        if self.places.get(&pbn).is_some_and(is_unused) {
            self.forget(pbn);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> (ReadCache, u64) {
        let accountant = Accountant::new(2 << 20);
        let mut cache = ReadCache::new(accountant.clone());
        let slots = (accountant.limit(Part::ReadCache) - accountant.used(Part::ReadCache)) / COST_BYTES;
        (0..slots).for_each(|n| cache.fill(Pbn(n), &[7; BLOCK_SIZE]));
        assert!((0..slots).all(|n| cache.get(Pbn(n)).is_some()), "there was room for {slots}");
        assert!(accountant.within(Part::ReadCache));
        (cache, slots)
    }

    #[test]
    fn what_passes_once_drives_nothing_out() {
        let (mut cache, slots) = full();
        (slots..100_000).for_each(|n| cache.fill(Pbn(n), &[8; BLOCK_SIZE]));
        assert!((0..slots).all(|n| cache.get(Pbn(n)).is_some()));
    }

    #[test]
    fn what_was_written_pushes_out_what_was_written_before_and_not_used() {
        let (mut cache, slots) = full();
        let written = 100_000..100_000 + slots;
        for n in written.clone() {
            cache.fill_written(Pbn(n), &[9; BLOCK_SIZE]);
            assert!(n % 50 > 0 || cache.get(Pbn(n)).is_some_and(|slice| slice.block(0)[0] == 9), "it was just written");
        }
        let used = written.clone().filter(|n| n % 50 == 0);
        assert!(used.clone().all(|n| cache.get(Pbn(n)).is_some()));
        let left = written.filter(|&n| cache.get(Pbn(n)).is_some()).count();
        assert!((index(slots / 4)..=index(slots / 4) + used.count()).contains(&left), "{left}");
        let read = (0..slots).filter(|&n| cache.get(Pbn(n)).is_some()).count();
        assert!(read >= index(slots * 2 / 3), "{read} of {slots}");
        assert!(cache.accountant.within(Part::ReadCache));
    }

    #[test]
    fn what_comes_again_is_taken_in() {
        let (mut cache, slots) = full();
        for n in slots..2 * slots {
            cache.fill(Pbn(n), &[8; BLOCK_SIZE]);
            assert!(cache.get(Pbn(n)).is_none());
        }
        (slots..2 * slots).for_each(|n| cache.fill(Pbn(n), &[8; BLOCK_SIZE]));
        let found = (slots..2 * slots).filter(|&n| cache.get(Pbn(n)).is_some_and(|slice| slice.block(0)[0] == 8)).count();
        assert_eq!(index(slots), found);
        assert!(cache.accountant.within(Part::ReadCache));
    }
}
