//! Links that were durably removed and still count, until a later commit frees them (L6) or their refs page is in memory.
//!
//! Reports leave them out, so that the room that a discard frees is available as soon as the discard is durable.

use super::Space;
use crate::format::entry::REFS_UNKNOWN;
use crate::tables::Tables;
use crate::units::{Pbn, count};

/// Removed links that still count, and the blocks that will be free without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedLinks {
    /// Links from the map.
    pub links: u64,
    /// Blocks that no link from the map keeps any more; a lower bound unless all refs pages are in memory.
    pub blocks: u64,
}

impl RemovedLinks {
    /// Counts `times` removed links of a block with `refs` links.
    fn add(&mut self, refs: u8, times: u64) {
        // One link is the fingerprint's.
        let from_map = u64::from(refs).saturating_sub(1);
        self.links += times.min(from_map);
        self.blocks += u64::from(from_map > 0 && times >= from_map);
    }
}

impl Space {
    /// Counts removed links that still count. Each item of `unlinked` is one removed link of that block.
    pub fn removed_links(&self, tables: &Tables, unlinked: impl Iterator<Item = Pbn>) -> RemovedLinks {
        let mut unlinked: Vec<Pbn> = unlinked.collect();
        unlinked.sort_unstable();
        let (mut gone, mut unseen) = (RemovedLinks::default(), 0);
        for same in unlinked.chunk_by(|a, b| a == b) {
            let (pbn, times) = (same[0], count(same.len()));
            let (id, at) = self.geometry.refs_of(pbn);
            let refs = tables.pages.peek(id).map(|content| tables.with_pending(pbn, content.refs(at)));
            match refs.filter(|&refs| refs != REFS_UNKNOWN) {
                Some(refs) => gone.add(refs, times),
                None => unseen += times,
            }
        }
        // Each of these links frees a block, unless the block had other links.
        let company = self.map_links().map_or(u64::MAX, |links| links.saturating_sub(self.census.unique + self.census.shared));
        RemovedLinks { links: gone.links + unseen, blocks: gone.blocks + unseen.saturating_sub(company) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_without_its_last_link_from_the_map() {
        let cases = [
            // The fingerprint has the only link, and loses it.
            (1, 1, (0, 0)),
            (2, 1, (1, 1)),
            (2, 2, (1, 1)),
            (3, 1, (1, 0)),
            (3, 2, (2, 1)),
            (0, 1, (0, 0)),
        ];
        for (refs, times, (links, blocks)) in cases {
            let mut gone = RemovedLinks::default();
            gone.add(refs, times);
            assert_eq!(gone, RemovedLinks { links, blocks }, "{times} of {refs}");
        }
    }
}
