//! Reasons to refuse a geometry.

use super::extent::Extent;
use crate::format::limits::EXTENTS_MAX;
use crate::units::BLOCK_BYTES;

/// The reason why there is no such geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    #[error("{device_bytes} bytes are too small for a volume; it needs at least {minimum}")]
    DeviceTooSmall { device_bytes: u64, minimum: u64 },
    #[error("a volume of {logical_blocks} logical blocks is not possible: choose between 1 and {maximum}")]
    LogicalOutOfRange { logical_blocks: u64, maximum: u64 },
    #[error(
        "the map of {logical_blocks} logical blocks and {reserve_blocks} blocks of reserve do not fit {device_bytes} bytes; make the \
         logical size smaller or the device larger"
    )]
    NoRoom { logical_blocks: u64, reserve_blocks: u64, device_bytes: u64 },
    #[error("the volume has {volume_bytes} bytes, and cannot shrink to {device_bytes}")]
    Shrinks { device_bytes: u64, volume_bytes: u64 },
    #[error("clients see {before} blocks, and cannot see fewer: {logical_blocks}")]
    LogicalShrinks { logical_blocks: u64, before: u64 },
    #[error("a volume of {device_bytes} bytes, which is no multiple of {BLOCK_BYTES}")]
    BadSize { device_bytes: u64 },
    #[error("{count} extents, where a superblock holds at most {EXTENTS_MAX}")]
    TooManyExtents { count: usize },
    #[error(
        "the {} region's extent at byte {} does not follow the one before it: it begins at entry {} and has {} bytes",
        .0.kind.name(), .0.offset, .0.first_entry, .0.length
    )]
    BadExtent(Extent),
    #[error(
        "the {} region's extent at byte {} overlaps another, a superblock or the guard block, or reaches beyond {device_bytes} bytes",
        .extent.kind.name(), .extent.offset
    )]
    ExtentOverlaps { extent: Extent, device_bytes: u64 },
    #[error("the {region} region has {pages} pages, where {needed} are needed")]
    RegionTooSmall { region: &'static str, pages: u64, needed: u64 },
    #[error("{reserve_blocks} blocks of reserve, where there are {data_blocks} data blocks")]
    BadReserve { reserve_blocks: u64, data_blocks: u64 },
}
