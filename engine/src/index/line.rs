//! A bucket of the index: entries of five to eight bytes in one line of the processor's cache.
//!
//! 1. An entry is a tag of the fingerprint, above a bit for doubtful blocks, above PBN + 1; 0 is an empty entry. The entries are in the
//!    order of their use, the most recently used one last, so that a new one needs no other to move.
//! 2. An entry has as many bytes as its PBN and [`SHORT_TAG_BITS`] ask for; eight, if all fingerprints have room all the same. A line has
//!    twelve of five, ten of six, nine of seven or eight of eight bytes.

use crate::units::Pbn;

/// The bytes of a line.
pub(super) const LINE_BYTES: usize = 64;

/// A line.
pub(super) type Line = [u8; LINE_BYTES];

/// A tag has at least this number of bits, so that one look-up of new content in a thousand or fewer meets an entry of another content.
const SHORT_TAG_BITS: u32 = 14;
const BYTES: (u32, u32) = (5, 8);
/// Fingerprints of this rank and higher are in the sample: one in 16.
pub(super) const SAMPLED: u32 = 4;

/// The layout of the entries of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The bytes of an entry.
    bytes: usize,
    pbn_bits: u32,
}

/// Runs a function with the bytes of an entry as a constant.
macro_rules! by_width {
    ($layout:expr, $function:ident($($argument:expr),*)) => {
        match $layout.bytes {
            5 => $function::<5>($($argument),*),
            6 => $function::<6>($($argument),*),
            7 => $function::<7>($($argument),*),
            _ => $function::<8>($($argument),*),
        }
    };
}

const fn ways<const W: usize>() -> usize {
    LINE_BYTES / W
}

fn load<const W: usize>(line: &Line, at: usize) -> u64 {
    // Eight bytes from the begin of the last entry are still within the line.
    let word = u64::from_le_bytes(line[at * W..][..8].try_into().expect("eight bytes"));
    if W == 8 { word } else { word & ((1 << (8 * W)) - 1) }
}

fn store<const W: usize>(line: &mut Line, at: usize, entry: u64) {
    line[at * W..][..W].copy_from_slice(&entry.to_le_bytes()[..W]);
}

/// The last entry that has this value under the mask, which is not 0; 0 if none has.
fn last_with<const W: usize>(line: &Line, mask: u64, wanted: u64) -> u64 {
    let mut found = 0;
    // Without a way out of the loop, the processor has no branch to guess.
    for at in 0..ways::<W>() {
        let entry = load::<W>(line, at);
        if entry & mask == wanted {
            found = entry;
        }
    }
    found
}

/// The last place whose entry has this value under the mask.
fn find<const W: usize>(line: &Line, mask: u64, wanted: u64) -> Option<usize> {
    let mut found = usize::MAX;
    for at in 0..ways::<W>() {
        if load::<W>(line, at) & mask == wanted {
            found = at;
        }
    }
    (found != usize::MAX).then_some(found)
}

fn find_tag<const W: usize>(line: &Line, mask: u64, tag: u64) -> Option<usize> {
    if tag != 0 {
        return find::<W>(line, mask, tag);
    }
    (0..ways::<W>()).rfind(|&at| {
        let entry = load::<W>(line, at);
        entry != 0 && entry & mask == 0
    })
}

/// The number of entries.
fn used<const W: usize>(line: &Line) -> usize {
    (0..ways::<W>()).map(|at| usize::from(load::<W>(line, at) != 0)).sum()
}

/// Whether there is room, and no entry with this tag.
fn has_room_without<const W: usize>(line: &Line, mask: u64, tag: u64) -> bool {
    let alike = (0..ways::<W>()).fold(false, |alike, at| alike | (load::<W>(line, at) & mask == tag));
    tag != 0 && !alike && load::<W>(line, ways::<W>() - 1) == 0
}

/// Writes an entry behind the others.
fn append<const W: usize>(line: &mut Line, entry: u64) {
    let used = used::<W>(line);
    store::<W>(line, used, entry);
}

/// Moves the entries behind a place to the front by one, and writes an entry behind them.
fn replace<const W: usize>(line: &mut Line, at: usize, entry: u64) {
    let used = used::<W>(line);
    line.copy_within((at + 1) * W..used * W, at * W);
    store::<W>(line, used - 1, entry);
}

fn take_out<const W: usize>(line: &mut Line, at: usize) {
    line.copy_within((at + 1) * W..ways::<W>() * W, at * W);
    store::<W>(line, ways::<W>() - 1, 0);
}

impl Layout {
    /// The widest entries, for a volume of `blocks` blocks.
    pub fn wide(blocks: u64) -> Self {
        Self { bytes: BYTES.1 as usize, pbn_bits: u64::BITS - blocks.leading_zeros() }
    }

    /// The narrowest entries for a volume of `blocks` blocks.
    pub fn narrow(blocks: u64) -> Self {
        let Self { pbn_bits, .. } = Self::wide(blocks);
        Self { bytes: (pbn_bits + 1 + SHORT_TAG_BITS).div_ceil(8).clamp(BYTES.0, BYTES.1) as usize, pbn_bits }
    }

    /// The number of entries in a line.
    pub const fn ways(self) -> usize {
        LINE_BYTES / self.bytes
    }

    /// Whether tags are so short that contents may well share one, and one would take another's place.
    pub const fn is_narrow(self) -> bool {
        self.bytes < BYTES.1 as usize
    }

    const fn doubtful(self) -> u64 {
        1 << self.pbn_bits
    }

    const fn below_tag(self) -> u64 {
        (2 << self.pbn_bits) - 1
    }

    const fn all(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes)
    }

    const fn tag_mask(self) -> u64 {
        self.all() & !self.below_tag()
    }

    /// The tag of fingerprints with this head, in its place in an entry. It comes from the head's low bits.
    pub const fn tag(self, head: u64) -> u64 {
        (head << (self.pbn_bits + 1)) & self.all()
    }

    /// The tag of an entry.
    pub const fn tag_of(self, entry: u64) -> u64 {
        entry & self.tag_mask()
    }

    /// The rank of an entry's fingerprint, by its tag: of 2^n fingerprints one has at least the rank n.
    pub const fn rank(self, entry: u64) -> u32 {
        (entry >> (self.pbn_bits + 1)).trailing_zeros()
    }

    /// Whether the entry is one of the sample of fingerprints that stay longer.
    pub const fn is_sample(self, entry: u64) -> bool {
        self.rank(entry) >= SAMPLED
    }

    /// The entry for a block.
    pub const fn entry(self, tag: u64, pbn: Pbn) -> u64 {
        tag | (pbn.0 + 1)
    }

    /// The block of an entry that is not empty.
    pub const fn pbn(self, entry: u64) -> Pbn {
        Pbn((entry & (self.doubtful() - 1)) - 1)
    }

    pub fn get(self, line: &Line, at: usize) -> u64 {
        by_width!(self, load(line, at))
    }

    /// Whether the entry has this tag.
    pub const fn has_tag(self, entry: u64, tag: u64) -> bool {
        entry != 0 && entry & self.tag_mask() == tag
    }

    /// The block of the most recently used entry with this tag.
    #[inline]
    pub fn block_of(self, line: &Line, tag: u64) -> Option<Pbn> {
        let entry = if tag == 0 {
            self.find(line, tag).map_or(0, |at| self.get(line, at))
        } else {
            let mask = self.tag_mask();
            by_width!(self, last_with(line, mask, tag))
        };
        (entry != 0).then(|| self.pbn(entry))
    }

    /// The place of the most recently used entry with this tag.
    #[inline(never)]
    pub fn find(self, line: &Line, tag: u64) -> Option<usize> {
        by_width!(self, find_tag(line, self.tag_mask(), tag))
    }

    /// The place of the entry for this very block.
    #[inline(never)]
    pub fn find_block(self, line: &Line, tag: u64, pbn: Pbn) -> Option<usize> {
        by_width!(self, find(line, !self.doubtful(), self.entry(tag, pbn)))
    }

    /// The first empty place.
    #[inline(never)]
    pub fn find_empty(self, line: &Line) -> Option<usize> {
        Some(by_width!(self, used(line))).filter(|&used| used < self.ways())
    }

    /// Whether there is room for another entry, and none has this tag.
    #[inline(never)]
    pub fn has_room_without(self, line: &Line, tag: u64) -> bool {
        by_width!(self, has_room_without(line, self.tag_mask(), tag))
    }

    /// Writes an entry to the first empty place, as the most recently used one.
    #[inline(never)]
    pub fn append(self, line: &mut Line, entry: u64) {
        by_width!(self, append(line, entry));
    }

    /// Removes the entry at `at`, and makes this one the most recently used.
    #[inline(never)]
    pub fn replace(self, line: &mut Line, at: usize, entry: u64) {
        by_width!(self, replace(line, at, entry));
    }

    /// Writes an entry to the first empty place, or changes one in its place.
    pub fn put(self, line: &mut Line, at: usize, entry: u64) {
        by_width!(self, store(line, at, entry));
    }

    /// Removes the entry at `at`.
    #[inline(never)]
    pub fn take_out(self, line: &mut Line, at: usize) {
        by_width!(self, take_out(line, at));
    }

    /// Whether the entry is of a doubtful block.
    pub const fn is_doubtful(self, entry: u64) -> bool {
        entry & self.doubtful() != 0
    }

    /// The entry, of a block that is doubtful or not.
    pub const fn with_doubt(self, entry: u64, is_doubtful: bool) -> u64 {
        if is_doubtful { entry | self.doubtful() } else { entry & !self.doubtful() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_volume_has_short_entries() {
        let shape = |blocks| {
            let layout = Layout::narrow(blocks);
            (layout.bytes, layout.ways(), (layout.tag_mask().count_ones()))
        };
        assert_eq!(shape(1000), (5, 12, 29));
        assert_eq!(shape((1 << 25) - 1), (5, 12, 14), "128 GiB");
        assert_eq!(shape(1 << 25), (6, 10, 21));
        assert_eq!(shape((1 << 36) - 1), (7, 9, 19));
        assert_eq!((Layout::wide(1 << 25).ways(), Layout::wide(1 << 25).tag_mask().count_ones()), (8, 37));
    }

    proptest! {
        #[test]
        fn a_line_is_a_list_by_recency(
            blocks in prop_oneof![Just(100u64), Just((1 << 25) - 1), Just(1 << 30), Just((1 << 36) - 1)],
            is_wide: bool,
            steps in proptest::collection::vec((0u8..4, 0u64..20), 1..100),
        ) {
            let layout = if is_wide { Layout::wide(blocks) } else { Layout::narrow(blocks) };
            let (mut line, mut oracle) = ([0; LINE_BYTES], Vec::<(u64, Pbn, bool)>::new());
            for (step, n) in steps {
                let (tag, pbn) = (layout.tag(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), Pbn(blocks - 1 - n));
                let known = oracle.iter().position(|entry| entry.0 == tag);
                let empty = Some(oracle.len()).filter(|&used| used < layout.ways());
                prop_assert_eq!((layout.find(&line, tag), layout.find_empty(&line)), (known, empty));
                match step {
                    0 => {
                        let at = known.or_else(|| layout.find_empty(&line)).unwrap_or(0);
                        if at < oracle.len() {
                            layout.replace(&mut line, at, layout.entry(tag, pbn));
                            oracle.remove(at);
                        } else {
                            layout.put(&mut line, at, layout.entry(tag, pbn));
                        }
                        oracle.push((tag, pbn, false));
                    }
                    1 => if let Some(at) = known {
                        layout.take_out(&mut line, at);
                        oracle.remove(at);
                    },
                    2 => if let Some(at) = known {
                        let entry = layout.get(&line, at);
                        layout.put(&mut line, at, layout.with_doubt(entry, n % 2 == 0));
                        oracle[at].2 = n % 2 == 0;
                    },
                    _ => prop_assert_eq!(layout.find_block(&line, tag, pbn), known),
                }
                let shown = (0..layout.ways()).map(|at| layout.get(&line, at)).filter(|&entry| entry != 0);
                let shown: Vec<_> = shown.map(|e| (e & layout.tag_mask(), layout.pbn(e), layout.is_doubtful(e))).collect();
                prop_assert_eq!(&shown, &oracle);
            }
        }
    }
}
