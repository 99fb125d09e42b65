//! The geometry of a new volume.

use super::error::GeometryError;
use super::extent::{Extent, ExtentKind};
use super::lookup::Geometry;
use super::table::pages_needed;
use crate::format::entry::PBN_MAX;
use crate::format::front::SUPERBLOCKS_BYTES;
use crate::format::limits::{LOGICAL_BLOCKS_MAX, RESERVE_BLOCKS_MIN, RESERVE_FRACTION, VOLUME_BYTES_MIN};
use crate::units::{BLOCK_BYTES, Bytes};

/// Volumes below this align their data less.
const SMALL_VOLUME_BYTES: u64 = 256 << 20;
/// Data and metadata share no erase block.
const DATA_ALIGNMENT: u64 = 4 << 20;
const DATA_ALIGNMENT_SMALL: u64 = 64 << 10;

/// The wishes of a volume's owner for its geometry; the rest follows from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Blocks that clients see. Default: the data blocks less the reserve, so that the volume is never full.
    pub logical_blocks: Option<u64>,
    /// Blocks never promised to clients. Default: 1/64 of the data blocks, at least 64.
    pub reserve_blocks: Option<u64>,
    /// There is room for the guard block (`guard.rs`).
    pub guard: bool,
    /// Blocks between the front and the first extent, for the volume's notes (`notes.rs`).
    pub notes_blocks: u64,
}

/// The reserve that a volume of this number of data blocks has unless its owner says otherwise.
pub(super) fn default_reserve(data: u64) -> u64 {
    (data / RESERVE_FRACTION).max(RESERVE_BLOCKS_MIN)
}

/// The bytes of which the beginning of the data is a multiple, in a volume, or a part of one, of this size.
pub(super) fn alignment_for(bytes: u64) -> u64 {
    if bytes < SMALL_VOLUME_BYTES { DATA_ALIGNMENT_SMALL } else { DATA_ALIGNMENT }
}

/// The largest number of data blocks that fits, at most `most`, if `fitting` does. More of them need more metadata, so it is found by
/// halving.
pub(super) fn largest(mut fitting: u64, most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let mut too_many = most.min(PBN_MAX.get() + 1) + 1;
    while fitting + 1 < too_many {
        let middle = fitting + (too_many - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            too_many = middle;
        }
    }
    fitting
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

    /// The geometry as [`Self::plan`] gives it, but of any size: for simulation, where volumes are small on purpose.
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
        let reserve = |data: u64| wish.reserve_blocks.unwrap_or_else(|| default_reserve(data));
        let logical = |data: u64| wish.logical_blocks.unwrap_or_else(|| data.saturating_sub(reserve(data)));
        let alignment = alignment_for(end);
        let front = SUPERBLOCKS_BYTES + if wish.guard { BLOCK_BYTES } else { 0 } + wish.notes_blocks * BLOCK_BYTES;
        let data_start = |data: u64| {
            let pages: u64 = pages_needed(data, logical(data)).iter().map(|(_, pages)| pages).sum();
            (front + pages * BLOCK_BYTES).next_multiple_of(alignment)
        };
        let fits = |data: u64| data_start(data) + data * BLOCK_BYTES + SUPERBLOCKS_BYTES <= end;

        let data_blocks = largest(0, end / BLOCK_BYTES, fits);
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
}
