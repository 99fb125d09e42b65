//! The bytes of a page.

use super::SECTORS;
use super::content::PageContent;
use super::fields::{ENTRY_BYTES, INSTANCE, at, at_place};
use super::region::{PageId, Region};
use crate::format::counter::COUNTER_MAX;
use crate::units::{BLOCK_SIZE, SECTOR_SIZE, index};

/// A sector's place; all of a page's sectors differ in their index only.
struct SectorPlace([u8; at_place::LAYOUT.bytes]);

impl SectorPlace {
    fn of(uuid: &[u8; 16], region: Region) -> Self {
        let mut place = [0; at_place::LAYOUT.bytes];
        at_place::UUID.of_mut(&mut place).copy_from_slice(uuid);
        at_place::REGION_KIND.set(&mut place, u64::from(region.kind()));
        at_place::REGION_INSTANCE.set(&mut place, u64::from(INSTANCE));
        Self(place)
    }

    /// The check of a sector whose `sum_of` this is. It is never 0, so that a sealed sector is never all zero (invariant 3). 1 stands for 0
    /// as well, which costs nothing: no error of fewer than five bits turns a check of 0 into one of 1.
    fn check(&mut self, sector: u64, sum: u32) -> u32 {
        at_place::SECTOR_INDEX.set(&mut self.0, sector);
        crc32c::crc32c_append(sum, &self.0).max(1)
    }
}

/// The CRC32C of a sector's entries and its tag, with which its check begins.
fn sum_of(sector: &[u8]) -> u32 {
    crc32c::crc32c(&sector[..at::CHECK.offset])
}

/// Writes a page's bytes, each sector with its check.
pub fn seal(uuid: &[u8; 16], id: PageId, content: &mut PageContent, out: &mut [u8; BLOCK_SIZE]) {
    let mut place = SectorPlace::of(uuid, id.region);
    for (i, sector) in out.chunks_exact_mut(SECTOR_SIZE).enumerate() {
        at::ENTRIES.of_mut(sector).copy_from_slice(content.sector(i));
        at::TAG.set(sector, content.tag(i));
        let check = place.check(id.sector(i), content.sum_of(i, &sector[..at::CHECK.offset]));
        at::CHECK.set(sector, u64::from(check));
    }
}

/// A page that was read.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Damaged sectors promise nothing (invariant 4).
    pub content: PageContent,
    /// Bit `i` is set: sector `i` failed its check.
    pub damaged: u8,
    /// All eight sectors are zero.
    pub blank: bool,
}

impl Opened {
    /// Takes the page for one that cannot be read: all its sectors are damaged.
    pub(crate) fn lose(&mut self, region: Region) {
        (0..SECTORS).for_each(|sector| self.content.lose_sector(region, sector));
        (self.damaged, self.blank) = (0xff, false);
    }

    /// Notes that records of the log were applied to the content.
    pub(crate) fn gets_records(&mut self) {
        self.blank = false;
    }

    /// Whether a sector of the page passed its check.
    #[must_use]
    pub const fn is_sound(&self, sector: usize) -> bool {
        self.damaged & (1 << sector) == 0
    }

    /// Whether the sector of an entry, a place in a page of this region, passed its check.
    #[must_use]
    pub fn is_entry_sound(&self, region: Region, entry: usize) -> bool {
        self.is_sound(entry / index(region.entries_per_sector()))
    }
}

/// Reads a page's bytes. `written` is its bit in the *written* region (always true for a page of that region itself): while it is clear, an
/// all-zero sector is an empty one.
#[must_use]
pub fn open(uuid: &[u8; 16], id: PageId, bytes: &[u8; BLOCK_SIZE], written: bool) -> Opened {
    let mut content = PageContent::empty();
    let mut place = SectorPlace::of(uuid, id.region);
    let mut damaged = 0;
    let mut blank = true;
    for (i, sector) in bytes.chunks_exact(SECTOR_SIZE).enumerate() {
        let stored = at::CHECK.word(sector);
        if stored == 0 && sector == [0; SECTOR_SIZE] {
            if written {
                damaged |= 1 << i;
                content.lose_sector(id.region, i);
            }
            continue;
        }
        blank = false;
        let (sum, tag) = (sum_of(sector), at::TAG.get(sector));
        if stored == place.check(id.sector(i), sum) && tag <= COUNTER_MAX {
            content.take_sector(i, at::ENTRIES.of(sector), tag, sum);
        } else {
            damaged |= 1 << i;
            content.lose_sector(id.region, i);
        }
    }
    Opened { content, damaged, blank }
}

/// The entries and the tag of a single sector, where its check is right, and the tag is an epoch that there can be. `sector` counts from
/// the region's first.
#[must_use]
pub fn open_sector(uuid: &[u8; 16], region: Region, sector: u64, bytes: &[u8; SECTOR_SIZE]) -> Option<([u8; ENTRY_BYTES], u64)> {
    let (stored, tag) = (at::CHECK.word(bytes), at::TAG.get(bytes));
    let is_sound = stored == SectorPlace::of(uuid, region).check(sector, sum_of(bytes)) && tag <= COUNTER_MAX;
    is_sound.then(|| (at::ENTRIES.array(bytes), tag))
}
