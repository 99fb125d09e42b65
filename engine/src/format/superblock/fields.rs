//! The superblock's fields.

use crate::class::Class;
use crate::format::geometry::EXTENTS_MAX;
use crate::format::layout::layout;
use crate::format::log_tail::LOG_TAIL_BYTES;
use crate::format::regions::REGIONS_BYTES;
use crate::units::BLOCK_SIZE;

/// Bytes of a label, in UTF-8.
pub const LABEL_BYTES_MAX: usize = 64;
/// The most protected ranges.
pub const PROTECTED_MAX: usize = 64;

/// The incompatible feature of a live log, which may hold what no page does.
pub const INCOMPATIBLE_LIVE_LOG: u64 = 1;
/// The incompatible feature of slots: client blocks may lie compressed in other blocks.
pub const INCOMPATIBLE_SLOTS: u64 = 2;
/// The incompatible feature of a guard block, which a server claims before it writes anything.
pub const INCOMPATIBLE_GUARD: u64 = 4;
/// The incompatible feature of a UUID that is not the one the volume was made with, which its pages and units still have.
pub const INCOMPATIBLE_OTHER_UUID: u64 = 8;
/// The incompatible feature of data in several extents, as growing makes them: a program that does not know it would take blocks on both
/// sides of a seam for neighbours.
pub const INCOMPATIBLE_SEAMS: u64 = 16;
/// The incompatible feature of defaults for memory, compression and the wait for room that are not the program's: to a program that does
/// not know them, their bytes are reserved.
pub const INCOMPATIBLE_DEFAULTS: u64 = 32;
/// The incompatible feature of entries that say that a block stays apart: a program that does not know them would take such a block for
/// damaged.
pub const INCOMPATIBLE_APART: u64 = 64;
/// The compatible feature of an index on the medium. The bit is taken; no program sets it yet.
pub const COMPATIBLE_INDEX: u64 = 1;
/// The incompatible features that this version knows.
pub(super) const INCOMPATIBLE_KNOWN: u64 = INCOMPATIBLE_LIVE_LOG
    | INCOMPATIBLE_SLOTS
    | INCOMPATIBLE_GUARD
    | INCOMPATIBLE_OTHER_UUID
    | INCOMPATIBLE_SEAMS
    | INCOMPATIBLE_DEFAULTS
    | INCOMPATIBLE_APART;
/// The features that this version knows among those without which a volume can be read but not written.
pub(super) const READ_ONLY_KNOWN: u64 = 0;

pub(super) const STATE_CLEAN: u64 = 1;
pub(super) const STATE_GARBAGE_POSSIBLE: u64 = 2;
/// The bit of the length of a protected range that a file system's layout has brought.
pub(super) const RANGE_FOUND: u32 = 1 << 31;
/// The most blocks of a protected range.
pub const RANGE_BLOCKS_MAX: u32 = RANGE_FOUND - 1;
pub(super) const COMPARISON_ASKED: u64 = 1;
pub(super) const COMPARISON_PAUSED: u64 = 2;
pub(super) const SCRUB_PAUSED: u64 = 1;
const CLASS_SLOTS: usize = 8;

layout! {
    /// The superblock's fields.
    at, "Superblock", BLOCK_SIZE;
    MAGIC 8,
    VERSION 4,
    COPY 4,
    FEATURES_COMPATIBLE 8,
    FEATURES_READ_ONLY 8,
    FEATURES_INCOMPATIBLE 8,
    UUID 16,
    LABEL LABEL_BYTES_MAX,
    BLOCK_BYTES 4,
    SECTOR_BYTES 4,
    DEVICE_BYTES 8,
    LOGICAL_BLOCKS 8,
    RESERVE_BLOCKS 8,
    GENERATION 8,
    INCARNATION 8,
    MOUNT_COUNT 8,
    LAST_EPOCH 8,
    LAST_LOG_SEQUENCE 8,
    STATE 4,
    EXTENT_COUNT 2,
    PROTECTED_COUNT 2,
    RECOUNT_POSITION 8,
    ALLOCATION_CURSOR 8,
    ALGORITHM 1,
    PERSISTENCE 1,
    COMMIT_MODE 1,
    VERIFY_READS 1,
    VERIFY_DUPLICATES 1,
    DISCARD_FREED 1,
    COMPRESSION 1,
    RESERVED_SETTINGS 1,
    NONCRITICAL_DELAY_MS 8,
    COMMIT_PERIOD_MS 8,
    ANTICIPATION_MS 8,
    FINGERPRINT_KEY 32,
    CLIENT_WRITE_UNITS 8,
    DEVICE_FLUSHES 8,
    LEDGER at_class::LAYOUT.bytes * CLASS_SLOTS,
    EXTENTS at_extent::LAYOUT.bytes * EXTENTS_MAX,
    PROTECTED at_range::LAYOUT.bytes * PROTECTED_MAX,
    LOG_TAIL LOG_TAIL_BYTES,
    GUARD_MS 4,
    TO_COMPARE REGIONS_BYTES,
    COMPARISON 1,
    ORIGIN 16,
    SCRUB_PART 1,
    SCRUB_STATE 1,
    SCRUB_DAMAGED 4,
    SCRUB_RATE 4,
    SCRUB_NEXT 8,
    SCRUB_LOST 4,
    SCRUB_MENDED 4,
    SCRUBS_ENDED 4,
    LAST_SCRUB_DAMAGED 4,
    LAST_SCRUB_MENDED 4,
    LAST_SCRUB_LOST 4,
    MEMORY_BYTES 8,
    FULL_WAIT_S 4,
    RESERVED 73,
    CHECKSUM 4,
}

layout! {
    /// One extent of the region table. Its first entry follows from the extents before it.
    at_extent, "Extent", 24;
    KIND 4,
    INSTANCE 4,
    OFFSET 8,
    LENGTH 8,
}

layout! {
    /// One protected range.
    at_range, "Protected range", 12;
    FIRST_LBN 8,
    BLOCKS 4,
}

layout! {
    /// One class of the lifetime ledger.
    at_class, "Ledger class", 24;
    UNITS 8,
    BYTES 8,
    COMMANDS 8,
}

// Invariant 1 promises the first three to every later version; programs find the others by their offset.
const _: () = assert!(at::MAGIC.offset == 0 && at::VERSION.offset == 8 && at::CHECKSUM.offset == 4092);
const _: () = assert!(at::UUID.offset == 40 && at::LABEL.offset == 56 && at::GENERATION.offset == 152);
const _: () = assert!(at::LEDGER.offset == 296 && at::EXTENTS.offset == 488 && at::PROTECTED.offset == 2024);
const _: () = assert!(at::LOG_TAIL.offset == 2792);
const _: () = assert!(Class::ALL.len() <= CLASS_SLOTS);
