//! Where everything lies on a volume: regions as lists of extents.
//!
//! 1. Extents do not overlap, nor touch the superblocks or the guard block; each region's extents follow one another in its entries, without a gap.
//! 2. Metadata extents are whole pages; a region's next extent begins at an entry that begins a page. So pages are numbered through.
//! 3. The bits of *written* number the pages of refs, fingerprints and map in the order of the table. Growing appends extents, so a page keeps
//!    its bit. Pages of *written* have none: formatting writes them all.

use super::entry::{MapEntry, PBN_MAX};
use super::guard::GUARD_AT;
use super::page::{PageId, Region};
use crate::units::{BLOCK_BYTES, Bytes, Lbn, Pbn, index};

/// The smallest useful volume.
pub const VOLUME_BYTES_MIN: u64 = 16 << 20;
/// Blocks never promised to clients, at the least.
pub const RESERVE_BLOCKS_MIN: u64 = 64;
/// One in this many data blocks is never promised to clients.
pub const RESERVE_FRACTION: u64 = 64;
/// The most logical blocks (4 PiB): far beyond what 36 bits of PBN can fill.
pub const LOGICAL_BLOCKS_MAX: u64 = 1 << 40;
/// The most extents that a superblock holds.
pub const EXTENTS_MAX: usize = 64;
/// Bytes that superblock copies take at either end.
pub const SUPERBLOCKS_BYTES: u64 = 2 * BLOCK_BYTES;

/// Volumes below this align their data less.
const SMALL_VOLUME_BYTES: u64 = 256 << 20;
/// Data and metadata share no erase block.
const DATA_ALIGNMENT: u64 = 4 << 20;
const DATA_ALIGNMENT_SMALL: u64 = 64 << 10;

/// What an extent belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtentKind {
    Pages(Region),
    Data,
}

impl ExtentKind {
    /// Kind number of the data region; 5 is kept for the index.
    const DATA: u32 = 6;

    /// Its number on the medium.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Pages(region) => region.kind(),
            Self::Data => Self::DATA,
        }
    }

    /// The kind with this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        if number == Self::DATA {
            return Some(Self::Data);
        }
        Region::ALL.into_iter().find(|r| r.kind() == number).map(Self::Pages)
    }

    /// Entries in each 4 KiB of it.
    #[must_use]
    pub const fn entries_per_page(self) -> u64 {
        match self {
            Self::Pages(region) => region.entries_per_page(),
            Self::Data => 1,
        }
    }

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages(region) => region.name(),
            Self::Data => "data",
        }
    }
}

/// A stretch of the device that belongs to one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub kind: ExtentKind,
    /// Leaves room for more than one map; 0 for now.
    pub instance: u32,
    /// The number in its region of its first entry (for data: the first PBN).
    pub first_entry: u64,
    /// Where it begins; a multiple of 4096.
    pub offset: Bytes,
    /// A multiple of 4096, not 0.
    pub length: Bytes,
}

impl Extent {
    /// The 4 KiB pages (or blocks) that it holds.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.length.get() / BLOCK_BYTES
    }
}

/// What the owner of a volume wants of its geometry; the rest follows from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Blocks that clients see. Default: the data blocks less the reserve, so that the volume is never full.
    pub logical_blocks: Option<u64>,
    /// Blocks never promised to clients. Default: 1/64 of the data blocks, at least 64.
    pub reserve_blocks: Option<u64>,
    /// Leave room for the guard block (`guard.rs`).
    pub guard: bool,
}

/// Why there is no such geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    #[error("{device_bytes} bytes are too small for a volume; it needs at least {minimum}")]
    DeviceTooSmall { device_bytes: u64, minimum: u64 },
    #[error("a volume of {logical_blocks} logical blocks is not possible: choose between 1 and {maximum}")]
    LogicalOutOfRange { logical_blocks: u64, maximum: u64 },
    #[error(
        "the map of {logical_blocks} logical blocks and {reserve_blocks} blocks of reserve do not fit {device_bytes} bytes; make the logical \
         size smaller or the device larger"
    )]
    NoRoom { logical_blocks: u64, reserve_blocks: u64, device_bytes: u64 },
    #[error("a volume of {device_bytes} bytes, which is no multiple of {BLOCK_BYTES}")]
    BadSize { device_bytes: u64 },
    #[error("{count} extents, where a superblock holds at most {EXTENTS_MAX}")]
    TooManyExtents { count: usize },
    #[error("the {} region's extent at byte {} does not follow the one before it: it begins at entry {} and has {} bytes", .0.kind.name(), .0.offset, .0.first_entry, .0.length)]
    BadExtent(Extent),
    #[error("the {} region's extent at byte {} overlaps another, a superblock or the guard block, or reaches beyond {device_bytes} bytes", .extent.kind.name(), .extent.offset)]
    ExtentOverlaps { extent: Extent, device_bytes: u64 },
    #[error("the {region} region has {pages} pages, where {needed} are needed")]
    RegionTooSmall { region: &'static str, pages: u64, needed: u64 },
    #[error("{reserve_blocks} blocks of reserve, where there are {data_blocks} data blocks")]
    BadReserve { reserve_blocks: u64, data_blocks: u64 },
}

/// Where everything lies on one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The volume's size, a multiple of 4096; its end copies of the superblock lie before this. The device may be larger.
    pub device_bytes: Bytes,
    /// Physical blocks: PBNs are below this.
    pub data_blocks: u64,
    /// Logical blocks: LBNs are below this.
    pub logical_blocks: u64,
    /// Physical blocks that are never promised to clients.
    pub reserve_blocks: u64,
    /// All extents, in the order of the table in the superblock.
    pub extents: Vec<Extent>,
    /// By `Region as usize`, and last the data, whose pages are its blocks.
    spans: [Vec<Span>; 5],
}

/// An extent, as look-ups want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first_page: u64,
    pages: u64,
    offset: u64,
    /// The bit of its first page in *written*.
    first_bit: u64,
}

const DATA_SPANS: usize = 4;

/// Finds the span that holds a page; almost always the first, and the only one.
fn span_of(spans: &[Span], page: u64) -> Option<&Span> {
    match spans.first() {
        Some(first) if page < first.pages => Some(first),
        _ => spans.iter().find(|s| page >= s.first_page && page - s.first_page < s.pages),
    }
}

/// Pages of each region for a number of data and logical blocks.
fn pages_needed(data_blocks: u64, logical_blocks: u64) -> [(Region, u64); 4] {
    let refs = data_blocks.div_ceil(Region::Refs.entries_per_page());
    let fingerprints = data_blocks.div_ceil(Region::Fingerprints.entries_per_page());
    let map = logical_blocks.div_ceil(Region::Map.entries_per_page());
    let written = (refs + fingerprints + map).div_ceil(Region::Written.entries_per_page());
    [(Region::Written, written), (Region::Refs, refs), (Region::Fingerprints, fingerprints), (Region::Map, map)]
}

impl Geometry {
    /// The geometry of a new volume of `device_bytes`, rounded down to 4 KiB.
    ///
    /// # Errors
    /// When the device is below [`VOLUME_BYTES_MIN`], or what is wished does not fit it.
    pub fn plan(device_bytes: Bytes, wish: &Wish) -> Result<Self, GeometryError> {
        if device_bytes.get() < VOLUME_BYTES_MIN {
            return Err(GeometryError::DeviceTooSmall { device_bytes: device_bytes.get(), minimum: VOLUME_BYTES_MIN });
        }
        Self::plan_tiny(device_bytes, wish)
    }

    /// As [`Self::plan`], with no smallest size: for simulation, where volumes are small on purpose.
    ///
    /// # Errors
    /// When what is wished does not fit.
    pub fn plan_tiny(device_bytes: Bytes, wish: &Wish) -> Result<Self, GeometryError> {
        let end = device_bytes.get() / BLOCK_BYTES * BLOCK_BYTES;
        if let Some(logical_blocks) = wish.logical_blocks {
            if !(1..=LOGICAL_BLOCKS_MAX).contains(&logical_blocks) {
                return Err(GeometryError::LogicalOutOfRange { logical_blocks, maximum: LOGICAL_BLOCKS_MAX });
            }
        }
        let reserve = |data: u64| wish.reserve_blocks.unwrap_or_else(|| (data / RESERVE_FRACTION).max(RESERVE_BLOCKS_MIN));
        let logical = |data: u64| wish.logical_blocks.unwrap_or_else(|| data.saturating_sub(reserve(data)));
        let alignment = if end < SMALL_VOLUME_BYTES { DATA_ALIGNMENT_SMALL } else { DATA_ALIGNMENT };
        let front = SUPERBLOCKS_BYTES + if wish.guard { BLOCK_BYTES } else { 0 };
        let data_start = |data: u64| {
            let pages: u64 = pages_needed(data, logical(data)).iter().map(|(_, pages)| pages).sum();
            (front + pages * BLOCK_BYTES).next_multiple_of(alignment)
        };
        let fits = |data: u64| data_start(data) + data * BLOCK_BYTES + SUPERBLOCKS_BYTES <= end;

        // What a number of data blocks needs grows with it, so the largest that fits is found by halving.
        let (mut fitting, mut too_many) = (0, (end / BLOCK_BYTES).min(PBN_MAX.get() + 1) + 1);
        while fitting + 1 < too_many {
            let middle = fitting + (too_many - fitting) / 2;
            if fits(middle) {
                fitting = middle;
            } else {
                too_many = middle;
            }
        }
        let data_blocks = fitting;
        let (logical_blocks, reserve_blocks) = (logical(data_blocks), reserve(data_blocks));
        if data_blocks <= reserve_blocks || logical_blocks == 0 {
            return Err(GeometryError::NoRoom { logical_blocks, reserve_blocks, device_bytes: end });
        }

        let mut offset = Bytes(front);
        let mut extents = Vec::with_capacity(5);
        for (region, pages) in pages_needed(data_blocks, logical_blocks) {
            let length = Bytes(pages * BLOCK_BYTES);
            extents.push(Extent { kind: ExtentKind::Pages(region), instance: 0, first_entry: 0, offset, length });
            offset += length.get();
        }
        let (offset, length) = (Bytes(data_start(data_blocks)), Bytes(data_blocks * BLOCK_BYTES));
        extents.push(Extent { kind: ExtentKind::Data, instance: 0, first_entry: 0, offset, length });
        Self::of_extents(Bytes(end), logical_blocks, reserve_blocks, extents)
    }

    /// The geometry that a superblock describes, after checking it against the invariants.
    ///
    /// # Errors
    /// When an invariant does not hold.
    pub fn of_extents(device_bytes: Bytes, logical_blocks: u64, reserve_blocks: u64, extents: Vec<Extent>) -> Result<Self, GeometryError> {
        if extents.len() > EXTENTS_MAX {
            return Err(GeometryError::TooManyExtents { count: extents.len() });
        }
        if !(1..=LOGICAL_BLOCKS_MAX).contains(&logical_blocks) {
            return Err(GeometryError::LogicalOutOfRange { logical_blocks, maximum: LOGICAL_BLOCKS_MAX });
        }
        let end = device_bytes.get();
        if end % BLOCK_BYTES != 0 {
            return Err(GeometryError::BadSize { device_bytes: end });
        }
        check_overlaps(end, &extents)?;

        let mut spans: [Vec<Span>; 5] = Default::default();
        let mut bits = 0;
        for extent in &extents {
            let (slot, has_bits) = match extent.kind {
                ExtentKind::Pages(region) => (region as usize, region != Region::Written),
                ExtentKind::Data => (DATA_SPANS, false),
            };
            let first_page = spans[slot].last().map_or(0, |s| s.first_page + s.pages);
            let aligned = extent.offset.get() % BLOCK_BYTES == 0 && extent.length.get() % BLOCK_BYTES == 0;
            let follows = first_page.checked_mul(extent.kind.entries_per_page()) == Some(extent.first_entry);
            if extent.instance != 0 || !aligned || !follows {
                return Err(GeometryError::BadExtent(*extent));
            }
            let pages = extent.pages();
            spans[slot].push(Span { first_page, pages, offset: extent.offset.get(), first_bit: bits });
            bits += if has_bits { pages } else { 0 };
        }

        let pages_of = |slot: usize| spans[slot].last().map_or(0, |s: &Span| s.first_page + s.pages);
        let data_blocks = pages_of(DATA_SPANS);
        if data_blocks > PBN_MAX.get() + 1 || reserve_blocks >= data_blocks {
            return Err(GeometryError::BadReserve { reserve_blocks, data_blocks });
        }
        for (region, needed) in pages_needed(data_blocks, logical_blocks) {
            let needed = if region == Region::Written { bits.div_ceil(region.entries_per_page()) } else { needed };
            let pages = pages_of(region as usize);
            if pages < needed {
                return Err(GeometryError::RegionTooSmall { region: region.name(), pages, needed });
            }
        }
        Ok(Self { device_bytes, data_blocks, logical_blocks, reserve_blocks, extents, spans })
    }

    /// Checks that no extent lies where a guarded volume has its guard block.
    ///
    /// # Errors
    /// When one does.
    pub(super) fn leaves_room_for_guard(&self) -> Result<(), GeometryError> {
        let front = GUARD_AT + BLOCK_BYTES;
        let overlapping = self.extents.iter().find(|extent| extent.offset < front);
        overlapping.map_or(Ok(()), |&extent| Err(GeometryError::ExtentOverlaps { extent, device_bytes: self.device_bytes.get() }))
    }

    /// Pages of a region.
    #[must_use]
    pub fn pages(&self, region: Region) -> u64 {
        self.spans[region as usize].last().map_or(0, |s| s.first_page + s.pages)
    }

    /// Pages of refs or fingerprints with an entry that stands for a block. A region may have more, whose entries stand for nothing.
    #[must_use]
    pub fn pages_of_blocks(&self, region: Region) -> u64 {
        self.data_blocks.div_ceil(region.entries_per_page())
    }

    fn span(&self, id: PageId) -> &Span {
        span_of(&self.spans[id.region as usize], id.index)
            .unwrap_or_else(|| panic!("{} page {} of {}", id.region.name(), id.index, self.pages(id.region)))
    }

    /// Where a page lies.
    ///
    /// # Panics
    /// When the region has no such page.
    #[must_use]
    pub fn page_at(&self, id: PageId) -> Bytes {
        let span = self.span(id);
        Bytes(span.offset + (id.index - span.first_page) * BLOCK_BYTES)
    }

    /// Where a block lies.
    ///
    /// # Panics
    /// When the volume has no such block.
    #[must_use]
    pub fn block_at(&self, pbn: Pbn) -> Bytes {
        let span = span_of(&self.spans[DATA_SPANS], pbn.get()).unwrap_or_else(|| panic!("{pbn} of {} data blocks", self.data_blocks));
        Bytes(span.offset + (pbn.get() - span.first_page) * BLOCK_BYTES)
    }

    /// The page that holds a block's count of links, and the entry in it.
    #[must_use]
    pub fn refs_of(&self, pbn: Pbn) -> (PageId, usize) {
        debug_assert!(pbn.get() < self.data_blocks);
        entry_of(Region::Refs, pbn.get())
    }

    /// The page that holds a block's fingerprint, and the entry in it.
    #[must_use]
    pub fn fingerprint_of(&self, pbn: Pbn) -> (PageId, usize) {
        debug_assert!(pbn.get() < self.data_blocks);
        entry_of(Region::Fingerprints, pbn.get())
    }

    /// The page that holds a logical block's map entry, and the entry in it.
    #[must_use]
    pub fn map_of(&self, lbn: Lbn) -> (PageId, usize) {
        debug_assert!(lbn.get() < self.logical_blocks);
        entry_of(Region::Map, lbn.get())
    }

    /// What a map entry that was read means on this volume: one that names a block which the volume does not have is lost.
    #[must_use]
    pub fn known(&self, entry: MapEntry) -> MapEntry {
        if entry.pbn().is_some_and(|pbn| pbn.get() >= self.data_blocks) { MapEntry::Lost } else { entry }
    }

    /// The page that holds a page's *written* bit, and the bit in it.
    ///
    /// # Panics
    /// When the page is one of *written* itself, which has none, or is not there.
    #[must_use]
    pub fn written_of(&self, id: PageId) -> (PageId, usize) {
        assert!(id.region != Region::Written, "pages of the written region have no bit");
        let span = self.span(id);
        entry_of(Region::Written, span.first_bit + (id.index - span.first_page))
    }

    /// The page that a *written* bit stands for: the inverse of [`Self::written_of`]. None for bits beyond the last page.
    #[must_use]
    pub fn page_of_written(&self, written: PageId, bit: usize) -> Option<PageId> {
        assert!(written.region == Region::Written, "bits stand in the written region");
        let bit = written.index * Region::Written.entries_per_page() + crate::units::count(bit);
        [Region::Refs, Region::Fingerprints, Region::Map].into_iter().find_map(|region| {
            let span = self.spans[region as usize].iter().find(|s| bit >= s.first_bit && bit - s.first_bit < s.pages)?;
            Some(PageId { region, index: span.first_page + (bit - span.first_bit) })
        })
    }

    /// The first block whose count or fingerprint stands in a page.
    ///
    /// # Panics
    /// When the page is of another region.
    #[must_use]
    pub fn first_pbn(&self, id: PageId) -> Pbn {
        assert!(matches!(id.region, Region::Refs | Region::Fingerprints), "{} pages are not by PBN", id.region.name());
        Pbn(id.index * id.region.entries_per_page())
    }

    /// The first logical block whose entry stands in a page.
    ///
    /// # Panics
    /// When the page is not of the map.
    #[must_use]
    pub fn first_lbn(&self, id: PageId) -> Lbn {
        assert!(id.region == Region::Map, "{} pages are not by LBN", id.region.name());
        Lbn(id.index * id.region.entries_per_page())
    }
}

/// The page of an entry of a region, and its place in the page.
pub(crate) fn entry_of(region: Region, entry: u64) -> (PageId, usize) {
    (PageId { region, index: entry / region.entries_per_page() }, index(entry % region.entries_per_page()))
}

/// Invariant 1, the part about places.
fn check_overlaps(end: u64, extents: &[Extent]) -> Result<(), GeometryError> {
    let mut by_offset: Vec<&Extent> = extents.iter().collect();
    by_offset.sort_by_key(|e| e.offset);
    let mut free_from = SUPERBLOCKS_BYTES;
    for extent in by_offset {
        let overlaps = GeometryError::ExtentOverlaps { extent: *extent, device_bytes: end };
        let extent_end = extent.offset.get().checked_add(extent.length.get()).ok_or(overlaps)?;
        if extent.length == Bytes(0) || extent.offset.get() < free_from || extent_end > end.saturating_sub(SUPERBLOCKS_BYTES) {
            return Err(overlaps);
        }
        free_from = extent_end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn plan(device_bytes: u64, logical_blocks: Option<u64>) -> Geometry {
        Geometry::plan(Bytes(device_bytes), &Wish { logical_blocks, reserve_blocks: None, guard: false }).expect("a geometry")
    }

    #[test]
    fn the_smallest_volume() {
        let g = plan(16 * MIB, None);
        // 16 MiB are 4096 blocks; 2 + 2 of superblocks, 1 written, 2 refs, 21 fingerprints, 5 map, up to the next 64 KiB.
        let regions = Region::ALL.map(|r| g.pages(r));
        assert_eq!(regions, [1, 2, 21, 5]);
        assert_eq!(g.block_at(Pbn(0)), Bytes(128 << 10));
        assert_eq!((g.data_blocks, g.reserve_blocks, g.logical_blocks), (4062, 64, 3998));
    }

    #[test]
    fn a_large_volume_aligns_its_data() {
        let g = plan(64 << 30, None);
        assert_eq!(g.block_at(Pbn(0)).get() % (4 * MIB), 0);
        assert_eq!(g.reserve_blocks, g.data_blocks / 64);
        let metadata: u64 = Region::ALL.map(|r| g.pages(r)).iter().sum();
        assert!(metadata * 1000 < g.data_blocks * 7, "metadata is 0.65 % of the volume");
        assert_eq!(g.logical_blocks, g.data_blocks - g.reserve_blocks);
    }

    #[test]
    fn no_block_is_wasted_but_by_alignment() {
        for size in [16 * MIB, 17 * MIB + 5000, 255 * MIB, 256 * MIB, 1000 * MIB, 1 << 33, (1 << 40) + 123_456] {
            let g = plan(size, None);
            let end = g.block_at(Pbn(g.data_blocks - 1)).get() + BLOCK_BYTES + SUPERBLOCKS_BYTES;
            assert!(end <= size, "the data end before the superblocks");
            let alignment = if size < 256 * MIB { 64 << 10 } else { 4 * MIB };
            assert!(size - end <= alignment + BLOCK_BYTES, "{} bytes unused of {size}", size - end);
        }
    }

    #[test]
    fn every_page_has_its_own_bit_and_place() {
        let g = plan(300 * MIB, Some(500_000));
        let mut bit = 0;
        let mut at = SUPERBLOCKS_BYTES + g.pages(Region::Written) * BLOCK_BYTES;
        for region in [Region::Refs, Region::Fingerprints, Region::Map] {
            for index in 0..g.pages(region) {
                let id = PageId { region, index };
                let (page, i) = g.written_of(id);
                assert_eq!(page.index * 32_000 + u64::try_from(i).unwrap(), bit);
                assert_eq!(g.page_of_written(page, i), Some(id));
                assert_eq!(g.page_at(id), Bytes(at));
                bit += 1;
                at += BLOCK_BYTES;
            }
        }
        let (page, i) = (PageId { region: Region::Written, index: 0 }, usize::try_from(bit).unwrap());
        assert_eq!(g.page_of_written(page, i), None);
    }

    #[test]
    fn entries_have_their_pages() {
        let g = plan(64 * MIB, None);
        assert_eq!(g.refs_of(Pbn(4001)), (PageId { region: Region::Refs, index: 1 }, 1));
        assert_eq!(g.fingerprint_of(Pbn(399)), (PageId { region: Region::Fingerprints, index: 1 }, 199));
        assert_eq!(g.map_of(Lbn(1600)), (PageId { region: Region::Map, index: 2 }, 0));
        assert_eq!(g.first_pbn(PageId { region: Region::Refs, index: 1 }), Pbn(4000));
        assert_eq!(g.first_pbn(PageId { region: Region::Fingerprints, index: 1 }), Pbn(200));
        assert_eq!(g.first_lbn(PageId { region: Region::Map, index: 2 }), Lbn(1600));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let wish = |logical_blocks, reserve_blocks| Wish { logical_blocks, reserve_blocks, guard: false };
        let plan = |size, wish: Wish| Geometry::plan(Bytes(size), &wish).expect_err("refused");
        assert!(matches!(plan(16 * MIB - 1, Wish::default()), GeometryError::DeviceTooSmall { .. }));
        assert!(matches!(plan(16 * MIB, wish(Some(0), None)), GeometryError::LogicalOutOfRange { .. }));
        assert!(matches!(plan(16 * MIB, wish(Some(LOGICAL_BLOCKS_MAX + 1), None)), GeometryError::LogicalOutOfRange { .. }));
        assert!(matches!(plan(16 * MIB, wish(Some(LOGICAL_BLOCKS_MAX), None)), GeometryError::NoRoom { .. }));
        assert!(matches!(plan(16 * MIB, wish(None, Some(5000))), GeometryError::NoRoom { .. }));
        assert!(matches!(plan(16 * MIB, wish(None, Some(u64::MAX))), GeometryError::NoRoom { .. }));
    }

    #[test]
    fn simulated_volumes_may_be_tiny() {
        let wish = Wish { logical_blocks: Some(64), reserve_blocks: Some(4), guard: false };
        let g = Geometry::plan_tiny(Bytes((16 + 72 + 2) * 4096), &wish).expect("a geometry");
        assert_eq!((g.data_blocks, g.logical_blocks, g.reserve_blocks), (72, 64, 4));
        assert!(Geometry::plan_tiny(Bytes(0), &Wish::default()).is_err());
        assert!(Geometry::plan_tiny(Bytes(u64::MAX), &Wish::default()).is_ok());
    }

    /// A volume that has grown: a second extent of each region behind the first data.
    fn grown() -> Geometry {
        let g = plan(16 * MIB, None);
        let mut extents = g.extents.clone();
        let mut offset = g.device_bytes;
        for (kind, pages) in [
            (ExtentKind::Pages(Region::Refs), 1),
            (ExtentKind::Pages(Region::Fingerprints), 5),
            (ExtentKind::Pages(Region::Map), 1),
            (ExtentKind::Data, 700),
        ] {
            let first_entry = match kind {
                ExtentKind::Pages(region) => g.pages(region) * region.entries_per_page(),
                ExtentKind::Data => g.data_blocks,
            };
            let length = Bytes(pages * BLOCK_BYTES);
            extents.push(Extent { kind, instance: 0, first_entry, offset, length });
            offset += length.get();
        }
        Geometry::of_extents(offset + SUPERBLOCKS_BYTES, 4100, 64, extents).expect("a geometry")
    }

    #[test]
    fn growing_keeps_places_and_bits() {
        let (old, new) = (plan(16 * MIB, None), grown());
        assert_eq!(new.data_blocks, old.data_blocks + 700);
        for region in [Region::Refs, Region::Fingerprints, Region::Map] {
            for index in 0..old.pages(region) {
                let id = PageId { region, index };
                assert_eq!(new.page_at(id), old.page_at(id));
                assert_eq!(new.written_of(id), old.written_of(id));
            }
        }
        assert_eq!(new.block_at(Pbn(old.data_blocks)), Bytes(16 * MIB + 7 * BLOCK_BYTES));
        assert_eq!(new.page_at(PageId { region: Region::Map, index: 5 }), Bytes(16 * MIB + 6 * BLOCK_BYTES));
        let (page, bit) = new.written_of(PageId { region: Region::Fingerprints, index: 21 });
        assert_eq!((page.index, bit), (0, 2 + 21 + 5 + 1));
        assert_eq!(new.page_of_written(page, bit), Some(PageId { region: Region::Fingerprints, index: 21 }));
    }

    #[test]
    fn tables_that_break_an_invariant_are_refused() {
        let good = plan(16 * MIB, None);
        let with = |change: &dyn Fn(&mut Vec<Extent>)| {
            let mut extents = good.extents.clone();
            change(&mut extents);
            Geometry::of_extents(good.device_bytes, good.logical_blocks, good.reserve_blocks, extents)
        };
        assert_eq!(with(&|_| ()), Ok(good.clone()));
        assert!(matches!(with(&|e| e[1].offset = Bytes(4096)), Err(GeometryError::ExtentOverlaps { .. })));
        assert!(matches!(with(&|e| e[1].offset = e[2].offset), Err(GeometryError::ExtentOverlaps { .. })));
        assert!(matches!(with(&|e| e[4].length += 4096 * 100), Err(GeometryError::ExtentOverlaps { .. })));
        assert!(matches!(with(&|e| e[4].length = Bytes(u64::MAX)), Err(GeometryError::ExtentOverlaps { .. })));
        assert!(matches!(with(&|e| e[4].offset += 512), Err(GeometryError::BadExtent(_)) | Err(GeometryError::ExtentOverlaps { .. })));
        assert!(matches!(with(&|e| e[3].first_entry = 1), Err(GeometryError::BadExtent(_))));
        assert!(matches!(with(&|e| e[3].instance = 1), Err(GeometryError::BadExtent(_))));
        assert!(matches!(with(&|e| e[2].length = Bytes(20 * 4096)), Err(GeometryError::RegionTooSmall { .. })));
        assert!(matches!(with(&|e| e.truncate(4)), Err(GeometryError::BadReserve { .. })));
        assert!(matches!(with(&|e| e.resize(65, e[0])), Err(GeometryError::TooManyExtents { count: 65 })));
    }
}
