//! The chains that find the live records of a page: nodes, from the newest to the oldest, by map page, granule of new blocks, and granule
//! of old ones.
//!
//! 1. Keys share buckets; a chain holds all nodes of its bucket's keys. A traversal looks at each node's own key.
//! 2. A chain ends where a link leads to no node: the nodes behind were forgotten, or there were none.
//! 3. There is a bucket for every [`LOAD`] nodes. They come one by one (linear hashing), each with half of the nodes of one before it. No
//!    push waits for all to be sorted anew, and no table is copied but the heads. Buckets stay when nodes go: once there are as many as the
//!    memory for nodes asks for, a push costs nothing but itself.

use super::node::Chain;
use super::nodes::{NodePlace, Nodes};
use crate::units::{count, index};
use std::iter;

/// Nodes to a bucket, when there is a new one.
const LOAD: u64 = 4;
/// The fewest buckets.
const BUCKETS_MIN: u64 = 16;

/// The newest node of each bucket, for each of the three kinds of chain.
pub(super) struct Heads(Vec<[NodePlace; 3]>);

impl Heads {
    /// No chains yet; buckets for as many nodes as are expected.
    pub fn new(nodes: &Nodes, expected: u64) -> Self {
        Self(vec![[nodes.nowhere(); 3]; index(expected.div_ceil(LOAD).max(BUCKETS_MIN))])
    }

    /// Chains of nodes that are in none yet.
    pub fn of(nodes: &mut Nodes) -> Self {
        let mut heads = Self::new(nodes, nodes.len());
        nodes.link_all(|keys, place| heads.put(keys, place));
        heads
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> u64 {
        count(self.0.capacity() * size_of::<[NodePlace; 3]>())
    }

    /// The bucket of a key: by as many bits of its hash as number the buckets, and by one less where that bucket is not there yet.
    fn bucket(&self, key: u32) -> usize {
        // A product's high bits are the good ones.
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes();
        let (buckets, half) = (count(self.0.len()), 1 << self.0.len().ilog2());
        let bucket = hash & (2 * half - 1);
        index(if bucket < buckets { bucket } else { hash & (half - 1) })
    }

    /// The nodes of a key, newest first.
    pub fn chain(&self, nodes: &Nodes, chain: Chain, key: u32) -> impl Iterator<Item = NodePlace> {
        self.bucket_chain(nodes, chain, self.bucket(key)).filter(move |&place| nodes.get(place).key(chain) == Some(key))
    }

    /// The nodes of a bucket, newest first.
    fn bucket_chain(&self, nodes: &Nodes, chain: Chain, bucket: usize) -> impl Iterator<Item = NodePlace> {
        let alive = |place: NodePlace| nodes.lives(place).then_some(place);
        iter::successors(alive(self.0[bucket][chain as usize]), move |&place| alive(nodes.link(place, chain)))
    }

    /// Makes the node at `place`, the newest of all, the first of its chains. Returns the places to which it has to be linked.
    pub fn put(&mut self, keys: [Option<u32>; 3], place: NodePlace) -> [NodePlace; 3] {
        Chain::ALL.map(|chain| {
            keys[chain as usize].map_or(place, |key| {
                let bucket = self.bucket(key);
                std::mem::replace(&mut self.0[bucket][chain as usize], place)
            })
        })
    }

    /// Adds a bucket where the nodes have become too many for those that there are.
    pub fn grow(&mut self, nodes: &mut Nodes) {
        let new = self.0.len();
        if nodes.len() <= LOAD * count(new) {
            return;
        }
        if new == self.0.capacity() {
            self.0.reserve_exact(new / 8);
        }
        self.0.push([nodes.nowhere(); 3]);
        let split = new - (1 << new.ilog2());
        for chain in Chain::ALL {
            let (mut next, mut last) = (self.0[split][chain as usize], [None; 2]);
            while nodes.lives(next) {
                let stays = nodes.get(next).key(chain).is_some_and(|key| self.bucket(key) == split);
                let (bucket, last) = if stays { (split, &mut last[0]) } else { (new, &mut last[1]) };
                self.lead(nodes, chain, bucket, last.replace(next), next);
                next = nodes.link(next, chain);
            }
            self.lead(nodes, chain, split, last[0], nodes.nowhere());
            self.lead(nodes, chain, new, last[1], nodes.nowhere());
        }
    }

    /// Makes a bucket's chain go on with `next`, behind its node `last`.
    fn lead(&mut self, nodes: &mut Nodes, chain: Chain, bucket: usize, last: Option<NodePlace>, next: NodePlace) {
        match last {
            Some(last) => nodes.set_link(last, chain, next),
            None => self.0[bucket][chain as usize] = next,
        }
    }

    /// Makes heads that lead to forgotten nodes lead nowhere, before places come round to mean others.
    pub fn forget(&mut self, nodes: &Nodes) {
        for head in self.0.iter_mut().flatten() {
            if !nodes.lives(*head) {
                *head = nodes.nowhere();
            }
        }
    }

    /// Asserts the invariants, at the cost of a traversal of all.
    #[cfg(test)]
    pub fn self_check(&self, nodes: &Nodes) {
        assert!(nodes.len() <= LOAD * count(self.0.len()), "{} nodes in {} buckets", nodes.len(), self.0.len());
        let mut members = 0;
        for (bucket, chain) in (0..self.0.len()).flat_map(|bucket| Chain::ALL.map(|chain| (bucket, chain))) {
            let head = self.0[bucket][chain as usize];
            assert!(nodes.lives(head) || head == nodes.nowhere(), "bucket {bucket} begins where a node was");
            let mut newer = u32::MAX;
            for place in self.bucket_chain(nodes, chain, bucket) {
                assert!(nodes.age(place) < newer, "bucket {bucket} is not in order");
                assert_eq!(nodes.get(place).key(chain).map(|key| self.bucket(key)), Some(bucket));
                newer = nodes.age(place);
                members += 1;
            }
        }
        let keys = nodes.iter().map(|node| Chain::ALL.iter().filter(|&&chain| node.key(chain).is_some()).count());
        assert_eq!(keys.sum::<usize>(), members, "every node is in the chains of its keys");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::MapEntry;
    use crate::format::page::Region;
    use crate::tables::effect::{Effect, EntryChange};
    use crate::tables::live::node::keys;
    use crate::units::{Epoch, Lbn};

    /// Nodes that a traversal to each node's own looks at, on average, where they lie this many map pages apart.
    fn visited(apart: u64, pages: u64) -> u64 {
        let mut nodes = Nodes::new(0);
        let mut heads = Heads::new(&nodes, 0);
        for page in 0..pages {
            let lbn = Some(Lbn(page * apart * Region::Map.entries_per_page()));
            let piece = Effect { lbn, blocks: 1, to: MapEntry::Zero, old: None, name: EntryChange::None };
            let place = nodes.next(Epoch(1), &piece);
            let links = heads.put(keys(&piece), place);
            nodes.push(Epoch(1), &piece, links);
            heads.grow(&mut nodes);
        }
        heads.self_check(&nodes);
        let lengths = (0..heads.0.len()).map(|bucket| count(heads.bucket_chain(&nodes, Chain::Map, bucket).count()));
        lengths.map(|length| length * length).sum::<u64>() / pages
    }

    #[test]
    fn pages_side_by_side_or_evenly_apart_spread_over_the_buckets() {
        for apart in [1, 2, 5, 10, 16, 20, 32, 1000, 1024] {
            for pages in [1000, 20_000, 100_000] {
                let visited = visited(apart, pages);
                assert!(visited <= 3 * LOAD, "{visited} nodes walked for one, with {pages} pages {apart} apart");
            }
        }
    }
}
