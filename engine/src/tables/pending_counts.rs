//! Changes that epochs in memory make to the counts of blocks, and that no page holds yet.
//!
//! They are kept in groups of neighbouring blocks: the count that changes next is most often that of the next block.

use crate::map::Map;
use crate::units::{Pbn, index};

/// Blocks in a group.
const GROUP_BLOCKS: u64 = 16;

type Group = [i16; 16];

/// For each block, the change of its count.
#[derive(Default)]
pub(crate) struct PendingCounts {
    /// Groups in which at least one change is not 0.
    groups: Map<u64, Group>,
}

/// The number of a block's group, and the block's place in it.
fn group_of(pbn: Pbn) -> (u64, usize) {
    (pbn.get() / GROUP_BLOCKS, index(pbn.get() % GROUP_BLOCKS))
}

impl PendingCounts {
    /// The change of a block's count.
    pub fn get(&self, pbn: Pbn) -> i16 {
        let (group, at) = group_of(pbn);
        self.groups.get(&group).map_or(0, |counts| counts[at])
    }

    /// The changes of `blocks` blocks, group by group: how far behind `first` the group begins, the number of its blocks, and their
    /// changes, unless all are 0.
    pub fn groups(&self, first: Pbn, blocks: u64) -> impl Iterator<Item = (u64, u64, Option<&[i16]>)> {
        let end = first.get() + blocks;
        let mut from = first;
        std::iter::from_fn(move || {
            let (group, at) = group_of(from);
            let some = end.min((group + 1) * GROUP_BLOCKS).checked_sub(from.get()).filter(|&some| some > 0)?;
            let changes = self.groups.get(&group).map(|changes| &changes[at..at + index(some)]);
            let offset = from - first;
            from += some;
            Some((offset, some, changes))
        })
    }

    /// Adds `by` to the change of each of `blocks` blocks.
    pub fn add(&mut self, first: Pbn, blocks: u64, by: i16) {
        let (mut from, end) = (first, first + blocks);
        while from < end {
            let (group, at) = group_of(from);
            let upto = (group + 1) * GROUP_BLOCKS;
            let some = index(end.get().min(upto) - from.get());
            let counts = self.groups.entry(group).or_default();
            counts[at..at + some].iter_mut().for_each(|count| *count = count.saturating_add(by));
            if *counts == Group::default() {
                self.groups.remove(&group);
            }
            from = Pbn(upto);
        }
    }

    /// Removes the change of a block's count, and returns it.
    pub fn take(&mut self, pbn: Pbn) -> i16 {
        let by = self.get(pbn);
        self.add(pbn, 1, -by);
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn each_block_has_its_own(
            added in vec((0..90u64, 1..40u64, -2..=2i16), 0..60),
            taken in vec(0..130u64, 0..20),
            (first, blocks) in (0..90u64, 0..40u64),
        ) {
            let (mut pending, mut model) = (PendingCounts::default(), BTreeMap::new());
            for (first, blocks, by) in added {
                pending.add(Pbn(first), blocks, by);
                (first..first + blocks).for_each(|pbn| *model.entry(pbn).or_insert(0) += by);
            }
            for pbn in taken {
                prop_assert_eq!(pending.take(Pbn(pbn)), model.remove(&pbn).unwrap_or(0));
            }
            for pbn in 0..130 {
                prop_assert_eq!(pending.get(Pbn(pbn)), model.get(&pbn).copied().unwrap_or(0));
            }
            let mut next = first;
            for (offset, some, changes) in pending.groups(Pbn(first), blocks) {
                prop_assert_eq!(first + offset, next);
                let known = changes.map_or_else(|| vec![0; index(some)], <[i16]>::to_vec);
                next += some;
                prop_assert_eq!(known, (first + offset..next).map(|pbn| pending.get(Pbn(pbn))).collect::<Vec<_>>());
            }
            prop_assert_eq!(next, first + blocks);
            let groups: BTreeSet<u64> = model.iter().filter(|(_, by)| **by != 0).map(|(pbn, _)| pbn / GROUP_BLOCKS).collect();
            prop_assert_eq!(pending.groups.len(), groups.len(), "nothing is kept of what adds nothing");
        }
    }
}
