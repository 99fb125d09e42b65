//! The geometry of a volume that has grown.
//!
//! 1. Extents are appended, or the last one of a region is made longer. So each entry, page, bit of *written* and block keeps its number
//!    and its place.
//! 2. New pages lie where nothing of the volume was: behind its end copies, or, where the device has not become larger, in a gap. New
//!    blocks may lie where the end copies were.

use super::error::GeometryError;
use super::extent::{Extent, ExtentKind};
use super::lookup::Geometry;
use super::plan::{alignment_for, default_reserve, largest};
use super::table::pages_needed;
use crate::format::front::{GUARD_AT, SUPERBLOCKS_BYTES};
use crate::format::limits::LOGICAL_BLOCKS_MAX;
use crate::format::page::Region;
use crate::units::{BLOCK_BYTES, Bytes};

/// The room for what is new: bytes from `from` to `to`.
#[derive(Clone, Copy)]
struct Room {
    from: u64,
    to: u64,
}

/// The new pages of each region, for a number of blocks.
#[derive(Clone, Copy)]
struct Needs {
    pages: [(Region, u64); 4],
    all: u64,
}

impl Geometry {
    /// The geometry of this volume on a device of `device_bytes`, all of which it takes. Without `logical_blocks`, clients see more blocks
    /// only where they saw all that always fits: then they go on to. The reserve follows the blocks where it is the default one.
    ///
    /// # Errors
    /// When the volume would shrink, what is wished does not fit, or there are too many extents.
    pub fn grown(&self, device_bytes: Bytes, logical_blocks: Option<u64>) -> Result<Self, GeometryError> {
        let (old_end, end) = (self.device_bytes.get(), device_bytes.get() / BLOCK_BYTES * BLOCK_BYTES);
        // The new end copies must not lie where the old ones are.
        let end = if end < old_end || end >= old_end + SUPERBLOCKS_BYTES { end } else { old_end };
        if end < old_end {
            return Err(GeometryError::Shrinks { device_bytes: device_bytes.get(), volume_bytes: old_end });
        }
        if let Some(wanted) = logical_blocks.filter(|&wanted| wanted < self.logical_blocks) {
            return Err(GeometryError::LogicalShrinks { logical_blocks: wanted, before: self.logical_blocks });
        }
        if logical_blocks.is_some_and(|wanted| wanted > LOGICAL_BLOCKS_MAX) {
            let logical_blocks = logical_blocks.unwrap_or_default();
            return Err(GeometryError::LogicalOutOfRange { logical_blocks, maximum: LOGICAL_BLOCKS_MAX });
        }
        let room = if end > old_end { Room { from: old_end, to: end - SUPERBLOCKS_BYTES } } else { self.largest_gap() };
        let logical = |data| self.logical_after(data, logical_blocks);
        let fits = |data| {
            let begin = self.data_begin(room, self.needs(data, logical(data)));
            data == self.data_blocks && self.needs(data, logical(data)).all * BLOCK_BYTES <= room.to.saturating_sub(room.from)
                || end > old_end && begin + (data - self.data_blocks) * BLOCK_BYTES <= room.to
        };
        if !fits(self.data_blocks) {
            let logical_blocks = logical(self.data_blocks);
            return Err(GeometryError::NoRoom { logical_blocks, reserve_blocks: self.reserve_blocks, device_bytes: end });
        }
        let fitting = largest(self.data_blocks, self.data_blocks + end / BLOCK_BYTES, fits);
        if (fitting, logical(fitting)) == (self.data_blocks, self.logical_blocks) {
            return Ok(self.clone());
        }
        let extents = self.extents_after(room, fitting, self.needs(fitting, logical(fitting)));
        Self::of_extents(Bytes(end), logical(fitting), self.reserve_after(fitting), extents)
    }

    fn reserve_after(&self, data: u64) -> u64 {
        if self.reserve_blocks == default_reserve(self.data_blocks) { default_reserve(data) } else { self.reserve_blocks }
    }

    fn logical_after(&self, data: u64, wanted: Option<u64>) -> u64 {
        let sees_what_fits = self.logical_blocks + self.reserve_blocks == self.data_blocks;
        let follows = if sees_what_fits { data.saturating_sub(self.reserve_after(data)) } else { 0 };
        wanted.unwrap_or_else(|| self.logical_blocks.max(follows).min(LOGICAL_BLOCKS_MAX))
    }

    /// The pages that the volume lacks for this number of blocks.
    fn needs(&self, data: u64, logical: u64) -> Needs {
        let mut pages = pages_needed(data, logical);
        pages.iter_mut().for_each(|(region, pages)| *pages = pages.saturating_sub(self.pages(*region)));
        let with_bits = |region: &Region| *region != Region::Written;
        let bits: u64 = pages.iter().filter(|(region, _)| with_bits(region)).map(|(region, new)| self.pages(*region) + new).sum();
        let written = bits.div_ceil(Region::Written.entries_per_page());
        pages[0].1 = written.saturating_sub(self.pages(Region::Written));
        Needs { pages, all: pages.iter().map(|(_, pages)| pages).sum() }
    }

    /// The byte at which new blocks begin: behind the last one, where only end copies of the superblock lie between it and the room;
    /// otherwise behind the new pages.
    fn data_begin(&self, room: Room, needs: Needs) -> u64 {
        let last = self.last(ExtentKind::Data).map_or(0, |(_, last)| last.offset.get() + last.length.get());
        if needs.all == 0 && last + SUPERBLOCKS_BYTES == room.from {
            return last;
        }
        (room.from + needs.all * BLOCK_BYTES).next_multiple_of(alignment_for(room.to - room.from))
    }

    fn extents_after(&self, room: Room, data: u64, needs: Needs) -> Vec<Extent> {
        let mut extents = self.extents.clone();
        let mut offset = room.from;
        for (region, pages) in needs.pages {
            append(&mut extents, ExtentKind::Pages(region), offset, pages);
            offset += pages * BLOCK_BYTES;
        }
        append(&mut extents, ExtentKind::Data, self.data_begin(room, needs), data - self.data_blocks);
        extents
    }

    /// The last extent of a kind, and its place in the table.
    fn last(&self, kind: ExtentKind) -> Option<(usize, &Extent)> {
        self.extents.iter().enumerate().rev().find(|(_, extent)| extent.kind == kind)
    }

    /// The largest gap between the extents. The place of a guard block is none.
    fn largest_gap(&self) -> Room {
        let mut used: Vec<(u64, u64)> = self.extents.iter().map(|e| (e.offset.get(), e.offset.get() + e.length.get())).collect();
        used.push((self.device_bytes.get() - SUPERBLOCKS_BYTES, self.device_bytes.get()));
        used.sort_unstable();
        let mut from = GUARD_AT.get() + BLOCK_BYTES;
        let mut largest = Room { from, to: from };
        for (begin, end) in used {
            if begin.saturating_sub(from) > largest.to - largest.from {
                largest = Room { from, to: begin };
            }
            from = from.max(end);
        }
        largest
    }
}

/// Adds pages or blocks to a region: to its last extent if they lie behind it and no bit of *written* changes its page thereby.
fn append(extents: &mut Vec<Extent>, kind: ExtentKind, offset: u64, pages: u64) {
    if pages == 0 {
        return;
    }
    let has_bits = |kind: ExtentKind| !matches!(kind, ExtentKind::Data | ExtentKind::Pages(Region::Written));
    let entries = extents.iter().filter(|e| e.kind == kind).map(|e| e.pages() * kind.entries_per_page()).sum();
    let length = Bytes(pages * BLOCK_BYTES);
    let last = extents.iter().rposition(|e| e.kind == kind);
    let is_last_with_bits = last.is_some_and(|last| !extents[last + 1..].iter().any(|e| has_bits(e.kind)));
    let last = last.filter(|_| is_last_with_bits || !has_bits(kind)).map(|last| &mut extents[last]);
    match last.filter(|last| last.offset.get() + last.length.get() == offset) {
        Some(last) => last.length += length.get(),
        None => extents.push(Extent { kind, instance: 0, first_entry: entries, offset: Bytes(offset), length }),
    }
}
