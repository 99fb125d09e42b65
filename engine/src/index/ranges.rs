//! A bounded set of LBNs, as ranges. Where it has no room for another range, its nearest range grows instead, so it may hold more LBNs
//! than were added, and never fewer.

use crate::units::Lbn;
use std::collections::BTreeMap;

/// Bytes charged for each range: an entry of the tree, and its share of the nodes.
pub(super) const RANGE_BYTES: u64 = 48;

/// Disjoint ranges of LBNs that do not touch each other.
#[derive(Default)]
pub(crate) struct Ranges {
    /// The end of each range, by its first LBN.
    ends: BTreeMap<Lbn, Lbn>,
    lbns: u64,
    max: usize,
}

impl Ranges {
    /// Makes an empty set of at most `max` ranges. A set of no range takes nothing in.
    pub fn new(max: usize) -> Self {
        Self { ends: BTreeMap::new(), lbns: 0, max }
    }

    /// The number of ranges, and the most that there may be.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn max(&self) -> usize {
        self.max
    }

    /// The number of LBNs.
    pub fn lbns(&self) -> u64 {
        self.lbns
    }

    pub fn first(&self) -> Option<Lbn> {
        self.ends.first_key_value().map(|(&first, _)| first)
    }

    /// Adds `first..end`, which is not empty.
    pub fn add(&mut self, mut first: Lbn, mut end: Lbn) {
        if self.max == 0 {
            return;
        }
        // From the last to the first of those that it overlaps or touches.
        while let Some((&before, &upto)) = self.ends.range(..=end).next_back().filter(|&(_, &upto)| upto >= first) {
            self.remove(before, upto);
            (first, end) = (first.min(before), end.max(upto));
        }
        if self.ends.len() >= self.max {
            (first, end) = self.join_nearest(first, end);
        }
        self.insert(first, end);
    }

    fn insert(&mut self, first: Lbn, end: Lbn) {
        self.ends.insert(first, end);
        self.lbns += end - first;
    }

    fn remove(&mut self, first: Lbn, end: Lbn) {
        self.ends.remove(&first);
        self.lbns -= end - first;
    }

    /// Removes the range that is nearest to this one. Returns the range that covers both.
    fn join_nearest(&mut self, first: Lbn, end: Lbn) -> (Lbn, Lbn) {
        let below = self.ends.range(..first).next_back().map(|(&first, &end)| (first, end));
        let above = self.ends.range(end..).next().map(|(&first, &end)| (first, end));
        let nearest = match (below, above) {
            (Some((_, upto)), Some((from, _))) if first - upto > from - end => above,
            (Some(_), _) => below,
            (None, above) => above,
        };
        let Some((other_first, other_end)) = nearest else { return (first, end) };
        self.remove(other_first, other_end);
        (first.min(other_first), end.max(other_end))
    }

    /// Removes all LBNs below this one.
    pub fn remove_below(&mut self, lbn: Lbn) {
        while let Some((&first, &end)) = self.ends.first_key_value().filter(|&(&first, _)| first < lbn) {
            self.remove(first, end);
            if end > lbn {
                self.insert(lbn, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ranges(of: &Ranges) -> Vec<(u64, u64)> {
        of.ends.iter().map(|(first, end)| (first.0, end.0)).collect()
    }

    #[test]
    fn a_full_set_joins_what_is_added_to_its_nearest_range() {
        let mut set = Ranges::new(2);
        [(10, 12), (30, 31), (14, 15)].into_iter().for_each(|(first, end)| set.add(Lbn(first), Lbn(end)));
        assert_eq!(ranges(&set), [(10, 15), (30, 31)]);
        set.add(Lbn(28), Lbn(29));
        assert_eq!(ranges(&set), [(10, 15), (28, 31)]);
        set.add(Lbn(0), Lbn(1));
        assert_eq!(ranges(&set), [(0, 15), (28, 31)], "there is none below it");
        let mut none = Ranges::new(0);
        none.add(Lbn(1), Lbn(2));
        assert_eq!((none.len(), none.first()), (0, None));
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_added_and_more_only_when_it_is_full(
            added in proptest::collection::vec((0u64..64, 1u64..9), 1..20),
            max in 1usize..20,
            below in 0u64..72,
        ) {
            let mut set = Ranges::new(max);
            let mut oracle = BTreeSet::new();
            for (first, blocks) in added {
                set.add(Lbn(first), Lbn(first + blocks));
                oracle.extend(first..first + blocks);
                prop_assert!(set.len() <= max);
            }
            let held = |set: &Ranges| ranges(set).into_iter().flat_map(|(first, end)| first..end).collect::<BTreeSet<_>>();
            prop_assert!(ranges(&set).windows(2).all(|pair| pair[0].1 < pair[1].0), "they do not touch: {:?}", ranges(&set));
            prop_assert!(held(&set).is_superset(&oracle));
            if max == 19 {
                prop_assert_eq!(&held(&set), &oracle);
            }
            let all = held(&set);
            set.remove_below(Lbn(below));
            prop_assert_eq!(held(&set), all.into_iter().filter(|&lbn| lbn >= below).collect::<BTreeSet<_>>());
            prop_assert_eq!(set.lbns(), u64::try_from(held(&set).len()).unwrap());
            prop_assert_eq!(set.first().map(|lbn| lbn.0), held(&set).first().copied());
        }
    }
}
