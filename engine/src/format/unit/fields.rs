//! The fields of a unit, and how much room it has.

use crate::format::codec::Codec;
use crate::format::layout::layout;
use crate::format::places::PLACES_BYTES;
use crate::format::record::LINK_BYTES_MAX;
use crate::units::BLOCK_SIZE;

/// The first four bytes of every unit.
pub const MAGIC: [u8; 4] = *b"1LOG";
/// The most slots of a unit.
pub const SLOTS_MAX: usize = 15;
/// Bytes that places, slots and records of a unit can take together.
pub const UNIT_ROOM_BYTES: usize = BLOCK_SIZE - at::LAYOUT.bytes;
/// Bytes of an authenticator.
pub const AUTHENTICATOR_BYTES: usize = 20;
/// Bytes of a slot, its data not counted.
pub const SLOT_BYTES: usize = at_slot::LAYOUT.bytes;

/// The most bytes of a compressed client block: beside it, a carrier names some places and has the block's record.
pub const SLOT_DATA_MAX: usize = CARRIER_BYTES - SLOT_BYTES - LINK_BYTES_MAX;
/// Bytes of a carrier for slots and records.
pub const CARRIER_BYTES: usize = UNIT_ROOM_BYTES - CARRIER_PLACES_MAX * PLACES_BYTES;
/// The most runs of places that a carrier names, so that they take no room from client blocks.
pub const CARRIER_PLACES_MAX: usize = 4;

layout! {
    /// The header of a unit.
    at, "Log unit", 70;
    MAGIC 4,
    KIND 1,
    PLACES_COUNT 1,
    SLOT_COUNT 1,
    FLAGS 1,
    RECORD_BYTES 2,
    INCARNATION 8,
    SEQUENCE 8,
    EPOCH 8,
    FLUSHED_UPTO 8,
    UNIT 4,
    UNITS 4,
    AUTHENTICATOR AUTHENTICATOR_BYTES,
}

layout! {
    /// One slot.
    at_slot, "Slot", 24;
    OFFSET 2,
    LENGTH 2,
    FINGERPRINT 20,
}

/// The flag of [`UnitHeader::content_flushed`](super::UnitHeader::content_flushed).
const FLAG_CONTENT_FLUSHED: u64 = 1;
/// The lowest of the flags' four bits that name the codec of the slots.
const CODEC_SHIFT: u32 = 4;

/// The flags of a unit.
pub(super) fn flags_of(content_flushed: bool, codec: Codec) -> u64 {
    (codec.number() << CODEC_SHIFT) | if content_flushed { FLAG_CONTENT_FLUSHED } else { 0 }
}

/// Whether the content was flushed, and the codec, as flags say it. None where they have a bit that means nothing, or name no codec.
pub(super) fn read_flags(flags: u64) -> Option<(bool, Codec)> {
    let codec = Codec::of(flags >> CODEC_SHIFT)?;
    let content_flushed = flags & FLAG_CONTENT_FLUSHED != 0;
    (flags == flags_of(content_flushed, codec)).then_some((content_flushed, codec))
}

// The table of slots and every offset in a unit fit their fields, and a plain unit with one run of places has room for 100 new blocks.
const _: () = assert!(BLOCK_SIZE <= u16::MAX as usize && UNIT_ROOM_BYTES - PLACES_BYTES >= 3950);
