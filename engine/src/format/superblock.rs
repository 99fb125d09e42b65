//! The superblock: everything that is needed to open a volume.
//!
//! 1. In every version of the format the magic stands at byte 0, the version at byte 8, and the CRC32C of all bytes before it in the last
//!    four bytes.
//! 2. The checksum covers the number of the copy, so that a copy at another's place is found.
//! 3. One superblock has one encoding: what decodes, encodes to the same bytes. So reserved bytes are zero.
//! 4. A superblock that decodes is consistent in itself, and each of its numbers lies within its bounds (`superblock/bounds.rs`). Whether
//!    it fits the device is for `copies` to say.

mod bounds;
mod changes;
mod coding;
mod content;
mod fields;
mod parts;
mod scrub;
mod settings;
mod values;

pub use super::key::Key;
pub use super::refused::SuperblockError;
pub use super::version::{MAGIC, VERSION};
pub use bounds::{FULL_WAIT_S_MAX, MEMORY_BYTES_MAX};
pub use content::Superblock;
pub use fields::{
    COMPATIBLE_INDEX, INCOMPATIBLE_APART, INCOMPATIBLE_DEFAULTS, INCOMPATIBLE_GUARD, INCOMPATIBLE_LIVE_LOG, INCOMPATIBLE_OTHER_UUID,
    INCOMPATIBLE_SEAMS, INCOMPATIBLE_SLOTS, LABEL_BYTES_MAX, PROTECTED_MAX, RANGE_BLOCKS_MAX, at, at_class, at_extent, at_range,
};
pub use parts::{ClassTotals, Features, Lifetime, ProtectedRange, ToCompare};
pub use scrub::{EndedScrubs, ScrubFound, ScrubPart, ScrubProgress};
pub use settings::{CommitMode, Compression, FULL_WAIT_S_DEFAULT, MEMORY_BYTES_DEFAULT, Persistence, StartSettings};
