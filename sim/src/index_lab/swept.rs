//! Onefold's policy: the index of the engine in memory, and the fingerprint table as its level on the medium (decision 0098).
//!
//! 1. A bucket is a cache line of eight entries of eight bytes, and a bit for whether one has left it. The least recently used one leaves.
//! 2. Nothing moves to the medium: the table has every fingerprint anyway. The work out of line reads it from the first to the last block
//!    that was ever used, once for each batch, and keeps the block with the least number.
//! 3. No page of the table counts as being in memory already.

use super::stored::{Pbn, Stored};
use super::writes::{Content, fingerprint};
use super::{Index, IndexIo, Skipped};

const WAYS: usize = 8;
/// The bits of a bucket: those of a line, and one.
const BUCKET_BITS: u64 = 64 * 8 + 1;
const TAG_BITS: u32 = 27;
/// Entries of the table in a unit.
const ENTRIES_A_UNIT: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u64,
    pbn: Pbn,
}

/// The index.
#[derive(Debug)]
pub struct Swept {
    /// The entries of each bucket, the most recent first.
    buckets: Vec<Vec<Entry>>,
    used: u64,
    io: IndexIo,
}

impl Swept {
    /// Makes an empty index.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let buckets = usize::try_from((bytes * 8 / BUCKET_BITS).max(1)).expect("it fits in memory");
        Self { buckets: vec![Vec::new(); buckets], used: 0, io: IndexIo::default() }
    }

    fn place(&self, content: Content) -> (usize, u64) {
        let fp = fingerprint(content);
        let bucket = (u128::from(fp) * self.buckets.len() as u128) >> 64;
        (usize::try_from(bucket).expect("less than the number of buckets"), fp & ((1 << TAG_BITS) - 1))
    }
}

impl Index for Swept {
    fn look_up(&mut self, content: Content, _lbn: u32, stored: &Stored) -> Option<Pbn> {
        let (bucket, tag) = self.place(content);
        let line = &mut self.buckets[bucket];
        let at = line.iter().position(|entry| entry.tag == tag)?;
        line[..=at].rotate_right(1);
        Some(line[0].pbn).filter(|&pbn| stored.holds(pbn, content))
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        let (bucket, tag) = self.place(content);
        let line = &mut self.buckets[bucket];
        let gone = line.iter().position(|entry| entry.tag == tag).or((line.len() == WAYS).then_some(WAYS - 1));
        self.used += u64::from(gone.is_none());
        if let Some(at) = gone {
            line.remove(at);
        }
        line.insert(0, Entry { tag, pbn });
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        let (bucket, tag) = self.place(content);
        let line = &mut self.buckets[bucket];
        if let Some(at) = line.iter().position(|&entry| entry == Entry { tag, pbn }) {
            line.remove(at);
            self.used -= 1;
        }
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        if !skipped.is_empty() {
            self.io.looked_up += stored.ever_used().div_ceil(ENTRIES_A_UNIT);
        }
        let first = |one: &Skipped| stored.holders(one.content).min().filter(|&pbn| pbn != one.pbn);
        let found: Vec<Option<Pbn>> = skipped.iter().map(first).collect();
        for (one, pbn) in skipped.iter().zip(&found) {
            if let &Some(pbn) = pbn {
                self.insert(one.content, pbn, one.lbn, stored);
            }
        }
        found
    }

    fn io(&self) -> IndexIo {
        self.io
    }

    fn resident(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores these contents in LBNs 0, 1, 2 and so on, and tells the index of each.
    fn stored(index: &mut Swept, contents: &[Content]) -> Stored {
        let mut stored = Stored::new(100, 100);
        for (lbn, &content) in (0..).zip(contents) {
            let pbn = stored.store(content);
            stored.link(lbn, Some(pbn));
            index.insert(content, pbn, lbn, &stored);
        }
        stored
    }

    #[test]
    fn the_least_recently_used_entry_of_a_bucket_leaves() {
        let mut index = Swept::new(0);
        let contents: Vec<Content> = (1..=8).collect();
        let mut stored = stored(&mut index, &contents);
        assert_eq!((index.look_up(1, 20, &stored), index.resident()), (Some(0), 8));
        let pbn = stored.store(9);
        stored.link(8, Some(pbn));
        index.insert(9, pbn, 8, &stored);
        assert_eq!([1, 2, 3].map(|content| index.look_up(content, 20, &stored)), [Some(0), None, Some(2)]);
        assert_eq!(index.resident(), 8);
    }

    #[test]
    fn a_sweep_reads_the_table_and_keeps_the_first_block() {
        let mut index = Swept::new(0);
        let stored = stored(&mut index, &[5, 6, 5]);
        let skipped =
            [Skipped { lbn: 2, pbn: 2, content: 5 }, Skipped { lbn: 0, pbn: 0, content: 5 }, Skipped { lbn: 1, pbn: 1, content: 6 }];
        assert_eq!(index.find_out_of_line(&skipped, &stored), [Some(0), None, None]);
        assert_eq!(index.io(), IndexIo { looked_up: 1, ..IndexIo::default() });
        assert_eq!(index.look_up(5, 9, &stored), Some(0), "and what is found is in memory");
    }
}
