//! A snapshot of all counts, for reports.

use crate::format::Lifetime;
pub use crate::interface::{Progress, Unpacked};
pub use crate::ledger::{Count, EpochCounts, Ledger, LogEpochs, RIDES_BYTES_MAX, Units};
pub use crate::space::Gone;

/// Blocks that the log keeps for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBlocks {
    /// Units without slots, those of the older pair of superblock copies too.
    pub plain: u64,
    /// Places of coming units.
    pub places: u64,
    /// Units that an opening reads, with slots or without: those of the walk, and condensed ones.
    pub walk: u64,
    pub condensed: u64,
}

/// A snapshot for reports.
#[derive(Clone, Debug)]
pub struct Stats {
    pub ledger: Ledger,
    pub phase: &'static str,
    /// Of an opening that reads a log: how far it is.
    pub opening: Option<Progress>,
    pub read_only: bool,
    /// Writes that need a new block find none.
    pub full: bool,
    pub data_blocks: u64,
    pub logical_blocks: u64,
    pub reserve_blocks: u64,
    /// Free blocks counted so far, and whether the count is complete.
    pub free_blocks: u64,
    /// Blocks with exactly one link that is (as far as is known) their fingerprint's: kept for dedup alone.
    pub kept_blocks: u64,
    /// Blocks with one link from the map, or with more than one.
    pub unique_blocks: u64,
    pub shared_blocks: u64,
    pub free_complete: bool,
    /// Blocks of clients' content, each LBN once, zeros aside: links from the map. None where a count is not known.
    pub map_links: Option<u64>,
    /// Of all these, what is gone and counts until a later commit lets go of it.
    pub gone: Gone,
    /// Everything since the volume was created.
    pub lifetime: Lifetime,
    /// The volume may hold slots. If so, carriers and packs: blocks that have some; none where not all fingerprint pages were seen yet, or
    /// could be.
    pub has_slots: bool,
    pub carriers: Option<u64>,
    pub unpacked: Option<Unpacked>,
    /// None where there is no log.
    pub log: Option<LogBlocks>,
    pub index_entries: u64,
    pub index_capacity: u64,
    pub garbage_possible: bool,
    pub recount_running: bool,
    /// Part, bytes now, most ever, limit.
    pub memory: Vec<(&'static str, u64, u64, u64)>,
}
