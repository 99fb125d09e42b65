//! The region table of a superblock: which tables describe a geometry.

use super::error::GeometryError;
use super::extent::{Extent, ExtentKind};
use super::lookup::{DATA_SPANS, Geometry, Span};
use crate::format::entry::PBN_MAX;
use crate::format::front::{GUARD_AT, SUPERBLOCKS_BYTES};
use crate::format::limits::{EXTENTS_MAX, LOGICAL_BLOCKS_MAX};
use crate::format::page::Region;
use crate::units::{BLOCK_BYTES, Bytes};

impl Geometry {
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

        let (spans, bits) = spans_of(&extents)?;
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
    pub(in crate::format) fn leaves_room_for_guard(&self) -> Result<(), GeometryError> {
        let front = GUARD_AT + BLOCK_BYTES;
        let overlapping = self.extents.iter().find(|extent| extent.offset < front);
        overlapping.map_or(Ok(()), |&extent| Err(GeometryError::ExtentOverlaps { extent, device_bytes: self.device_bytes.get() }))
    }
}

/// Pages of each region for a number of data and logical blocks.
pub(super) fn pages_needed(data_blocks: u64, logical_blocks: u64) -> [(Region, u64); 4] {
    let refs = data_blocks.div_ceil(Region::Refs.entries_per_page());
    let fingerprints = data_blocks.div_ceil(Region::Fingerprints.entries_per_page());
    let map = logical_blocks.div_ceil(Region::Map.entries_per_page());
    let written = (refs + fingerprints + map).div_ceil(Region::Written.entries_per_page());
    [(Region::Written, written), (Region::Refs, refs), (Region::Fingerprints, fingerprints), (Region::Map, map)]
}

/// The spans of all regions, and how many bits of *written* their pages have (invariants 2 and 3, and the order of invariant 1).
fn spans_of(extents: &[Extent]) -> Result<([Vec<Span>; DATA_SPANS + 1], u64), GeometryError> {
    let mut spans: [Vec<Span>; DATA_SPANS + 1] = Default::default();
    let mut bits = 0;
    for extent in extents {
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
    Ok((spans, bits))
}

/// Checks the part of invariant 1 about places.
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
