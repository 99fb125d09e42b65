//! The contents that are known at a moment: held by a mapped block, or ever written.
//!
//! Contents are numbered in order of appearance: a block costs a number, and a content costs its name and a count.

use crate::record::{ContentName, NAME_BYTES_MAX};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// The contents of a volume that was blank at the beginning.
#[derive(Debug, Default)]
pub struct Known {
    numbers: HashMap<[u8; NAME_BYTES_MAX], u32, FxBuildHasher>,
    /// The number of blocks that hold each content.
    holders: Vec<u32>,
    /// The number of the block write that last wrote each content.
    last: Vec<u64>,
    writes: u64,
    /// The number of the content of each block whose content is neither zero nor unknown.
    held: HashMap<u64, u32, FxBuildHasher>,
}

/// The knowledge of a content at the moment when it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorKnowledge {
    /// Whether some block held it.
    pub live: bool,
    /// Whether it had been written before.
    pub ever: bool,
    /// The number of block writes since the last one of this content: 1 for the write just before. 0 if it is new.
    pub back: u64,
}

impl Known {
    /// Applies a write of a block. Zeros and unknown content are never known before: they are counted separately.
    pub fn write(&mut self, block: u64, name: &ContentName) -> PriorKnowledge {
        self.writes += 1;
        let ContentName::Of(bytes) = name else {
            self.clear(block);
            return PriorKnowledge::default();
        };
        let next = u32::try_from(self.holders.len()).expect("a trace has fewer than 4 Gi contents");
        let number = *self.numbers.entry(*bytes).or_insert(next);
        let ever = number != next;
        if !ever {
            self.holders.push(0);
            self.last.push(self.writes);
        }
        let back = self.writes - std::mem::replace(&mut self.last[number as usize], self.writes);
        let live = self.holders[number as usize] > 0;
        self.clear(block);
        self.holders[number as usize] += 1;
        self.held.insert(block, number);
        PriorKnowledge { live, ever, back }
    }

    /// Applies writes of blocks of unknown content.
    pub fn write_unknown(&mut self, first: u64, count: u64) {
        self.writes += count;
        self.clear_range(first, count);
    }

    /// Empties blocks.
    pub fn clear_range(&mut self, first: u64, count: u64) {
        if count > self.held.len() as u64 {
            let holders = &mut self.holders;
            self.held.retain(|block, number| {
                let stays = *block < first || *block - first >= count;
                holders[*number as usize] -= u32::from(!stays);
                stays
            });
        } else {
            (first..first + count).for_each(|block| self.clear(block));
        }
    }

    fn clear(&mut self, block: u64) {
        if let Some(number) = self.held.remove(&block) {
            self.holders[number as usize] -= 1;
        }
    }

    /// Returns the number of distinct contents seen.
    pub fn contents(&self) -> u64 {
        self.numbers.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ContentName = ContentName::Of([1; NAME_BYTES_MAX]);
    const B: ContentName = ContentName::Of([2; NAME_BYTES_MAX]);

    #[test]
    fn an_overwritten_content_is_known_ever_and_not_live() {
        let mut known = Known::default();
        assert_eq!(known.write(0, &A), PriorKnowledge { live: false, ever: false, back: 0 });
        assert_eq!(known.write(0, &A), PriorKnowledge { live: true, ever: true, back: 1 }, "the overwritten block counts");
        assert_eq!(known.write(0, &B), PriorKnowledge { live: false, ever: false, back: 0 });
        assert_eq!(known.write(1, &A), PriorKnowledge { live: false, ever: true, back: 2 });
        assert_eq!(known.write(2, &A), PriorKnowledge { live: true, ever: true, back: 1 });
        known.clear_range(1, 1);
        known.clear_range(2, u64::MAX);
        assert_eq!(known.write(3, &A), PriorKnowledge { live: false, ever: true, back: 1 });
        assert_eq!(known.write(4, &ContentName::Zero), PriorKnowledge::default());
        assert_eq!(known.contents(), 2);
    }
}
