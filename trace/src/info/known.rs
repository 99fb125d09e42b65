//! Which contents are known at a moment: held by a mapped block, or written ever.
//!
//! Contents are numbered as they come: a block costs a number, a content its name and a count.

use crate::record::{NAME_BYTES_MAX, Name};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// Contents of a volume that was blank at the beginning.
#[derive(Debug, Default)]
pub struct Known {
    numbers: HashMap<[u8; NAME_BYTES_MAX], u32, FxBuildHasher>,
    /// For each content the blocks that hold it.
    holders: Vec<u32>,
    /// For each content the number of the block write that wrote it last.
    last: Vec<u64>,
    writes: u64,
    /// For each block that holds a content that is neither zero nor unknown, its number.
    held: HashMap<u64, u32, FxBuildHasher>,
}

/// Whether the content of a block was known when it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Some block held it.
    pub live: bool,
    /// It had been written before.
    pub ever: bool,
    /// So many block writes ago, the last time; 1: by the one before. 0 where it is new.
    pub back: u64,
}

impl Known {
    /// A block is written. Zeros and unknown content are never known before: they are counted by themselves.
    pub fn write(&mut self, block: u64, name: &Name) -> Before {
        self.writes += 1;
        let Name::Of(bytes) = name else {
            self.clear(block);
            return Before::default();
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
        Before { live, ever, back }
    }

    /// Blocks are written that nothing is known of.
    pub fn write_unknown(&mut self, first: u64, count: u64) {
        self.writes += count;
        self.clear_range(first, count);
    }

    /// Blocks hold nothing any more.
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

    /// Distinct contents seen.
    pub fn contents(&self) -> u64 {
        self.numbers.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Name = Name::Of([1; NAME_BYTES_MAX]);
    const B: Name = Name::Of([2; NAME_BYTES_MAX]);

    #[test]
    fn an_overwritten_content_is_known_ever_and_not_live() {
        let mut known = Known::default();
        assert_eq!(known.write(0, &A), Before { live: false, ever: false, back: 0 });
        assert_eq!(known.write(0, &A), Before { live: true, ever: true, back: 1 }, "the same place counts");
        assert_eq!(known.write(0, &B), Before { live: false, ever: false, back: 0 });
        assert_eq!(known.write(1, &A), Before { live: false, ever: true, back: 2 });
        assert_eq!(known.write(2, &A), Before { live: true, ever: true, back: 1 });
        known.clear_range(1, 1);
        known.clear_range(2, u64::MAX);
        assert_eq!(known.write(3, &A), Before { live: false, ever: true, back: 1 });
        assert_eq!(known.write(4, &Name::Zero), Before::default());
        assert_eq!(known.contents(), 2);
    }
}
