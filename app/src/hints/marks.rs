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
    policies: HashMap<(Range, u64), Policy>,
    /// In the order of their coming.
    order: VecDeque<(Range, u64)>,
    /// The places of the file systems.
    within: Vec<Range>,
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
        marked.policies.insert(key, known.unwrap_or_default().and(policy));
        if known.is_none() {
            marked.order.push_back(key);
        }
        if !marked.within.contains(&within) {
            marked.within.push(within);
        }
        if marked.order.len() > MARKS_MAX {
            let oldest = marked.order.pop_front().expect("there are many");
            marked.policies.remove(&oldest);
        }
    }

    /// The policy for a block whose request was seen so.
    pub fn policy(&self, lbn: u64, seen: Option<&Observation>) -> Policy {
        let Some(inode) = seen.and_then(|seen| seen.file.as_ref()).map(|file| file.inode) else { return Policy::DEFAULT };
        let marked = self.marked();
        let places = marked.within.iter().filter(|within| within.has(lbn));
        places.filter_map(|within| marked.policies.get(&(*within, inode))).fold(Policy::DEFAULT, |policy, mark| policy.and(*mark))
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

    #[test]
    fn the_oldest_mark_goes_when_there_are_too_many() {
        let (marks, within) = (Marks::default(), Range { first: 0, end: 100 });
        (0..=MARKS_MAX as u64).for_each(|inode| marks.add(within, inode, Policy::DEFAULT.apart()));
        marks.add(within, 7, Policy::DEFAULT.plain());
        assert_eq!(marks.len(), MARKS_MAX);
        let marked = marks.marked();
        assert!(!marked.policies.contains_key(&(within, 0)));
        assert_eq!(marked.policies[&(within, 7)], Policy::DEFAULT.apart().plain());
    }
}
