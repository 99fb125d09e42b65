//! The read cache. It has blocks by PBN, so content that many LBNs share is kept once (SmartDedup section 3.4).
//!
//! 1. A block's entry is removed when the block is freed. A read that began before does not fill the cache (R7, `requests/read.rs`).
//! 2. The clock's hand evicts the entries that were not used since its last round.
//! 3. A full cache takes in a block for good only when it sees the block for the second time within a while. So a stream that reads
//!    everything once costs no copies and evicts nothing that is used (Johnson and Shasha's 2Q).
//! 4. A quarter of the cache holds the newest blocks: those just written, and those that a read of one block brought, since another LBN
//!    may soon mean the same block. Newer ones push such a block out, unless it was used meanwhile.

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
    /// The newest blocks, the oldest of them first. Some may have been forgotten since then, and may hold other content now.
    newest: VecDeque<Pbn>,
    /// The most such blocks.
    newest_max: usize,
    accountant: Arc<Accountant>,
}

/// The blocks that a full cache did not take in lately. Of all blocks that share an entry, it has the last.
struct Passed {
    /// An entry is a block's PBN ÷ length + 1, at the block's PBN modulo length; 0 is none. The length is a power of two.
    places: Box<[u32]>,
}

impl Passed {
    /// Has twice as many entries as the cache has blocks.
    fn new(blocks: u64) -> Self {
        let places = index(blocks.saturating_mul(2)).next_power_of_two();
        Self { places: vec![0; places].into_boxed_slice() }
    }

    fn bytes(&self) -> u64 {
        count(size_of_val(&*self.places))
    }

    /// Whether the block passed lately. Notes that it passes now.
    fn again(&mut self, pbn: Pbn) -> bool {
        let places = count(self.places.len());
        let place = &mut self.places[index(pbn.0 % places)];
        // On a volume so large that this wraps round, two blocks may be taken for one, which costs only a needless copy.
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
        let (newest, newest_max) = (VecDeque::new(), index(blocks / 4));
        Self { places: Map::default(), slots: Vec::new(), vacant: Vec::new(), hand: 0, passed, newest, newest_max, accountant }
    }

    pub fn get(&mut self, pbn: Pbn) -> Option<Slice> {
        let slot = self.slots[*self.places.get(&pbn)?].as_mut().expect("the place of a block is filled until it is forgotten");
        slot.2 = true;
        Some(slot.1.clone())
    }

    /// Takes a block in if there is room or the block passed lately, or as one of the newest if it `is_alone`, the only one of its read.
    /// Keeps a copy, so that one block does not keep the buffer of the whole request alive.
    pub fn fill(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE], is_alone: bool) {
        if self.places.contains_key(&pbn) {
            return;
        }
        if !self.accountant.try_take(Part::ReadCache, COST_BYTES) {
            if !self.passed.again(pbn) {
                if is_alone {
                    self.fill_newest(pbn, block);
                }
                return;
            }
            self.evict();
            self.accountant.take(Part::ReadCache, COST_BYTES);
        }
        self.insert(pbn, block);
    }

    /// Takes in a block that was just written, so that a write of the same content that follows soon finds it.
    pub fn fill_written(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) {
        self.forget(pbn);
        self.fill_newest(pbn, block);
    }

    fn fill_newest(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) {
        if self.newest.len() >= self.newest_max {
            let oldest = self.newest.pop_front();
            oldest.into_iter().for_each(|pbn| self.forget_unused(pbn));
        }
        if !self.accountant.try_take(Part::ReadCache, COST_BYTES) {
            self.evict();
            self.accountant.take(Part::ReadCache, COST_BYTES);
        }
        self.newest.push_back(pbn);
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
        (0..slots).for_each(|n| cache.fill(Pbn(n), &[7; BLOCK_SIZE], false));
        assert!((0..slots).all(|n| cache.get(Pbn(n)).is_some()), "there was room for {slots}");
        assert!(accountant.within(Part::ReadCache));
        (cache, slots)
    }

    #[test]
    fn what_passes_once_drives_nothing_out() {
        let (mut cache, slots) = full();
        (slots..100_000).for_each(|n| cache.fill(Pbn(n), &[8; BLOCK_SIZE], false));
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
    fn a_block_that_was_read_alone_is_found_again_soon_and_drives_out_few() {
        let (mut cache, slots) = full();
        for n in slots..100_000 {
            cache.fill(Pbn(n), &[8; BLOCK_SIZE], true);
            assert!(cache.get(Pbn(n)).is_some_and(|slice| slice.block(0)[0] == 8), "another LBN means it, too");
            cache.fill(Pbn(n + 200_000), &[9; BLOCK_SIZE], true);
        }
        assert!(cache.accountant.within(Part::ReadCache));
        let (mut cache, slots) = full();
        (slots..100_000).for_each(|n| cache.fill(Pbn(n), &[8; BLOCK_SIZE], true));
        let kept = (0..slots).filter(|&n| cache.get(Pbn(n)).is_some()).count();
        assert!(kept >= index(slots * 2 / 3), "{kept} of {slots}");
    }

    #[test]
    fn what_comes_again_is_taken_in() {
        let (mut cache, slots) = full();
        for n in slots..2 * slots {
            cache.fill(Pbn(n), &[8; BLOCK_SIZE], false);
            assert!(cache.get(Pbn(n)).is_none());
        }
        (slots..2 * slots).for_each(|n| cache.fill(Pbn(n), &[8; BLOCK_SIZE], false));
        let found = (slots..2 * slots).filter(|&n| cache.get(Pbn(n)).is_some_and(|slice| slice.block(0)[0] == 8)).count();
        assert_eq!(index(slots), found);
        assert!(cache.accountant.within(Part::ReadCache));
    }
}
