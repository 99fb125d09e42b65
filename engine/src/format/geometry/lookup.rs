//! A geometry, and its look-ups: from an entry to its page, from a page or block to its place.

use super::extent::Extent;
use crate::format::entry::MapEntry;
use crate::format::page::{PageId, Region};
use crate::units::{BLOCK_BYTES, Bytes, Lbn, Pbn, count, index};

/// The places of everything on one volume.
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
    /// Spans by `Region as usize`, and last those of the data, whose pages are its blocks.
    pub(super) spans: [Vec<Span>; DATA_SPANS + 1],
}

/// An extent, as look-ups want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first_page: u64,
    pub(super) pages: u64,
    pub(super) offset: u64,
    /// The bit of its first page in *written*.
    pub(super) first_bit: u64,
}

/// The index of the data among the spans of a geometry.
pub(super) const DATA_SPANS: usize = 4;

/// Finds the span that holds a page; almost always the first, and the only one.
fn span_of(spans: &[Span], page: u64) -> Option<&Span> {
    match spans.first() {
        Some(first) if page < first.pages => Some(first),
        _ => spans.iter().find(|s| page >= s.first_page && page - s.first_page < s.pages),
    }
}

impl Geometry {
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

    /// The place of a page.
    ///
    /// # Panics
    /// When the region has no such page.
    #[must_use]
    pub fn page_at(&self, id: PageId) -> Bytes {
        let span = self.span(id);
        Bytes(span.offset + (id.index - span.first_page) * BLOCK_BYTES)
    }

    /// The place of a block.
    ///
    /// # Panics
    /// When the volume has no such block.
    #[must_use]
    pub fn block_at(&self, pbn: Pbn) -> Bytes {
        let span = self.data_span(pbn);
        Bytes(span.offset + (pbn.get() - span.first_page) * BLOCK_BYTES)
    }

    /// Whether a block lies behind another on the device, in one extent: only then may one command cover both.
    #[must_use]
    pub fn are_neighbours(&self, before: Pbn, pbn: Pbn) -> bool {
        let data = &self.spans[DATA_SPANS];
        before + 1 == pbn && (data.len() == 1 || !data.iter().any(|span| span.first_page == pbn.get()))
    }

    /// The extent of a block: its first block, and the number behind its last.
    ///
    /// # Panics
    /// When the volume has no such block.
    #[must_use]
    pub fn extent_of(&self, pbn: Pbn) -> (Pbn, Pbn) {
        let span = self.data_span(pbn);
        (Pbn(span.first_page), Pbn(span.first_page + span.pages))
    }

    fn data_span(&self, pbn: Pbn) -> &Span {
        span_of(&self.spans[DATA_SPANS], pbn.get()).unwrap_or_else(|| panic!("{pbn} of {} data blocks", self.data_blocks))
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

    /// The meaning on this volume of a map entry that was read: one that names a block which the volume does not have is lost.
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
        let bit = written.index * Region::Written.entries_per_page() + count(bit);
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
