//! The skipped buffer: what was written while the index could not tell whether it is stored already (SmartDedup section 3.3). The work out
//! of line looks for it later.
//!
//! 1. An entry is an LBN and a tag of its fingerprint. Once these have filled their share, entries have no fingerprint; once that share
//!    is full, too, they are ranges of LBNs.
//! 2. An entry is advice: the map and the fingerprint table say what the LBN means by the time it is looked up.
//! 3. On a large volume entries are set aside on the device soon (`background/out_of_line/sieve.rs`). There the buffer knows of each entry
//!    with a fingerprint the block that was written, too.

use super::ranges::{RANGE_BYTES, Ranges};
use crate::fingerprint::Fingerprint;
use crate::units::{Lbn, Pbn, Time, count, index, low_half};

/// The layout of entries: an LBN below as many bits of its fingerprint, the tag, as fit in 64. Two contents of a million agree in 40 bits
/// with a chance of one in a million; a look at the table tells them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagLayout {
    lbn_bits: u32,
}

/// An LBN with the tag of its fingerprint. Entries are in order of their tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedLbn(u64);

impl TagLayout {
    /// The layout for a volume with this number of LBNs. One value more is left, for entries that are done.
    pub fn new(logical_blocks: u64) -> Self {
        Self { lbn_bits: u64::BITS - logical_blocks.leading_zeros() }
    }

    const fn done(self) -> u64 {
        (1 << self.lbn_bits) - 1
    }

    pub fn entry(self, lbn: Lbn, fp: &Fingerprint) -> NamedLbn {
        NamedLbn(self.tag_of(fp) << self.lbn_bits | lbn.0)
    }

    /// The tag of a fingerprint.
    pub fn tag_of(self, fp: &Fingerprint) -> u64 {
        self.tag_of_head(fp.head())
    }

    /// The tag of fingerprints with this head.
    pub fn tag_of_head(self, head: u64) -> u64 {
        head >> self.lbn_bits
    }

    /// The entry for a number below that of the layout, with the tag of this head.
    pub fn entry_of_head(self, number: u64, head: u64) -> NamedLbn {
        NamedLbn(self.tag_of_head(head) << self.lbn_bits | number)
    }

    /// The number of bits of a tag.
    pub const fn tag_bits(self) -> u32 {
        u64::BITS - self.lbn_bits
    }

    /// The bits of a head that the tag of an entry has, the others 0.
    pub const fn head(self, entry: NamedLbn) -> u64 {
        entry.0 >> self.lbn_bits << self.lbn_bits
    }

    pub fn tag(self, entry: NamedLbn) -> u64 {
        entry.0 >> self.lbn_bits
    }

    /// The LBN, if the entry is not done.
    pub fn lbn(self, entry: NamedLbn) -> Option<Lbn> {
        Some(entry.0 & self.done()).filter(|&lbn| lbn != self.done()).map(Lbn)
    }

    /// The entry once it is done, with the same tag.
    pub fn without_lbn(self, entry: NamedLbn) -> NamedLbn {
        NamedLbn(entry.0 | self.done())
    }
}

impl NamedLbn {
    /// Its bits, by which it is kept on the device.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The entry with these bits.
    pub const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }
}

const NAMED_BYTES: u64 = size_of::<NamedLbn>() as u64;
const BLOCK_BYTES: u64 = size_of::<u32>() as u64;
const UNNAMED_BYTES: u64 = size_of::<Lbn>() as u64;

/// The skipped buffer.
pub(crate) struct Skipped {
    pub layout: TagLayout,
    named: Vec<NamedLbn>,
    /// The low halves of the blocks that the entries of `named` were written to; empty on a small volume.
    blocks: Vec<u32>,
    has_blocks: bool,
    named_max: usize,
    unnamed: Vec<Lbn>,
    unnamed_max: usize,
    ranges: Ranges,
    /// The time of the oldest entry.
    since: Option<Time>,
    /// Some entry came without its fingerprint, for want of room.
    has_overflowed: bool,
}

/// The entries of one kind in the skipped buffer, and the room for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    pub used: u64,
    pub room: u64,
}

/// The entries of the skipped buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedCounts {
    /// LBNs with a tag of their fingerprint.
    pub named: Fill,
    /// LBNs alone.
    pub unnamed: Fill,
    /// Ranges, and the LBNs in them.
    pub ranges: Fill,
    pub lbns_in_ranges: u64,
}

impl SkippedCounts {
    /// The LBNs of all entries.
    pub(crate) const fn lbns(&self) -> u64 {
        self.named.used + self.unnamed.used + self.lbns_in_ranges
    }
}

impl Skipped {
    /// Makes an empty buffer of `bytes`. An eighth is for LBNs alone, an eighth for ranges. `has_blocks`: it knows the blocks of entries
    /// with a fingerprint.
    pub fn new(bytes: u64, logical_blocks: u64, has_blocks: bool) -> Self {
        let named_max = index(bytes / 8 * 6 / (NAMED_BYTES + if has_blocks { BLOCK_BYTES } else { 0 }));
        let unnamed_max = index(bytes / 8 / UNNAMED_BYTES);
        Self {
            layout: TagLayout::new(logical_blocks),
            named: Vec::new(),
            blocks: Vec::new(),
            has_blocks,
            named_max,
            unnamed: Vec::new(),
            unnamed_max,
            ranges: Ranges::new(index(bytes / 8 / RANGE_BYTES)),
            since: None,
            has_overflowed: false,
        }
    }

    /// Makes an empty buffer with the same room.
    pub fn another(&self) -> Self {
        let ranges = Ranges::new(self.ranges.max());
        Self { named: Vec::new(), blocks: Vec::new(), unnamed: Vec::new(), ranges, since: None, has_overflowed: false, ..*self }
    }

    /// Notes an LBN that was given content in this block. Whether there is such a buffer.
    pub fn add(&mut self, lbn: Lbn, fp: &Fingerprint, block: Pbn, now: Time) -> bool {
        if self.named_max == 0 {
            return false;
        }
        self.since.get_or_insert(now);
        if self.named.len() < self.named_max {
            self.named.reserve_exact(self.named_max - self.named.len());
            self.named.push(self.layout.entry(lbn, fp));
            if self.has_blocks {
                self.blocks.reserve_exact(self.named_max - self.blocks.len());
                self.blocks.push(low_half(block.0));
            }
            return true;
        }
        self.has_overflowed = true;
        self.add_unnamed(lbn, now)
    }

    /// Notes an LBN that was given content without a fingerprint. Whether there is such a buffer.
    pub fn add_unnamed(&mut self, lbn: Lbn, now: Time) -> bool {
        if self.named_max == 0 {
            return false;
        }
        self.since.get_or_insert(now);
        if self.unnamed.len() < self.unnamed_max {
            self.unnamed.reserve_exact(self.unnamed_max - self.unnamed.len());
            self.unnamed.push(lbn);
        } else {
            self.ranges.add(lbn, lbn + 1);
        }
        true
    }

    /// Notes ranges that an earlier opening has left.
    pub fn restore(&mut self, ranges: impl Iterator<Item = (Lbn, Lbn)>, now: Time) {
        ranges.for_each(|(first, end)| self.ranges.add(first, end));
        self.since = (!self.is_empty()).then_some(now);
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        *self = self.another();
    }

    /// Takes the entries with a fingerprint. Their memory comes back with [`Self::give_named`].
    pub fn take_named(&mut self) -> Vec<NamedLbn> {
        std::mem::take(&mut self.named)
    }

    /// The last entry with a fingerprint, and the low half of its block.
    pub fn last_named(&self) -> Option<(NamedLbn, u32)> {
        Some((*self.named.last()?, *self.blocks.last()?))
    }

    /// Removes the last entry with a fingerprint, which was set aside.
    pub fn remove_last_named(&mut self) {
        self.named.pop();
        self.blocks.pop();
        if self.named.is_empty() {
            (self.since, self.has_overflowed) = (None, false);
        }
    }

    /// Gives the memory of the entries with a fingerprint back, which are forgotten.
    pub fn give_named(&mut self, mut named: Vec<NamedLbn>) {
        named.clear();
        self.named = named;
        self.blocks.clear();
        (self.since, self.has_overflowed) = (None, false);
    }

    /// The number of LBNs.
    pub fn lbns(&self) -> u64 {
        count(self.named.len() + self.unnamed.len()) + self.ranges.lbns()
    }

    /// The most entries with a fingerprint.
    pub fn named_max(&self) -> usize {
        self.named_max
    }

    /// The next LBN without a fingerprint.
    pub fn next_unnamed(&self) -> Option<Lbn> {
        self.unnamed.last().copied().or_else(|| self.ranges.first())
    }

    /// Removes the next LBN without a fingerprint; of a range, all LBNs below `end`.
    pub fn remove_unnamed(&mut self, end: Lbn) {
        if self.unnamed.pop().is_none() {
            self.ranges.remove_below(end);
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.unnamed.is_empty() && self.ranges.len() == 0
    }

    /// Whether seven eighths of the room for fingerprints are used, or all of it was.
    pub fn is_nearly_full(&self) -> bool {
        !self.is_empty() && self.named.len() >= self.named_max - self.named_max / 8 || self.has_overflowed
    }

    /// The time of the oldest entry, as far as it is known.
    pub fn since(&self) -> Option<Time> {
        self.since.filter(|_| !self.is_empty())
    }

    pub fn counts(&self) -> SkippedCounts {
        let fill = |used: usize, room: usize| Fill { used: count(used), room: count(room) };
        SkippedCounts {
            named: fill(self.named.len(), self.named_max),
            unnamed: fill(self.unnamed.len(), self.unnamed_max),
            ranges: fill(self.ranges.len(), self.ranges.max()),
            lbns_in_ranges: self.ranges.lbns(),
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
    fn entries_lose_their_fingerprint_and_then_become_ranges_as_the_buffer_fills() {
        let mut skipped = Skipped::new(512, 1000, false);
        let room = skipped.counts();
        assert_eq!((room.named.room, room.unnamed.room, room.ranges.room), (48, 8, 1));
        assert!((0..84).all(|n| skipped.add(Lbn(n), &fp(n), Pbn(n), Time(n))));
        let counts = skipped.counts();
        assert_eq!((counts.named.used, counts.unnamed.used, counts.ranges.used, counts.lbns_in_ranges), (48, 8, 1, 28));
        assert_eq!(skipped.since(), Some(Time(0)));
        let named = skipped.take_named();
        let layout = skipped.layout;
        assert_eq!((named.len(), layout.tag(named[3]), layout.lbn(named[3])), (48, layout.tag_of(&fp(3)), Some(Lbn(3))));
        let mut left = Vec::new();
        while let Some(lbn) = skipped.next_unnamed() {
            left.push(lbn.0);
            skipped.remove_unnamed(lbn + 1);
        }
        left.sort_unstable();
        assert_eq!(left, (48..84).collect::<Vec<_>>(), "nothing is left out");
        assert!(skipped.is_empty() && skipped.since().is_none());
    }

    #[test]
    fn an_entry_names_each_lbn_of_its_volume_until_it_is_done() {
        for logical in [1, 2, 3, 1000, 1023, 1024, 1 << 40] {
            let layout = TagLayout::new(logical);
            for lbn in [0, logical / 2, logical - 1].map(Lbn) {
                let entry = layout.entry(lbn, &fp(lbn.0));
                assert_eq!((layout.lbn(entry), layout.tag(entry)), (Some(lbn), layout.tag_of(&fp(lbn.0))), "{logical}");
                let done = layout.without_lbn(entry);
                assert_eq!((layout.lbn(done), layout.tag(done)), (None, layout.tag_of(&fp(lbn.0))), "{logical}");
            }
        }
    }

    #[test]
    fn entries_that_know_their_blocks_are_taken_one_by_one() {
        let mut skipped = Skipped::new(512, 1000, true);
        assert_eq!(skipped.counts().named.room, 32, "an entry is larger");
        assert!((0..3).all(|n| skipped.add(Lbn(n), &fp(n), Pbn(n + (7 << 32)), Time(n))));
        for n in (0..3).rev() {
            assert_eq!(skipped.last_named(), Some((skipped.layout.entry(Lbn(n), &fp(n)), u32::try_from(n).unwrap())));
            skipped.remove_last_named();
        }
        assert!(skipped.is_empty() && skipped.last_named().is_none());
    }

    #[test]
    fn a_buffer_without_memory_takes_nothing_in() {
        let mut skipped = Skipped::new(0, 1000, false);
        assert!(!skipped.add(Lbn(1), &fp(1), Pbn(1), Time(0)));
        assert!(skipped.is_empty() && !skipped.is_nearly_full() && skipped.since().is_none());
    }
}
