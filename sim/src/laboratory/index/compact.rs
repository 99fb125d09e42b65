//! A candidate for Onefold's index: compact entries in buckets of a cache line, over sorted runs on the medium.
//!
//! 1. An entry has as many bits of the PBN as the volume needs, a bit that says whether the medium has it, and 12 bits of the fingerprint;
//!    with little memory for many blocks it has more, so that bucket and entry together tell most fingerprints apart. With 2^25 blocks that
//!    makes 13 entries a line.
//! 2. A bucket is a list by recency. Of a full one the least recently used entry leaves that the medium has; if it has none of them, the
//!    least recently used one is lost.
//! 3. When half of the entries are not on the medium, these become a run. As long as memory has room for all, nothing is written or looked
//!    up.
//! 4. The block after that of the last duplicate is tried, too, for the next LBN: its fingerprint is on the page that was just read.
//! 5. A quarter of the memory is for the filter of the runs if that is at least three bits for each block of the volume. It has no more
//!    than ten bits for each entry.

use super::interface::{Index, IndexIo, Skipped};
use super::runs::Runs;
use super::stored::{Pbn, Stored};
use super::writes::{Content, fingerprint};

const TAG_BITS_MIN: u32 = 12;
/// The bits of bucket and tag exceed those of the PBN by at least this number.
const BITS_BEYOND: u32 = 5;
const LINE_BYTES: u64 = 64;
/// The bits of an entry of the filter: at least these, or there is none, and at most these.
const FILTER_BITS: (f64, f64) = (3.0, 10.0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u32,
    pbn: Pbn,
    is_on_medium: bool,
}

impl Entry {
    fn is(self, tag: u32, pbn: Pbn) -> bool {
        self.tag == tag && self.pbn == pbn
    }
}

/// The index.
#[derive(Debug)]
pub struct Compact {
    filter_bytes: u64,
    tag_bits: u32,
    ways: usize,
    /// The entries of each bucket, the most recent first.
    buckets: Vec<Vec<Entry>>,
    used: u64,
    /// The entries that are not on the medium.
    unwritten: u64,
    /// The last duplicate: its LBN and its block.
    last: Option<(u32, Pbn)>,
    runs: Runs,
    /// Whether the runs have the fingerprint of a block.
    has: Vec<bool>,
    /// Entries that left although the medium does not have them.
    lost: u64,
}

impl Compact {
    /// Makes an empty index for a volume of at most this many blocks.
    #[must_use]
    pub fn new(bytes: u64, blocks: u64) -> Self {
        let filter_bytes = if (bytes / 4 * 8) as f64 >= blocks as f64 * FILTER_BITS.0 { bytes / 4 } else { 0 };
        let buckets = ((bytes - filter_bytes) / LINE_BYTES).max(1);
        let pbn_bits = blocks.max(1).ilog2() + 1;
        let tag_bits = TAG_BITS_MIN.max((pbn_bits + BITS_BEYOND).saturating_sub(buckets.ilog2()));
        Self {
            filter_bytes,
            tag_bits,
            ways: (LINE_BYTES as u32 * 8 / (tag_bits + pbn_bits + 1)) as usize,
            buckets: vec![Vec::new(); usize::try_from(buckets).expect("it fits in memory")],
            used: 0,
            unwritten: 0,
            last: None,
            runs: Runs::default(),
            has: vec![false; usize::try_from(blocks).expect("it fits in memory")],
            lost: 0,
        }
    }

    fn place(&self, content: Content) -> (usize, u32) {
        let fp = fingerprint(content);
        let bucket = (u128::from(fp) * self.buckets.len() as u128) >> 64;
        (usize::try_from(bucket).expect("less than the number of buckets"), (fp & ((1 << self.tag_bits) - 1)) as u32)
    }

    fn put(&mut self, content: Content, pbn: Pbn, is_on_medium: bool) {
        let (bucket, tag) = self.place(content);
        let line = &mut self.buckets[bucket];
        if line.len() == self.ways {
            let gone = line.iter().rposition(|entry| entry.is_on_medium);
            self.lost += u64::from(gone.is_none());
            let gone = line.remove(gone.unwrap_or(self.ways - 1));
            self.used -= 1;
            self.unwritten -= u64::from(!gone.is_on_medium);
        }
        line.insert(0, Entry { tag, pbn, is_on_medium });
        self.used += 1;
        self.unwritten += u64::from(!is_on_medium);
    }

    /// Writes a run, if half of the entries are not on the medium.
    fn write_run(&mut self, stored: &Stored) {
        if self.unwritten * 2 < self.buckets.len() as u64 * self.ways as u64 {
            return;
        }
        let entries = self.runs.entries() + self.unwritten;
        self.runs.add(self.unwritten, (stored.used() as f64 / entries as f64).min(1.0));
        for entry in self.buckets.iter_mut().flatten().filter(|entry| !entry.is_on_medium) {
            entry.is_on_medium = true;
            self.has[entry.pbn as usize] = true;
        }
        self.unwritten = 0;
    }

    fn is_in_memory(&self, content: Content, pbn: Pbn) -> bool {
        let (bucket, tag) = self.place(content);
        self.buckets[bucket].iter().any(|entry| entry.is(tag, pbn))
    }

    fn by_fingerprint(&mut self, content: Content, stored: &Stored) -> Option<Pbn> {
        let (bucket, tag) = self.place(content);
        let line = &mut self.buckets[bucket];
        for at in 0..line.len() {
            if line[at].tag == tag {
                let pbn = line[at].pbn;
                if stored.holds(pbn, content) {
                    line[..=at].rotate_right(1);
                    return Some(pbn);
                }
            }
        }
        None
    }

    /// The block after the last duplicate's, if this LBN follows that one and the block has this content.
    fn after_the_last(&self, content: Content, lbn: u32, stored: &Stored) -> Option<Pbn> {
        let (last, pbn) = self.last?;
        (lbn == last + 1 && stored.holds(pbn + 1, content)).then_some(pbn + 1)
    }
}

impl Index for Compact {
    fn look_up(&mut self, content: Content, lbn: u32, stored: &Stored) -> Option<Pbn> {
        let found = self.by_fingerprint(content, stored).or_else(|| self.after_the_last(content, lbn, stored));
        self.last = found.map(|pbn| (lbn, pbn)).or(self.last);
        found
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, stored: &Stored) {
        self.has[pbn as usize] = false;
        self.put(content, pbn, false);
        self.write_run(stored);
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        let (bucket, tag) = self.place(content);
        let line = &mut self.buckets[bucket];
        if let Some(at) = line.iter().position(|entry| entry.is(tag, pbn)) {
            let gone = line.remove(at);
            self.used -= 1;
            self.unwritten -= u64::from(!gone.is_on_medium);
        }
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        if self.runs.entries() == 0 {
            return vec![None; skipped.len()];
        }
        // The oldest block of a content stays, so that of several the later ones go.
        let other = |one: &Skipped| {
            let known = |pbn: Pbn| self.has[pbn as usize] || self.is_in_memory(one.content, pbn);
            stored.holders(one.content).filter(|&pbn| pbn != one.pbn && known(pbn)).last()
        };
        let found: Vec<Option<Pbn>> = skipped.iter().map(other).collect();
        let bits = (self.filter_bytes as f64 * 8.0 / self.runs.entries() as f64).min(FILTER_BITS.1);
        // Two bits of an entry say where it is.
        let passes = if self.filter_bytes == 0 { 1.0 } else { 2f64.powf(2.0 - bits).min(1.0) };
        self.runs.look_up(skipped.len() as u64, found.iter().flatten().count() as u64, passes);
        for (one, pbn) in skipped.iter().zip(&found) {
            if let Some(pbn) = pbn.filter(|&pbn| !self.is_in_memory(one.content, pbn)) {
                self.put(one.content, pbn, true);
            }
        }
        found
    }

    fn io(&self) -> IndexIo {
        self.runs.io
    }

    fn resident(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index with one bucket over contents that were stored in the order of their numbers: content n + 1 in block n.
    fn with_one_bucket(contents: u32) -> (Compact, Stored) {
        let (mut index, mut stored) = (Compact::new(64, 1 << 20), Stored::new(contents, contents + 1));
        for lbn in 0..contents {
            let pbn = stored.store(lbn + 1);
            stored.link(lbn, Some(pbn));
            index.insert(lbn + 1, pbn, lbn, &stored);
        }
        (index, stored)
    }

    #[test]
    fn what_the_medium_has_leaves_first_and_the_rest_becomes_a_run() {
        let (mut index, stored) = with_one_bucket(6);
        assert_eq!((index.ways, index.used, index.runs.entries()), (10, 6, 5), "half of the entries have become a run");
        assert_eq!((index.look_up(1, 90, &stored), index.look_up(7, 91, &stored)), (Some(0), None));
        let (mut index, stored) = with_one_bucket(12);
        assert_eq!((index.used, index.lost), (10, 0));
        assert_eq!(index.look_up(1, 90, &stored), None, "the least recently used one of the run has left");
        let skipped = Skipped { lbn: 90, pbn: 99, content: 1 };
        assert_eq!(index.find_out_of_line(&[skipped], &stored), [Some(0)], "and is found on the medium");
        assert_eq!(index.look_up(1, 92, &stored), Some(0), "from where it has come back");
    }

    #[test]
    fn a_copy_is_followed_beyond_what_memory_has_room_for() {
        let found = |step: u32| {
            let (mut index, stored) = with_one_bucket(100);
            index.put(11, 10, true);
            (0..20).filter(|n| index.look_up(11 + n, 500 + n * step, &stored) == Some(10 + n)).count()
        };
        assert_eq!(found(1), 20);
        assert_eq!(found(2), 1, "only LBNs in sequence are followed");
    }
}
