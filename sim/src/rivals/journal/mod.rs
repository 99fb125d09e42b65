//! Deduplication with a redo journal: changed entries are written twice, first packed into a ring, later to their home tables.
//!
//! The layout, in blocks of 4 KiB, is: superblock; the ring; home tables of map (8 bytes an LBN), counts (2 bytes a PBN) and fingerprints
//! (20 bytes a PBN); content. The ring is as large as mke2fs makes ext4's journal for a file system of this size.
//!
//! 1. A commit needs one flush: content, journal blocks, flush. Each journal block has a checksum and its number, and the last one of an
//!    epoch is marked. The record of a new block contains its fingerprint, so that recovery can check whether the content of the last epoch
//!    arrived (all other epochs are older than a completed flush); if it did not, that epoch is ignored.
//! 2. Home pages receive an epoch in memory when its flush has completed. They are written when the ring is half full or 30 s after the
//!    first change, each dirty page once, beside the commits.
//! 3. When a flush for another reason has covered them, the superblock with the ring's new tail is written with the next commit. Two
//!    flushes are issued for it only if a commit finds no room in the ring, and at the close.
//! 4. Weak and strong persistence are as everywhere; strong writes that wait together share a commit. Zeros are not mapped. A block has at
//!    most 65,535 links.
//!
//! Journal blocks are counted as `Class::Written`, a class that no rival needs for anything else.

mod home;
mod log;
mod recover;
mod scheme;

pub use recover::{RecoveredTables, recover};
pub use scheme::Journal;

use super::Settings;
use super::dedup::Dedup;

/// The machine.
pub type Machine = Dedup<Journal>;

/// Makes a journalling volume of this size.
#[must_use]
pub fn machine(settings: Settings) -> Machine {
    let scheme = Journal::new(&settings);
    Dedup::grouped(settings, scheme)
}

/// Makes a journalling volume with a ring of this many blocks, at least 8.
#[must_use]
pub fn machine_with_ring(settings: Settings, ring_blocks: u64) -> Machine {
    let scheme = Journal::with_ring(&settings, ring_blocks);
    Dedup::grouped(settings, scheme)
}
