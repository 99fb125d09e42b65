//! The index: fingerprint → PBN, in memory, within its share of the budget.
//!
//! 1. The index is advice: the fingerprint table, or a pending block, confirms a match before anything is linked to it.
//! 2. An entry has eight bytes: 28 bits of the fingerprint, and a PBN of 36 bits. Buckets have eight entries. Two different contents agree
//!    in bucket and tag by chance once in about 2^28 look-ups, which costs one needless look into the table.
//! 3. Each bucket evicts its least recently used entry.

use crate::fingerprint::Fingerprint;
use crate::format::page::PageId;
use crate::units::{Pbn, index};
use std::hint::black_box;

const WAYS: usize = 8;
/// The bytes of a bucket: one line of the processor's cache, so that a look-up waits for memory once.
const LINE_BYTES: usize = 64;
const _: () = assert!(WAYS * size_of::<u64>() == LINE_BYTES);
const PBN_BITS: u32 = 36;

/// The index in memory.
pub(crate) struct Index {
    /// The tag, above PBN + 1; 0 is an empty entry. The most recently used entry of a bucket is its first.
    entries: Box<[u64]>,
    /// The first entry that begins a cache line.
    first: usize,
    buckets: u64,
    used: u64,
    /// The page that the next look-up has to wait for.
    #[cfg(test)]
    pub absent: Option<PageId>,
}

impl Index {
    /// Makes an index with as many entries as fit in `bytes`, but no more than `blocks` blocks can fill.
    pub fn new(bytes: u64, blocks: u64) -> Self {
        let room = bytes / 8;
        let entries = room.min(blocks.saturating_mul(2)).max(64);
        let buckets = (entries / 8).max(1);
        let entries = vec![0; index(buckets) * WAYS + WAYS - 1].into_boxed_slice();
        // `align_offset` may fail, which costs speed only.
        let first = entries.as_ptr().align_offset(LINE_BYTES).min(WAYS - 1);
        Self {
            entries,
            first,
            buckets,
            used: 0,
            #[cfg(test)]
            absent: None,
        }
    }

    /// The number of entries in use.
    pub fn len(&self) -> u64 {
        self.used
    }

    /// The number of entries that fit.
    pub fn capacity(&self) -> u64 {
        self.buckets * 8
    }

    /// The first entry of a fingerprint's bucket, and the fingerprint's tag.
    fn place(&self, fp: &Fingerprint) -> (usize, u64) {
        let head = fp.head();
        // The head's high part selects the bucket (by multiply and shift, for any number of buckets). Its low 28 bits are the tag.
        let bucket = index(((head >> 28) * self.buckets) >> 36);
        let tag = (head & ((1 << 28) - 1)) << PBN_BITS;
        (self.first + bucket * WAYS, tag)
    }

    fn bucket(&mut self, fp: &Fingerprint) -> (&mut [u64], u64) {
        let (at, tag) = self.place(fp);
        (&mut self.entries[at..][..WAYS], tag)
    }

    /// Brings the buckets of these fingerprints into the processor's cache. Their waits for memory overlap here; look-ups with work between
    /// them would wait one by one.
    pub fn warm(&self, fps: impl Iterator<Item = Fingerprint>) {
        black_box(fps.fold(0, |sum, fp| sum ^ self.entries[self.place(&fp).0]));
    }

    /// Returns the block that may hold this content.
    ///
    /// # Errors
    /// Returns the page that has to come into memory first, if the answer lies on the medium; the caller waits for it and asks again. The
    /// level in memory, which is the only one so far, always has its answer.
    pub fn look_up(&mut self, fp: &Fingerprint) -> Result<Option<Pbn>, PageId> {
        #[cfg(test)]
        if let Some(page) = self.absent.take() {
            return Err(page);
        }
        Ok(self.get(fp))
    }

    /// The block that may hold this content, by the level in memory. Its entry becomes the most recently used.
    fn get(&mut self, fp: &Fingerprint) -> Option<Pbn> {
        let (bucket, tag) = self.bucket(fp);
        let at = bucket.iter().position(|&e| e != 0 && e & !((1 << PBN_BITS) - 1) == tag)?;
        bucket[..=at].rotate_right(1);
        Some(Pbn((bucket[0] & ((1 << PBN_BITS) - 1)) - 1))
    }

    /// Makes `pbn` the block with this content, instead of any other block.
    pub fn insert(&mut self, fp: &Fingerprint, pbn: Pbn) {
        let (bucket, tag) = self.bucket(fp);
        let at = bucket.iter().position(|&e| e == 0 || e & !((1 << PBN_BITS) - 1) == tag).unwrap_or(WAYS - 1);
        let is_new = bucket[at] == 0;
        bucket[..=at].rotate_right(1);
        bucket[0] = tag | (pbn.0 + 1);
        self.used += u64::from(is_new);
    }

    /// Makes `pbn` the block with this content if no block is, and if the bucket has an empty entry. An index rebuild may do only this.
    pub fn offer(&mut self, fp: &Fingerprint, pbn: Pbn) -> bool {
        let (bucket, tag) = self.bucket(fp);
        for entry in bucket {
            if *entry == 0 {
                *entry = tag | (pbn.0 + 1);
                self.used += 1;
                return true;
            }
            if *entry & !((1 << PBN_BITS) - 1) == tag {
                return false;
            }
        }
        false
    }

    /// Removes the entry that says that `pbn` holds this content.
    pub fn remove(&mut self, fp: &Fingerprint, pbn: Pbn) {
        let (bucket, tag) = self.bucket(fp);
        if let Some(at) = bucket.iter().position(|&e| e == tag | (pbn.0 + 1)) {
            bucket[at..].rotate_left(1);
            bucket[WAYS - 1] = 0;
            self.used -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fp(n: u64) -> Fingerprint {
        Fingerprint::of_digest(blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    #[test]
    fn finds_what_was_inserted_and_not_what_was_removed() {
        let mut index = Index::new(1 << 20, 1 << 20);
        (0..10_000).for_each(|n| index.insert(&fp(n), Pbn(n)));
        let found = (0..10_000).filter(|&n| index.get(&fp(n)) == Some(Pbn(n))).count();
        assert!(found > 9_990, "{found} of 10,000 with room for 131,072");
        index.remove(&fp(5), Pbn(5));
        assert_eq!(index.get(&fp(5)), None);
        index.remove(&fp(6), Pbn(7));
        assert_eq!(index.get(&fp(6)), Some(Pbn(6)), "only the entry of that very block is removed");
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut index = Index::new(512, 1 << 20);
        assert_eq!(index.capacity(), 64);
        (0..1000).for_each(|n| {
            index.insert(&fp(0), Pbn(0));
            index.insert(&fp(n), Pbn(n));
        });
        assert_eq!(index.get(&fp(0)), Some(Pbn(0)));
        assert_eq!(index.len(), 64);
    }

    #[test]
    fn a_second_block_with_the_same_content_takes_the_place_of_the_first() {
        let mut index = Index::new(1 << 20, 1 << 20);
        index.insert(&fp(1), Pbn(5));
        index.insert(&fp(1), Pbn(9));
        assert_eq!((index.len(), index.get(&fp(1))), (1, Some(Pbn(9))));
        index.remove(&fp(1), Pbn(9));
        assert_eq!((index.len(), index.get(&fp(1))), (0, None), "the first does not come back");
    }

    #[test]
    fn an_offer_replaces_no_entry_and_adds_no_second_one() {
        let mut index = Index::new(1 << 20, 1 << 20);
        index.insert(&fp(1), Pbn(5));
        assert!(!index.offer(&fp(1), Pbn(9)));
        assert_eq!((index.len(), index.get(&fp(1))), (1, Some(Pbn(5))));
        index.remove(&fp(1), Pbn(5));
        assert_eq!((index.len(), index.get(&fp(1))), (0, None));
        assert!(index.offer(&fp(1), Pbn(9)));
        assert_eq!((index.len(), index.get(&fp(1))), (1, Some(Pbn(9))));
    }
}
