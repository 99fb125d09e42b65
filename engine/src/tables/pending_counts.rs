//! What epochs in memory add to the counts on the pages, by block.
//!
//! It is kept for a few neighbouring blocks at a time: whoever changes the count of one block changes those beside it next.

use crate::map::Map;
use crate::units::{Pbn, index};

/// Blocks whose additions stand together.
const GROUP_BLOCKS: u64 = 16;

type Group = [i16; 16];

/// By block, what is to be added to its count on its page.
#[derive(Default)]
pub(crate) struct PendingCounts {
    /// Groups with a block to whose count something is to be added.
    groups: Map<u64, Group>,
}

/// The group of a block, and its place there.
fn group_of(pbn: Pbn) -> (u64, usize) {
    (pbn.get() / GROUP_BLOCKS, index(pbn.get() % GROUP_BLOCKS))
}

impl PendingCounts {
    /// What is to be added to the count of a block.
    pub fn get(&self, pbn: Pbn) -> i16 {
        let (group, at) = group_of(pbn);
        self.groups.get(&group).map_or(0, |counts| counts[at])
    }

    /// Adds `by` to that of each of so many blocks.
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

    /// What is to be added to the count of a block; nothing is from now on.
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
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn each_block_has_its_own(added in vec((0..90u64, 1..40u64, -2..=2i16), 0..60), taken in vec(0..130u64, 0..20)) {
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
            let groups: std::collections::BTreeSet<u64> = model.iter().filter(|(_, by)| **by != 0).map(|(pbn, _)| pbn / GROUP_BLOCKS).collect();
            prop_assert_eq!(pending.groups.len(), groups.len(), "nothing is kept of what adds nothing");
        }
    }
}
