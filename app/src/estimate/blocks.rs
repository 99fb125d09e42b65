//! Numbers of blocks, and what is found out of them.

use std::iter::Sum;

/// The numbers of blocks of one kind of files, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Blocks {
    /// Blocks of zeros, which take no room.
    pub zero: u64,
    /// All other blocks.
    pub written: u64,
    /// The different contents among these; of a kind: those that no file of another kind had before.
    pub contents: u64,
    /// The blocks that would hold them, packs taken into account.
    pub holders: f64,
}

impl Sum for Blocks {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            zero: sum.zero + one.zero,
            written: sum.written + one.written,
            contents: sum.contents + one.contents,
            holders: sum.holders + one.holders,
        })
    }
}
