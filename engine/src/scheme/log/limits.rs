//! The most that goes into units, and the number of places that they need.

use crate::format::places::{PLACES_BYTES, PLACES_MAX};
use crate::format::record::{EXTENT_BYTES_MAX, EXTENT_PART_BYTES_MAX, RECORD_BYTES_MAX, SHORT_NAMES_BYTES_MAX};
use crate::format::unit::UNIT_ROOM_BYTES;

/// The most new blocks of a small epoch.
pub(crate) const SMALL_BLOCKS_MAX: usize = 64;
/// The least number of places that are named and not used by the epoch itself (L9).
pub(crate) const PLACES_LEFT_MIN: usize = 2;
/// The least room that a unit has for records, whatever else it holds.
pub(crate) const UNIT_RECORD_BYTES: usize = 3600;
// Where the next part of an extent finds no room, no more than this stays empty.
const _: () = assert!(
    UNIT_RECORD_BYTES + EXTENT_BYTES_MAX + EXTENT_PART_BYTES_MAX + SHORT_NAMES_BYTES_MAX <= UNIT_ROOM_BYTES - PLACES_MAX * PLACES_BYTES
);

/// The most bytes of one more run of old blocks in a record.
pub(crate) const OLD_RUN_BYTES_MAX: usize = 12;

/// The least number of records for which a unit has room.
pub(crate) const RECORDS_A_UNIT: usize = UNIT_RECORD_BYTES / RECORD_BYTES_MAX;
