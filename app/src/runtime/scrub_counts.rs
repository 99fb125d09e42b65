//! The counts of a scrub, as reports show them.

use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::stats::{DamagedPiece, ScrubCounts};
use serde::{Deserialize, Serialize};

/// A scrub: how far it is, and what the last one found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scrub {
    pub is_under_way: bool,
    pub is_paused: bool,
    /// The blocks that it has looked at, and all that the volume has, metadata and unused ones included.
    pub done_blocks: u64,
    pub all_blocks: u64,
    /// The most that it reads in a second; 0 where none is under way.
    pub kib_per_second: u32,
    /// Blocks that it has read since the volume was attached, or since it began.
    pub read_blocks: u64,
    /// Damaged blocks that it has found since it began, and those that memory had and that are written again.
    pub damaged_blocks: u64,
    pub mended_blocks: u64,
    /// The first of them that were found since the volume was attached.
    pub found: Vec<Found>,
}

/// A damaged block that a scrub has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The part of the volume.
    pub part: String,
    /// The number of the block in that part; of data and of the log, as `onefold dump --pbn` takes it.
    pub number: u64,
    pub is_mended: bool,
}

impl Scrub {
    /// Converts the engine's counts.
    pub(super) fn of(counts: &ScrubCounts) -> Self {
        let found = |piece: &DamagedPiece| Found { part: name(piece.part).to_owned(), number: piece.number, is_mended: piece.is_mended };
        Self {
            is_under_way: counts.is_under_way,
            is_paused: counts.is_paused,
            done_blocks: counts.done,
            all_blocks: counts.all,
            kib_per_second: counts.kib_per_second,
            read_blocks: counts.read_units,
            damaged_blocks: counts.damaged,
            mended_blocks: counts.mended,
            found: counts.listed.iter().map(found).collect(),
        }
    }
}

/// Returns the name of a part in reports.
#[must_use]
pub const fn name(part: ScrubPart) -> &'static str {
    match part {
        ScrubPart::Superblocks => "superblock",
        ScrubPart::Written => "written",
        ScrubPart::Refs => "refs",
        ScrubPart::Fingerprints => "fingerprints",
        ScrubPart::Map => "map",
        ScrubPart::Data => "data",
        ScrubPart::Log => "log",
    }
}
