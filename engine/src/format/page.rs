//! A metadata page: 4096 bytes, eight sectors that each check themselves.
//!
//! 1. No entry crosses a sector, so a torn page (A2) is old and new entries side by side, all valid.
//! 2. A sector's check covers its entries, its tag, and its place: volume, region, instance, index. A sector that lies elsewhere fails it.
//! 3. A sealed sector is never all zero, so zeros are "never written" or damage, and the *written* bit says which.
//! 4. A sector that failed its check, or whose tag no epoch can have, opens as what promises nothing: lost, unknown, none; its neighbours are as they were.

use super::counter::COUNTER_MAX;
use super::entry::{FINGERPRINT_ENTRY_SIZE, FingerprintEntry, MAP_ENTRY_SIZE, MapEntry, REFS_UNKNOWN};
use super::layout::layout;
use crate::class::Class;
use crate::units::{BLOCK_SIZE, SECTOR_SIZE, count};
use std::fmt;

/// Sectors of a page.
pub const SECTORS: usize = BLOCK_SIZE / SECTOR_SIZE;
/// Bytes of a sector that hold entries.
pub const ENTRY_BYTES: usize = 500;
/// Instance of every region, until there are volumes with more than one map.
pub const INSTANCE: u32 = 0;

layout! {
    /// The sector of a metadata page.
    at, "Sector", SECTOR_SIZE;
    ENTRIES ENTRY_BYTES,
    TAG 8,
    CHECK 4,
}

layout! {
    /// A sector's place, which its check covers and which stands nowhere on the medium.
    at_place, "Place", 32;
    UUID 16,
    REGION_KIND 4,
    REGION_INSTANCE 4,
    SECTOR_INDEX 8,
}

const TAG_AT: usize = at::TAG.offset;
const CHECK_AT: usize = at::CHECK.offset;

const _: () = assert!(TAG_AT == 500 && CHECK_AT == 508);
const _: () = assert!(ENTRY_BYTES % MAP_ENTRY_SIZE == 0 && ENTRY_BYTES % FINGERPRINT_ENTRY_SIZE == 0);

/// A region of metadata pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// A bit for each page of the others: it has been written.
    Written,
    /// PBN to its count of links.
    Refs,
    /// PBN to what is known of its content.
    Fingerprints,
    /// LBN to PBN.
    Map,
}

impl From<Region> for Class {
    fn from(region: Region) -> Self {
        match region {
            Region::Written => Self::Written,
            Region::Refs => Self::Refs,
            Region::Fingerprints => Self::Fingerprints,
            Region::Map => Self::Map,
        }
    }
}

impl Region {
    /// All regions, in the order of their kind numbers.
    pub const ALL: [Self; 4] = [Self::Written, Self::Refs, Self::Fingerprints, Self::Map];

    /// Its number on the medium.
    #[must_use]
    pub const fn kind(self) -> u32 {
        match self {
            Self::Written => 1,
            Self::Refs => 2,
            Self::Fingerprints => 3,
            Self::Map => 4,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Refs => "refs",
            Self::Fingerprints => "fingerprints",
            Self::Map => "map",
        }
    }

    /// Entries in one sector.
    #[must_use]
    pub const fn entries_per_sector(self) -> u64 {
        match self {
            Self::Written => 4000,
            Self::Refs => 500,
            Self::Fingerprints => 25,
            Self::Map => 100,
        }
    }

    /// Entries in one page.
    #[must_use]
    pub const fn entries_per_page(self) -> u64 {
        self.entries_per_sector() * 8
    }
}

/// One page of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    pub region: Region,
    /// Counted from the region's first page, across its extents.
    pub index: u64,
}

impl PageId {
    /// The index in its region of one of its sectors.
    #[must_use]
    pub fn sector(self, i: usize) -> u64 {
        self.index * count(SECTORS) + count(i)
    }
}

#[derive(Clone)]
struct Content {
    /// Sector for sector; as none holds part of an entry, entry `i` stands at `i` times its size.
    entries: [u8; SECTORS * ENTRY_BYTES],
    tags: [u64; SECTORS],
    /// CRC32C of a sector's entries and tag, where its bit in `summed` is set: most writes of a page change one or two of its sectors.
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
        Self(Box::new(Content { entries: [0; SECTORS * ENTRY_BYTES], tags: [0; SECTORS], sums: [0; SECTORS], summed: 0 }))
    }

    fn bytes<const N: usize>(&self, i: usize) -> &[u8; N] {
        self.0.entries[i * N..][..N].try_into().expect("a slice of N bytes")
    }

    fn set_bytes<const N: usize>(&mut self, i: usize, bytes: &[u8; N]) {
        self.changed(i * N / ENTRY_BYTES);
        self.0.entries[i * N..][..N].copy_from_slice(bytes);
    }

    /// A sector is about to change.
    fn changed(&mut self, sector: usize) {
        self.0.summed &= !(1 << sector);
    }

    /// A count of links.
    ///
    /// # Panics
    /// This and its like: when the page has no entry `i`.
    #[must_use]
    pub fn refs(&self, i: usize) -> u8 {
        self.0.entries[i]
    }

    pub fn set_refs(&mut self, i: usize, refs: u8) {
        self.changed(i / ENTRY_BYTES);
        self.0.entries[i] = refs;
    }

    /// A map entry; one whose bytes are reserved, in a sector whose check is right, is lost.
    #[must_use]
    pub fn map(&self, i: usize) -> MapEntry {
        MapEntry::decode(self.bytes(i)).unwrap_or(MapEntry::Lost)
    }

    pub fn set_map(&mut self, i: usize, entry: MapEntry) {
        self.set_bytes(i, &entry.encode());
    }

    /// A fingerprint entry; one whose bytes are no entry is none.
    #[must_use]
    pub fn fingerprint(&self, i: usize) -> FingerprintEntry {
        FingerprintEntry::decode(self.bytes(i)).unwrap_or(FingerprintEntry::NONE)
    }

    pub fn set_fingerprint(&mut self, i: usize, entry: FingerprintEntry) {
        self.set_bytes(i, &entry.encode());
    }

    /// A bit of the *written* region.
    #[must_use]
    pub fn bit(&self, i: usize) -> bool {
        self.0.entries[i / 8] & (1 << (i % 8)) != 0
    }

    pub fn set_bit(&mut self, i: usize, bit: bool) {
        self.changed(i / 8 / ENTRY_BYTES);
        let mask = 1 << (i % 8);
        if bit {
            self.0.entries[i / 8] |= mask;
        } else {
            self.0.entries[i / 8] &= !mask;
        }
    }

    /// The last epoch whose updates a sector holds all of; 0 in mode `ordered`.
    #[must_use]
    pub fn tag(&self, sector: usize) -> u64 {
        self.0.tags[sector]
    }

    pub fn set_tag(&mut self, sector: usize, tag: u64) {
        self.changed(sector);
        self.0.tags[sector] = tag;
    }

    /// The CRC32C of the entries and the tag of one sector.
    pub fn sum(&mut self, sector: usize) -> u32 {
        if self.0.summed & (1 << sector) == 0 {
            self.0.sums[sector] = crc32c::crc32c_append(crc32c::crc32c(self.sector(sector)), &self.tag(sector).to_le_bytes());
            self.0.summed |= 1 << sector;
        }
        self.0.sums[sector]
    }

    /// The entries of one sector, as they stand on the medium.
    #[must_use]
    pub fn sector(&self, sector: usize) -> &[u8; ENTRY_BYTES] {
        self.bytes(sector)
    }

    /// Makes one sector promise nothing, as a damaged one does (invariant 4).
    pub fn lose_sector(&mut self, region: Region, sector: usize) {
        self.changed(sector);
        let entries = &mut self.0.entries[sector * ENTRY_BYTES..][..ENTRY_BYTES];
        match region {
            Region::Written => entries.fill(0xff),
            Region::Refs => entries.fill(REFS_UNKNOWN),
            Region::Fingerprints => entries.fill(0),
            Region::Map => entries.chunks_exact_mut(MAP_ENTRY_SIZE).for_each(|e| e.copy_from_slice(&MapEntry::Lost.encode())),
        }
        self.0.tags[sector] = 0;
    }
}

/// A sector's place; all of a page's sectors differ in their index only.
struct Place([u8; at_place::LAYOUT.bytes]);

impl Place {
    fn of(uuid: &[u8; 16], region: Region) -> Self {
        let mut place = [0; at_place::LAYOUT.bytes];
        at_place::UUID.of_mut(&mut place).copy_from_slice(uuid);
        at_place::REGION_KIND.set(&mut place, u64::from(region.kind()));
        at_place::REGION_INSTANCE.set(&mut place, u64::from(INSTANCE));
        Self(place)
    }

    /// The check of a sector, after `sum_of` it. Never 0, so that a sealed sector is never all zero (invariant 3); 1 stands for 0 as well, which costs nothing: no
    /// error of fewer than five bits turns a check of 0 into one of 1.
    fn check(&mut self, sector: u64, sum: u32) -> u32 {
        at_place::SECTOR_INDEX.set(&mut self.0, sector);
        crc32c::crc32c_append(sum, &self.0).max(1)
    }
}

/// What the check of a sector begins with: the CRC32C of its entries and its tag.
fn sum_of(sector: &[u8]) -> u32 {
    crc32c::crc32c(&sector[..CHECK_AT])
}

fn tag_of(sector: &[u8]) -> u64 {
    u64::from_le_bytes(sector[TAG_AT..CHECK_AT].try_into().expect("eight bytes"))
}

/// Writes a page's bytes, each sector with its check.
pub fn seal(uuid: &[u8; 16], id: PageId, content: &mut PageContent, out: &mut [u8; BLOCK_SIZE]) {
    let mut place = Place::of(uuid, id.region);
    for (i, sector) in out.chunks_exact_mut(SECTOR_SIZE).enumerate() {
        sector[..TAG_AT].copy_from_slice(content.sector(i));
        sector[TAG_AT..CHECK_AT].copy_from_slice(&content.tag(i).to_le_bytes());
        let check = place.check(id.sector(i), content.sum(i));
        sector[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
    }
}

/// What a page's bytes say.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Damaged sectors promise nothing (invariant 4).
    pub content: PageContent,
    /// Bit `i` is set: sector `i` failed its check.
    pub damaged: u8,
    /// All eight sectors are zero.
    pub blank: bool,
}

/// Reads a page's bytes. `written` is its bit in the *written* region (always true for a page of that region itself): while it is clear, an
/// all-zero sector is an empty one.
#[must_use]
pub fn open(uuid: &[u8; 16], id: PageId, bytes: &[u8; BLOCK_SIZE], written: bool) -> Opened {
    let mut content = PageContent::empty();
    let mut place = Place::of(uuid, id.region);
    let mut damaged = 0;
    let mut blank = true;
    for (i, sector) in bytes.chunks_exact(SECTOR_SIZE).enumerate() {
        let stored = u32::from_le_bytes(sector[CHECK_AT..].try_into().expect("four bytes"));
        if stored == 0 && sector == [0; SECTOR_SIZE] {
            if written {
                damaged |= 1 << i;
                content.lose_sector(id.region, i);
            }
            continue;
        }
        blank = false;
        let (sum, tag) = (sum_of(sector), tag_of(sector));
        if stored == place.check(id.sector(i), sum) && tag <= COUNTER_MAX {
            content.0.sums[i] = sum;
            content.0.summed |= 1 << i;
            content.0.entries[i * ENTRY_BYTES..][..ENTRY_BYTES].copy_from_slice(&sector[..TAG_AT]);
            content.0.tags[i] = tag;
        } else {
            damaged |= 1 << i;
            content.lose_sector(id.region, i);
        }
    }
    Opened { content, damaged, blank }
}

/// The entries and the tag of a single sector, where its check is right, and the tag an epoch that there can be. `sector` counts from the region's first.
#[must_use]
pub fn open_sector(uuid: &[u8; 16], region: Region, sector: u64, bytes: &[u8; SECTOR_SIZE]) -> Option<([u8; ENTRY_BYTES], u64)> {
    let stored = u32::from_le_bytes(bytes[CHECK_AT..].try_into().expect("four bytes"));
    let is_sound = stored == Place::of(uuid, region).check(sector, sum_of(bytes)) && tag_of(bytes) <= COUNTER_MAX;
    is_sound.then(|| (bytes[..TAG_AT].try_into().expect("a sector's entries"), tag_of(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::units::Pbn;

    const UUID: [u8; 16] = *b"0123456789abcdef";

    fn id(region: Region) -> PageId {
        PageId { region, index: 3 }
    }

    /// A page with something in each sector.
    fn filled(region: Region) -> PageContent {
        let mut page = PageContent::empty();
        for i in 0..usize::try_from(region.entries_per_page()).unwrap() {
            match region {
                Region::Written => page.set_bit(i, i % 3 == 0),
                Region::Refs => page.set_refs(i, u8::try_from(i % 255).unwrap()),
                Region::Fingerprints => page.set_fingerprint(i, FingerprintEntry::of(Fingerprint::of_digest(&count(i).to_be_bytes()))),
                Region::Map => page.set_map(i, MapEntry::Block { pbn: Pbn(count(i) * 7), slot: 0 }),
            }
        }
        (0..8).for_each(|s| page.set_tag(s, 1000 + count(s)));
        page
    }

    fn sealed(region: Region) -> [u8; BLOCK_SIZE] {
        let mut bytes = [0; BLOCK_SIZE];
        seal(&UUID, id(region), &mut filled(region), &mut bytes);
        bytes
    }

    #[test]
    fn entries_fill_the_sector() {
        for (region, bits) in [(Region::Written, 1), (Region::Refs, 8), (Region::Fingerprints, 160), (Region::Map, 40)] {
            assert_eq!(region.entries_per_sector() * bits, count(ENTRY_BYTES) * 8, "{}", region.name());
        }
    }

    #[test]
    fn sealed_pages_open() {
        for region in Region::ALL {
            let opened = open(&UUID, id(region), &sealed(region), true);
            assert_eq!((opened.damaged, opened.blank), (0, false));
            assert_eq!(opened.content, filled(region));
            let page = opened.content;
            match region {
                Region::Written => assert!(page.bit(0) && !page.bit(31_999) && page.bit(31_998)),
                Region::Refs => assert_eq!(page.refs(3999), 174),
                Region::Fingerprints => assert_eq!(page.fingerprint(199).value.0[7], 199),
                Region::Map => assert_eq!(page.map(799), MapEntry::Block { pbn: Pbn(5593), slot: 0 }),
            }
        }
    }

    #[test]
    fn every_single_bit_flip_is_found_in_its_sector() {
        for region in Region::ALL {
            let good = sealed(region);
            for bit in 0..BLOCK_SIZE * 8 {
                let mut bytes = good;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(open(&UUID, id(region), &bytes, true).damaged, 1 << (bit / 4096), "bit {bit} of {}", region.name());
            }
        }
    }

    #[test]
    fn a_page_at_another_place_is_damaged() {
        let bytes = sealed(Region::Refs);
        assert_eq!(open(&UUID, PageId { region: Region::Refs, index: 4 }, &bytes, true).damaged, 0xff);
        assert_eq!(open(&UUID, PageId { region: Region::Map, index: 3 }, &bytes, true).damaged, 0xff);
        assert_eq!(open(&[7; 16], id(Region::Refs), &bytes, true).damaged, 0xff);
    }

    #[test]
    fn zeros_are_empty_only_until_written() {
        for region in Region::ALL {
            let opened = open(&UUID, id(region), &[0; BLOCK_SIZE], false);
            assert_eq!((opened.damaged, opened.blank), (0, true));
            assert_eq!(opened.content, PageContent::empty());
            let opened = open(&UUID, id(region), &[0; BLOCK_SIZE], true);
            assert_eq!((opened.damaged, opened.blank), (0xff, true));
        }
    }

    #[test]
    fn a_torn_first_write_is_no_damage() {
        let mut bytes = sealed(Region::Map);
        bytes[512..1024].fill(0);
        let opened = open(&UUID, id(Region::Map), &bytes, false);
        assert_eq!((opened.damaged, opened.blank), (0, false));
        assert_eq!(opened.content.map(99), MapEntry::Block { pbn: Pbn(693), slot: 0 });
        assert_eq!(opened.content.map(100), MapEntry::Unmapped);
        assert_eq!(open(&UUID, id(Region::Map), &bytes, true).damaged, 2);
    }

    #[test]
    fn damaged_sectors_promise_nothing() {
        for region in Region::ALL {
            let mut bytes = sealed(region);
            bytes[512 + 17] ^= 4;
            let page = open(&UUID, id(region), &bytes, true).content;
            assert_eq!(page.sector(0), filled(region).sector(0));
            assert_eq!(page.sector(2), filled(region).sector(2));
            assert_eq!(page.tag(1), 0);
            match region {
                Region::Written => assert!((4000..8000).all(|i| page.bit(i))),
                Region::Refs => assert!((500..1000).all(|i| page.refs(i) == REFS_UNKNOWN)),
                Region::Fingerprints => assert!((25..50).all(|i| page.fingerprint(i).is_none())),
                Region::Map => assert!((100..200).all(|i| page.map(i) == MapEntry::Lost)),
            }
        }
    }

    #[test]
    fn entries_that_are_none_read_as_lost_or_none() {
        let mut page = PageContent::empty();
        page.set_bytes(5, &[9, 0, 0, 0, 0]);
        assert_eq!(page.map(5), MapEntry::Lost);
        let mut page = PageContent::empty();
        page.set_bytes(5, &[1; 20]);
        assert_eq!(page.fingerprint(5), FingerprintEntry::NONE);
    }

    #[test]
    fn single_sectors_open() {
        let bytes = sealed(Region::Map);
        for i in 0..8 {
            let sector: &[u8; SECTOR_SIZE] = bytes[i * SECTOR_SIZE..][..SECTOR_SIZE].try_into().unwrap();
            let (entries, tag) = open_sector(&UUID, Region::Map, 24 + count(i), sector).expect("a sealed sector");
            assert_eq!((&entries, tag), (filled(Region::Map).sector(i), 1000 + count(i)));
            assert!(open_sector(&UUID, Region::Map, 25 + count(i), sector).is_none());
        }
        assert!(open_sector(&UUID, Region::Map, 0, &[0; SECTOR_SIZE]).is_none());
    }
}
