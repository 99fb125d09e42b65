//! The fields of a sector of a page.

use crate::format::entry::{FINGERPRINT_ENTRY_SIZE, MAP_ENTRY_SIZE};
use crate::format::layout::layout;
use crate::units::{BLOCK_SIZE, SECTOR_SIZE};

/// Sectors of a page.
pub const SECTORS: usize = BLOCK_SIZE / SECTOR_SIZE;
/// Bytes of a sector that hold entries.
pub const ENTRY_BYTES: usize = 500;
/// Instance of every region, until there are volumes with more than one map.
pub const INSTANCE: u32 = 0;

layout! {
    /// The sector of a metadata page.
    at, "Sector", SECTOR_SIZE;
    ENTRIES ENTRY_BYTES,
    TAG 8,
    CHECK 4,
}

layout! {
    /// A sector's place, which its check covers and which stands nowhere on the medium.
    at_place, "Place", 32;
    UUID 16,
    REGION_KIND 4,
    REGION_INSTANCE 4,
    SECTOR_INDEX 8,
}

const _: () = assert!(at::TAG.offset == 500 && at::CHECK.offset == 508);
const _: () = assert!(ENTRY_BYTES % MAP_ENTRY_SIZE == 0 && ENTRY_BYTES % FINGERPRINT_ENTRY_SIZE == 0);
