//! The settings of an engine, for users and for the papers' ablations.

pub use crate::format::superblock::{Compression, Persistence};

use crate::format::geometry::PIECE_BLOCKS;
use crate::format::page::Region;
use crate::format::superblock::{CommitMode, FULL_WAIT_S_DEFAULT, MEMORY_BYTES_DEFAULT, StartSettings};
use crate::format::unit::SLOTS_MAX;
use std::ops::RangeInclusive;

/// After this number of units that clients write, 64 MiB, the superblock is written again for its ledger. A flush and two blocks are a
/// small cost beside them.
pub const LEDGER_UNITS_MAX: u64 = 16_384;

/// The bounds of [`Settings::min_run`]. A client's request of 256 KiB has 64 blocks.
pub const MIN_RUN: RangeInclusive<u64> = 1..=64;

/// Settings of one opening of a volume: the user's, the facts of this run, and the knobs of simulation and measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The way in which epochs become durable.
    pub commit_mode: CommitMode,
    pub compression: Compression,
    pub persistence: Persistence,
    /// Decrements and fingerprints wait this long for a page write that they can join. 0 writes them right after their commit.
    pub noncritical_delay_ms: u64,
    /// An epoch is sealed at the latest this long after its first write.
    pub commit_period_ms: u64,
    /// Sealing may wait this long for further writes. 0 turns anticipation off.
    pub anticipation_ms: u64,
    /// Compares content that is read with its fingerprint.
    pub verify_reads: bool,
    /// Compares a duplicate with the stored block byte by byte before it is linked to.
    pub verify_duplicates: bool,
    /// A duplicate is linked to when it is written only within a run of at least this number of blocks. 1: each is.
    pub min_run: u64,
    /// Discards freed blocks on the device.
    pub discard_freed: bool,
    /// The memory of the whole engine, in bytes.
    pub memory_bytes: u64,
    /// Blocks that only their fingerprint holds are given back after this time without activity near them. 0: only when they are needed.
    pub keep_ms: u64,
    /// A write that finds no room waits until this time after the volume became full. 0: it does not wait.
    pub full_wait_ms: u64,
    /// Defers fingerprints while few of them are duplicates.
    pub adapts_to_duplication: bool,
    /// Refuses all writes.
    pub read_only: bool,
    pub facts: Facts,
    pub knobs: Knobs,
}

/// The facts of one run, which the front-end and the device at hand decide. The defaults are those of a device without FUA and of a
/// front-end without an acknowledgement journal.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The device takes writes that are durable on completion (FUA). An epoch that is a single log unit is then one such write.
    pub device_takes_fua: bool,
    /// The device that clients hold outlives the server, and the acknowledgement journal is kept: a weak write is acknowledged when its
    /// content is on the device, or in the journal.
    pub keeps_journal: bool,
    /// The number of records that the acknowledgement journal has room for.
    pub journal_records_max: u64,
    /// The number of blocks whose content it also has room for.
    pub journal_contents_max: u64,
    /// The journal of the last server is lost although its device lives on: the first flush or FUA request fails.
    pub journal_lost: bool,
    /// The front-end can send a write that finds no room again, and holds nothing of it meanwhile. It gets the answer
    /// [`Full`](crate::interface::Failure::Full).
    pub retries_when_full: bool,
    /// The store is a sparse file: what clients discard goes back to its host when nothing near it has changed for this long; 0 where it
    /// stays until it is needed.
    pub trim_rest_ms: u64,
}

/// The knobs that only a simulation or a measurement turns. A server has the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    /// The most client blocks in one carrier: the number of slots in the format, or fewer, to measure what several are worth.
    pub carrier_slots_max: usize,
    /// Whether sealing waits for parts of a commit, too, where no write is likely within the whole period of anticipation.
    pub anticipates_by_shares: bool,
    /// The number of freed blocks that is worth a batch of discards.
    pub discard_batch_blocks: u64,
    /// The blocks of a piece of a store in a file: what is written ahead, and given back, at once.
    pub stock_piece_blocks: u64,
    /// The blocks of a container, which one stream fills: about an erase block of flash. The blocks of a number of whole fingerprint pages
    /// cost the fewest pages.
    pub container_blocks: u64,
    /// The most links of a block, including that of its fingerprint. It is 254 on real volumes; a simulation has less, to reach the limit.
    pub refs_limit: u8,
    /// Blocks in one window of a recount. Memory is another bound.
    pub recount_window_blocks: u64,
    /// Map pages that a recount reads in a second.
    pub recount_pages_per_second: u64,
    /// Reads in a second for the index rebuild: one for a carrier, one for eight blocks without a fingerprint. 0 turns these reads off.
    pub rebuild_reads_per_second: u64,
    /// The most bytes of the index. Memory is another bound.
    pub index_bytes_max: u64,
    /// The most bytes of the skipped buffer. Memory is another bound.
    pub skipped_bytes_max: u64,
    /// On each volume, however small, what is skipped is set aside on free blocks and sieved.
    pub always_sieves: bool,
    /// Reads in a second for the work out of line: one for a carrier, one for up to four neighbouring pages. 0 turns it off.
    pub out_of_line_reads_per_second: u64,
    /// The longest time for which the superblock may lack a region of what the skipped buffer holds.
    pub skipped_save_ms: u64,
    /// The work out of line begins when seven eighths of the skipped buffer are used, or this long after its first entry.
    pub out_of_line_delay_ms: u64,
    /// If the log tail has more units, the log is compacted, except for the newest units.
    pub compact_beyond: u64,
    /// If the log has more units, compacted ones included, a checkpoint empties it, since the next opening has to read them.
    pub checkpoint_beyond: u64,
    /// With more live records a checkpoint begins, and an opening writes pages before it reads on. Memory is another bound.
    pub live_records_max: u64,
    /// After this number of units that clients write, the superblock is written again for its lifetime ledger. A crash loses about as much
    /// of that ledger at the most.
    pub ledger_units_max: u64,
}

impl Knobs {
    /// Gives the index no more than this.
    pub(crate) fn limit_index(&mut self, bytes: u64) {
        self.index_bytes_max = bytes;
    }
}

/// The fingerprint pages of a container's blocks: 4 MB of content, an erase block of many cards and drives.
const CONTAINER_PAGES: u64 = 5;
/// The bytes of the smallest index: one line of the processor's cache.
pub const INDEX_BYTES_MIN: u64 = 64;

impl Settings {
    /// Whether there is work out of line. A duplicate that has to be compared byte by byte is only found when it is written.
    #[must_use]
    pub fn finds_out_of_line(&self) -> bool {
        self.knobs.out_of_line_reads_per_second > 0 && !self.verify_duplicates && !self.read_only
    }

    /// Changes the facts of the run.
    #[must_use]
    pub fn with_facts(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }

    /// Turns knobs.
    #[must_use]
    pub fn with_knobs(mut self, change: impl FnOnce(&mut Knobs)) -> Self {
        change(&mut self.knobs);
        self
    }

    /// Has all reads verified from now on.
    pub(crate) fn verify_all_reads(&mut self) {
        self.verify_reads = true;
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commit_mode: CommitMode::Ordered,
            compression: Compression::All,
            persistence: Persistence::Weak,
            noncritical_delay_ms: 30_000,
            commit_period_ms: 1_000,
            anticipation_ms: 1,
            verify_reads: true,
            verify_duplicates: false,
            min_run: 1,
            discard_freed: true,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            keep_ms: 0,
            full_wait_ms: 0,
            adapts_to_duplication: false,
            read_only: false,
            facts: Facts::default(),
            knobs: Knobs::default(),
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            device_takes_fua: false,
            keeps_journal: false,
            journal_records_max: 1 << 16,
            journal_contents_max: 1 << 8,
            journal_lost: false,
            retries_when_full: false,
            trim_rest_ms: 0,
        }
    }
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            carrier_slots_max: SLOTS_MAX,
            anticipates_by_shares: true,
            discard_batch_blocks: 1024,
            stock_piece_blocks: PIECE_BLOCKS,
            container_blocks: CONTAINER_PAGES * Region::Fingerprints.entries_per_page(),
            refs_limit: 254,
            recount_window_blocks: 1 << 20,
            recount_pages_per_second: 4096,
            rebuild_reads_per_second: 1024,
            index_bytes_max: u64::MAX,
            skipped_bytes_max: u64::MAX,
            always_sieves: false,
            skipped_save_ms: 600_000,
            out_of_line_reads_per_second: 1024,
            out_of_line_delay_ms: 30_000,
            compact_beyond: 2048,
            checkpoint_beyond: 4096,
            live_records_max: u64::MAX,
            ledger_units_max: LEDGER_UNITS_MAX,
        }
    }
}

/// The settings that the superblock of a new volume keeps. Those that a volume gets by `set` only have the program's defaults.
impl From<&Settings> for StartSettings {
    fn from(settings: &Settings) -> Self {
        Self {
            commit_mode: settings.commit_mode,
            persistence: settings.persistence,
            noncritical_delay_ms: settings.noncritical_delay_ms,
            commit_period_ms: settings.commit_period_ms,
            anticipation_ms: settings.anticipation_ms,
            verify_reads: settings.verify_reads,
            verify_duplicates: settings.verify_duplicates,
            discard_freed: settings.discard_freed,
            compression: Compression::default(),
            memory_bytes: MEMORY_BYTES_DEFAULT,
            full_wait_s: FULL_WAIT_S_DEFAULT,
        }
    }
}

/// The settings of an opening. Those that the superblock does not keep have their defaults.
impl From<&StartSettings> for Settings {
    fn from(start: &StartSettings) -> Self {
        Self {
            commit_mode: start.commit_mode,
            persistence: start.persistence,
            noncritical_delay_ms: start.noncritical_delay_ms,
            commit_period_ms: start.commit_period_ms,
            anticipation_ms: start.anticipation_ms,
            verify_reads: start.verify_reads,
            verify_duplicates: start.verify_duplicates,
            discard_freed: start.discard_freed,
            compression: start.compression,
            memory_bytes: start.memory_bytes,
            full_wait_ms: start.full_wait_s * 1000,
            ..Self::default()
        }
    }
}
