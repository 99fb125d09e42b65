//! The index: fingerprint → PBN, in memory, within its share of the budget.
//!
//! 1. The index is advice: the fingerprint table, or a pending block, confirms a match before anything is linked to it.
//! 2. An entry has eight bytes: 27 bits of the fingerprint, a PBN of 36 bits, and whether the block is doubtful. Two different contents
//!    agree in bucket and tag by chance once in about 2^27 look-ups, which costs one needless look into the table.
//! 3. A bucket has eight entries, and evicts the least recently used one.
//! 4. Where a bucket has evicted an entry, or had no room for one, content that it does not have may be stored all the same. A bit for each
//!    bucket records that: an index with room for twice the blocks loses entries of one bucket in fifty. Writes of such content enter the
//!    skipped buffer (`skipped.rs`). Their blocks are doubtful until the work out of line has looked for another one: whatever is linked to
//!    them meanwhile has to be mapped to that one, too.

mod ranges;
mod skipped;
mod uncompared;

pub(crate) use ranges::Ranges;
pub use skipped::{Fill, SkippedCounts};
pub(crate) use skipped::{NamedLbn, Skipped};
pub(crate) use uncompared::Uncompared;

use crate::fingerprint::Fingerprint;
use crate::format::page::PageId;
use crate::settings::{INDEX_BYTES_MIN, INDEX_ENTRY_BYTES};
use crate::units::{Pbn, count, index};
use std::hint::black_box;

const WAYS: usize = 8;
/// The bytes of a bucket: one line of the processor's cache, so that a look-up waits for memory once.
const LINE_BYTES: usize = 64;
const _: () = assert!(WAYS * size_of::<u64>() == LINE_BYTES);
const PBN_BITS: u32 = 36;
const DOUBTFUL: u64 = 1 << PBN_BITS;
const TAG_BITS: u32 = u64::BITS - PBN_BITS - 1;
const TAG: u64 = !(DOUBTFUL | (DOUBTFUL - 1));

/// The index in memory.
pub(crate) struct Index {
    /// The tag, above a bit for doubtful blocks, above PBN + 1; 0 is an empty entry. The most recently used entry of a bucket is its first.
    entries: Box<[u64]>,
    /// The first entry that begins a cache line.
    first: usize,
    buckets: u64,
    used: u64,
    /// A bit for each bucket that has evicted an entry, or did not take one in; and their number.
    losses: Box<[u64]>,
    lossy: u64,
    /// Entries that any bucket could have were not taken in.
    lacks_some: bool,
    /// A rebuild has seen all fingerprints.
    is_rebuilt: bool,
    /// It has met a block whose content may be that of another block, which was written meanwhile.
    met_another: bool,
    /// The page that the next look-up has to wait for.
    #[cfg(test)]
    pub absent: Option<PageId>,
}

impl Index {
    /// Makes an index with as many entries as fit in `bytes`, but no more than `blocks` blocks can fill.
    pub fn new(bytes: u64, blocks: u64) -> Self {
        // A bucket has a bit besides its entries, and those that precede the first line are not used.
        let room = bytes.saturating_sub(count(LINE_BYTES)) / (8 * count(LINE_BYTES) + 1) * 8 * count(WAYS);
        let entries = room.min(blocks.saturating_mul(2)).max(INDEX_BYTES_MIN / INDEX_ENTRY_BYTES);
        let buckets = (entries / 8).max(1);
        let entries = vec![0; index(buckets) * WAYS + WAYS - 1].into_boxed_slice();
        // `align_offset` may fail, which costs speed only.
        let first = entries.as_ptr().align_offset(LINE_BYTES).min(WAYS - 1);
        Self {
            entries,
            first,
            buckets,
            used: 0,
            losses: vec![0; index(buckets.div_ceil(64))].into_boxed_slice(),
            lossy: 0,
            lacks_some: false,
            is_rebuilt: false,
            met_another: false,
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

    /// Whether content with this fingerprint is stored nowhere if the index does not find it.
    pub fn is_whole_for(&self, fp: &Fingerprint) -> bool {
        let bucket = self.bucket_of(fp);
        self.is_rebuilt && !self.lacks_some && self.losses[bucket / 64] & 1 << (bucket % 64) == 0
    }

    /// Notes that the bucket of a fingerprint lacks an entry.
    fn loses(&mut self, fp: &Fingerprint) {
        let bucket = self.bucket_of(fp);
        let (bits, bit) = (&mut self.losses[bucket / 64], 1 << (bucket % 64));
        self.lossy += u64::from(*bits & bit == 0);
        *bits |= bit;
    }

    /// The bytes of its memory.
    pub fn bytes(&self) -> u64 {
        count(size_of_val(&*self.entries) + size_of_val(&*self.losses))
    }

    /// Notes that a rebuild has seen all fingerprints, or only some of them. Whether nothing that was written meanwhile can have been
    /// stored before.
    pub fn rebuild_ended(&mut self, saw_all: bool) -> bool {
        self.is_rebuilt = true;
        self.lacks_some |= !saw_all;
        !self.lacks_some && self.lossy == 0 && !self.met_another
    }

    /// The first entry of a fingerprint's bucket, and the fingerprint's tag.
    fn place(&self, fp: &Fingerprint) -> (usize, u64) {
        let head = fp.head();
        let tag = (head & ((1 << TAG_BITS) - 1)) << (u64::BITS - TAG_BITS);
        (self.first + self.bucket_of(fp) * WAYS, tag)
    }

    /// The number of a fingerprint's bucket. The head's high part selects it (by multiply and shift, for any number of buckets), and its
    /// low bits are the tag.
    fn bucket_of(&self, fp: &Fingerprint) -> usize {
        index(((fp.head() >> 28) * self.buckets) >> 36)
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
        let at = bucket.iter().position(|&e| e != 0 && e & TAG == tag)?;
        bucket[..=at].rotate_right(1);
        Some(Pbn((bucket[0] & (DOUBTFUL - 1)) - 1))
    }

    /// Makes `pbn` the block with this content, instead of any other block.
    pub fn insert(&mut self, fp: &Fingerprint, pbn: Pbn) {
        let (bucket, tag) = self.bucket(fp);
        let place = bucket.iter().position(|&e| e == 0 || e & TAG == tag);
        let at = place.unwrap_or(WAYS - 1);
        let is_new = bucket[at] == 0;
        bucket[..=at].rotate_right(1);
        bucket[0] = tag | (pbn.0 + 1);
        self.used += u64::from(is_new);
        if place.is_none() {
            self.loses(fp);
        }
    }

    /// Marks the block that may hold this content as doubtful.
    pub fn doubt(&mut self, fp: &Fingerprint) {
        let (bucket, tag) = self.bucket(fp);
        bucket.iter_mut().filter(|e| **e != 0 && **e & TAG == tag).for_each(|e| *e |= DOUBTFUL);
    }

    /// Ends the doubt about a block: no block before it has its content.
    pub fn end_doubt(&mut self, fp: &Fingerprint, pbn: Pbn) {
        let (bucket, tag) = self.bucket(fp);
        bucket.iter_mut().filter(|e| **e == tag | DOUBTFUL | (pbn.0 + 1)).for_each(|e| *e &= !DOUBTFUL);
    }

    /// Whether the block that may hold this content is doubtful.
    pub fn is_doubtful(&self, fp: &Fingerprint) -> bool {
        let (at, tag) = self.place(fp);
        self.entries[at..][..WAYS].iter().any(|&e| e & (TAG | DOUBTFUL) == tag | DOUBTFUL)
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
            if *entry & TAG == tag {
                self.met_another |= *entry & !DOUBTFUL != tag | (pbn.0 + 1);
                return false;
            }
        }
        self.loses(fp);
        false
    }

    /// Removes the entry that says that `pbn` holds this content.
    pub fn remove(&mut self, fp: &Fingerprint, pbn: Pbn) {
        let (bucket, tag) = self.bucket(fp);
        if let Some(at) = bucket.iter().position(|&e| e & !DOUBTFUL == tag | (pbn.0 + 1)) {
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
    fn only_buckets_that_have_lost_an_entry_leave_what_they_lack_open() {
        let mut index = Index::new(1 << 20, 10_000);
        assert!(!index.is_whole_for(&fp(0)), "nobody has filled it yet");
        assert!(index.rebuild_ended(true));
        (0..10_000).for_each(|n| index.insert(&fp(n), Pbn(n)));
        let open = (10_000..20_000).filter(|&n| !index.is_whole_for(&fp(n))).count();
        assert!((20..800).contains(&open), "{open} of 10,000");
        (0..10_000).for_each(|n| assert!(index.get(&fp(n)).is_some() || !index.is_whole_for(&fp(n)), "{n} was evicted"));
        assert!(!index.rebuild_ended(true), "what was written meanwhile may have been stored before");
        let mut index = Index::new(1 << 20, 10_000);
        assert!(!index.rebuild_ended(false) && !index.is_whole_for(&fp(0)), "not all was seen");
    }

    #[test]
    fn doubt_about_a_block_ends_with_another_block_or_with_certainty() {
        let mut index = Index::new(1 << 20, 1 << 20);
        index.insert(&fp(1), Pbn(5));
        assert!(!index.is_doubtful(&fp(1)));
        index.doubt(&fp(1));
        assert!(index.is_doubtful(&fp(1)) && !index.is_doubtful(&fp(2)));
        assert_eq!(index.get(&fp(1)), Some(Pbn(5)), "it is found all the same");
        index.end_doubt(&fp(1), Pbn(6));
        assert!(index.is_doubtful(&fp(1)), "that is another block");
        index.end_doubt(&fp(1), Pbn(5));
        assert!(!index.is_doubtful(&fp(1)));
        index.doubt(&fp(1));
        index.insert(&fp(1), Pbn(3));
        assert_eq!((index.is_doubtful(&fp(1)), index.get(&fp(1))), (false, Some(Pbn(3))));
        index.doubt(&fp(1));
        index.remove(&fp(1), Pbn(3));
        assert_eq!((index.len(), index.is_doubtful(&fp(1))), (0, false));
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
