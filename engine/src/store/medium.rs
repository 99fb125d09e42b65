//! The superblock of an open volume, and the update of it that is under way.

use crate::buffer::Slice;
use crate::format::{FRONT_COPIES, Lifetime, Superblock};
use crate::units::{BLOCK_SIZE, Bytes};

/// The update of the superblock that is under way, and the front copies that this server has written.
#[derive(Default)]
pub(crate) struct SuperblockUpdates {
    /// The copies to write once the front copies were read.
    pub due: Vec<(Bytes, Slice)>,
    /// The last front copies that this server has written, with their generations.
    pub written: [Option<(u64, Box<[u8; BLOCK_SIZE]>)>; FRONT_COPIES],
    /// The lifetime ledger before the first update of this server.
    pub lived_before: Option<Lifetime>,
    /// The units that clients had written when the last update began.
    pub client_units: u64,
    /// Somebody has asked for an update because of the ledger.
    pub is_asked: bool,
}

/// The medium of an open volume.
pub(crate) struct Medium {
    pub superblock: Superblock,
    /// Whether an update of the superblock is under way.
    pub is_busy: bool,
    /// The number of copies that are under way to the device.
    pub writes_left: u32,
    pub updates: SuperblockUpdates,
}

impl Medium {
    pub fn new(superblock: Superblock) -> Self {
        Self { superblock, is_busy: false, writes_left: 0, updates: SuperblockUpdates::default() }
    }
}
