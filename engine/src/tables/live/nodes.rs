//! The nodes of the live records, oldest first, in chunks.
//!
//! 1. A node never moves. Its place counts words from the first, modulo 2^32. Nodes live from the oldest on; a place outside of that is no
//!    node's.
//! 2. Fewer than 2^31 words live. So a place just before the oldest node is no node's as long as one lives that could be linked to it.
//! 3. A node lies in one chunk. A chunk ends early where the epochs of its nodes would be too far from its own.

use super::node::{Chain, EPOCHS_MAX, Node, encode, size};
use crate::tables::effect::Effect;
use crate::units::{Epoch, count, index};
use std::collections::VecDeque;
use std::iter;

/// Words of a chunk: 4 KiB, and it divides 2^32.
const CHUNK_WORDS: u32 = 1024;
/// `CHUNK_WORDS` for slices.
const CHUNK_SIZE: usize = 1024;
/// Words that may live (invariant 2).
const WORDS_MAX: u32 = 1 << 31;

/// The place of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodePlace(u32);

impl NodePlace {
    /// Its word in its chunk.
    fn word(self) -> usize {
        index(u64::from(self.0 % CHUNK_WORDS))
    }

    /// The place `words` behind.
    fn plus(self, words: usize) -> Self {
        Self(self.0.wrapping_add(u32::try_from(words).expect("a node is no longer than its chunk")))
    }

    /// The beginning of the next chunk.
    fn next_chunk(self) -> Self {
        Self((self.0 | (CHUNK_WORDS - 1)).wrapping_add(1))
    }
}

/// Nodes of one epoch, or of that and some later ones.
struct Chunk {
    /// The epoch of its first node.
    since: Epoch,
    /// The number of nodes that live.
    nodes: u32,
    /// The words of the nodes, with all their capacity from the beginning.
    words: Vec<u32>,
}

/// All nodes.
pub(super) struct Nodes {
    chunks: VecDeque<Chunk>,
    /// Lies in the first chunk; where there is none, it is the end.
    oldest: NodePlace,
    /// Behind the newest node; where there is none, it begins a chunk.
    end: NodePlace,
    len: u64,
}

impl Nodes {
    /// No nodes yet. The first will be about here.
    pub fn new(first: u32) -> Self {
        let first = NodePlace(first - first % CHUNK_WORDS);
        Self { chunks: VecDeque::new(), oldest: first, end: first, len: 0 }
    }

    /// The number of nodes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> u64 {
        count(self.chunks.capacity() * size_of::<Chunk>() + self.chunks.len() * CHUNK_SIZE * size_of::<u32>())
    }

    /// The number of words between the oldest node and this place: less is older.
    pub fn age(&self, place: NodePlace) -> u32 {
        place.0.wrapping_sub(self.oldest.0)
    }

    /// Whether a node is at this place.
    pub fn lives(&self, place: NodePlace) -> bool {
        self.age(place) < self.age(self.end)
    }

    /// A place that is no node's (invariant 2).
    pub fn nowhere(&self) -> NodePlace {
        NodePlace(self.oldest.0.wrapping_sub(1))
    }

    fn chunk(&self, place: NodePlace) -> usize {
        let words = self.age(place) + self.oldest.0 % CHUNK_WORDS;
        index(u64::from(words / CHUNK_WORDS))
    }

    /// The node at this place, where one lives.
    pub fn get(&self, place: NodePlace) -> Node<'_> {
        let chunk = &self.chunks[self.chunk(place)];
        Node::new(&chunk.words[place.word()..], chunk.since)
    }

    /// The place with which a node's chain goes on.
    pub fn link(&self, place: NodePlace, chain: Chain) -> NodePlace {
        NodePlace(self.get(place).link(chain))
    }

    /// Makes a node's chain go on elsewhere.
    pub fn set_link(&mut self, place: NodePlace, chain: Chain, to: NodePlace) {
        let (word, at) = (place.word() + self.get(place).link_at(chain), self.chunk(place));
        self.chunks[at].words[word] = to.0;
    }

    /// Makes room for the node of a piece and returns its place.
    ///
    /// # Panics
    /// When 8 GiB of nodes live.
    pub fn next(&mut self, epoch: Epoch, piece: &Effect<'_>) -> NodePlace {
        let fits = |chunk: &Chunk| chunk.words.len() + size(piece) <= CHUNK_SIZE && epoch - chunk.since <= EPOCHS_MAX;
        if !self.chunks.back().is_some_and(fits) {
            self.end = if self.end.word() == 0 { self.end } else { self.end.next_chunk() };
            self.chunks.push_back(Chunk { since: epoch, nodes: 0, words: Vec::with_capacity(CHUNK_SIZE) });
        }
        assert!(self.age(self.end) < WORDS_MAX - CHUNK_WORDS, "more live records than there are links for");
        self.end
    }

    /// Puts a node to the place that [`Self::next`] has just returned. The links of chains that it is not in do not matter.
    pub fn push(&mut self, epoch: Epoch, piece: &Effect<'_>, links: [NodePlace; 3]) {
        let newest = self.chunks.len() - 1;
        let chunk = &mut self.chunks[newest];
        let begin = chunk.words.len();
        encode(piece, epoch - chunk.since, links.map(|place| place.0), &mut chunk.words);
        chunk.nodes += 1;
        self.len += 1;
        self.end = self.end.plus(chunk.words.len() - begin);
    }

    /// Puts a node behind the others; it is in no chain before [`Self::link_all`].
    pub fn add(&mut self, epoch: Epoch, piece: &Effect<'_>) {
        let place = self.next(epoch, piece);
        self.push(epoch, piece, [place; 3]);
    }

    /// Links every node, oldest first, to the places that `links` gives for its keys and its place.
    pub fn link_all(&mut self, mut links: impl FnMut([Option<u32>; 3], NodePlace) -> [NodePlace; 3]) {
        let mut place = self.oldest;
        for chunk in &mut self.chunks {
            let mut at = place.word();
            while at < chunk.words.len() {
                let node = Node::new(&chunk.words[at..], chunk.since);
                let (keys, words) = (Chain::ALL.map(|chain| node.key(chain)), node.words());
                let linked_at = Chain::ALL.map(|chain| at + node.link_at(chain));
                let links = links(keys, place);
                for chain in Chain::ALL.into_iter().filter(|&chain| keys[chain as usize].is_some()) {
                    chunk.words[linked_at[chain as usize]] = links[chain as usize].0;
                }
                (at, place) = (at + words, place.plus(words));
            }
            place = if place.word() == 0 { place } else { place.next_chunk() };
        }
    }

    /// Forgets the nodes up to this epoch.
    pub fn forget_upto(&mut self, epoch: Epoch) {
        while self.chunks.get(1).is_some_and(|next| next.since <= epoch) {
            self.leave_chunk();
        }
        while self.lives(self.oldest) && self.get(self.oldest).epoch() <= epoch {
            if self.chunks[0].nodes == 1 {
                self.leave_chunk();
            } else {
                self.oldest = self.oldest.plus(self.get(self.oldest).words());
                self.chunks[0].nodes -= 1;
                self.len -= 1;
            }
        }
    }

    /// Forgets the oldest chunk.
    fn leave_chunk(&mut self) {
        self.len -= u64::from(self.chunks[0].nodes);
        self.chunks.pop_front();
        self.oldest = self.oldest.next_chunk();
        if self.chunks.is_empty() {
            self.end = self.oldest;
            self.chunks.shrink_to_fit();
        }
    }

    /// Behind the newest node: where the next one will be, or before it in the chunk that this one ends.
    pub fn end(&self) -> NodePlace {
        self.end
    }

    /// The first place from `from` on whose node, if there is one, is of a later epoch than this one.
    pub fn behind(&self, from: NodePlace, epoch: Epoch) -> NodePlace {
        let mut place = self.at_least_oldest(from);
        while place != self.end {
            if self.chunks[self.chunk(place)].words.len() <= place.word() {
                // A chunk that ended early.
                place = place.next_chunk();
                continue;
            }
            let node = self.get(place);
            if node.epoch() > epoch {
                break;
            }
            place = place.plus(node.words());
        }
        place
    }

    /// This place, or the oldest node's where that lies behind it.
    pub fn at_least_oldest(&self, place: NodePlace) -> NodePlace {
        if self.lives(place) || place == self.end { place } else { self.oldest }
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Node<'_>> {
        self.iter_from(self.oldest)
    }

    /// Those from this place on; all, where it is that of a forgotten node.
    pub fn iter_from(&self, from: NodePlace) -> impl Iterator<Item = Node<'_>> {
        let from = self.at_least_oldest(from);
        let mut first = from.word();
        self.chunks.iter().skip(self.chunk(from)).flat_map(move |chunk| {
            let mut at = std::mem::take(&mut first);
            iter::from_fn(move || {
                let node = (at < chunk.words.len()).then(|| Node::new(&chunk.words[at..], chunk.since))?;
                at += node.words();
                Some(node)
            })
        })
    }
}
