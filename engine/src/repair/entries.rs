//! Fingerprint entries as they are stored.

use crate::format::{FingerprintEntry, Kind, Opened, PageId, Superblock};
use crate::units::index;

/// A stored entry that its sector confirms, and that has a meaning on this volume.
pub(super) fn entry_of(superblock: &Superblock, id: PageId, opened: &Opened, i: usize) -> Option<FingerprintEntry> {
    let is_sound = opened.damaged & (1 << (i / index(id.region.entries_per_sector()))) == 0;
    let stored = opened.content.stored_fingerprint(i).ok().filter(|_| is_sound);
    stored.filter(|entry| entry.kind != Kind::Carrier || superblock.has_slots())
}
