//! The number of carriers and packs. They are counted fingerprint page by fingerprint page, from the newest allocation backwards; once a
//! page was seen, each change of it updates the number.

use super::granules::GRANULE_BLOCKS;
use crate::units::Pbn;

/// The number of carriers on the pages seen so far.
pub(crate) struct Carriers {
    newest: u64,
    pages: u64,
    /// The number of pages seen, counted backwards from that of the newest block.
    seen: u64,
    carriers: u64,
    /// Part of a page could not be read.
    is_blind: bool,
}

impl Carriers {
    /// Begins with the page of the newest block; none of the `pages` pages was seen.
    pub fn new(newest: Pbn, pages: u64) -> Self {
        Self { newest: newest.0 / GRANULE_BLOCKS, pages, seen: 0, carriers: 0, is_blind: false }
    }

    /// Forgets all pages that were seen.
    pub fn begin_again(&mut self) {
        (self.seen, self.carriers, self.is_blind) = (0, 0, false);
    }

    /// Adds the carriers of a page; [`Self::saw_page`] counts the page itself.
    pub fn saw(&mut self, carriers: u64, is_blind: bool) {
        self.carriers += carriers;
        self.is_blind |= is_blind;
    }

    /// Counts one more page as seen.
    pub fn saw_page(&mut self) {
        self.seen += 1;
    }

    /// The number of carriers on the volume; none unless all pages were seen.
    pub fn all(&self) -> Option<u64> {
        (self.seen >= self.pages && !self.is_blind).then_some(self.carriers)
    }

    /// A block becomes a carrier, or ceases to be one.
    pub fn changed(&mut self, pbn: Pbn, is_new: bool) {
        let back = (self.newest + self.pages - pbn.0 / GRANULE_BLOCKS) % self.pages;
        if back < self.seen {
            self.carriers = if is_new { self.carriers + 1 } else { self.carriers.saturating_sub(1) };
        }
    }
}
