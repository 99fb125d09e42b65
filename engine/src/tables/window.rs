//! A recount counts the links that the map has to the blocks of one window. It takes one map page at a time, while commits go on. When a
//! page that was counted changes, its links change here too, so that they are always those of the counted pages as they are now.

use crate::format::geometry::Geometry;
use crate::format::page::{PageContent, Region};
use crate::units::{Lbn, Pbn, index};

/// From this number on the links of a block are not counted any more. A count has room for 254, so the volume is damaged anyway.
const LINKS_MAX: u16 = u16::MAX / 2;

/// The blocks of one window, and their links.
#[derive(Default)]
pub(crate) struct Window {
    first: Pbn,
    end: Pbn,
    /// Links of each block from the map pages counted so far.
    links: Vec<u16>,
    /// The number of map pages counted so far.
    pages: u64,
}

fn gain(links: &mut u16) {
    *links = (*links + 1).min(LINKS_MAX);
}

fn lose(links: &mut u16) {
    if *links < LINKS_MAX {
        *links -= 1;
    }
}

impl Window {
    /// Begins to count the links of these blocks.
    pub fn begin(&mut self, first: Pbn, end: Pbn) {
        (self.first, self.end, self.pages) = (first, end, 0);
        self.links.clear();
        self.links.resize(index(end - first), 0);
    }

    /// Ends the count.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The block after the last one.
    pub fn end(&self) -> Pbn {
        self.end
    }

    /// Counts the links on the next map page; `None` if it was never written.
    pub fn count_page(&mut self, geometry: &Geometry, content: Option<&PageContent>) {
        let entries = content.map_or(0, |_| index(Region::Map.entries_per_page()));
        for i in 0..entries {
            let linked = content.and_then(|content| geometry.known(content.map(i)).pbn());
            linked.and_then(|pbn| self.links_of(pbn)).into_iter().for_each(gain);
        }
        self.pages += 1;
    }

    /// Whether pages have been counted.
    pub fn is_counting(&self) -> bool {
        self.pages > 0
    }

    /// Takes note that a map entry has changed in memory.
    pub fn relinked(&mut self, lbn: Lbn, old: Option<Pbn>, new: Option<Pbn>) {
        if lbn.0 / Region::Map.entries_per_page() < self.pages {
            old.and_then(|pbn| self.links_of(pbn)).into_iter().for_each(lose);
            new.and_then(|pbn| self.links_of(pbn)).into_iter().for_each(gain);
        }
    }

    /// The links of a block of the window.
    ///
    /// # Panics
    /// When the block is not in the window.
    pub fn links(&self, pbn: Pbn) -> u16 {
        self.links[index(pbn - self.first)]
    }

    fn links_of(&mut self, pbn: Pbn) -> Option<&mut u16> {
        (self.first <= pbn && pbn < self.end).then(|| &mut self.links[index(pbn - self.first)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Wish;
    use crate::format::entry::MapEntry;
    use crate::units::Bytes;

    /// A crafted map may link every LBN to one block. A count that wraps would free the block.
    #[test]
    fn links_beyond_every_count_stay_beyond_it() {
        let geometry = Geometry::plan(Bytes(32 << 20), &Wish::default()).unwrap();
        let mut page = PageContent::empty();
        (0..index(Region::Map.entries_per_page())).for_each(|i| page.set_map(i, MapEntry::Block { pbn: Pbn(5), slot: 0 }));
        let mut window = Window::default();
        window.begin(Pbn(0), Pbn(10));
        for _ in 0..=(1 << 16) / Region::Map.entries_per_page() {
            window.count_page(&geometry, Some(&page));
        }
        assert_eq!((window.links(Pbn(5)), window.links(Pbn(6))), (LINKS_MAX, 0));
        window.relinked(Lbn(1), Some(Pbn(5)), Some(Pbn(6)));
        assert_eq!((window.links(Pbn(5)), window.links(Pbn(6))), (LINKS_MAX, 1));
    }
}
