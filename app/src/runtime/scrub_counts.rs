//! The counts of a scrub, as reports show them.

use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::stats::{DamagedPiece, ScrubCounts};
use serde::{Deserialize, Serialize};

/// A scrub: how far it is, and what the last one found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scrub {
    pub is_under_way: bool,
    pub is_paused: bool,
    /// The last order is durable, so far as it can be: a volume that is only read keeps none. An older server does not say.
    #[serde(default = "by_an_older_server")]
    pub is_order_kept: bool,
    /// The blocks that it has looked at, and all that the volume has, metadata and unused ones included.
    pub done_blocks: u64,
    pub all_blocks: u64,
    /// The blocks that hold something now, which it has to read; those of metadata that were never written are left out.
    #[serde(default)]
    pub in_use_blocks: u64,
    /// The most that it reads in a second; 0 where none is under way.
    pub kib_per_second: u32,
    /// Blocks that it has read since the volume was attached, or since it began.
    pub read_blocks: u64,
    /// The scrubs of this volume that have ended. The results are those of the last one where none is under way.
    pub ended_scrubs: u32,
    /// Damaged blocks that it has found, and those that were damaged and are durably whole again.
    pub damaged_blocks: u64,
    pub mended_blocks: u64,
    /// Logical blocks that it has come to and that were given up before: reads fail until they are written or discarded.
    pub lost_blocks: u64,
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

fn by_an_older_server() -> bool {
    true
}

impl Scrub {
    /// Converts the engine's counts.
    pub(super) fn of(counts: &ScrubCounts, in_use_blocks: u64) -> Self {
        let found = |piece: &DamagedPiece| Found { part: name(piece.part).to_owned(), number: piece.number, is_mended: piece.is_mended };
        Self {
            is_under_way: counts.is_under_way,
            is_paused: counts.is_paused,
            is_order_kept: counts.is_order_kept,
            done_blocks: counts.done,
            all_blocks: counts.all,
            in_use_blocks,
            kib_per_second: counts.kib_per_second,
            read_blocks: counts.read_units,
            ended_scrubs: counts.ended,
            damaged_blocks: counts.damaged,
            mended_blocks: counts.mended,
            lost_blocks: counts.lost,
            found: counts.listed.iter().map(found).collect(),
        }
    }
}

/// Says what a scrub has found.
#[must_use]
pub fn found(damaged: u64, mended: u64, lost: u64) -> String {
    let parts = [(damaged, "damaged"), (mended, "mended"), (lost, "lost before")];
    let parts: Vec<String> =
        parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, is)| format!("{} {is}", blocks(number))).collect();
    if parts.is_empty() { "no damage".to_owned() } else { parts.join(", ") }
}

/// A number of blocks, in words.
#[must_use]
pub fn blocks(number: u64) -> String {
    if number == 1 { "1 block".to_owned() } else { format!("{number} blocks") }
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
