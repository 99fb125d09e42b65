//! The places of everything on a volume: regions as lists of extents.
//!
//! 1. Extents do not overlap, and do not touch the superblocks or the guard block. Each region's extents follow one another in its entries,
//!    without a gap.
//! 2. Metadata extents are whole pages; a region's next extent begins at an entry that begins a page. So pages are numbered through.
//! 3. The bits of *written* number the pages of refs, fingerprints and map in the order of the table. Growing appends extents, so a page
//!    keeps its bit. Pages of *written* have none: formatting writes them all.

mod error;
mod extent;
mod grow;
mod lookup;
mod plan;
mod stock;
mod table;
#[cfg(test)]
mod tests;

pub use super::front::SUPERBLOCKS_BYTES;
pub use super::limits::{EXTENTS_MAX, LOGICAL_BLOCKS_MAX, RESERVE_BLOCKS_MIN, RESERVE_FRACTION, VOLUME_BYTES_MIN};
pub use error::GeometryError;
pub use extent::{Extent, ExtentKind};
pub use lookup::Geometry;
pub(crate) use lookup::entry_of;
pub use plan::Wish;
pub(crate) use stock::PIECE_BLOCKS;
