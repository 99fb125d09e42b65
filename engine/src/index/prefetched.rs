//! The places of content that was read, and is likely to be written again soon (Using Hints, section 4.1).
//!
//! 1. An entry goes when content was found by it as often as it was read: a copy is written once, and all of it may be read before.
//! 2. Entries are advice, as those of the index: a block is linked to only when its own entry confirms the content. So an entry that is
//!    older than its block leads nowhere.
//! 3. Content whose read brought the hint enters as a whole. Of other content a sample does, where the index may not have all: the first
//!    block of a copy that is found leads to the next ones (`runs.rs`).
//! 4. There is room for a fixed number of entries. The oldest goes first, and those of the sample go last: where there is not room for all
//!    that was read, they still lead to it.

use crate::fingerprint::Fingerprint;
use crate::map::Map;
use crate::units::{Pbn, count, index};
use std::collections::VecDeque;

/// The bytes that an entry takes: its fingerprint twice, its block, and the room that a table leaves free.
const ENTRY_BYTES: u64 = 80;
/// One fingerprint in this many is in the sample.
const SAMPLED: u64 = 8;

/// The places of content that was read.
pub(crate) struct Prefetched {
    entries: Map<Fingerprint, Entry>,
    /// The order in which those of the sample, and the others, have come.
    sampled: Order,
    others: Order,
    /// The number of the next entry.
    next: u64,
    room: usize,
    hits: u64,
}

/// Fingerprints with their numbers, in the order of their coming. The entries of some are gone, or have come again.
type Order = VecDeque<(Fingerprint, u64)>;

/// The place of content that was read.
struct Entry {
    pbn: Pbn,
    number: u64,
    /// The times that it was read, and not yet found.
    reads: u32,
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
        let room = index(bytes / ENTRY_BYTES);
        Self { entries: Map::default(), sampled: Order::new(), others: Order::new(), next: 0, room, hits: 0 }
    }

    /// The most bytes that it takes.
    pub fn bytes(&self) -> u64 {
        count(self.room) * ENTRY_BYTES
    }

    /// Whether content with this fingerprint is in the sample.
    pub fn samples(fp: &Fingerprint) -> bool {
        fp.head() % SAMPLED == 0
    }

    /// Notes that a block has this content, or a slot of it.
    pub fn note(&mut self, fp: Fingerprint, pbn: Pbn) {
        if self.room == 0 {
            return;
        }
        let number = self.next;
        match self.entries.get_mut(&fp) {
            Some(entry) => *entry = Entry { pbn, number, reads: entry.reads.saturating_add(1) },
            None => {
                if self.entries.len() == self.room {
                    self.forget_oldest();
                }
                self.entries.insert(fp, Entry { pbn, number, reads: 1 });
            }
        }
        if Self::samples(&fp) { &mut self.sampled } else { &mut self.others }.push_back((fp, number));
        self.next += 1;
        if self.sampled.len() + self.others.len() > 2 * self.room {
            let entries = &self.entries;
            let is_its = |(fp, number): &(Fingerprint, u64)| entries.get(fp).is_some_and(|entry| entry.number == *number);
            self.sampled.retain(is_its);
            self.others.retain(is_its);
        }
    }

    fn forget_oldest(&mut self) {
        while let Some((fp, number)) = self.others.pop_front().or_else(|| self.sampled.pop_front()) {
            if self.entries.get(&fp).is_some_and(|entry| entry.number == number) {
                self.entries.remove(&fp);
                return;
            }
        }
    }

    /// The block that has this content, or had it.
    pub fn place(&self, fp: &Fingerprint) -> Option<Pbn> {
        if self.entries.is_empty() { None } else { self.entries.get(fp).map(|entry| entry.pbn) }
    }

    /// Removes the entry of this content, by which nothing was found.
    pub fn forget(&mut self, fp: &Fingerprint) {
        self.entries.remove(fp);
    }

    /// Notes that content with this fingerprint was written, and found in this block. Returns whether that was by its entry.
    pub fn found(&mut self, fp: &Fingerprint, pbn: Pbn) -> bool {
        let Some(entry) = self.entries.get_mut(fp).filter(|entry| entry.pbn == pbn) else { return false };
        entry.reads -= 1;
        if entry.reads == 0 {
            self.forget(fp);
        }
        self.hits += 1;
        true
    }

    /// Its counts.
    pub fn counts(&self) -> PrefetchCounts {
        PrefetchCounts { entries: count(self.entries.len()), capacity: count(self.room), hits: self.hits }
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
        assert!(read.found(&fp(4), Pbn(44)) && read.place(&fp(4)) == Some(Pbn(44)), "it was read twice");
        read.forget(&fp(4));
        assert_eq!(read.place(&fp(4)), None);
    }

    /// Entries that have hit leave no traces that would push out those that come again.
    #[test]
    fn content_that_comes_again_stays_as_long_as_other_content() {
        let mut read = Prefetched::new(8 * ENTRY_BYTES);
        for round in 0..100 {
            (1..=8).for_each(|n| read.note(fp(n), Pbn(10 * n)));
            assert!((1..=8).all(|n| read.found(&fp(n), Pbn(10 * n))), "round {round}");
            assert!(read.sampled.len() + read.others.len() <= 16, "{} {}", read.sampled.len(), read.others.len());
        }
    }

    /// The entries that lead to the rest of a copy are not pushed out by it.
    #[test]
    fn the_sample_goes_last() {
        let mut read = Prefetched::new(8 * ENTRY_BYTES);
        let (sampled, others): (Vec<u64>, Vec<u64>) = (1..=80).partition(|&n| Prefetched::samples(&fp(n)));
        (1..=80).for_each(|n| read.note(fp(n), Pbn(n)));
        let stayed = |numbers: &[u64]| numbers.iter().filter(|&&n| read.place(&fp(n)).is_some()).copied().collect::<Vec<_>>();
        assert!((5..=12).contains(&sampled.len()), "{sampled:?}");
        assert_eq!(stayed(&sampled), sampled[sampled.len().saturating_sub(8)..]);
        assert_eq!(stayed(&others).len(), 8 - sampled.len().min(8));
    }

    #[test]
    fn without_room_nothing_is_noted() {
        let mut read = Prefetched::new(ENTRY_BYTES - 1);
        read.note(fp(1), Pbn(1));
        assert_eq!((read.place(&fp(1)), read.bytes()), (None, 0));
    }
}
