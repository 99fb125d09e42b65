//! Files that programs have marked themselves, for as long as the server lives.

use super::rule::Range;
use onefold_engine::policy::Policy;
use onefold_observer::Observation;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most files that are marked. Beyond that the oldest mark goes: that file's blocks are as any other's.
const MARKS_MAX: usize = 1 << 16;

/// The marks, by the place of the file system and the inode.
#[derive(Default)]
pub struct Marks(Mutex<Marked>);

#[derive(Default)]
struct Marked {
    policies: HashMap<(Range, u64), Mark>,
    /// In the order of their coming.
    order: VecDeque<(Range, u64)>,
    /// The places of the file systems.
    within: Vec<Range>,
}

/// A mark on an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    policy: Policy,
    /// The generation in which the inode was seen first: later files have its number with others.
    generation: Option<u32>,
}

impl std::hash::Hash for Range {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.first, self.end).hash(state);
    }
}

impl Marks {
    /// Marks a file, beside what it is marked as already.
    pub fn add(&self, within: Range, inode: u64, policy: Policy) {
        let mut marked = self.marked();
        let key = (within, inode);
        let known = marked.policies.get(&key).copied();
        let Mark { policy: before, .. } = known.unwrap_or_default();
        // A program that marks it again has opened the file of now.
        marked.policies.insert(key, Mark { policy: before.and(policy), generation: None });
        if known.is_none() {
            marked.order.push_back(key);
        }
        if !marked.within.contains(&within) {
            marked.within.push(within);
        }
        let oldest = if marked.order.len() > MARKS_MAX { marked.order.pop_front() } else { None };
        if let Some(oldest) = oldest {
            marked.policies.remove(&oldest);
        }
    }

    /// The policy for a block whose request was seen so.
    pub fn policy(&self, lbn: u64, seen: Option<&Observation>) -> Policy {
        let Some(file) = seen.and_then(|seen| seen.file.as_ref()) else { return Policy::DEFAULT };
        let mut marked = self.marked();
        let Some(within) = marked.within.iter().copied().find(|within| within.has(lbn)) else { return Policy::DEFAULT };
        let Some(mark) = marked.policies.get_mut(&(within, file.inode)) else { return Policy::DEFAULT };
        let generation = *mark.generation.get_or_insert(file.generation);
        if generation == file.generation { mark.policy } else { Policy::DEFAULT }
    }

    /// The number of files that are marked.
    pub fn len(&self) -> usize {
        self.marked().policies.len()
    }

    fn marked(&self) -> MutexGuard<'_, Marked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_observer::{File, Operation, Source};

    #[test]
    fn the_oldest_mark_goes_when_there_are_too_many() {
        let (marks, within) = (Marks::default(), Range { first: 0, end: 100 });
        (0..=MARKS_MAX as u64).for_each(|inode| marks.add(within, inode, Policy::DEFAULT.apart()));
        marks.add(within, 7, Policy::DEFAULT.plain());
        assert_eq!(marks.len(), MARKS_MAX);
        let marked = marks.marked();
        assert!(!marked.policies.contains_key(&(within, 0)));
        assert_eq!(marked.policies[&(within, 7)].policy, Policy::DEFAULT.apart().plain());
    }

    #[test]
    fn a_mark_is_for_the_file_that_was_seen_first() {
        let (marks, within) = (Marks::default(), Range { first: 0, end: 100 });
        let seen = |generation| {
            let mut seen = Observation::new(Operation::Write);
            let mut file = File::new(Source::PageCache, 12, None);
            file.generation = generation;
            seen.file = Some(file);
            seen
        };
        marks.add(within, 12, Policy::DEFAULT.apart());
        assert_eq!([3, 3, 4].map(|generation| marks.policy(5, Some(&seen(generation))).is_apart()), [true, true, false]);
        assert!(!marks.policy(100, Some(&seen(3))).is_apart() && !marks.policy(5, None).is_apart());
        marks.add(within, 12, Policy::DEFAULT.apart());
        assert!(marks.policy(5, Some(&seen(4))).is_apart(), "the later file is marked, too");
    }
}
