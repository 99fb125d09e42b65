//! Counts the contents of blocks in bounded memory.
//!
//! 1. As long as all contents fit, the count is exact, except that 64 bits of hash identify a content: among 100 million, two are mistaken
//!    for one with a probability of 0.03 %.
//! 2. When they no longer fit, every other content is forgotten, and from then on only contents of that half are counted; then of a
//!    quarter, and so on. Which ones these are, the hash decides, so that a content is counted wherever it comes, or nowhere.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// The bytes that an entry takes, in the fullest table and with its byte of control, when the table has just grown.
const ENTRY_BYTES: u64 = 2 * (size_of::<(u64, Kind)>() as u64 + 1);
/// The fewest contents that are counted.
const CONTENTS_MIN: usize = 1024;

/// The number of a kind of files.
pub type Kind = u16;

/// Whether a content was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    First,
    Again,
    /// It is not in the sample.
    Unknown,
}

/// The contents, as far as they are counted.
pub struct Contents {
    /// By hash: the kind of file that had the content first.
    first: HashMap<u64, Kind, FxBuildHasher>,
    most: usize,
    /// One content in two to the power of this is counted.
    rank: u32,
}

impl Contents {
    /// Counts in about this many bytes.
    pub fn new(memory_bytes: u64) -> Self {
        let most = usize::try_from(memory_bytes / ENTRY_BYTES).unwrap_or(usize::MAX).max(CONTENTS_MIN);
        Self { first: HashMap::default(), most, rank: 0 }
    }

    /// Notes a block of this kind of file.
    pub fn note(&mut self, hash: u64, kind: Kind) -> Seen {
        if hash.trailing_zeros() < self.rank {
            return Seen::Unknown;
        }
        if self.first.contains_key(&hash) {
            return Seen::Again;
        }
        while self.first.len() >= self.most {
            self.rank += 1;
            self.first.retain(|hash, _| hash.trailing_zeros() >= self.rank);
        }
        if hash.trailing_zeros() >= self.rank {
            self.first.insert(hash, kind);
        }
        Seen::First
    }

    /// One content in this many was counted.
    pub fn sampled(&self) -> u64 {
        1 << self.rank
    }

    /// The estimated number of contents that files of each kind have had first, for that many kinds.
    pub fn by_kind(&self, kinds: usize) -> Vec<u64> {
        let mut firsts = vec![0; kinds];
        for kind in self.first.values() {
            firsts[usize::from(*kind)] += self.sampled();
        }
        firsts
    }

    /// The standard error of the total, as a share of it.
    #[allow(clippy::cast_precision_loss)] // counts are far below 2^52
    pub fn error(&self) -> f64 {
        if self.rank == 0 || self.first.is_empty() {
            0.0
        } else {
            (1.0 - 1.0 / self.sampled() as f64).sqrt() / (self.first.len() as f64).sqrt()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash as even as those of contents.
    fn hash(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).swap_bytes()
    }

    #[test]
    fn what_fits_is_counted_exactly_by_who_had_it_first() {
        let mut contents = Contents::new(1 << 20);
        assert!((0..1000).all(|number| contents.note(hash(number), 0) == Seen::First));
        assert!((500..1000).all(|number| contents.note(hash(number), 1) == Seen::Again));
        assert!((1000..1200).all(|number| contents.note(hash(number), 1) == Seen::First));
        assert_eq!((contents.by_kind(3), contents.sampled(), contents.error()), (vec![1000, 200, 0], 1, 0.0));
    }

    #[test]
    fn a_sample_tells_about_all_within_its_error() {
        let mut contents = Contents { most: 2000, ..Contents::new(0) };
        for number in 0..100_000 {
            contents.note(hash(number % 60_000), u16::from(number % 4 == 0));
        }
        let by_kind = contents.by_kind(2);
        let total = by_kind.iter().sum::<u64>();
        assert!(contents.first.len() <= 2000 && contents.sampled() >= 32, "{}", contents.sampled());
        let error = contents.error();
        assert!((0.02..0.04).contains(&error), "{error}");
        // Within three standard errors; the hashes are always the same.
        assert!(total.abs_diff(60_000) < 60_000 * 9 / 100, "{total}");
        assert!(by_kind[1].abs_diff(15_000) < 15_000 / 4, "{by_kind:?}");
        let seen = contents.note(hash(1), 0);
        assert!(matches!(seen, Seen::Unknown | Seen::Again), "{seen:?}");
    }
}
