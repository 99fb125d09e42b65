//! Granules: a granule is the blocks whose entries one fingerprint page holds.

use crate::format::page::Region;

/// The number of blocks in a granule.
pub(crate) const GRANULE_BLOCKS: u64 = Region::Fingerprints.entries_per_page();
