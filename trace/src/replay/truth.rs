//! What a volume should hold, as its client knows it; and from that, what of the client's writes is a duplicate.
//!
//! 1. *Live*: some mapped block holds the content at that moment, the written one included. *Ever*: it was written before, or is live. Both
//!    leave all-zero blocks out, which are counted apart.
//! 2. Each block that a request touches counts as one unit, whole or not.

use crate::info::Duplication;
use crate::replay::names::{SECTORS, Words, name_of_words};
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// What was seen of the client's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub units: u64,
    pub live: u64,
    pub ever: u64,
    pub zero: u64,
}

impl Seen {
    /// What was seen since.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            units: self.units - earlier.units,
            live: self.live - earlier.live,
            ever: self.ever - earlier.ever,
            zero: self.zero - earlier.zero,
        }
    }

    /// Shares; 0 where nothing was written.
    #[must_use]
    pub fn duplication(&self) -> Duplication {
        Duplication::of(self.units, self.live, self.ever, self.zero).unwrap_or_default()
    }
}

/// What one written block meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meant {
    /// Neither zero nor ever written before.
    pub new: bool,
    /// The block held something else.
    pub changed: bool,
}

/// What each block holds.
#[derive(Debug, Default)]
pub struct Truth {
    held: HashMap<u64, u64, FxBuildHasher>,
    /// How many blocks hold a content; kept at 0.
    contents: HashMap<u64, u32, FxBuildHasher>,
    /// The words of contents that were put together.
    mixed: HashMap<u64, Words, FxBuildHasher>,
    pub seen: Seen,
}

impl Truth {
    /// The words of a block.
    #[must_use]
    pub fn words(&self, lbn: u64) -> Words {
        let name = self.held.get(&lbn).copied().unwrap_or(0);
        self.mixed.get(&name).copied().unwrap_or([name; SECTORS])
    }

    /// Whether anything was written there and not discarded since.
    #[must_use]
    pub fn holds(&self, lbn: u64) -> bool {
        self.held.contains_key(&lbn)
    }

    /// A write of `bytes` of the volume touches this block, and brings `words`.
    pub fn write(&mut self, lbn: u64, words: &Words, bytes: &std::ops::Range<u64>) -> Meant {
        let name = if bytes.start <= lbn * BLOCK_BYTES && (lbn + 1) * BLOCK_BYTES <= bytes.end {
            self.named(words)
        } else {
            self.name_over(lbn, words, bytes)
        };
        self.seen.units += 1;
        let known = self.contents.get(&name).copied();
        let zero = name == 0;
        self.seen.zero += u64::from(zero);
        self.seen.live += u64::from(!zero && known.is_some_and(|blocks| blocks > 0));
        self.seen.ever += u64::from(!zero && known.is_some());
        let changed = self.put(lbn, name);
        Meant { new: !zero && known.is_none(), changed }
    }

    fn name_over(&mut self, lbn: u64, words: &Words, bytes: &std::ops::Range<u64>) -> u64 {
        let mut here = self.words(lbn);
        for (i, word) in here.iter_mut().enumerate() {
            if bytes.contains(&(lbn * BLOCK_BYTES + i as u64 * SECTOR_BYTES)) {
                *word = words[i];
            }
        }
        self.named(&here)
    }

    /// The name of a content, whose words are kept where it does not tell them.
    fn named(&mut self, words: &Words) -> u64 {
        let name = name_of_words(words);
        if *words != [name; SECTORS] {
            self.mixed.insert(name, *words);
        }
        name
    }

    /// True if it held something else.
    fn put(&mut self, lbn: u64, name: u64) -> bool {
        let before = self.held.insert(lbn, name);
        if before == Some(name) {
            return false;
        }
        self.let_go(before);
        *self.contents.entry(name).or_insert(0) += 1;
        true
    }

    fn let_go(&mut self, name: Option<u64>) {
        if let Some(name) = name {
            *self.contents.get_mut(&name).expect("what is held is known") -= 1;
        }
    }

    /// Whole blocks of `bytes` hold nothing any more; with `zero_edges`, the touched parts of others become zeros. True if that changed anything.
    pub fn discard(&mut self, bytes: &std::ops::Range<u64>, zero_edges: bool) -> bool {
        let (first, end) = (bytes.start.div_ceil(BLOCK_BYTES), bytes.end / BLOCK_BYTES);
        let mut changed = false;
        if (self.held.len() as u64) < end.saturating_sub(first) {
            let gone: Vec<u64> = self.held.keys().copied().filter(|lbn| (first..end).contains(lbn)).collect();
            gone.into_iter().for_each(|lbn| changed |= self.drop_block(lbn));
        } else {
            (first..end).for_each(|lbn| changed |= self.drop_block(lbn));
        }
        if zero_edges {
            let (low, high) = (bytes.start / BLOCK_BYTES, bytes.end.saturating_sub(1) / BLOCK_BYTES);
            let edges = [Some(low), (high != low).then_some(high)];
            for lbn in edges.into_iter().flatten().filter(|lbn| !(first..end).contains(lbn)) {
                let name = self.name_over(lbn, &[0; SECTORS], bytes);
                changed |= self.put(lbn, name);
            }
        }
        changed
    }

    fn drop_block(&mut self, lbn: u64) -> bool {
        let before = self.held.remove(&lbn);
        self.let_go(before);
        before.is_some()
    }

    /// Blocks that hold something, in order.
    #[must_use]
    pub fn mapped(&self) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.held.keys().copied().collect();
        blocks.sort_unstable();
        blocks
    }

    /// How many blocks hold something, and how many different contents they hold, zeros left out.
    #[must_use]
    pub fn live(&self) -> (u64, u64) {
        let contents = self.contents.iter().filter(|&(&name, &blocks)| name != 0 && blocks > 0).count();
        (self.held.len() as u64, contents as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(truth: &mut Truth, lbn: u64, name: u64) -> Meant {
        truth.write(lbn, &[name; SECTORS], &(lbn * 4096..(lbn + 1) * 4096))
    }

    #[test]
    fn duplicates_are_live_or_only_remembered_and_zeros_are_apart() {
        let mut t = Truth::default();
        assert_eq!(write(&mut t, 0, 7), Meant { new: true, changed: true });
        assert_eq!(write(&mut t, 1, 7), Meant { new: false, changed: true });
        assert_eq!(write(&mut t, 1, 7), Meant { new: false, changed: false });
        write(&mut t, 0, 8);
        write(&mut t, 1, 0);
        assert_eq!(t.seen, Seen { units: 5, live: 2, ever: 2, zero: 1 });
        // Nobody holds 7 now: it is remembered, not live.
        write(&mut t, 2, 7);
        assert_eq!(t.seen, Seen { units: 6, live: 2, ever: 3, zero: 1 });
        assert!(t.discard(&(0..8192), false) && !t.discard(&(0..8192), false));
        assert_eq!((t.live(), t.mapped()), ((1, 1), vec![2]));
    }

    #[test]
    fn sectors_lie_over_what_was_there() {
        let mut t = Truth::default();
        write(&mut t, 3, 7);
        t.write(3, &[9; SECTORS], &(3 * 4096 + 512..3 * 4096 + 1024));
        assert_eq!(t.words(3), [7, 9, 7, 7, 7, 7, 7, 7]);
        t.discard(&(3 * 4096..3 * 4096 + 1024), true);
        assert_eq!(t.words(3), [0, 0, 7, 7, 7, 7, 7, 7]);
        t.discard(&(3 * 4096 + 512..5 * 4096), false);
        assert_eq!(t.words(3), [0, 0, 7, 7, 7, 7, 7, 7], "a discard takes whole blocks only");
    }
}
