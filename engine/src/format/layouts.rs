//! The list of all structures on the medium.

use super::layout::Layout;
use super::{guard, log_tail, notes, page, places, superblock, unit};

/// Every structure that `docs/format.md` shows.
pub const LAYOUTS: &[Layout] = &[
    superblock::at::LAYOUT,
    superblock::at_extent::LAYOUT,
    superblock::at_range::LAYOUT,
    superblock::at_class::LAYOUT,
    log_tail::at::LAYOUT,
    guard::at::LAYOUT,
    notes::at::LAYOUT,
    page::at::LAYOUT,
    page::at_place::LAYOUT,
    unit::at::LAYOUT,
    places::at::LAYOUT,
    unit::at_slot::LAYOUT,
];
