//! The fingerprints that CAFTL has in memory, and its two ways of computing fewer of them.

use onefold_engine::fingerprint::Fingerprint;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// MD5, a block's number and a count of references.
const ENTRY_BYTES: u64 = 21;

/// An entry: the block, its references, and the number of its last use.
#[derive(Clone, Copy)]
struct Entry {
    pbn: u32,
    references: u32,
    used: u64,
}

/// The fingerprints in memory.
pub(super) struct Fingerprints {
    most: u64,
    entries: FxHashMap<Fingerprint, Entry>,
    /// The entries by their references and then by their last use: the first one leaves first.
    order: BTreeSet<(u32, u64, Fingerprint)>,
    uses: u64,
    /// The CRCs that were seen, if there is pre-hashing. They take no memory here.
    seen: Option<FxHashSet<u32>>,
}

impl Fingerprints {
    pub fn new(memory_bytes: u64, has_pre_hashing: bool) -> Self {
        Self {
            most: (memory_bytes / ENTRY_BYTES).max(1),
            entries: FxHashMap::default(),
            order: BTreeSet::new(),
            uses: 0,
            seen: has_pre_hashing.then(FxHashSet::default),
        }
    }

    /// Whether a block is fingerprinted: with pre-hashing, if its CRC was seen before. A part of its fingerprint stands for the CRC.
    pub fn takes(&mut self, content: &Fingerprint) -> bool {
        let Some(seen) = &mut self.seen else { return true };
        let [a, b, c, d, ..] = content.0;
        !seen.insert(u32::from_le_bytes([a, b, c, d]))
    }

    /// Returns the block with a content. It has a reference more from now on.
    pub fn find(&mut self, content: &Fingerprint) -> Option<u32> {
        let entry = *self.entries.get(content)?;
        self.place(*content, entry.pbn, entry.references.saturating_add(1));
        Some(entry.pbn)
    }

    /// Notes that a block was written with this content.
    pub fn note(&mut self, content: Fingerprint, pbn: u32) {
        if self.entries.len() as u64 >= self.most && !self.entries.contains_key(&content) {
            let (_, _, least) = self.order.pop_first().expect("a store that is full has an entry");
            self.entries.remove(&least);
        }
        self.place(content, pbn, 1);
    }

    fn place(&mut self, content: Fingerprint, pbn: u32, references: u32) {
        self.uses += 1;
        let entry = Entry { pbn, references, used: self.uses };
        if let Some(before) = self.entries.insert(content, entry) {
            self.order.remove(&(before.references, before.used, content));
        }
        self.order.insert((references, entry.used, content));
    }

    /// Notes that a block was freed.
    pub fn forget(&mut self, content: &Fingerprint, pbn: u32) {
        if let Some(entry) = self.entries.get(content).filter(|entry| entry.pbn == pbn) {
            self.order.remove(&(entry.references, entry.used, *content));
            self.entries.remove(content);
        }
    }

    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(n: u8) -> Fingerprint {
        Fingerprint([n; 20])
    }

    #[test]
    fn the_fewest_references_leave_first_and_the_oldest_of_several() {
        let mut store = Fingerprints::new(3 * ENTRY_BYTES, false);
        (1..=3).for_each(|n| store.note(content(n), u32::from(n)));
        assert_eq!(store.find(&content(1)), Some(1));
        store.note(content(4), 4);
        assert_eq!((store.find(&content(2)), store.find(&content(1)), store.len()), (None, Some(1), 3));
        store.forget(&content(1), 9);
        assert_eq!(store.find(&content(1)), Some(1), "another block has it");
        store.forget(&content(1), 1);
        assert_eq!(store.find(&content(1)), None);
    }

    #[test]
    fn pre_hashing_misses_the_first_repetition() {
        let mut store = Fingerprints::new(1 << 20, true);
        assert!(!store.takes(&content(1)), "nothing has this CRC, so it is written without a fingerprint");
        assert!(store.takes(&content(1)) && store.find(&content(1)).is_none(), "and is not found when it comes again");
        store.note(content(1), 7);
        assert!(store.takes(&content(1)) && store.find(&content(1)) == Some(7));
    }
}
