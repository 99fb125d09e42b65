//! Runs of blocks that are kept for units of the log to come.
//!
//! 1. Units fill them in order: run by run, each from its first block.

use super::entry::PBN_MAX;
use super::layout::layout;
use crate::units::Pbn;

/// The most runs that a unit, or the log tail, names.
pub const PLACES_MAX: usize = 32;
/// The most blocks of one run.
pub const PLACES_BLOCKS_MAX: u8 = 64;

layout! {
    /// One run.
    at, "Run of places", 6;
    FIRST 5,
    BLOCKS 1,
}

/// Bytes of a run.
pub const PLACES_BYTES: usize = at::LAYOUT.bytes;

/// A run of neighbouring blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    pub first: Pbn,
    /// 1 to [`PLACES_BLOCKS_MAX`].
    pub blocks: u8,
}

impl Places {
    /// The block behind the last.
    #[must_use]
    pub fn end(self) -> Pbn {
        self.first + u64::from(self.blocks)
    }

    /// Its blocks, in order.
    pub fn pbns(self) -> impl Iterator<Item = Pbn> {
        (0..u64::from(self.blocks)).map(move |i| self.first + i)
    }

    fn is_sound(self) -> bool {
        let blocks = u64::from(self.blocks);
        (1..=PLACES_BLOCKS_MAX).contains(&self.blocks) && self.first <= PBN_MAX && blocks <= PBN_MAX - self.first + 1
    }
}

/// Writes the table of all runs.
///
/// # Panics
/// When the table has no room for them, or one of them is no run of blocks that a volume can have.
pub(super) fn encode(places: &[Places], out: &mut [u8]) {
    assert!(places.len() * PLACES_BYTES <= out.len(), "{} runs of places", places.len());
    for (run, out) in places.iter().zip(out.chunks_exact_mut(PLACES_BYTES)) {
        assert!(run.is_sound(), "no places: {run:?}");
        at::FIRST.set(out, run.first.get());
        at::BLOCKS.set(out, u64::from(run.blocks));
    }
}

/// The runs of a table that is full; none where one of them cannot be.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Places>> {
    let run = |bytes: &[u8]| {
        let [blocks] = at::BLOCKS.array(bytes);
        Some(Places { first: Pbn(at::FIRST.get(bytes)), blocks }).filter(|run| run.is_sound())
    };
    bytes.chunks_exact(PLACES_BYTES).map(run).collect()
}
