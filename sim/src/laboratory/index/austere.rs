//! AustereCache's bucketed index (Wang, Li, Wang and Lee, USENIX ATC '20), as the index of a volume.
//!
//! 1. A bucket has 128 slots; a slot has 16 bits of the fingerprint and, as a volume stores a block where it likes, a PBN of 32 bits: six
//!    bytes. In the cache of the paper a slot's position says where the block is, and an entry needs two.
//! 2. The slot with the fewest references leaves its bucket first, the oldest of several. References are those of the more recently written
//!    half of the LBNs that its index by LBN has room for, which has as many slots, in buckets of 32. Neither that index nor the sketch of
//!    the counts takes memory here, and the counts are exact.

use super::interface::Index;
use super::stored::{Pbn, Stored};
use super::writes::{Content, fingerprint};

const SLOT_BYTES: u64 = 6;
const SLOTS: usize = 128;
const LBN_SLOTS: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Slot {
    prefix: u16,
    content: Content,
    pbn: Pbn,
}

/// The index.
#[derive(Debug)]
pub struct Austere {
    /// The slots of each bucket, the oldest first.
    buckets: Vec<Vec<Slot>>,
    used: u64,
    /// The LBNs and contents of each bucket by LBN, the most recent first.
    lbns: Vec<Vec<(u32, Content)>>,
    /// The references of each content.
    counts: Vec<u8>,
}

impl Austere {
    /// Makes an empty index.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let slots = usize::try_from(bytes / SLOT_BYTES).expect("it fits in memory");
        Self {
            buckets: vec![Vec::new(); (slots / SLOTS).max(1)],
            used: 0,
            lbns: vec![Vec::new(); (slots / LBN_SLOTS).max(1)],
            counts: Vec::new(),
        }
    }

    fn place(&self, content: Content) -> (usize, u16) {
        let fp = fingerprint(content);
        let bucket = (u128::from(fp) * self.buckets.len() as u128) >> 64;
        (usize::try_from(bucket).expect("less than the number of buckets"), (fp & 0xffff) as u16)
    }

    fn count(&mut self, content: Content) -> &mut u8 {
        let at = content as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }
}

impl Index for Austere {
    fn look_up(&mut self, content: Content, _lbn: u32, stored: &Stored) -> Option<Pbn> {
        let (bucket, prefix) = self.place(content);
        let matching = self.buckets[bucket].iter().filter(|slot| slot.prefix == prefix);
        matching.map(|slot| slot.pbn).find(|&pbn| stored.holds(pbn, content))
    }

    fn insert(&mut self, content: Content, pbn: Pbn, lbn: u32, _stored: &Stored) {
        let (bucket, prefix) = self.place(content);
        let slots = &mut self.buckets[bucket];
        if slots.len() == SLOTS {
            let count = |slot: &Slot| self.counts.get(slot.content as usize).copied().unwrap_or(0);
            let least = (0..SLOTS).min_by_key(|&at| count(&slots[at])).expect("a bucket has slots");
            slots.remove(least);
            self.used -= 1;
        }
        slots.push(Slot { prefix, content, pbn });
        self.used += 1;
        self.linked(content, lbn);
    }

    fn linked(&mut self, content: Content, lbn: u32) {
        let hash = u64::from(lbn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = usize::try_from((u128::from(hash) * self.lbns.len() as u128) >> 64).expect("less than the number of buckets");
        let bucket = &mut self.lbns[at];
        let known = bucket.iter().position(|&(other, _)| other == lbn);
        let before = known.map(|at| (at, bucket.remove(at).1));
        bucket.insert(0, (lbn, content));
        bucket.truncate(LBN_SLOTS);
        // What the new entry pushes out of the recent half is a reference no more, and so is what this LBN meant before.
        let pushed = bucket.get(LBN_SLOTS / 2).map(|entry| entry.1);
        let gone = match before {
            Some((at, content)) if at < LBN_SLOTS / 2 => Some(content),
            _ => pushed,
        };
        if let Some(content) = gone {
            let count = self.count(content);
            *count = count.saturating_sub(1);
        }
        let count = self.count(content);
        *count = count.saturating_add(1);
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        let (bucket, _) = self.place(content);
        if let Some(at) = self.buckets[bucket].iter().position(|slot| slot.pbn == pbn && slot.content == content) {
            self.buckets[bucket].remove(at);
            self.used -= 1;
        }
    }

    fn resident(&self) -> u64 {
        self.used
    }
}
