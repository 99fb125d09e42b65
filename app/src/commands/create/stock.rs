//! Preparations for the host's file system, where the store is a file.

use crate::device::backing::Backing;
use onefold_engine::format::Superblock;
use onefold_engine::units::{BLOCK_BYTES, Pbn};

/// Writes the stock ahead, as far as the store is a file whose host has never written there: see
/// `engine/src/space/stock.rs`. Returns the number of bytes.
///
/// # Errors
/// When the host fails.
pub fn fill(backing: &Backing, superblock: &Superblock) -> std::io::Result<u64> {
    let geometry = &superblock.geometry;
    let first = geometry.block_at(Pbn(0)).get();
    let end = first + geometry.stock_blocks() * BLOCK_BYTES;
    let mut bytes = 0;
    for range in backing.unwritten()?.unwrap_or_default() {
        let (from, to) = (range.start.max(first), range.end.min(end));
        if from < to {
            backing.fill(from, to - from)?;
            bytes += to - from;
        }
    }
    Ok(bytes)
}

/// Tells the owner of a file on a file system that copies what is overwritten whether it does so with this one.
#[must_use]
pub fn about_copies(copies: bool) -> &'static str {
    if copies {
        "Btrfs copies each block of this file that is overwritten. A new file, made by --size, has copy-on-write switched off."
    } else {
        "Copy-on-write is switched off for this file. Btrfs still writes several blocks of its own at each sync: a partition or ext4 \
         is better for flash."
    }
}
