//! The links that the map holds to the blocks of one window, counted page for page while commits go on: a change to a page that was counted
//! already changes the counts with it, so they are always those of the counted pages as they are now.

use crate::format::geometry::Geometry;
use crate::format::page::{PageContent, Region};
use crate::units::{Lbn, Pbn, index};

/// The blocks of a window, and their links.
#[derive(Default)]
pub(crate) struct Window {
    first: Pbn,
    end: Pbn,
    /// Links of each block, by the map pages counted so far; 255 stands for more than a count can hold.
    links: Vec<u16>,
    /// Map pages that were counted: those before this one.
    pages: u64,
}

impl Window {
    /// Begins to count the links of these blocks.
    pub fn begin(&mut self, first: Pbn, end: Pbn) {
        (self.first, self.end, self.pages) = (first, end, 0);
        self.links.clear();
        self.links.resize(index(end - first), 0);
    }

    /// Nothing is counted.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The block behind the last.
    pub fn end(&self) -> Pbn {
        self.end
    }

    /// The next map page is counted: what it holds, if it was ever written.
    pub fn count_page(&mut self, geometry: &Geometry, content: Option<&PageContent>) {
        let entries = content.map_or(0, |_| index(Region::Map.entries_per_page()));
        for i in 0..entries {
            let linked = content.and_then(|content| geometry.known(content.map(i)).pbn());
            linked.and_then(|pbn| self.links_of(pbn)).into_iter().for_each(|links| *links += 1);
        }
        self.pages += 1;
    }

    /// Whether pages have been counted.
    pub fn is_counting(&self) -> bool {
        self.pages > 0
    }

    /// A map entry changed in memory.
    pub fn relinked(&mut self, lbn: Lbn, old: Option<Pbn>, new: Option<Pbn>) {
        if lbn.0 / Region::Map.entries_per_page() < self.pages {
            old.and_then(|pbn| self.links_of(pbn)).into_iter().for_each(|links| *links -= 1);
            new.and_then(|pbn| self.links_of(pbn)).into_iter().for_each(|links| *links += 1);
        }
    }

    /// The links of a block of the window.
    ///
    /// # Panics
    /// When it is of none.
    pub fn links(&self, pbn: Pbn) -> u16 {
        self.links[index(pbn - self.first)]
    }

    fn links_of(&mut self, pbn: Pbn) -> Option<&mut u16> {
        (self.first <= pbn && pbn < self.end).then(|| &mut self.links[index(pbn - self.first)])
    }
}
