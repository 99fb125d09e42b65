//! The superblock of an open volume, and the update of it that is under way.

use crate::buffer::Slice;
use crate::format::{FRONT_COPIES, Lifetime, Superblock};
use crate::units::{BLOCK_SIZE, Bytes};

/// The update under way, and the front copies that this server has written.
#[derive(Default)]
pub(crate) struct Updates {
    /// What waits for the front copies to be read.
    pub due: Vec<(Bytes, Slice)>,
    /// The last of this opening, by copy, with its generation.
    pub written: [Option<(u64, Box<[u8; BLOCK_SIZE]>)>; FRONT_COPIES],
    /// The lifetime ledger that this server found, before its first update.
    pub lived_before: Option<Lifetime>,
    /// What clients had written when the last one began.
    pub client_units: u64,
}

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
