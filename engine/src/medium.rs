//! The superblock of the volume, with the update that is under way; the keys that it holds.

use crate::commit::Updates;
use crate::format::superblock::Superblock;

/// The medium of an open volume.
pub(crate) struct Medium {
    pub superblock: Superblock,
    /// An update of the superblock is under way.
    pub is_busy: bool,
    /// Copies that are on their way to the device.
    pub writes_left: u32,
    pub updates: Updates,
}

impl Medium {
    pub fn new(superblock: Superblock) -> Self {
        Self { superblock, is_busy: false, writes_left: 0, updates: Updates::default() }
    }
}
