//! The writer of units: fills a unit, record by record.

use super::authenticator::Authenticator;
use super::fields::{MAGIC, SLOT_BYTES, SLOTS_MAX, UNIT_ROOM_BYTES, at, at_slot, flags_of};
use super::{Slot, UnitHeader, claims};
use crate::fingerprint::Fingerprint;
use crate::format::codec::Codec;
use crate::format::places::{self, PLACES_BYTES, PLACES_MAX, Places};
use crate::format::record::{Coder, Record};
use crate::units::{BLOCK_SIZE, Pbn, count};

/// A unit in the making.
pub struct UnitWriter {
    places: Vec<Places>,
    slots: Vec<Slot>,
    /// The slots' data, slot 1 first.
    data: Vec<u8>,
    records: Vec<u8>,
    record_count: u32,
    coder: Coder,
}

impl UnitWriter {
    /// A unit without records that names these places.
    ///
    /// # Panics
    /// When they are more than [`PLACES_MAX`] runs.
    #[must_use]
    pub fn new(places: Vec<Places>) -> Self {
        assert!(places.len() <= PLACES_MAX, "{} runs of places", places.len());
        Self { places, slots: Vec::new(), data: Vec::new(), records: Vec::new(), record_count: 0, coder: Coder::default() }
    }

    /// Adds a record. Returns what did not fit: all of it, or the rest of a run.
    ///
    /// # Panics
    /// When the record names an LBN or a block that no volume has, a fingerprint of another kind than 1 or 2, a run without blocks, or
    /// `Lost`.
    #[must_use = "what did not fit goes to the next unit"]
    pub fn push(&mut self, record: Record) -> Option<Record> {
        let room = self.room_left();
        let Some(parts) = self.coder.encode(&record, room, &mut self.records) else { return Some(record) };
        self.record_count += 1;
        record.behind(parts)
    }

    /// Adds a compressed client block with the fingerprint of its content. Returns its number, from 1; none where there is no room.
    ///
    /// # Panics
    /// When there are no bytes, or the fingerprint has more than 158 bits.
    #[must_use = "what did not fit goes elsewhere"]
    pub fn push_slot(&mut self, fingerprint: Fingerprint, data: &[u8]) -> Option<u8> {
        assert!(
            !data.is_empty() && fingerprint == Fingerprint::of_digest(&fingerprint.0),
            "no slot: {} bytes, {fingerprint:?}",
            data.len()
        );
        if self.slots.len() == SLOTS_MAX || SLOT_BYTES + data.len() > self.room_left() {
            return None;
        }
        let end = BLOCK_SIZE - self.data.len();
        self.slots.push(Slot { fingerprint, at: end - data.len()..end, codec: Codec::default() });
        self.data.extend_from_slice(data);
        u8::try_from(self.slots.len()).ok()
    }

    /// Bytes that records can still take.
    #[must_use]
    pub fn room_left(&self) -> usize {
        UNIT_ROOM_BYTES - PLACES_BYTES * self.places.len() - SLOT_BYTES * self.slots.len() - self.data.len() - self.records.len()
    }

    /// The number of its slots, and the bytes of their data.
    #[must_use]
    pub fn packed(&self) -> (usize, usize) {
        (self.slots.len(), self.data.len())
    }

    /// The number of its records, which is the number of the next one.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.record_count
    }

    /// Makes the unit for its place. Returns the value of its kind-3 entry, should it get one.
    ///
    /// # Panics
    /// When the header has no meaning, a run of places cannot be one of a volume, or the unit has what one of its kind
    /// cannot have.
    #[must_use]
    pub fn seal(self, authenticator: &Authenticator, header: &UnitHeader, pbn: Pbn, out: &mut [u8; BLOCK_SIZE]) -> Fingerprint {
        assert!(header.is_sound(), "no unit: {header:?}");
        assert!(
            header.kind.may_have(self.places.len(), self.slots.len(), self.records.len()),
            "no {:?} has all that this unit has",
            header.kind
        );
        out.fill(0);
        at::MAGIC.of_mut(out).copy_from_slice(&MAGIC);
        at::KIND.set(out, header.kind.number());
        at::PLACES_COUNT.set(out, count(self.places.len()));
        at::SLOT_COUNT.set(out, count(self.slots.len()));
        at::RECORD_BYTES.set(out, count(self.records.len()));
        at::INCARNATION.set(out, header.incarnation);
        at::SEQUENCE.set(out, header.sequence);
        at::EPOCH.set(out, header.epoch.get());
        at::FLUSHED_UPTO.set(out, header.flushed_upto);
        at::UNIT.set(out, u64::from(header.unit));
        at::UNITS.set(out, u64::from(header.units));
        at::FLAGS.set(out, flags_of(header.content_flushed, Codec::default()));
        let (places, rest) = out[at::LAYOUT.bytes..].split_at_mut(PLACES_BYTES * self.places.len());
        places::encode(&self.places, places);
        let (table, rest) = rest.split_at_mut(SLOT_BYTES * self.slots.len());
        for (slot, out) in self.slots.iter().zip(table.chunks_exact_mut(SLOT_BYTES)) {
            at_slot::OFFSET.set(out, count(slot.at.start));
            at_slot::LENGTH.set(out, count(slot.at.len()));
            at_slot::FINGERPRINT.of_mut(out).copy_from_slice(&slot.fingerprint.0);
        }
        rest[..self.records.len()].copy_from_slice(&self.records);
        let mut data = self.data.as_slice();
        for slot in &self.slots {
            let (this, others) = data.split_at(slot.at.len());
            out[slot.at.clone()].copy_from_slice(this);
            data = others;
        }
        authenticator.sign(pbn, out);
        claims(out)
    }
}
