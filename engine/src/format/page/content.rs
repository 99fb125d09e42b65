//! The entries and tags of a page in memory.

use super::fields::{ENTRY_BYTES, SECTORS};
use super::region::Region;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{BadEntry, FingerprintEntry, Kind, MAP_ENTRY_SIZE, MapEntry, REFS_UNKNOWN};
use crate::format::unit;
use crate::units::index;
use std::fmt;

#[derive(Clone)]
struct Content {
    /// The entries of each sector. As none holds part of an entry, entry `i` of the page stands at `i` times its size in all of them.
    entries: [[u8; ENTRY_BYTES]; SECTORS],
    tags: [u64; SECTORS],
    /// The CRC32C of a sector's entries and tag, where its bit in `summed` is set: most writes of a page change one or two of its sectors.
    sums: [u32; SECTORS],
    summed: u8,
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && self.tags == other.tags
    }
}

impl Eq for Content {}

/// The entries and tags of one page.
#[derive(Clone, PartialEq, Eq)]
pub struct PageContent(Box<Content>);

impl Default for PageContent {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for PageContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageContent(tags {:?})", self.0.tags)
    }
}

impl PageContent {
    /// A page that was never written: unmapped, no links, no fingerprints, no bits.
    #[must_use]
    pub fn empty() -> Self {
        Self(Box::new(Content { entries: [[0; ENTRY_BYTES]; SECTORS], tags: [0; SECTORS], sums: [0; SECTORS], summed: 0 }))
    }

    fn bytes<const N: usize>(&self, i: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0.entries.as_flattened()[i * N..][..N]);
        bytes
    }

    pub(super) fn set_bytes<const N: usize>(&mut self, i: usize, bytes: &[u8; N]) {
        self.forget_sum(i * N / ENTRY_BYTES);
        self.0.entries.as_flattened_mut()[i * N..][..N].copy_from_slice(bytes);
    }

    /// Forgets the sum of a sector that is about to change.
    fn forget_sum(&mut self, sector: usize) {
        self.0.summed &= !(1 << sector);
    }

    /// A count of links.
    ///
    /// # Panics
    /// When the page has no entry `i`, as do all functions that take the number of an entry.
    #[must_use]
    pub fn refs(&self, i: usize) -> u8 {
        self.0.entries.as_flattened()[i]
    }

    /// All counts of links, in order.
    #[must_use]
    pub fn all_refs(&self) -> &[u8] {
        self.0.entries.as_flattened()
    }

    pub fn set_refs(&mut self, i: usize, refs: u8) {
        self.forget_sum(i / ENTRY_BYTES);
        self.0.entries.as_flattened_mut()[i] = refs;
    }

    /// A map entry; one whose bytes are reserved, in a sector whose check is right, is lost.
    #[must_use]
    pub fn map(&self, i: usize) -> MapEntry {
        self.stored_map(i).unwrap_or(MapEntry::Lost)
    }

    /// A map entry as it is stored.
    ///
    /// # Errors
    /// When its bytes are reserved.
    pub fn stored_map(&self, i: usize) -> Result<MapEntry, BadEntry> {
        MapEntry::decode(&self.bytes(i))
    }

    pub fn set_map(&mut self, i: usize, entry: MapEntry) {
        self.set_bytes(i, &entry.encode());
    }

    /// A fingerprint entry; one whose bytes are no entry is none.
    #[must_use]
    pub fn fingerprint(&self, i: usize) -> FingerprintEntry {
        self.stored_fingerprint(i).unwrap_or(FingerprintEntry::NONE)
    }

    /// The place of the first entry with this fingerprint, or of a carrier that most likely has it.
    #[must_use]
    pub fn find_fingerprint(&self, fp: &Fingerprint) -> Option<usize> {
        (0..index(Region::Fingerprints.entries_per_page())).find(|&i| match self.fingerprint(i) {
            FingerprintEntry { kind: Kind::Fingerprint, value } => value == *fp,
            FingerprintEntry { kind: Kind::Carrier, value } => unit::most_likely_has(&value, fp),
            FingerprintEntry { kind: Kind::None | Kind::Checksum, .. } => false,
        })
    }

    /// A fingerprint entry as it is stored.
    ///
    /// # Errors
    /// When its bytes are no entry.
    pub fn stored_fingerprint(&self, i: usize) -> Result<FingerprintEntry, BadEntry> {
        FingerprintEntry::decode(&self.bytes(i))
    }

    pub fn set_fingerprint(&mut self, i: usize, entry: FingerprintEntry) {
        self.set_bytes(i, &entry.encode());
    }

    /// A bit of the *written* region.
    #[must_use]
    pub fn bit(&self, i: usize) -> bool {
        self.0.entries.as_flattened()[i / 8] & (1 << (i % 8)) != 0
    }

    pub fn set_bit(&mut self, i: usize, bit: bool) {
        self.forget_sum(i / 8 / ENTRY_BYTES);
        let (byte, mask) = (&mut self.0.entries.as_flattened_mut()[i / 8], 1 << (i % 8));
        if bit {
            *byte |= mask;
        } else {
            *byte &= !mask;
        }
    }

    /// The last epoch whose updates a sector holds all of; 0 in mode `ordered`.
    #[must_use]
    pub fn tag(&self, sector: usize) -> u64 {
        self.0.tags[sector]
    }

    pub fn set_tag(&mut self, sector: usize, tag: u64) {
        self.forget_sum(sector);
        self.0.tags[sector] = tag;
    }

    /// The CRC32C of the entries and the tag of one sector.
    pub fn sum(&mut self, sector: usize) -> u32 {
        let mut bytes = [0; ENTRY_BYTES + size_of::<u64>()];
        bytes[..ENTRY_BYTES].copy_from_slice(self.sector(sector));
        bytes[ENTRY_BYTES..].copy_from_slice(&self.tag(sector).to_le_bytes());
        self.sum_of(sector, &bytes)
    }

    /// The CRC32C of one sector's entries and tag, which are these bytes.
    pub(super) fn sum_of(&mut self, sector: usize, bytes: &[u8]) -> u32 {
        if self.0.summed & (1 << sector) == 0 {
            self.0.sums[sector] = crc32c::crc32c(bytes);
            self.0.summed |= 1 << sector;
        }
        self.0.sums[sector]
    }

    /// The entries of one sector, as they stand on the medium.
    #[must_use]
    pub fn sector(&self, sector: usize) -> &[u8; ENTRY_BYTES] {
        &self.0.entries[sector]
    }

    /// Takes over a sector as the medium holds it, with the sum of its entries and its tag.
    pub(super) fn take_sector(&mut self, sector: usize, entries: &[u8], tag: u64, sum: u32) {
        self.0.entries[sector].copy_from_slice(entries);
        self.0.tags[sector] = tag;
        self.0.sums[sector] = sum;
        self.0.summed |= 1 << sector;
    }

    /// Makes one sector promise nothing, as a damaged one does (invariant 4).
    pub fn lose_sector(&mut self, region: Region, sector: usize) {
        self.forget_sum(sector);
        let entries = &mut self.0.entries[sector];
        match region {
            Region::Written => entries.fill(0xff),
            Region::Refs => entries.fill(REFS_UNKNOWN),
            Region::Fingerprints => entries.fill(0),
            Region::Map => entries.chunks_exact_mut(MAP_ENTRY_SIZE).for_each(|e| e.copy_from_slice(&MapEntry::Lost.encode())),
        }
        self.0.tags[sector] = 0;
    }
}
