//! CAFTL's index (Chen, Luo and Zhang, FAST '11), as SmartDedup compares with it (sections 4 to 4.2): in line only.
//!
//! 1. Sampling: of a request of several blocks the first is fingerprinted, and the others only if it was found.
//! 2. Pre-hashing: a block is fingerprinted only if its CRC32 was seen before. The set of CRCs takes no memory here.
//! 3. The fingerprint with the fewest references leaves memory first, the oldest of several. An entry takes 21 bytes: MD5, a PBN, a count.

use super::interface::Index;
use super::known::Known;
use super::recency::Recency;
use super::stored::{Pbn, Stored};
use super::writes::{Content, fingerprint};

const ENTRY_BYTES: u64 = 21;
/// Counts beyond this are all alike.
const COUNT_MAX: u8 = 64;

/// The index.
#[derive(Debug)]
pub struct Caftl {
    entries_max: u64,
    known: Known,
    counts: Vec<u8>,
    /// The contents in memory, a list for each number of references.
    by_count: Recency,
    /// A bit for each CRC that was seen, if there is pre-hashing.
    seen: Option<Vec<u64>>,
    /// Whether the first block of this request was found; none while it is being looked up.
    was_found: Option<bool>,
}

impl Caftl {
    /// Makes an empty index.
    #[must_use]
    pub fn new(bytes: u64, contents: u32, has_pre_hashing: bool) -> Self {
        Self {
            entries_max: (bytes / ENTRY_BYTES).max(1),
            known: Known::new(contents),
            counts: vec![0; contents as usize],
            by_count: Recency::of_lists(contents, COUNT_MAX + 1),
            seen: has_pre_hashing.then(|| vec![0; 1 << 26]),
            was_found: None,
        }
    }

    fn count(&mut self, content: Content, count: u8) {
        self.counts[content as usize] = count;
        self.by_count.touch_in(content, count);
    }
}

impl Index for Caftl {
    fn takes(&mut self, content: Content, is_first: bool) -> bool {
        if is_first {
            self.was_found = None;
        }
        if self.was_found == Some(false) {
            return false;
        }
        let Some(seen) = &mut self.seen else { return true };
        let crc = fingerprint(content) >> 32;
        let (word, bit) = ((crc / 64) as usize, 1u64 << (crc % 64));
        let was_seen = seen[word] & bit != 0;
        seen[word] |= bit;
        if !was_seen {
            self.was_found.get_or_insert(false);
        }
        was_seen
    }

    fn look_up(&mut self, content: Content, _lbn: u32, _stored: &Stored) -> Option<Pbn> {
        let pbn = self.known.get(content);
        self.was_found.get_or_insert(pbn.is_some());
        if pbn.is_some() {
            self.count(content, self.counts[content as usize].saturating_add(1).min(COUNT_MAX));
        }
        pbn
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        if self.known.get(content).is_none() {
            if self.known.len() >= self.entries_max {
                let least = self.by_count.pop().expect("an index that is full has an entry");
                self.known.take(least);
            }
            self.count(content, 1);
        }
        self.known.put(content, pbn);
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        if self.known.get(content) == Some(pbn) {
            self.known.take(content);
            self.by_count.remove(content);
        }
    }

    fn resident(&self) -> u64 {
        self.known.len()
    }
}
