//! The front of a volume: two copies of the superblock, and behind them the guard block of a guarded volume.

use crate::units::{BLOCK_BYTES, Bytes};

/// The number of copies of the superblock.
pub const COPIES: usize = 4;
/// Bytes that superblock copies take at either end.
pub const SUPERBLOCKS_BYTES: u64 = 2 * BLOCK_BYTES;
/// The place of the guard block.
pub const GUARD_AT: Bytes = Bytes(SUPERBLOCKS_BYTES);
