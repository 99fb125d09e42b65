//! How many blocks are carriers or packs, counted page of fingerprints by page, from the newest allocation backwards; a page that was seen
//! is counted from then on by who changes it.

use super::granules::GRANULE_BLOCKS;
use crate::units::Pbn;

/// Carriers on the pages seen so far.
pub(crate) struct Carriers {
    newest: u64,
    pages: u64,
    /// Pages seen, counted backwards from the newest.
    seen: u64,
    carriers: u64,
    /// Part of a page could not be read.
    is_blind: bool,
}

impl Carriers {
    /// Of so many pages, none of which was seen, from that of the newest block on.
    pub fn new(newest: Pbn, pages: u64) -> Self {
        Self { newest: newest.0 / GRANULE_BLOCKS, pages, seen: 0, carriers: 0, is_blind: false }
    }

    /// No page was seen.
    pub fn begin_again(&mut self) {
        (self.seen, self.carriers, self.is_blind) = (0, 0, false);
    }

    /// A page holds so many carriers, and is counted with [`Self::saw_page`].
    pub fn saw(&mut self, carriers: u64, is_blind: bool) {
        self.carriers += carriers;
        self.is_blind |= is_blind;
    }

    /// One more page was seen.
    pub fn saw_page(&mut self) {
        self.seen += 1;
    }

    /// Carriers on the volume; none where not all pages were seen.
    pub fn all(&self) -> Option<u64> {
        (self.seen >= self.pages && !self.is_blind).then_some(self.carriers)
    }

    /// A block of a page that was seen becomes a carrier, or is one no more.
    pub fn changed(&mut self, pbn: Pbn, is_born: bool) {
        let back = (self.newest + self.pages - pbn.0 / GRANULE_BLOCKS) % self.pages;
        if back < self.seen {
            self.carriers = if is_born { self.carriers + 1 } else { self.carriers.saturating_sub(1) };
        }
    }
}
