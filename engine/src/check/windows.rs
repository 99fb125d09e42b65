//! The blocks whose links are counted at once. The links may be anywhere in the map, so each window costs a pass over it.

use super::links::Links;
use crate::format::Region;
use crate::units::{count, index};
use std::ops::Range;

/// The blocks of a page of counts. Windows are whole groups, and so whole pages of fingerprints.
pub(crate) const GROUP: u64 = Region::Refs.entries_per_page();
const _: () = assert!(GROUP % Region::Fingerprints.entries_per_page() == 0);

/// The blocks of a volume in windows, of whole groups each.
#[derive(Clone, Copy)]
pub(crate) struct Windows {
    blocks: u64,
    window_blocks: u64,
}

impl Windows {
    /// The windows of a volume of `blocks` data blocks, with half of the memory for the links to one, which is at least a group.
    pub(crate) fn new(blocks: u64, memory_bytes: u64) -> Self {
        let most = memory_bytes / 2 / count(size_of::<Links>()) / GROUP * GROUP;
        let window_blocks = most.clamp(GROUP, blocks.next_multiple_of(GROUP));
        Self { blocks, window_blocks }
    }

    /// The most blocks of a window.
    pub(crate) const fn window_blocks(&self) -> u64 {
        self.window_blocks
    }

    /// The number of windows.
    pub(crate) const fn passes(&self) -> u64 {
        self.blocks.div_ceil(self.window_blocks)
    }

    /// The windows in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = Range<u64>> {
        (0..self.blocks).step_by(index(self.window_blocks)).map(move |first| first..self.blocks.min(first + self.window_blocks))
    }
}

/// The groups of a window: the blocks of one page of counts each.
pub(crate) fn groups(window: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = window.end;
    (window.start..end).step_by(index(GROUP)).map(move |first| first..end.min(first + GROUP))
}
