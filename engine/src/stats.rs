//! A snapshot of all counts, for reports.

pub use crate::adaptation::{AdaptationCounts, Allowance};
use crate::format::Lifetime;
use crate::format::superblock::ScrubPart;
use crate::index::PrefetchCounts;
pub use crate::index::{Fill, SkippedCounts};
pub use crate::interface::{Progress, Unpacked};
pub use crate::ledger::{Count, EpochCounts, Ledger, LogEpochs, RIDES_BYTES_MAX, StreamCounts, Units};
pub use crate::space::RemovedLinks;

/// The blocks that the log uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBlocks {
    /// Units without slots, including those that the older pair of superblock copies needs.
    pub plain: u64,
    /// Places for coming units.
    pub places: u64,
    /// Units that an opening reads, with slots or without: those of the log tail, and compacted ones.
    pub to_scan: u64,
    pub compacted: u64,
}

/// The work out of line: what it has to do, and what it did since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfLineCounts {
    /// Whether there is such work, with the settings of this opening.
    pub is_on: bool,
    pub is_paused: bool,
    pub skipped: SkippedCounts,
    /// The entries that were taken of it, and are not gathered yet.
    pub taken: SkippedCounts,
    /// LBNs that somebody asked for, and that it has not looked at.
    pub asked_lbns: u64,
    /// LBNs that were set aside on free blocks until there are enough of them, and these blocks.
    pub aside_lbns: u64,
    pub aside_blocks: u64,
    /// LBNs that it looks for now; and pages of the fingerprint table that it has compared with them, of all its pages.
    pub candidates: u64,
    pub swept_pages: u64,
    pub pages: u64,
    /// LBNs that it has looked for, and those that it mapped to another block with the same content.
    pub looked_up: u64,
    pub linked: u64,
    /// The units that it has read.
    pub read_units: u64,
}

impl OutOfLineCounts {
    /// The LBNs that are still to be looked up: skipped, taken from the buffer, and asked for; not those that were set aside.
    #[must_use]
    pub const fn waiting_lbns(&self) -> u64 {
        self.skipped.lbns() + self.taken.lbns() + self.asked_lbns
    }
}

/// A scrub: how far it is, and what the last one found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    pub is_under_way: bool,
    pub is_paused: bool,
    /// The last order is durable, so far as it can be: a volume that is only read keeps none.
    pub is_order_kept: bool,
    /// The pieces of 4 KiB that it has looked at, and all that there are, used or not, without the log.
    pub done: u64,
    pub all: u64,
    /// The most that it reads in a second; 0 where none is under way.
    pub kib_per_second: u32,
    /// The pieces that it has read since the volume was opened, or since it began.
    pub read_units: u64,
    /// The number of scrubs of this volume that have ended. The next three are of the last one where none is under way.
    pub ended: u32,
    /// The damaged pieces that it has found.
    pub damaged: u64,
    /// Those that were damaged and are durably whole again.
    pub mended: u64,
    /// The lost logical blocks that it has come to: nothing says what they hold, and reads of them fail until they are written or
    /// discarded.
    pub lost: u64,
    /// The first pieces that it found since the volume was opened, damaged or written again.
    pub listed: Vec<DamagedPiece>,
}

/// A piece of 4 KiB that a scrub found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPiece {
    pub part: ScrubPart,
    /// The page of a region or the copy of the superblock, counted from its first; a PBN for data and units of the log.
    pub number: u64,
    pub is_mended: bool,
}

/// A snapshot of all counts.
#[derive(Clone, Debug)]
pub struct Stats {
    pub ledger: Ledger,
    pub phase: &'static str,
    /// The progress of an opening that reads a log.
    pub opening: Option<Progress>,
    /// A write or a flush of the device has failed: nothing is written any more.
    pub failed: bool,
    pub read_only: bool,
    /// There is no block for writes that need a new one.
    pub full: bool,
    /// The store, rather than the volume, has no room for them.
    pub full_on_host: bool,
    pub data_blocks: u64,
    pub logical_blocks: u64,
    pub reserve_blocks: u64,
    /// The free blocks counted so far. `free_complete` says whether the count is complete.
    pub free_blocks: u64,
    /// Blocks whose only link is, as far as is known, that of their fingerprint: they are kept for deduplication alone.
    pub kept_blocks: u64,
    /// Blocks with one link from the map, or with more than one.
    pub unique_blocks: u64,
    pub shared_blocks: u64,
    pub free_complete: bool,
    /// Links from the map: each LBN with content counts once, except zeros. None if a count is not known.
    pub map_links: Option<u64>,
    /// The part of these counts that is unlinked already, and that a later commit frees.
    pub gone: RemovedLinks,
    /// Everything since the volume was created.
    pub lifetime: Lifetime,
    /// The generation of the last superblock that is durable.
    pub saved_generation: u64,
    /// Whether the volume may hold slots. If so, `carriers` counts the blocks that have some: carriers and packs. It is none unless all
    /// fingerprint pages were seen.
    pub has_slots: bool,
    pub carriers: Option<u64>,
    pub unpacked: Option<Unpacked>,
    /// None if there is no log.
    pub log: Option<LogBlocks>,
    pub index_entries: u64,
    pub index_capacity: u64,
    pub prefetched: PrefetchCounts,
    pub out_of_line: OutOfLineCounts,
    pub scrub: ScrubCounts,
    pub adaptation: AdaptationCounts,
    pub garbage_possible: bool,
    pub recount_running: bool,
    /// For each part of memory: its name, bytes now, the most bytes ever, and the limit.
    pub memory: Vec<(&'static str, u64, u64, u64)>,
}
