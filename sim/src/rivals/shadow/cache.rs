//! Dmdedup's cache of metadata: the leaves that were used last.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The pages in memory, each with the time of its last use.
pub struct PageCache {
    room: usize,
    pages: FxHashMap<usize, u64>,
    order: BTreeMap<u64, usize>,
    clock: u64,
}

impl PageCache {
    /// Makes it with room for this number of pages, one at least.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room: room.max(1), pages: FxHashMap::default(), order: BTreeMap::new(), clock: 0 }
    }

    /// Uses a page, which is in memory afterwards. Returns whether it was before.
    pub fn touch(&mut self, page: usize) -> bool {
        self.clock += 1;
        let before = self.pages.insert(page, self.clock);
        if let Some(used) = before {
            self.order.remove(&used);
        }
        self.order.insert(self.clock, page);
        if self.pages.len() > self.room {
            let (_, oldest) = self.order.pop_first().expect("it is not empty");
            self.pages.remove(&oldest);
        }
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_was_used_longest_ago_goes() {
        let mut cache = PageCache::new(2);
        assert_eq!([1, 2, 1, 3, 1, 2].map(|page| cache.touch(page)), [false, false, true, false, true, false]);
    }
}
