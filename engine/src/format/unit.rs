//! A unit of the log: one block of the data region that holds a header, places to come, records, and client blocks, compressed, in slots.
//!
//! 1. It authenticates itself: key, volume, place and every byte ([`Authenticator`]).
//! 2. From the front: header, places, table of slots, records; then zeros; at the end the slots' data, each slot's before that of the slot before.
//! 3. One unit has one encoding, as the superblock.
//! 4. Room for a record does not depend on the header, so a unit can be filled before its sequence is known.

mod writer;

use super::authenticator::{AUTHENTICATOR_BYTES, Authenticator};
use super::counter::COUNTER_MAX;
use super::layout::layout;
use super::places::{self, PLACES_BYTES, PLACES_MAX, Places};
use super::record::{Coder, LINK_BYTES_MAX, Record};
use crate::fingerprint::Fingerprint;
use crate::units::{BLOCK_SIZE, Epoch, Pbn, count, index};
use std::ops::Range;

pub use writer::UnitWriter;

/// How every unit begins.
pub const MAGIC: [u8; 4] = *b"1LOG";
/// The most slots of a unit.
pub const SLOTS_MAX: usize = 15;
/// Bytes that places, slots and records of a unit can take together.
pub const UNIT_ROOM_BYTES: usize = BLOCK_SIZE - at::LAYOUT.bytes;
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

/// The flag of [`UnitHeader::content_flushed`].
const FLAG_CONTENT_FLUSHED: u64 = 1;

// The table of slots and every offset in a unit fit their fields, and a plain unit with one run of places has room for 100 new blocks.
const _: () = assert!(BLOCK_SIZE <= u16::MAX as usize && UNIT_ROOM_BYTES - PLACES_BYTES >= 3950);

/// What a unit is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// The walk through the log: a plain unit, or with slots a carrier.
    Log,
    /// Nothing: slots without records, of a large epoch.
    Pack,
    /// A condensed segment.
    Condensed,
}

impl UnitKind {
    const ALL: [Self; 3] = [Self::Log, Self::Pack, Self::Condensed];

    /// Whether it can have so many runs of places, so many slots, and records of so many bytes.
    const fn may_have(self, runs: usize, slots: usize, record_bytes: usize) -> bool {
        match self {
            Self::Log => true,
            Self::Pack => runs + record_bytes == 0,
            Self::Condensed => runs + slots == 0,
        }
    }

    /// Whether it can have this record. Records of a unit of the walk are all of its epoch; what a recovery closed is not copied, nor are names.
    const fn may_say(self, record: &Record) -> bool {
        match record {
            Record::Born { .. } | Record::BornRun { .. } | Record::Later { .. } => matches!(self, Self::Condensed),
            Record::Extent { .. } | Record::Closing { .. } => !matches!(self, Self::Condensed),
            _ => true,
        }
    }

    const fn number(self) -> u64 {
        match self {
            Self::Log => 1,
            Self::Pack => 2,
            Self::Condensed => 3,
        }
    }
}

/// What a unit says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    pub kind: UnitKind,
    /// The opening that wrote it (L3).
    pub incarnation: u64,
    /// Its number in the log, from 1; of a condensed unit, that of the last unit which its segment copies.
    pub sequence: u64,
    /// Of its records; of a condensed unit, of the first.
    pub epoch: Epoch,
    /// It is number `unit`, from 0, of the `units` of its epoch or segment.
    pub unit: u32,
    pub units: u32,
    /// The last unit that was known to be flushed when this one was made: always the end of an epoch. Of a condensed unit, the last unit before
    /// those which its segment copies.
    pub flushed_upto: u64,
    /// The content of its epoch was flushed before its units were written: nothing has to be compared after a crash (L5).
    pub content_flushed: bool,
}

impl UnitHeader {
    /// On the way in and on the way out. A unit of the walk is no further in its epoch than it is beyond the epochs that are flushed.
    fn is_sound(&self) -> bool {
        let first = self.sequence.checked_sub(u64::from(self.unit));
        let counters = [self.incarnation, self.sequence, self.epoch.get(), self.flushed_upto];
        counters.into_iter().all(|counter| counter <= COUNTER_MAX)
            && self.unit < self.units
            && (self.kind != UnitKind::Log || first.is_some_and(|first| first > self.flushed_upto))
    }
}

/// A client block that lies compressed in a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Of its content, not compressed.
    pub fingerprint: Fingerprint,
    /// Which bytes of the unit it is.
    pub at: Range<usize>,
}

/// A unit that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub header: UnitHeader,
    /// Where units to come lie, in order; at most [`PLACES_MAX`] runs.
    pub places: Vec<Places>,
    /// Slot 1 and so on; at most [`SLOTS_MAX`].
    pub slots: Vec<Slot>,
    pub records: Vec<Record>,
    /// What a kind-3 entry says of it.
    pub authenticator: Fingerprint,
}

/// The unit that these bytes are, read from this place; none where they are anything else, whoever wrote it: torn, another unit, forged, or not
/// what an encoder makes.
#[must_use]
pub fn open(authenticator: &Authenticator, pbn: Pbn, bytes: &[u8; BLOCK_SIZE]) -> Option<Unit> {
    if is_authentic(authenticator, pbn, bytes) { parse(bytes) } else { None }
}

/// As [`open`], but believing the authenticator: for tests of what lies behind it.
#[must_use]
pub fn parse(bytes: &[u8; BLOCK_SIZE]) -> Option<Unit> {
    if at::MAGIC.of(bytes) != MAGIC || at::FLAGS.get(bytes) & !FLAG_CONTENT_FLUSHED != 0 {
        return None;
    }
    let kind = UnitKind::ALL.into_iter().find(|kind| kind.number() == at::KIND.get(bytes))?;
    let header = UnitHeader {
        kind,
        incarnation: at::INCARNATION.get(bytes),
        sequence: at::SEQUENCE.get(bytes),
        epoch: Epoch(at::EPOCH.get(bytes)),
        unit: u32::from_le_bytes(at::UNIT.array(bytes)),
        units: u32::from_le_bytes(at::UNITS.array(bytes)),
        flushed_upto: at::FLUSHED_UPTO.get(bytes),
        content_flushed: at::FLAGS.get(bytes) & FLAG_CONTENT_FLUSHED != 0,
    };
    let runs = index(at::PLACES_COUNT.get(bytes));
    let slots = index(at::SLOT_COUNT.get(bytes));
    let record_bytes = index(at::RECORD_BYTES.get(bytes));
    if !header.is_sound() || runs > PLACES_MAX || slots > SLOTS_MAX || !kind.may_have(runs, slots, record_bytes) {
        return None;
    }
    let (places, rest) = bytes[at::LAYOUT.bytes..].split_at_checked(runs * PLACES_BYTES)?;
    let (table, rest) = rest.split_at_checked(slots * SLOT_BYTES)?;
    let (records, rest) = rest.split_at_checked(record_bytes)?;
    let slots = decode_slots(table)?;
    let data_bytes = slots.last().map_or(0, |slot| BLOCK_SIZE - slot.at.start);
    let (padding, _) = rest.split_at(rest.len().checked_sub(data_bytes)?);
    // Not the first that is not zero: the loop over all of them is the faster one.
    if padding.iter().fold(0, |all, byte| all | byte) != 0 {
        return None;
    }
    let authenticator = Fingerprint::of_digest(at::AUTHENTICATOR.of(bytes));
    let records = decode_records(records).filter(|records| records.iter().all(|record| kind.may_say(record)))?;
    Some(Unit { header, places: places::decode(places)?, slots, records, authenticator })
}

/// The slots of a unit that is known to be one, and nothing else of it; none where there is no such table.
#[must_use]
pub fn slots(bytes: &[u8; BLOCK_SIZE]) -> Option<Vec<Slot>> {
    let (runs, slots) = (index(at::PLACES_COUNT.get(bytes)), index(at::SLOT_COUNT.get(bytes)));
    let table = at::LAYOUT.bytes + runs * PLACES_BYTES;
    let is_unit = at::MAGIC.of(bytes) == MAGIC && slots <= SLOTS_MAX;
    if is_unit { decode_slots(bytes.get(table..table + slots * SLOT_BYTES)?) } else { None }
}

/// Whether these bytes say that they are a condensed unit. They may be none.
#[must_use]
pub fn is_condensed(bytes: &[u8; BLOCK_SIZE]) -> bool {
    at::MAGIC.of(bytes) == MAGIC && at::KIND.get(bytes) == UnitKind::Condensed.number()
}

/// What these bytes say their authenticator is, as a kind-3 entry has it. It may be no unit's.
#[must_use]
pub fn claims(bytes: &[u8; BLOCK_SIZE]) -> Fingerprint {
    Fingerprint::of_digest(at::AUTHENTICATOR.of(bytes))
}

/// Whether this volume made these bytes for this place.
#[must_use]
pub fn is_authentic(authenticator: &Authenticator, pbn: Pbn, bytes: &[u8; BLOCK_SIZE]) -> bool {
    // Most blocks that are no unit show it at once.
    at::MAGIC.of(bytes) == MAGIC && authenticator.knows(pbn, bytes)
}

fn decode_slots(table: &[u8]) -> Option<Vec<Slot>> {
    let mut end = count(BLOCK_SIZE);
    let slot = |bytes: &[u8]| {
        let (offset, length) = (at_slot::OFFSET.get(bytes), at_slot::LENGTH.get(bytes));
        let follows = length > 0 && offset + length == end;
        end = offset;
        let fingerprint = Fingerprint(at_slot::FINGERPRINT.array(bytes));
        let sound = follows && fingerprint == Fingerprint::of_digest(&fingerprint.0);
        sound.then(|| Slot { fingerprint, at: index(offset)..index(offset + length) })
    };
    table.chunks_exact(SLOT_BYTES).map(slot).collect()
}

fn decode_records(mut bytes: &[u8]) -> Option<Vec<Record>> {
    let (mut coder, mut records) = (Coder::default(), Vec::new());
    while !bytes.is_empty() {
        records.push(coder.decode(&mut bytes)?);
    }
    Some(records)
}
