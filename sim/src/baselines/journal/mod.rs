//! Deduplication with a redo journal: changed entries are written twice, first packed into a ring, later at home.
//!
//! Layout, in blocks of 4 KiB: superblock; the ring; home tables of map (8 bytes an LBN), counts (2 bytes a PBN) and names (20 bytes a PBN);
//! content. The ring is as large as mke2fs makes ext4's journal for a file system of this size.
//!
//! 1. A commit is one flush: content, journal blocks, flush. Each journal block carries a checksum and its number, and an epoch's last says so.
//!    A new block's record carries its fingerprint, so that recovery can tell whether the content of the last epoch arrived (all others are
//!    older than a completed flush); where not, that epoch is as if it had never been.
//! 2. Home pages take in an epoch when its flush has completed, in memory. They are written when the ring is half full or 30 s after the first
//!    change, each dirty page once, beside the commits.
//! 3. When a flush that was due anyway has covered them, the superblock with the ring's new tail rides with the next commit. Only when a
//!    commit finds no room in the ring, or at the close, two flushes are asked for.
//! 4. Weak and strong as everywhere; strong writes that wait together share a commit. Zeros are not mapped. A block has 65,535 links at most.
//!
//! Journal blocks are counted as `Class::Written`, a class that no rival needs for anything else.

mod home;
mod log;
mod recover;
mod scheme;

pub use recover::{Found, recover};
pub use scheme::Journal;

use super::Settings;
use super::dedup::Dedup;

/// The machine.
pub type Machine = Dedup<Journal>;

/// A journalling volume of this size.
#[must_use]
pub fn machine(settings: Settings) -> Machine {
    let scheme = Journal::new(&settings);
    Dedup::grouped(settings, scheme)
}

/// The same with a ring of so many blocks, 8 at least.
#[must_use]
pub fn machine_with_ring(settings: Settings, ring_blocks: u64) -> Machine {
    let scheme = Journal::with_ring(&settings, ring_blocks);
    Dedup::grouped(settings, scheme)
}
