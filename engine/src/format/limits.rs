//! The limits of a geometry.

/// The smallest useful volume.
pub const VOLUME_BYTES_MIN: u64 = 16 << 20;
/// The fewest blocks that are never promised to clients.
pub const RESERVE_BLOCKS_MIN: u64 = 64;
/// One in this many data blocks is never promised to clients.
pub const RESERVE_FRACTION: u64 = 64;
/// The most logical blocks (4 PiB): far beyond what 36 bits of PBN can fill.
pub const LOGICAL_BLOCKS_MAX: u64 = 1 << 40;
/// The most extents that a superblock holds.
pub const EXTENTS_MAX: usize = 64;
