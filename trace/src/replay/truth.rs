//! The content that a volume should hold, as its client knows it; and from that, which of the client's writes are duplicates.
//!
//! 1. A write is a *live* duplicate if some mapped block holds its content at that moment, the written one included. It is an *ever*
//!    duplicate if its content was written before, or is live. All-zero blocks are neither; they are counted separately.
//! 2. Each block that a request touches counts as one unit, even if the request covers only a part of it.

use crate::info::Duplication;
use crate::replay::names::{SECTORS, Words, name_of_words};
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use rustc_hash::FxBuildHasher;
use std::collections::{HashMap, HashSet};

/// Counts of the client's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    pub units: u64,
    pub live: u64,
    pub ever: u64,
    pub zero: u64,
}

impl WriteCounts {
    /// Returns the counts since an earlier moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            units: self.units - earlier.units,
            live: self.live - earlier.live,
            ever: self.ever - earlier.ever,
            zero: self.zero - earlier.zero,
        }
    }

    /// Returns the shares of duplicates; 0 if nothing was written.
    #[must_use]
    pub fn duplication(&self) -> Duplication {
        Duplication::of(self.units, self.live, self.ever, self.zero).unwrap_or_default()
    }
}

/// The effect of writing one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteEffect {
    /// Whether the content is neither zero nor was ever written before.
    pub new: bool,
    /// Whether the block held something else.
    pub changed: bool,
}

/// The content of each block.
#[derive(Debug, Default)]
pub struct Truth {
    held: HashMap<u64, u64, FxBuildHasher>,
    /// The number of blocks that hold a content; an entry stays when it falls to 0.
    contents: HashMap<u64, u32, FxBuildHasher>,
    /// The words of contents that are combined from several.
    mixed: HashMap<u64, Words, FxBuildHasher>,
    /// The blocks that were written since a stretch began; none if none did.
    written: Option<HashSet<u64, FxBuildHasher>>,
    pub seen: WriteCounts,
}

impl Truth {
    /// Returns the words of a block.
    #[must_use]
    pub fn words(&self, lbn: u64) -> Words {
        let name = self.held.get(&lbn).copied().unwrap_or(0);
        self.mixed.get(&name).copied().unwrap_or([name; SECTORS])
    }

    /// Returns whether anything was written to the block and not discarded since.
    #[must_use]
    pub fn holds(&self, lbn: u64) -> bool {
        self.held.contains_key(&lbn)
    }

    /// Applies a write of `bytes` of the volume to this block, to which it brings `words`.
    pub fn write(&mut self, lbn: u64, words: &Words, bytes: &std::ops::Range<u64>) -> WriteEffect {
        let name = if bytes.start <= lbn * BLOCK_BYTES && (lbn + 1) * BLOCK_BYTES <= bytes.end {
            self.named(words)
        } else {
            self.name_over(lbn, words, bytes)
        };
        self.seen.units += 1;
        if let Some(written) = &mut self.written {
            written.insert(lbn);
        }
        let known = self.contents.get(&name).copied();
        let zero = name == 0;
        self.seen.zero += u64::from(zero);
        self.seen.live += u64::from(!zero && known.is_some_and(|blocks| blocks > 0));
        self.seen.ever += u64::from(!zero && known.is_some());
        let changed = self.put(lbn, name);
        WriteEffect { new: !zero && known.is_none(), changed }
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

    /// Returns the name of a content, and keeps the words that the name alone does not determine.
    fn named(&mut self, words: &Words) -> u64 {
        let name = name_of_words(words);
        if *words != [name; SECTORS] {
            self.mixed.insert(name, *words);
        }
        name
    }

    /// Stores a content, and returns whether the block held something else.
    fn put(&mut self, lbn: u64, name: u64) -> bool {
        let before = self.held.insert(lbn, name);
        if before == Some(name) {
            return false;
        }
        self.release(before);
        *self.contents.entry(name).or_insert(0) += 1;
        true
    }

    fn release(&mut self, name: Option<u64>) {
        if let Some(name) = name {
            *self.contents.get_mut(&name).expect("what is held is known") -= 1;
        }
    }

    /// Discards the whole blocks of `bytes`; with `zero_edges`, the touched parts of other blocks become zeros. Returns whether that
    /// changed anything.
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
        self.release(before);
        before.is_some()
    }

    /// Returns the blocks that hold something, in order.
    #[must_use]
    pub fn mapped(&self) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.held.keys().copied().collect();
        blocks.sort_unstable();
        blocks
    }

    /// Begins a stretch: from now on the blocks that are written are noted.
    pub fn begin_stretch(&mut self) {
        self.written = Some(HashSet::default());
    }

    /// Returns the number of blocks that were written in the stretch and hold something, and the number of their contents that no other
    /// block holds, zeros excluded.
    #[must_use]
    pub fn stretch(&self) -> (u64, u64) {
        let mut blocks = 0;
        let mut holders: HashMap<u64, u32, FxBuildHasher> = HashMap::default();
        for name in self.written.iter().flatten().filter_map(|lbn| self.held.get(lbn)) {
            blocks += 1;
            *holders.entry(*name).or_insert(0) += 1;
        }
        let own = holders.iter().filter(|&(name, count)| *name != 0 && self.contents.get(name) == Some(count)).count();
        (blocks, own as u64)
    }

    /// Returns the number of blocks that hold something, and the number of different contents that they hold, zeros excluded.
    #[must_use]
    pub fn live(&self) -> (u64, u64) {
        let contents = self.contents.iter().filter(|&(&name, &blocks)| name != 0 && blocks > 0).count();
        (self.held.len() as u64, contents as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(truth: &mut Truth, lbn: u64, name: u64) -> WriteEffect {
        truth.write(lbn, &[name; SECTORS], &(lbn * 4096..(lbn + 1) * 4096))
    }

    #[test]
    fn duplicates_are_live_or_only_remembered_and_zeros_are_neither() {
        let mut t = Truth::default();
        assert_eq!(write(&mut t, 0, 7), WriteEffect { new: true, changed: true });
        assert_eq!(write(&mut t, 1, 7), WriteEffect { new: false, changed: true });
        assert_eq!(write(&mut t, 1, 7), WriteEffect { new: false, changed: false });
        write(&mut t, 0, 8);
        write(&mut t, 1, 0);
        assert_eq!(t.seen, WriteCounts { units: 5, live: 2, ever: 2, zero: 1 });
        // No block holds 7 now: it is remembered, but not live.
        write(&mut t, 2, 7);
        assert_eq!(t.seen, WriteCounts { units: 6, live: 2, ever: 3, zero: 1 });
        assert!(t.discard(&(0..8192), false) && !t.discard(&(0..8192), false));
        assert_eq!((t.live(), t.mapped()), ((1, 1), vec![2]));
    }

    #[test]
    fn a_stretch_owns_what_no_other_block_holds() {
        let mut t = Truth::default();
        write(&mut t, 0, 7);
        assert_eq!(t.stretch(), (0, 0), "none has begun");
        t.begin_stretch();
        for (lbn, name) in [(1, 7), (2, 8), (3, 8), (4, 0), (5, 9)] {
            write(&mut t, lbn, name);
        }
        assert_eq!(t.stretch(), (5, 2), "7 was there before, and zeros need no block");
        t.discard(&(5 * 4096..6 * 4096), false);
        assert_eq!(t.stretch(), (4, 1));
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
