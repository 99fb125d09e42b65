//! The entries of the tables: the place of a logical block, and the content and the number of links of a physical block.

use crate::fingerprint::{Digest, Fingerprint, Fingerprinter};
use crate::units::{BLOCK_SIZE, Pbn};

/// Bytes of a map entry.
pub const MAP_ENTRY_SIZE: usize = 5;
/// Bytes of a fingerprint entry.
pub const FINGERPRINT_ENTRY_SIZE: usize = 20;
/// Bytes of a short name ([`Fingerprint::short`]).
pub const SHORT_NAME_SIZE: usize = 4;
/// Bytes of the authenticator that the entry of a carrier has. The number of its slots follows, in the lowest bits of the next byte.
pub const AUTHENTICATOR_PART: usize = 8;
/// The bits of that number.
pub const SLOT_COUNT_BITS: u32 = 4;

/// A count that is not known, after damage: the block is not free, not decremented and not linked to.
pub const REFS_UNKNOWN: u8 = 255;
/// The most links that a block can have, its fingerprint included.
pub const REFS_MAX: u8 = 254;

/// Bits of a map entry that hold its value; the other four hold its slot.
const VALUE_BITS: u32 = 36;
/// Values below this are not blocks.
const FIRST_BLOCK: u64 = 16;
/// The largest PBN that a map entry can name.
pub const PBN_MAX: Pbn = Pbn((1 << VALUE_BITS) - 1 - FIRST_BLOCK);
/// The largest slot that a map entry can name.
pub const SLOT_MAX: u8 = 15;

const UNMAPPED: u64 = 0;
const ZERO: u64 = 1;
const LOST: u64 = 2;

/// The two bits of the last byte that a [`Fingerprint`] leaves zero.
const KIND_SHIFT: u32 = 6;
const KIND_MASK: u8 = 0b1100_0000;
/// The bit of the last byte of kind 2 that is set for suspect content. Checksums and short names leave it zero.
const SUSPECT_BIT: u8 = 0b0010_0000;
/// The bit of the last byte of kind 2 that is set beside the checksum of content that stays apart.
const APART_BIT: u8 = 0b0001_0000;

/// Bytes that are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// A map entry whose value is reserved, or that has a slot without a block.
    #[error("map entry with reserved value {value} and slot {slot}")]
    Map { value: u64, slot: u8 },
    /// A fingerprint entry of kind none that is not all zero.
    #[error("fingerprint entry of kind none with value {value:?}")]
    Fingerprint { value: Fingerprint },
}

/// The block to which a logical block is mapped, or the reason why there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapEntry {
    /// Never written, or discarded: reads as zeros.
    #[default]
    Unmapped,
    /// The client wrote zeros.
    Zero,
    /// Its entry was damaged: an I/O error until it is written, zeroed or discarded.
    Lost,
    /// Slot 0 is the block itself; 1 to 15 are the client blocks that lie compressed in it.
    Block { pbn: Pbn, slot: u8 },
}

impl MapEntry {
    /// Its bytes.
    ///
    /// # Panics
    /// When the PBN is above [`PBN_MAX`] or the slot above [`SLOT_MAX`].
    #[must_use]
    pub fn encode(self) -> [u8; MAP_ENTRY_SIZE] {
        let (value, slot) = match self {
            Self::Unmapped => (UNMAPPED, 0),
            Self::Zero => (ZERO, 0),
            Self::Lost => (LOST, 0),
            Self::Block { pbn, slot } => {
                assert!(pbn <= PBN_MAX && slot <= SLOT_MAX, "no map entry can name {pbn} slot {slot}");
                (pbn.get() + FIRST_BLOCK, slot)
            }
        };
        let [a, b, c, d, e, ..] = (value | (u64::from(slot) << VALUE_BITS)).to_le_bytes();
        [a, b, c, d, e]
    }

    /// The entry that these bytes are.
    ///
    /// # Errors
    /// When the value is reserved.
    pub fn decode(bytes: &[u8; MAP_ENTRY_SIZE]) -> Result<Self, BadEntry> {
        let [a, b, c, d, e] = *bytes;
        let value = u64::from_le_bytes([a, b, c, d, e & 0x0f, 0, 0, 0]);
        let slot = e >> 4;
        match (value, slot) {
            (UNMAPPED, 0) => Ok(Self::Unmapped),
            (ZERO, 0) => Ok(Self::Zero),
            (LOST, 0) => Ok(Self::Lost),
            (FIRST_BLOCK.., _) => Ok(Self::Block { pbn: Pbn(value - FIRST_BLOCK), slot }),
            _ => Err(BadEntry::Map { value, slot }),
        }
    }

    /// The block that it links to.
    #[must_use]
    pub const fn pbn(self) -> Option<Pbn> {
        match self {
            Self::Block { pbn, .. } => Some(pbn),
            Self::Unmapped | Self::Zero | Self::Lost => None,
        }
    }
}

/// The kind of a fingerprint entry. Each kind but `None` counts one in refs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing.
    #[default]
    None,
    /// The first 158 bits of the digest of its content.
    Fingerprint,
    /// The checksum of content that is not for dedup; the short name of content whose fingerprint a crash kept from its page; or the
    /// fingerprint of suspect content.
    Checksum,
    /// The beginning of the authenticator of a carrier or pack, and tags of its slots, none if it is suspect.
    Carrier,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Fingerprint => 1,
            Self::Checksum => 2,
            Self::Carrier => 3,
        }
    }

    const fn of_number(number: u8) -> Self {
        match number & 3 {
            0 => Self::None,
            1 => Self::Fingerprint,
            2 => Self::Checksum,
            _ => Self::Carrier,
        }
    }
}

/// The entry of a physical block that identifies its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FingerprintEntry {
    pub kind: Kind,
    /// All zero where the kind is `None`.
    pub value: Fingerprint,
}

impl Default for FingerprintEntry {
    fn default() -> Self {
        Self::NONE
    }
}

impl FingerprintEntry {
    /// No entry.
    pub const NONE: Self = Self { kind: Kind::None, value: Fingerprint([0; FINGERPRINT_ENTRY_SIZE]) };

    /// The entry of a block with this fingerprint.
    #[must_use]
    pub const fn of(value: Fingerprint) -> Self {
        Self { kind: Kind::Fingerprint, value }
    }

    /// The entry of a block of which no more than its short name is known ([`Fingerprint::short`]).
    #[must_use]
    pub fn of_short(short: u32) -> Self {
        let mut value = [0; FINGERPRINT_ENTRY_SIZE];
        value[..SHORT_NAME_SIZE].copy_from_slice(&short.to_le_bytes());
        Self { kind: Kind::Checksum, value: Fingerprint(value) }
    }

    /// The entry of a block that stays apart, and of whose checksum no more than the short name is known.
    #[must_use]
    pub fn of_short_apart(short: u32) -> Self {
        let mut entry = Self::of_short(short);
        entry.value.0[FINGERPRINT_ENTRY_SIZE - 1] |= APART_BIT;
        entry
    }

    /// The entry of a block with this checksum ([`Fingerprinter::checksum`]).
    #[must_use]
    pub const fn of_checksum(value: Fingerprint) -> Self {
        Self { kind: Kind::Checksum, value }
    }

    /// The entry of a block with this checksum that stays apart: it never gets a fingerprint.
    #[must_use]
    pub fn apart(self) -> Self {
        debug_assert!(self.kind == Kind::Checksum && !self.is_suspect() && self.short().is_none(), "only a checksum stays apart");
        let mut value = self.value;
        value.0[FINGERPRINT_ENTRY_SIZE - 1] |= APART_BIT;
        Self { kind: Kind::Checksum, value }
    }

    /// Whether the block stays apart. The fingerprint of suspect content may have the bit, too.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.kind == Kind::Checksum && !self.is_suspect() && self.value.0[FINGERPRINT_ENTRY_SIZE - 1] & APART_BIT != 0
    }

    /// The entry without the bit of a block that stays apart.
    fn unmarked(self) -> Self {
        let mut value = self.value;
        value.0[FINGERPRINT_ENTRY_SIZE - 1] &= !APART_BIT;
        Self { value, ..self }
    }

    /// The short name of a checksum that it is, if it is one of a block that stays apart.
    fn short_apart(&self) -> Option<u32> {
        self.unmarked().short().filter(|_| self.is_apart())
    }

    /// Whether it is the short name of what another entry, of kind 1 or 2, says.
    #[must_use]
    pub fn is_short_of(&self, whole: &Self) -> bool {
        let short = if whole.is_apart() { self.short_apart() } else { self.short() };
        short == Some(whole.value.short())
    }

    /// The short name that it is, if it is one: a checksum as short as that would be the work of 2^96 blocks.
    #[must_use]
    pub fn short(&self) -> Option<u32> {
        let [a, b, c, d, rest @ ..] = self.value.0;
        (self.kind == Kind::Checksum && rest.iter().all(|&byte| byte == 0)).then(|| u32::from_le_bytes([a, b, c, d]))
    }

    /// The entry that the block has once its content was found damaged. It still shows whether the content is right, but no duplicate is
    /// found by it. One that identifies no content stays as it is.
    #[must_use]
    pub fn suspect(self) -> Self {
        let mut value = self.value;
        match self.kind {
            Kind::None | Kind::Checksum => self,
            Kind::Fingerprint => {
                value.0[FINGERPRINT_ENTRY_SIZE - 1] |= SUSPECT_BIT;
                Self { kind: Kind::Checksum, value }
            }
            Kind::Carrier => {
                value.0[AUTHENTICATOR_PART..].fill(0);
                Self { kind: Kind::Carrier, value }
            }
        }
    }

    /// Whether the entry says that its content was found damaged.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        match self.kind {
            Kind::None | Kind::Fingerprint => false,
            Kind::Checksum => self.value.0[FINGERPRINT_ENTRY_SIZE - 1] & SUSPECT_BIT != 0,
            Kind::Carrier => self.value.0[AUTHENTICATOR_PART] & ((1 << SLOT_COUNT_BITS) - 1) == 0,
        }
    }

    /// Whether a block's bytes are what an entry of kind 1 or 2 says; none of another kind's.
    #[must_use]
    pub fn is_of(&self, fingerprinter: &Fingerprinter, block: &[u8; BLOCK_SIZE]) -> Option<bool> {
        match (self.kind, self.short()) {
            (Kind::Checksum, _) if self.is_suspect() => {
                Some(matches!(fingerprinter.digest(block), Digest::Of(value) if Self::of(value).suspect() == *self))
            }
            (Kind::Checksum, None) => {
                let checksum = fingerprinter.checksum(block);
                Some(self.short_apart().map_or(checksum == self.unmarked().value, |short| checksum.short() == short))
            }
            // A block of zeros is never stored, so nothing names one.
            (Kind::Checksum, Some(short)) => Some(matches!(fingerprinter.digest(block), Digest::Of(value) if value.short() == short)),
            (Kind::Fingerprint, _) => Some(fingerprinter.digest(block) == Digest::Of(self.value)),
            (Kind::None | Kind::Carrier, _) => None,
        }
    }

    /// Whether the entry, of kind 1 or 2, says what a block's bytes are. `digest`: that of these bytes.
    #[must_use]
    pub fn proves(&self, fingerprinter: &Fingerprinter, digest: Digest, block: &[u8; BLOCK_SIZE]) -> bool {
        match self.kind {
            Kind::Fingerprint => digest == Digest::Of(self.value),
            Kind::Checksum => self.is_of(fingerprinter, block) == Some(true),
            Kind::None | Kind::Carrier => false,
        }
    }

    /// Whether there is no entry, so that none counts in refs.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.kind == Kind::None
    }

    /// Its bytes.
    ///
    /// # Panics
    /// When the kind is none and the value is not zero, or the value uses the two bits that hold the kind.
    #[must_use]
    pub fn encode(self) -> [u8; FINGERPRINT_ENTRY_SIZE] {
        let mut bytes = self.value.0;
        assert!(bytes[19] & KIND_MASK == 0, "a fingerprint has 158 bits");
        assert!(self.kind != Kind::None || self == Self::NONE, "an entry of kind none has no value");
        bytes[19] |= self.kind.number() << KIND_SHIFT;
        bytes
    }

    /// The entry that these bytes are.
    ///
    /// # Errors
    /// When the kind is none and the value is not zero.
    pub fn decode(bytes: &[u8; FINGERPRINT_ENTRY_SIZE]) -> Result<Self, BadEntry> {
        let kind = Kind::of_number(bytes[19] >> KIND_SHIFT);
        let mut value = Fingerprint(*bytes);
        value.0[19] &= !KIND_MASK;
        let entry = Self { kind, value };
        if kind == Kind::None && entry != Self::NONE {
            return Err(BadEntry::Fingerprint { value });
        }
        Ok(entry)
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
