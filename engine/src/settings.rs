//! The settings of an engine: what may be switched, for users and for the papers' ablations.

pub use crate::format::superblock::Persistence;

use crate::format::superblock::{CommitMode, StartSettings};
use crate::format::unit::SLOTS_MAX;

/// Which blocks the log compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None: every unit is plain.
    Off,
    /// New blocks of small epochs, into the units that record them.
    Carriers,
    /// And those of large epochs, several in one block.
    #[default]
    All,
}

/// Units that clients write until the superblock is written again for its ledger: 64 MiB. A flush and two blocks each time are little
/// beside them.
pub const LEDGER_UNITS_MAX: u64 = 16_384;

/// Settings of one opening of a volume.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What makes epochs durable.
    pub commit_mode: CommitMode,
    pub compression: Compression,
    /// The most client blocks in one carrier: as many as the format has slots, or fewer, to see what several bring.
    pub carrier_slots_max: usize,
    pub persistence: Persistence,
    /// Decrements and fingerprint inserts wait this long for a page write to join; 0 writes them right after their commit.
    pub noncritical_delay_ms: u64,
    /// An epoch is sealed at the latest this long after its first write.
    pub commit_period_ms: u64,
    /// Sealing may wait this long for further writes; 0 turns anticipation off.
    pub anticipation_ms: u64,
    /// Compare what is read with its fingerprint.
    pub verify_reads: bool,
    /// Compare a duplicate with the stored block byte by byte before linking to it.
    pub verify_duplicates: bool,
    /// Tell the device of freed blocks.
    pub discard_freed: bool,
    /// Freed blocks that make a batch of discards worth sending.
    pub discard_batch_blocks: u64,
    /// The most links that a block may have, its fingerprint included. 254 on real volumes; less in simulation, to reach the overflow.
    pub refs_limit: u8,
    /// Memory for everything, in bytes.
    pub memory_bytes: u64,
    /// Blocks of the count window of a recount pass; bounded by memory besides.
    pub recount_window_blocks: u64,
    /// Map pages that a recount reads a second.
    pub recount_pages_per_second: u64,
    /// Reads a second by which the index is filled: a carrier is one, eight blocks without a name are one; 0: none.
    pub refill_reads_per_second: u64,
    /// Units of the log's walk beyond which it is condensed, but for the newest ones.
    pub condense_beyond: u64,
    /// Units of the walk, condensed ones included, beyond which a checkpoint empties the log: the next opening has to read them.
    pub checkpoint_beyond: u64,
    /// Live records beyond which a checkpoint begins, and an opening writes pages before it reads on; bounded by memory besides.
    pub live_records_max: u64,
    /// Units that clients write until the superblock is written again, for its lifetime ledger: a crash takes no more of that, or little
    /// more.
    pub ledger_units_max: u64,
    /// The device takes writes that are durable when they have completed (FUA): an epoch that is one unit of the log alone goes by one.
    pub device_takes_fua: bool,
    /// The device that clients hold outlives the server, and a ring keeps its acknowledgements: a weak write is acknowledged when its
    /// content is on the device, or in the ring.
    pub keeps_promises: bool,
    /// Records that the ring has room for.
    pub ring_records_max: u64,
    /// Contents of blocks that it has room for, besides.
    pub ring_contents_max: u64,
    /// The last server's acknowledgements are lost although its device lives on: the first flush or FUA answers with an error.
    pub promises_lost: bool,
    /// Blocks that only their fingerprint holds are given back when nothing has been done near them for this long; 0: only when they are
    /// needed.
    pub keep_ms: u64,
    /// How long after the volume became full a write that finds no room waits for some; 0: not at all.
    pub full_wait_ms: u64,
    /// The front-end can send such a write again, and holds nothing of it meanwhile: it is answered
    /// [`Full`](crate::interface::Failure::Full).
    pub retries_when_full: bool,
    /// Refuse all writes.
    pub read_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commit_mode: CommitMode::Ordered,
            compression: Compression::All,
            carrier_slots_max: SLOTS_MAX,
            persistence: Persistence::Weak,
            noncritical_delay_ms: 30_000,
            commit_period_ms: 1_000,
            anticipation_ms: 1,
            verify_reads: true,
            verify_duplicates: false,
            discard_freed: true,
            discard_batch_blocks: 1024,
            refs_limit: 254,
            memory_bytes: 64 << 20,
            recount_window_blocks: 1 << 20,
            recount_pages_per_second: 4096,
            refill_reads_per_second: 1024,
            condense_beyond: 2048,
            checkpoint_beyond: 4096,
            live_records_max: u64::MAX,
            ledger_units_max: LEDGER_UNITS_MAX,
            device_takes_fua: false,
            keeps_promises: false,
            ring_records_max: 1 << 16,
            ring_contents_max: 1 << 8,
            promises_lost: false,
            keep_ms: 0,
            full_wait_ms: 0,
            retries_when_full: false,
            read_only: false,
        }
    }
}

/// What the superblock keeps of settings.
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
        }
    }
}

/// The settings of an opening; what the superblock does not keep has its default.
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
            ..Self::default()
        }
    }
}
