//! The blocks with entries that the work out of line has read lately: only a carrier itself has the fingerprints of its slots, and only the
//! device knows whether a block still holds what its entry says.

use super::slot::Place;
use crate::fingerprint::Fingerprint;
use crate::units::{Pbn, Time};
use std::collections::VecDeque;

/// The most blocks. The search for the place of one LBN needs two carriers at once.
const BLOCKS_MAX: usize = 32;
/// The time after the end of its reads for which they show that a block can be linked to. Whoever reads acts at that end, so slow reads
/// are no older.
const FRESH_MS: u64 = 1_000;

/// A block that was read.
struct BlockRead {
    pbn: Pbn,
    /// The value of the entry that named its content when it was read. Another content has another one.
    value: Fingerprint,
    /// The fingerprints of its slots, or its own. Empty if the block was not what the entry says.
    contents: Vec<Fingerprint>,
    /// The end of the reads that were under way together with this one; none before that.
    end: Option<Time>,
}

/// The blocks that were read, the oldest first.
#[derive(Default)]
pub(crate) struct BlocksRead {
    blocks: VecDeque<BlockRead>,
}

impl BlocksRead {
    /// Notes the contents of a block that its entry names by `value`. None is known of an older block then, if there is no more room.
    pub fn add(&mut self, pbn: Pbn, value: Fingerprint, contents: Vec<Fingerprint>) {
        if self.blocks.len() == BLOCKS_MAX {
            self.blocks.pop_front();
        }
        self.blocks.push_back(BlockRead { pbn, value, contents, end: None });
    }

    /// Notes that no read is under way any more.
    pub fn have_ended(&mut self, now: Time) {
        self.blocks.iter_mut().for_each(|block| block.end = block.end.or(Some(now)));
    }

    fn find(&self, pbn: Pbn, value: &Fingerprint) -> Option<&BlockRead> {
        self.blocks.iter().rev().find(|block| block.pbn == pbn && block.value == *value)
    }

    /// The fingerprints of the slots of the carrier that its entry names by `value`, if they are known.
    pub fn slots_of(&self, pbn: Pbn, value: &Fingerprint) -> Option<&[Fingerprint]> {
        self.find(pbn, value).map(|block| &block.contents[..])
    }

    /// Whether a place, whose block has an entry with this value, was just read, and held this content.
    pub fn holds(&self, (pbn, slot): Place, value: &Fingerprint, content: &Fingerprint, now: Time) -> bool {
        let at = usize::from(slot.saturating_sub(1));
        let block = self.find(pbn, value).filter(|block| block.end.is_none_or(|end| now <= end.plus_ms(FRESH_MS)));
        block.is_some_and(|block| block.contents.get(at) == Some(content))
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fp(n: u8) -> Fingerprint {
        Fingerprint::of_digest(&[n; 20])
    }

    #[test]
    fn another_carrier_at_the_same_block_is_unknown() {
        let mut known = BlocksRead::default();
        known.add(Pbn(5), fp(1), vec![fp(2), fp(3)]);
        assert_eq!(known.slots_of(Pbn(5), &fp(1)), Some(&[fp(2), fp(3)][..]));
        assert_eq!((known.slots_of(Pbn(5), &fp(9)), known.slots_of(Pbn(6), &fp(1))), (None, None));
    }

    #[test]
    fn the_oldest_blocks_make_room() {
        let mut known = BlocksRead::default();
        (0..=BLOCKS_MAX as u64).for_each(|n| known.add(Pbn(n), fp(1), Vec::new()));
        assert!(known.slots_of(Pbn(0), &fp(1)).is_none() && known.slots_of(Pbn(1), &fp(1)).is_some());
        known.clear();
        assert!(known.slots_of(Pbn(1), &fp(1)).is_none());
    }

    #[test]
    fn a_read_shows_for_a_second_what_a_place_holds() {
        let (mut known, later) = (BlocksRead::default(), Time(0).plus_ms(FRESH_MS));
        known.add(Pbn(5), fp(1), vec![fp(2), fp(3)]);
        known.add(Pbn(6), fp(4), vec![fp(4)]);
        known.add(Pbn(7), fp(4), Vec::new());
        assert!(known.holds((Pbn(6), 0), &fp(4), &fp(4), later.plus_ms(1)), "others are still being read");
        known.have_ended(Time(0));
        assert!(known.holds((Pbn(5), 2), &fp(1), &fp(3), later) && known.holds((Pbn(6), 0), &fp(4), &fp(4), later));
        assert!(!known.holds((Pbn(5), 1), &fp(1), &fp(3), later), "the other slot");
        assert!(!known.holds((Pbn(5), 2), &fp(1), &fp(3), later.plus_ms(1)), "it may have rotted since");
        assert!(!known.holds((Pbn(7), 0), &fp(4), &fp(4), later), "it was found damaged");
    }
}
