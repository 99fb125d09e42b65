//! Granules: the blocks that one fingerprint page names.

use crate::format::page::Region;

/// Blocks of a granule.
pub(crate) const GRANULE_BLOCKS: u64 = Region::Fingerprints.entries_per_page();
