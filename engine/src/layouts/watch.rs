//! The watch over the blocks whose content decides about the layout.
//!
//! 1. Most writes cost one search in a short sorted list.
//! 2. A superblock that is written again with other counts of free blocks changes nothing; one that is written over does.

use super::watched::Watched;
use crate::units::{BLOCK_SIZE, Lbn};
use std::ops::Range;

/// The watched blocks of a volume, as the last survey knows them.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// By block.
    watched: Vec<Watched>,
}

impl Watch {
    pub(super) fn new(mut watched: Vec<Watched>) -> Self {
        watched.sort_by_key(Watched::lbn);
        Self { watched }
    }

    /// Returns whether the content of a block decides about the layout.
    #[must_use]
    pub fn is_watched(&self, lbn: Lbn) -> bool {
        self.watched.binary_search_by_key(&lbn, Watched::lbn).is_ok()
    }

    /// Returns the blocks of a range whose content decides about the layout.
    #[must_use]
    pub fn watched_in(&self, range: Range<Lbn>) -> Vec<Lbn> {
        let first = self.watched.partition_point(|watched| watched.lbn() < range.start);
        let mut found: Vec<Lbn> = self.watched[first..].iter().map(Watched::lbn).take_while(|lbn| *lbn < range.end).collect();
        found.dedup();
        found
    }

    /// Returns whether this new content of a block may change the layout, so that another survey is due. Such a content is remembered: it
    /// changes nothing when it is written again.
    pub fn changes(&mut self, lbn: Lbn, content: &[u8; BLOCK_SIZE]) -> bool {
        let first = self.watched.partition_point(|watched| watched.lbn() < lbn);
        let of_block = self.watched[first..].iter_mut().take_while(|watched| watched.lbn() == lbn);
        // Every structure of the block remembers its new content.
        of_block.fold(false, |changes, watched| watched.changes(content) | changes)
    }
}
