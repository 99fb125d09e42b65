//! The places of content that was read, and is likely to be written again soon (Using Hints, section 4.1).
//!
//! 1. An entry goes when content is found by it: a copy is written once.
//! 2. Entries are advice, as those of the index: a block is linked to only when its own entry confirms the content. So an entry that is
//!    older than its block leads nowhere.
//! 3. Content whose read brought the hint enters as a whole. Of other content a sample does, where the index may not have all: the first
//!    block of a copy that is found leads to the next ones (`runs.rs`).
//! 4. There is room for a fixed number of entries; the oldest goes first.

use crate::fingerprint::Fingerprint;
use crate::map::Map;
use crate::units::{Pbn, index};
use std::collections::VecDeque;

/// The bytes that an entry takes: its fingerprint twice, its block, and the room that a table leaves free.
const ENTRY_BYTES: u64 = 80;
/// One fingerprint in this many is in the sample.
const SAMPLED: u64 = 8;

/// The places of content that was read.
pub(crate) struct Prefetched {
    places: Map<Fingerprint, Pbn>,
    /// The fingerprints in the order of their coming. Some have left the places since.
    order: VecDeque<Fingerprint>,
    room: usize,
    hits: u64,
}

/// Counts of content that was read and written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounts {
    pub entries: u64,
    pub capacity: u64,
    /// Blocks of content that was found by them.
    pub hits: u64,
}

impl Prefetched {
    /// Makes it with as many entries as fit in `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { places: Map::default(), order: VecDeque::new(), room: index(bytes / ENTRY_BYTES), hits: 0 }
    }

    /// The most bytes that it takes.
    pub fn bytes(&self) -> u64 {
        crate::units::count(self.room) * ENTRY_BYTES
    }

    /// Whether content with this fingerprint is in the sample.
    pub fn samples(fp: &Fingerprint) -> bool {
        fp.head() % SAMPLED == 0
    }

    /// Notes that a block has this content, or a slot of it.
    pub fn note(&mut self, fp: Fingerprint, pbn: Pbn) {
        if self.room == 0 || self.places.insert(fp, pbn).is_some() {
            return;
        }
        self.order.push_back(fp);
        let oldest = if self.order.len() > self.room { self.order.pop_front() } else { None };
        if let Some(oldest) = oldest {
            self.places.remove(&oldest);
        }
    }

    /// The block that has this content, or had it.
    pub fn place(&self, fp: &Fingerprint) -> Option<Pbn> {
        if self.places.is_empty() { None } else { self.places.get(fp).copied() }
    }

    /// Removes the entry of this content, by which nothing was found.
    pub fn forget(&mut self, fp: &Fingerprint) {
        self.places.remove(fp);
    }

    /// Notes that content was written whose fingerprint this is, and that a duplicate of it was found in this block.
    pub fn found(&mut self, fp: &Fingerprint, pbn: Pbn) {
        if self.place(fp) == Some(pbn) {
            self.forget(fp);
            self.hits += 1;
        }
    }

    /// Its counts.
    pub fn counts(&self) -> PrefetchCounts {
        use crate::units::count;
        PrefetchCounts { entries: count(self.places.len()), capacity: count(self.room), hits: self.hits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fp(n: u64) -> Fingerprint {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Fingerprint(bytes)
    }

    #[test]
    fn an_entry_goes_when_it_hits_or_is_the_oldest() {
        let mut read = Prefetched::new(4 * ENTRY_BYTES);
        (1..=5).for_each(|n| read.note(fp(n), Pbn(10 * n)));
        assert_eq!(
            (1..=5).map(|n| read.place(&fp(n)).map(|pbn| pbn.0)).collect::<Vec<_>>(),
            [None, Some(20), Some(30), Some(40), Some(50)]
        );
        read.found(&fp(3), Pbn(31));
        assert_eq!((read.place(&fp(3)), read.counts().hits), (Some(Pbn(30)), 0), "it was found elsewhere");
        read.found(&fp(3), Pbn(30));
        assert_eq!((read.place(&fp(3)), read.counts()), (None, PrefetchCounts { entries: 3, capacity: 4, hits: 1 }));
        read.note(fp(4), Pbn(44));
        assert_eq!(read.place(&fp(4)), Some(Pbn(44)), "the newest place counts");
        read.forget(&fp(4));
        assert_eq!(read.place(&fp(4)), None);
    }

    #[test]
    fn without_room_nothing_is_noted() {
        let mut read = Prefetched::new(ENTRY_BYTES - 1);
        read.note(fp(1), Pbn(1));
        assert_eq!((read.place(&fp(1)), read.bytes()), (None, 0));
    }
}
