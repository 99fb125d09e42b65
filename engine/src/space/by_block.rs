//! A map from blocks to values that stores neighbours side by side: code that touches one block touches its neighbours next, and so waits
//! for memory once.

use crate::map::Map;
use crate::units::{Pbn, count, index};
use std::array;

/// The number of blocks whose values are stored together.
const GROUP_SIZE: usize = 4;
const GROUP_BLOCKS: u64 = GROUP_SIZE as u64;

/// Values by block. Blocks are allocated in runs, so most groups are full.
pub(crate) struct ByBlock<V> {
    /// The groups, none of them empty.
    groups: Map<u64, Group<V>>,
    len: usize,
}

struct Group<V> {
    values: [Option<V>; GROUP_SIZE],
    len: u8,
}

/// The group of a block, and the index of the block there.
fn group_of(pbn: Pbn) -> (u64, usize) {
    (pbn.get() / GROUP_BLOCKS, index(pbn.get() % GROUP_BLOCKS))
}

impl<V> Default for ByBlock<V> {
    fn default() -> Self {
        Self { groups: Map::default(), len: 0 }
    }
}

impl<V> Default for Group<V> {
    fn default() -> Self {
        Self { values: array::from_fn(|_| None), len: 0 }
    }
}

impl<V> ByBlock<V> {
    /// Bytes of memory that a group takes, whether one of its blocks has a value or all.
    const GROUP_BYTES: usize = size_of::<(u64, Group<V>)>();
    /// Bytes of memory that each of a run of blocks takes.
    pub const BYTES_IN_A_RUN: u64 = (Self::GROUP_BYTES / GROUP_SIZE) as u64;

    /// The number of blocks with a value.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the values take; a group with one value takes as much as a full one.
    pub fn bytes(&self) -> u64 {
        count(self.groups.len() * Self::GROUP_BYTES)
    }

    /// Whether no block has a value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a block.
    pub fn get(&self, pbn: Pbn) -> Option<&V> {
        let (group, at) = group_of(pbn);
        self.groups.get(&group)?.values[at].as_ref()
    }

    /// The value of a block, for changes.
    pub fn get_mut(&mut self, pbn: Pbn) -> Option<&mut V> {
        let (group, at) = group_of(pbn);
        self.groups.get_mut(&group)?.values[at].as_mut()
    }

    /// Whether a block has a value.
    pub fn contains(&self, pbn: Pbn) -> bool {
        self.get(pbn).is_some()
    }

    /// Gives a block a value, and returns its former one.
    pub fn insert(&mut self, pbn: Pbn, value: V) -> Option<V> {
        let (group, at) = group_of(pbn);
        let group = self.groups.entry(group).or_default();
        let before = group.values[at].replace(value);
        group.len += u8::from(before.is_none());
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes a block's value, and returns it.
    pub fn remove(&mut self, pbn: Pbn) -> Option<V> {
        let (key, at) = group_of(pbn);
        let group = self.groups.get_mut(&key)?;
        let value = group.values[at].take()?;
        group.len -= 1;
        self.len -= 1;
        if group.len == 0 {
            self.groups.remove(&key);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_block_alone_takes_the_room_of_its_neighbours() {
        let bytes_of = |step| {
            let mut map = ByBlock::default();
            (0..100).for_each(|i| assert_eq!(map.insert(Pbn(i * step), 7_u64), None));
            map.bytes()
        };
        assert_eq!(bytes_of(1), 100 * ByBlock::<u64>::BYTES_IN_A_RUN);
        assert_eq!(bytes_of(GROUP_BLOCKS), GROUP_BLOCKS * bytes_of(1));
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in vec((0..40u64, any::<Option<u8>>()), 0..200)) {
            let (mut map, mut model) = (ByBlock::default(), BTreeMap::new());
            for (pbn, value) in steps {
                match value {
                    Some(value) => prop_assert_eq!(map.insert(Pbn(pbn), value), model.insert(pbn, value)),
                    None => prop_assert_eq!(map.remove(Pbn(pbn)), model.remove(&pbn)),
                }
                prop_assert_eq!(map.get_mut(Pbn(pbn)).copied(), model.get(&pbn).copied());
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            }
            for pbn in 0..48 {
                prop_assert_eq!(map.get(Pbn(pbn)), model.get(&pbn));
                prop_assert_eq!(map.contains(Pbn(pbn)), model.contains_key(&pbn));
            }
            let groups = model.keys().map(|pbn| pbn / GROUP_BLOCKS).collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(map.groups.len(), groups.len(), "an empty group is none");
        }
    }
}
