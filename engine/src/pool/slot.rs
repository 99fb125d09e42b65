//! Client blocks that lie compressed in the slots of a carrier: their search and decompression.
//!
//! 1. The slot of a map entry or a kind-3 fingerprint entry says that a block is a carrier. The bytes of the block do not: clients can
//!    write copies of units.
//! 2. A unit from the device is trusted if the volume made it for that block *and* the entry of the block names it. An older unit at the
//!    same block is authentic too, but holds other content.
//! 3. A carrier that was found damaged is not kept in memory, and no write links to it any more: its other slots may be damaged as well.

use super::Pool;
use crate::buffer::{BufferMut, Slice};
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::unit::{self, Slot};
use crate::interface::Notice;
use crate::units::{BLOCK_SIZE, Pbn, count};

/// A block and a slot of it; slot 0 is the block itself.
pub(crate) type Place = (Pbn, u8);

/// The content of a slot of a block that is known to be right; slot 0 is the block itself. None if there is no such slot, or no client
/// block in it.
pub fn in_slot(block: &Slice, slot: u8) -> Option<Slice> {
    match slot {
        0 => Some(block.clone()),
        _ => unpack(block.block(0), unit::slots(block.block(0))?.get(usize::from(slot) - 1)?),
    }
}

fn unpack(block: &[u8; BLOCK_SIZE], slot: &Slot) -> Option<Slice> {
    let mut content = BufferMut::zeroed(1);
    slot.unpack(block, content.block_mut(0)).then(|| content.freeze().slice(0, 1))
}

/// The slot with this fingerprint of a carrier that is known to be right.
pub fn slot_of(block: &[u8; BLOCK_SIZE], fingerprint: &Fingerprint) -> Option<u8> {
    let slots = unit::slots(block)?;
    let at = slots.iter().position(|slot| slot.fingerprint == *fingerprint)?;
    u8::try_from(at + 1).ok()
}

/// The condition of a block that was read from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockCondition {
    /// The block is as it should be.
    Right,
    /// The block is the right carrier by its authenticator, but some byte has changed, perhaps outside the wanted slot.
    Damaged,
    /// The block is another unit, or holds other content.
    Wrong,
}

impl Pool {
    /// Judges a block that was read from the device and may be a carrier. `entry`: its fingerprint entry, if that is known.
    pub fn judge_carrier(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE], entry: Option<FingerprintEntry>) -> BlockCondition {
        if entry.is_some_and(|entry| entry.kind != Kind::Carrier || !unit::is_named_by(&entry.value, block)) {
            return BlockCondition::Wrong;
        }
        if self.keys.authentic(pbn, block).is_none() {
            return if entry.is_some() { BlockCondition::Damaged } else { BlockCondition::Wrong };
        }
        if entry.is_some() {
            self.offer_slots(pbn, block);
        }
        BlockCondition::Right
    }

    /// The content of a slot of a block in this condition; slot 0 is the block itself.
    pub fn slot_as_judged(&mut self, pbn: Pbn, block: &Slice, slot: u8, judged: BlockCondition) -> Option<Slice> {
        match judged {
            BlockCondition::Right => in_slot(block, slot),
            BlockCondition::Wrong => None,
            BlockCondition::Damaged => {
                let bytes = block.block(0);
                let slots = unit::slots(bytes)?;
                let slot = slots.get(usize::from(slot).checked_sub(1)?)?;
                let content = unpack(bytes, slot)
                    .filter(|content| self.keys.fingerprinter.digest(content.block(0)) == Digest::Of(slot.fingerprint))?;
                self.io.notice(Notice::Damage {
                    what: "a carrier differs from its authenticator, but not in the block that was read",
                    at: pbn.0,
                });
                self.contents.suspect(&mut self.io, pbn);
                Some(content)
            }
        }
    }

    /// Offers the slots of a carrier to the index. The carrier is the one that its entry names. Returns the number of slots that the index
    /// took.
    pub fn offer_slots(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) -> u64 {
        if self.contents.suspects.contains(pbn) || self.tables.is_losing_its_name(pbn) {
            return 0;
        }
        let slots = unit::slots(block).unwrap_or_default();
        count(slots.iter().filter(|slot| self.index.offer(&slot.fingerprint, pbn)).count())
    }
}
