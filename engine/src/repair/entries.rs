//! Fingerprint entries as they are stored.

use crate::format::{FingerprintEntry, Kind, Opened, PageId, Superblock};

/// A stored entry that its sector confirms, and that has a meaning on this volume.
pub(super) fn entry_of(superblock: &Superblock, id: PageId, opened: &Opened, i: usize) -> Option<FingerprintEntry> {
    let stored = opened.content.stored_fingerprint(i).ok().filter(|_| opened.is_entry_sound(id.region, i));
    stored.filter(|entry| entry.kind != Kind::Carrier || superblock.has_slots())
}
