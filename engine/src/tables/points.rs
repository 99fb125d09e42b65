//! The meanings that an epoch gives to single LBNs: found by LBN at once, and in the order of LBNs once the epoch is sealed. A write of a
//! client finds its LBN several times and an epoch is put in order once, so no tree is kept.

use crate::format::entry::MapEntry;
use crate::map::Map;
use crate::units::{Lbn, count};
use std::slice;

/// The most points whose memory is used again.
const REUSED_MAX: usize = 448;

/// The meaning of each LBN that an epoch changes by itself.
#[derive(Default)]
pub(crate) struct Points {
    entries: Map<Lbn, MapEntry>,
    /// All LBNs in order, from [`Points::seal`] on.
    order: Vec<Lbn>,
}

impl Points {
    /// The number of points.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The meaning of an LBN.
    pub fn get(&self, lbn: Lbn) -> Option<MapEntry> {
        self.entries.get(&lbn).copied()
    }

    /// Gives an LBN a meaning, and returns its former one. The epoch is open.
    pub fn insert(&mut self, lbn: Lbn, entry: MapEntry) -> Option<MapEntry> {
        debug_assert!(self.order.is_empty(), "a sealed epoch gets no point");
        self.entries.insert(lbn, entry)
    }

    /// Removes the points of `first..end`, and returns them in order. The epoch is open.
    pub fn remove(&mut self, first: Lbn, end: Lbn) -> Vec<(Lbn, MapEntry)> {
        debug_assert!(self.order.is_empty(), "a sealed epoch loses no point");
        if end - first <= count(self.len()) {
            return (first.0..end.0).filter_map(|lbn| self.entries.remove_entry(&Lbn(lbn))).collect();
        }
        let mut removed: Vec<_> = self.entries.extract_if(|lbn, _| (first..end).contains(lbn)).collect();
        removed.sort_unstable_by_key(|&(lbn, _)| lbn);
        removed
    }

    /// Puts the points in order. From now on none comes or goes.
    pub fn seal(&mut self) {
        self.order.extend(self.entries.keys());
        self.order.sort_unstable();
    }

    /// The LBNs of a sealed epoch, in order.
    pub fn lbns(&self) -> slice::Iter<'_, Lbn> {
        debug_assert!(self.order.len() == self.len(), "the epoch is sealed");
        self.order.iter()
    }

    /// The points of a sealed epoch in `first..end`, in order.
    pub fn range(&self, first: Lbn, end: Lbn) -> impl Iterator<Item = (Lbn, MapEntry)> {
        debug_assert!(self.order.len() == self.len(), "the epoch is sealed");
        let from = self.order.partition_point(|&lbn| lbn < first);
        self.order[from..].iter().take_while(move |&&lbn| lbn < end).map(|&lbn| (lbn, self.entries[&lbn]))
    }

    /// Forgets all points, and keeps their memory for another epoch, unless it is much.
    pub fn emptied(mut self) -> Self {
        if self.entries.capacity() > REUSED_MAX {
            return Self::default();
        }
        self.entries.clear();
        self.order.clear();
        self
    }

    /// The meanings of all points, in no order.
    pub fn entries(&self) -> impl Iterator<Item = MapEntry> {
        self.entries.values().copied()
    }

    /// The meanings of all points, in no order, for changes.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut MapEntry> {
        self.entries.values_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pbn;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The points are those of a tree, whatever is inserted and removed.
        #[test]
        fn points_are_those_of_a_tree(
            steps in proptest::collection::vec((0..60u64, 0..40u64, any::<bool>()), 0..80),
            ranges in proptest::collection::vec((0..60u64, 0..40u64), 1..8),
        ) {
            let (mut points, mut model) = (Points::default(), BTreeMap::<Lbn, MapEntry>::new());
            for (pbn, (lbn, blocks, removes)) in (0..).zip(steps) {
                let (first, end) = (Lbn(lbn), Lbn(lbn + blocks));
                if removes {
                    let (gone, left) = model.into_iter().partition(|(lbn, _)| (first..end).contains(lbn));
                    model = left;
                    let gone: BTreeMap<Lbn, MapEntry> = gone;
                    prop_assert!(points.remove(first, end).into_iter().eq(gone));
                } else {
                    let entry = MapEntry::Block { pbn: Pbn(pbn), slot: 0 };
                    prop_assert_eq!(points.insert(first, entry), model.insert(first, entry));
                }
                prop_assert_eq!((points.len(), points.get(first)), (model.len(), model.get(&first).copied()));
            }
            points.seal();
            prop_assert!(points.lbns().eq(model.keys()));
            for (first, blocks) in ranges {
                let (first, end) = (Lbn(first), Lbn(first + blocks));
                prop_assert!(points.range(first, end).eq(model.range(first..end).map(|(&lbn, &entry)| (lbn, entry))));
            }
        }
    }
}
