//! Client blocks that lie compressed in the slots of a carrier: finding and unpacking them.
//!
//! 1. That a block is a carrier is told by the slot of a map entry, or by a kind-3 fingerprint entry, never by its bytes: clients can write
//!    copies of units.
//! 2. What comes from the device is believed where the volume made it for that place *and* its entry says that it is this unit. An older
//!    unit that lay there is authentic too, and a stranger's.
//! 3. What of a carrier was found wrong is not kept in memory, and nobody links to it from then on: its other slots may be wrong as well.

use super::Store;
use crate::buffer::{BufferMut, Slice};
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::unit::{self, Slot};
use crate::interface::Notice;
use crate::units::{BLOCK_SIZE, Pbn, count};

/// The content of a slot of a block that is known to be right; slot 0 is the block itself. None where there is no such slot, or no client
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

/// The slot of a carrier that is known to be right, where content with this fingerprint lies.
pub fn slot_of(block: &[u8; BLOCK_SIZE], fingerprint: &Fingerprint) -> Option<u8> {
    let slots = unit::slots(block)?;
    let at = slots.iter().position(|slot| slot.fingerprint == *fingerprint)?;
    u8::try_from(at + 1).ok()
}

/// What a block that came from the device was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// What it should be.
    Right,
    /// A carrier, the right one by its name, and some byte of it has changed: perhaps none of the wanted slot's.
    Spoilt,
    /// Something else: another unit, or content that differs.
    Wrong,
}

impl Store {
    /// The authenticator of a block that came from the device, if this volume made it for that place.
    pub fn authentic(&self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) -> Option<Fingerprint> {
        unit::is_authentic(&self.keys.authenticator, pbn, block).then(|| unit::claims(block))
    }

    /// What a block that came from the device, and that may be a carrier, is found to be. `entry`: what is known of it; none where that is
    /// unknown.
    pub fn judge_carrier(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE], entry: Option<FingerprintEntry>) -> Judged {
        if entry.is_some_and(|entry| entry != FingerprintEntry { kind: Kind::Carrier, value: unit::claims(block) }) {
            return Judged::Wrong;
        }
        if self.authentic(pbn, block).is_none() {
            return if entry.is_some() { Judged::Spoilt } else { Judged::Wrong };
        }
        if entry.is_some() {
            self.offer_slots(pbn, block);
        }
        Judged::Right
    }

    /// The content of a slot of a block that was judged; slot 0 is the block itself.
    pub fn slot_as_judged(&mut self, pbn: Pbn, block: &Slice, slot: u8, judged: Judged) -> Option<Slice> {
        match judged {
            Judged::Right => in_slot(block, slot),
            Judged::Wrong => None,
            Judged::Spoilt => {
                let bytes = block.block(0);
                let slots = unit::slots(bytes)?;
                let slot = slots.get(usize::from(slot).checked_sub(1)?)?;
                let content = unpack(bytes, slot)
                    .filter(|content| self.keys.fingerprinter.digest(content.block(0)) == Digest::Of(slot.fingerprint))?;
                self.io.notice(Notice::Damage {
                    what: "a carrier differs from its authenticator, but not in the block that was read",
                    at: pbn.0,
                });
                self.contents.suspects.insert(pbn);
                Some(content)
            }
        }
    }

    /// Offers the slots of a carrier, which is the one that its entry names, to the index. How many it took.
    pub fn offer_slots(&mut self, pbn: Pbn, block: &[u8; BLOCK_SIZE]) -> u64 {
        if self.contents.suspects.contains(&pbn) || self.tables.is_losing_its_name(pbn) {
            return 0;
        }
        let slots = unit::slots(block).unwrap_or_default();
        count(slots.iter().filter(|slot| self.index.offer(&slot.fingerprint, pbn)).count())
    }
}
