//! The parts that belong to one volume.

use super::shares::IndexShares;
use crate::adaptation::Adaptation;
use crate::format::superblock::Superblock;
use crate::index::{Skipped, ToCompare};
use crate::settings::Settings;
use crate::units::{Blocks, Time};

/// The knowledge of the clients of one volume, and of what they have written.
pub(crate) struct Volume {
    /// The blocks that clients may address.
    pub blocks: Blocks,
    pub skipped: Skipped,
    pub to_compare: ToCompare,
    pub adaptation: Adaptation,
}

impl Volume {
    pub(super) fn new(superblock: &Superblock, settings: &Settings, shares: &IndexShares, now: Time) -> Self {
        let logical_blocks = superblock.geometry.logical_blocks;
        let to_compare = ToCompare::new(superblock, settings.knobs.skipped_save_ms);
        let mut skipped = Skipped::new(shares.skipped, logical_blocks, shares.sieve > 0);
        skipped.restore(to_compare.skipped(), now);
        let adaptation = Adaptation::new(settings.adapts_to_duplication, settings.finds_out_of_line());
        Self { blocks: Blocks(logical_blocks), skipped, to_compare, adaptation }
    }
}
