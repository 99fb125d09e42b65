//! How much goes into units, and how many of them there have to be places for.

use crate::format::places::{PLACES_BYTES, PLACES_MAX};
use crate::format::record::{EXTENT_BYTES_MAX, EXTENT_PART_BYTES_MAX, RECORD_BYTES_MAX, SHORT_NAMES_BYTES_MAX};
use crate::format::unit::UNIT_ROOM_BYTES;

/// The most new blocks of a small epoch.
pub(crate) const SMALL_BLOCKS_MAX: usize = 64;
/// Places that are named and not used by the epoch itself, at the least (L9).
pub(crate) const PLACES_LEFT_MIN: usize = 2;
/// Bytes that records take in a unit at the least, whatever else stands there.
pub(crate) const UNIT_RECORD_BYTES: usize = 3600;
// Where the next part of an extent finds no room, no more than this stays empty.
const _: () = assert!(
    UNIT_RECORD_BYTES + EXTENT_BYTES_MAX + EXTENT_PART_BYTES_MAX + SHORT_NAMES_BYTES_MAX <= UNIT_ROOM_BYTES - PLACES_MAX * PLACES_BYTES
);

/// Bytes of one more run of old blocks in a record, at the most.
pub(crate) const OLD_RUN_BYTES_MAX: usize = 12;

/// Records that a unit takes at the least.
pub(crate) const RECORDS_A_UNIT: usize = UNIT_RECORD_BYTES / RECORD_BYTES_MAX;
