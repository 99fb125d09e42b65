//! Regions of a volume's logical blocks, 1,024 at the most: a set of them takes the same few bytes whatever the size of the volume.

use crate::units::{Lbn, count, index};

/// Bytes of a set of regions.
pub const REGIONS_BYTES: usize = 128;
const REGIONS_BITS: u32 = 10;

/// The size of each region: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSize {
    shift: u32,
    logical_blocks: u64,
}

impl RegionSize {
    /// The size of the regions of a volume with this number of logical blocks.
    #[must_use]
    pub fn of(logical_blocks: u64) -> Self {
        let bits = u64::BITS - logical_blocks.saturating_sub(1).leading_zeros();
        Self { shift: bits.saturating_sub(REGIONS_BITS), logical_blocks }
    }

    /// The number of logical blocks in a region.
    #[must_use]
    pub const fn blocks(self) -> u64 {
        1 << self.shift
    }

    /// The number of the region in which an LBN lies.
    ///
    /// # Panics
    /// When the volume does not have the LBN.
    #[must_use]
    pub fn region_of(self, lbn: Lbn) -> usize {
        assert!(lbn.0 < self.logical_blocks, "no region has {lbn}");
        index(lbn.0 >> self.shift)
    }
}

/// A set of regions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Regions([u8; REGIONS_BYTES]);

impl Default for Regions {
    fn default() -> Self {
        Self([0; REGIONS_BYTES])
    }
}

impl Regions {
    /// The set that these bytes are: region n is bit n % 8 of byte n / 8.
    #[must_use]
    pub const fn decode(bytes: [u8; REGIONS_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn encode(self) -> [u8; REGIONS_BYTES] {
        self.0
    }

    /// Whether it has no region.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// Whether it has this region.
    #[must_use]
    pub const fn has(&self, region: usize) -> bool {
        self.0[region / 8] & 1 << (region % 8) != 0
    }

    /// Whether another set has all its regions.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(byte, other)| byte & !other == 0)
    }

    /// Adds a region.
    pub fn add(&mut self, region: usize) {
        self.0[region / 8] |= 1 << (region % 8);
    }

    /// Adds all regions of another set.
    pub fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(byte, other)| *byte |= other);
    }

    /// The regions of a volume that has grown which hold the LBNs of these ones.
    #[must_use]
    pub fn grown(&self, from: RegionSize, to: RegionSize) -> Self {
        let mut grown = Self::default();
        let firsts = (0..REGIONS_BYTES * 8).filter(|&region| self.has(region)).map(|region| Lbn(count(region) << from.shift));
        firsts.filter(|lbn| lbn.0 < from.logical_blocks).for_each(|lbn| grown.add(to.region_of(lbn)));
        grown
    }

    /// The LBNs of its regions as ranges, each from its first LBN to the one behind its last. Regions that the volume does not have are
    /// left out.
    pub fn ranges(&self, size: RegionSize) -> impl Iterator<Item = (Lbn, Lbn)> + use<> {
        let set = *self;
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = (next..REGIONS_BYTES * 8).find(|&region| set.has(region))?;
            let end = (first..REGIONS_BYTES * 8).find(|&region| !set.has(region)).unwrap_or(REGIONS_BYTES * 8);
            next = end;
            let at = |region: usize| Lbn((count(region) << size.shift).min(size.logical_blocks));
            Some((at(first), at(end))).filter(|(first, end)| first < end)
        })
    }
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries((0..REGIONS_BYTES * 8).filter(|&region| self.has(region))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_volume_has_at_most_1024_regions() {
        for (logical, blocks) in [(1, 1), (1024, 1), (1025, 2), (4096, 4), (1 << 40, 1 << 30), ((1 << 40) + 1, 1 << 31)] {
            let size = RegionSize::of(logical);
            assert_eq!(size.blocks(), blocks);
            assert!(size.region_of(Lbn(logical - 1)) < REGIONS_BYTES * 8);
        }
    }

    proptest! {
        #[test]
        fn the_ranges_of_a_set_have_each_lbn_that_was_added(
            lbns in proptest::collection::btree_set(0u64..5000, 0..20),
        ) {
            let size = RegionSize::of(5000);
            let mut set = Regions::default();
            lbns.iter().for_each(|&lbn| set.add(size.region_of(Lbn(lbn))));
            prop_assert_eq!(set.is_empty(), lbns.is_empty());
            let ranges: Vec<_> = Regions::decode(set.encode()).ranges(size).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let held: BTreeSet<u64> = ranges.iter().flat_map(|(first, end)| first.0..end.0).collect();
            let expected: BTreeSet<u64> = (0..5000).filter(|lbn| lbns.iter().any(|added| added / 8 == lbn / 8)).collect();
            prop_assert_eq!(held, expected);
        }
    }

    #[test]
    fn regions_of_a_volume_that_grows_hold_the_same_lbns() {
        let (from, to) = (RegionSize::of(1000), RegionSize::of(5000));
        let mut set = Regions::default();
        [0, 7, 8, 999, 1001].into_iter().for_each(|region| set.add(region));
        assert_eq!(format!("{:?}", set.grown(from, to)), "{0, 1, 124}", "the volume had no region 1001");
        assert_eq!(set.grown(from, from).ranges(from).collect::<Vec<_>>(), set.ranges(from).collect::<Vec<_>>());
    }

    #[test]
    fn regions_that_the_volume_does_not_have_are_left_out() {
        let mut set = Regions::default();
        [2, 3, 900].into_iter().for_each(|region| set.add(region));
        assert_eq!(set.ranges(RegionSize::of(3)).collect::<Vec<_>>(), [(Lbn(2), Lbn(3))]);
        assert_eq!(format!("{set:?}"), "{2, 3, 900}");
    }
}
