//! A unit of the log: one block of the data region that holds a header, places to come, records, and client blocks, compressed, in slots.
//!
//! 1. It authenticates itself: key, volume, place and every byte ([`Authenticator`]).
//! 2. From the front it holds header, places, table of slots, and records; then zeros; at the end the data of the slots, each before that
//!    of the slot before it.
//! 3. One unit has one encoding, as the superblock.
//! 4. Room for a record does not depend on the header, so a unit can be filled before its sequence is known.

pub mod authenticator;
mod carrier_entry;
mod fields;
mod writer;

use super::codec::Codec;
use super::counter::COUNTER_MAX;
use super::places::{self, PLACES_BYTES, PLACES_MAX, Places};
use super::record::{Coder, Record};
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::units::{BLOCK_SIZE, Epoch, Pbn, count, index};
use authenticator::Authenticator;
use fields::read_flags;
use std::ops::Range;

pub use carrier_entry::{heads_of_slots, most_likely_has};
pub use fields::{
    AUTHENTICATOR_BYTES, CARRIER_BYTES, CARRIER_PLACES_MAX, MAGIC, SLOT_BYTES, SLOT_DATA_MAX, SLOTS_MAX, UNIT_ROOM_BYTES, at, at_slot,
};
pub use writer::UnitWriter;

/// The kind of a unit: of which sequence of units it is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Part of the log scan: a plain unit, or with slots a carrier.
    Log,
    /// Part of no sequence: slots without records, of a large epoch.
    Pack,
    /// Part of a compacted segment.
    Compacted,
}

impl UnitKind {
    const ALL: [Self; 3] = [Self::Log, Self::Pack, Self::Compacted];

    /// Whether it can have these numbers of runs of places, of slots, and of bytes of records.
    const fn may_have(self, runs: usize, slots: usize, record_bytes: usize) -> bool {
        match self {
            Self::Log => true,
            Self::Pack => runs + record_bytes == 0,
            Self::Compacted => runs + slots == 0,
        }
    }

    /// Whether it can have this record. All records of a unit of the log scan are of its epoch. Neither closing records nor runs with short
    /// names are copied into compacted units.
    const fn may_say(self, record: &Record) -> bool {
        match record {
            Record::NewLink { .. } | Record::NewRun { .. } | Record::Later { .. } => matches!(self, Self::Compacted),
            Record::Extent { .. } | Record::Closing { .. } => !matches!(self, Self::Compacted),
            _ => true,
        }
    }

    const fn number(self) -> u64 {
        match self {
            Self::Log => 1,
            Self::Pack => 2,
            Self::Compacted => 3,
        }
    }
}

/// The header of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    pub kind: UnitKind,
    /// The opening that wrote it (L3).
    pub incarnation: u64,
    /// Its number in the log, from 1; of a compacted unit, that of the last unit which its segment copies.
    pub sequence: u64,
    /// The epoch of its records; of a compacted unit, of the first.
    pub epoch: Epoch,
    /// It is number `unit`, from 0, of the `units` of its epoch or segment.
    pub unit: u32,
    pub units: u32,
    /// The last unit that was known to be flushed when this one was made: always the end of an epoch. Of a compacted unit, the last unit
    /// before those which its segment copies.
    pub flushed_upto: u64,
    /// The content of its epoch was flushed before its units were written: nothing has to be compared after a crash (L5).
    pub content_flushed: bool,
}

impl UnitHeader {
    /// Whether the header has a meaning, when it is read and when it is written. A unit of the log scan is no further in its epoch than it
    /// is beyond the epochs that are flushed.
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
    /// The fingerprint of its content, not compressed.
    pub fingerprint: Fingerprint,
    /// The bytes of the unit that hold it.
    pub at: Range<usize>,
    /// The codec that the unit names for all its slots.
    pub codec: Codec,
}

impl Slot {
    /// Unpacks the block from the unit whose slot it is. False where its data are not one block; `out` is undefined then.
    #[must_use]
    pub fn unpack(&self, unit: &[u8; BLOCK_SIZE], out: &mut [u8; BLOCK_SIZE]) -> bool {
        self.codec.decompress(&unit[self.at.clone()], out)
    }
}

/// A unit that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub header: UnitHeader,
    /// The places of units to come, in order; at most [`PLACES_MAX`] runs.
    pub places: Vec<Places>,
    /// Slot 1 and so on; at most [`SLOTS_MAX`].
    pub slots: Vec<Slot>,
    pub records: Vec<Record>,
    /// The value of the kind-3 entry of its block.
    pub authenticator: Fingerprint,
}

/// The unit that these bytes are, read from this place. None where they are anything else, whoever wrote it: torn, another unit, forged, or
/// not what an encoder makes.
#[must_use]
pub fn open(authenticator: &Authenticator, pbn: Pbn, bytes: &[u8; BLOCK_SIZE]) -> Option<Unit> {
    if is_authentic(authenticator, pbn, bytes) { parse(bytes) } else { None }
}

/// Reads a unit as [`open`] does, but believes its authenticator: for tests of what lies behind it.
#[must_use]
pub fn parse(bytes: &[u8; BLOCK_SIZE]) -> Option<Unit> {
    if at::MAGIC.of(bytes) != MAGIC {
        return None;
    }
    let (content_flushed, codec) = read_flags(at::FLAGS.get(bytes))?;
    let kind = UnitKind::ALL.into_iter().find(|kind| kind.number() == at::KIND.get(bytes))?;
    let header = UnitHeader {
        kind,
        incarnation: at::INCARNATION.get(bytes),
        sequence: at::SEQUENCE.get(bytes),
        epoch: Epoch(at::EPOCH.get(bytes)),
        unit: at::UNIT.word(bytes),
        units: at::UNITS.word(bytes),
        flushed_upto: at::FLUSHED_UPTO.get(bytes),
        content_flushed,
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
    let slots = decode_slots(table, codec)?;
    let data_bytes = slots.last().map_or(0, |slot| BLOCK_SIZE - slot.at.start);
    let (padding, _) = rest.split_at(rest.len().checked_sub(data_bytes)?);
    // Not the first that is not zero: the loop over all of them is the faster one.
    if padding.iter().fold(0, |all, byte| all | byte) != 0 {
        return None;
    }
    let authenticator = claims(bytes);
    let records = decode_records(records).filter(|records| records.iter().all(|record| kind.may_say(record)))?;
    Some(Unit { header, places: places::decode(places)?, slots, records, authenticator })
}

/// The slots of a unit that is known to be one, and nothing else of it; none where there is no such table.
#[must_use]
pub fn slots(bytes: &[u8; BLOCK_SIZE]) -> Option<Vec<Slot>> {
    let (runs, slots) = (index(at::PLACES_COUNT.get(bytes)), index(at::SLOT_COUNT.get(bytes)));
    let table = at::LAYOUT.bytes + runs * PLACES_BYTES;
    let is_unit = at::MAGIC.of(bytes) == MAGIC && slots <= SLOTS_MAX;
    let (_, codec) = read_flags(at::FLAGS.get(bytes)).filter(|_| is_unit)?;
    decode_slots(bytes.get(table..table + slots * SLOT_BYTES)?, codec)
}

/// The fingerprints of the slots of a unit that is known to be one.
#[must_use]
pub fn fingerprints(bytes: &[u8; BLOCK_SIZE]) -> Vec<Fingerprint> {
    slots(bytes).unwrap_or_default().into_iter().map(|slot| slot.fingerprint).collect()
}

/// Whether these bytes say that they are a compacted unit. They may be none.
#[must_use]
pub fn is_compacted(bytes: &[u8; BLOCK_SIZE]) -> bool {
    at::MAGIC.of(bytes) == MAGIC && at::KIND.get(bytes) == UnitKind::Compacted.number()
}

/// The value of the kind-3 entry that these bytes would have, if they are a unit. They may be none.
#[must_use]
pub fn claims(bytes: &[u8; BLOCK_SIZE]) -> Fingerprint {
    carrier_entry::value(at::AUTHENTICATOR.of(bytes), &fingerprints(bytes))
}

/// Whether the kind-3 entry with this value names the unit that has the authenticator in these bytes, whatever else the bytes are.
#[must_use]
pub fn is_named_by(value: &Fingerprint, bytes: &[u8; BLOCK_SIZE]) -> bool {
    carrier_entry::is_of(value, at::AUTHENTICATOR.of(bytes))
}

/// Whether the kind-3 entry of these bytes, if they are a unit, has this value, perhaps as a suspect's. They may be none.
#[must_use]
pub fn may_have_entry(value: &Fingerprint, bytes: &[u8; BLOCK_SIZE]) -> bool {
    let entry = FingerprintEntry { kind: Kind::Carrier, value: claims(bytes) };
    [entry, entry.suspect()].iter().any(|entry| entry.value == *value)
}

/// Whether this volume made these bytes for this place.
#[must_use]
pub fn is_authentic(authenticator: &Authenticator, pbn: Pbn, bytes: &[u8; BLOCK_SIZE]) -> bool {
    // Most blocks that are no unit show it at once.
    at::MAGIC.of(bytes) == MAGIC && authenticator.knows(pbn, bytes)
}

fn decode_slots(table: &[u8], codec: Codec) -> Option<Vec<Slot>> {
    let mut end = count(BLOCK_SIZE);
    let slot = |bytes: &[u8]| {
        let (offset, length) = (at_slot::OFFSET.get(bytes), at_slot::LENGTH.get(bytes));
        let follows = length > 0 && offset + length == end;
        end = offset;
        let fingerprint = Fingerprint(at_slot::FINGERPRINT.array(bytes));
        let sound = follows && fingerprint == Fingerprint::of_digest(&fingerprint.0);
        sound.then(|| Slot { fingerprint, at: index(offset)..index(offset + length), codec })
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
