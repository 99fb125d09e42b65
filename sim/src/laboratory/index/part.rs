//! The fingerprints of one stream (APP-Dedupe's `App_index_table`, section III.B): those in memory, by recency and with a count, and those
//! on the medium alone.

use super::stored::Pbn;
use super::writes::Content;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A fingerprint in memory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pbn: Pbn,
    /// The writes of this content, since it came to memory or since the count was halved.
    count: u32,
    /// The time of its last use.
    used: u64,
    is_on_medium: bool,
}

/// A fingerprint on the medium.
#[derive(Clone, Copy, Debug)]
struct Away {
    pbn: Pbn,
    used: u64,
}

/// The part of a stream.
#[derive(Debug, Default)]
pub struct Part {
    held: FxHashMap<Content, Entry>,
    away: FxHashMap<Content, Away>,
    /// The uses, the oldest first; those that are not the last one of an entry are ignored.
    uses: VecDeque<(u64, Content)>,
    clock: u64,
    unwritten: u64,
}

impl Part {
    /// Returns the number of fingerprints in memory.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// Returns the number of fingerprints that only the medium has.
    #[must_use]
    pub fn away(&self) -> u64 {
        self.away.len() as u64
    }

    fn use_time(&mut self, content: Content) -> u64 {
        self.clock += 1;
        self.uses.push_back((self.clock, content));
        self.clock
    }

    /// Returns the block with this content by what is in memory, and counts the write.
    pub fn look_up(&mut self, content: Content) -> Option<Pbn> {
        if !self.held.contains_key(&content) {
            return None;
        }
        let used = self.use_time(content);
        let entry = self.held.get_mut(&content)?;
        (entry.count, entry.used) = (entry.count.saturating_add(1), used);
        Some(entry.pbn)
    }

    /// Takes a new fingerprint into memory. Returns whether memory had none of this content.
    pub fn insert(&mut self, content: Content, pbn: Pbn) -> bool {
        let used = self.use_time(content);
        self.away.remove(&content);
        let before = self.held.insert(content, Entry { pbn, count: 1, used, is_on_medium: false });
        self.unwritten += u64::from(before.is_none_or(|entry| entry.is_on_medium));
        before.is_none()
    }

    /// Forgets the fingerprint of a block. Returns whether it was in memory.
    pub fn remove(&mut self, content: Content, pbn: Pbn) -> bool {
        if self.away.get(&content).is_some_and(|away| away.pbn == pbn) {
            self.away.remove(&content);
        }
        let Some(entry) = self.held.get(&content).copied().filter(|entry| entry.pbn == pbn) else { return false };
        self.held.remove(&content);
        self.unwritten -= u64::from(!entry.is_on_medium);
        true
    }

    /// Takes the least recently used fingerprint out of memory, except that one with a count above one has it halved, and stays for another
    /// round. Returns its content and its block, and whether the medium has it.
    fn pop(&mut self) -> Option<(Content, Away, bool)> {
        loop {
            let (used, content) = self.uses.pop_front()?;
            let Some(entry) = self.held.get(&content).copied().filter(|entry| entry.used == used) else { continue };
            if entry.count > 1 {
                let used = self.use_time(content);
                self.held.insert(content, Entry { count: entry.count / 2, used, ..entry });
                continue;
            }
            self.held.remove(&content);
            self.unwritten -= u64::from(!entry.is_on_medium);
            return Some((content, Away { pbn: entry.pbn, used }, entry.is_on_medium));
        }
    }

    /// Evicts one fingerprint. It is lost unless the medium has it: `medium_has` gets its block, and whether it was written with the part.
    /// Returns whether there was one.
    pub fn evict(&mut self, medium_has: impl Fn(Pbn, bool) -> bool) -> bool {
        let Some((content, away, is_written)) = self.pop() else { return false };
        if medium_has(away.pbn, is_written) {
            self.away.insert(content, away);
        }
        true
    }

    /// Takes all fingerprints out of memory. Those that `is_kept` are on the medium then. Returns how many it did not have.
    pub fn swap_out(&mut self, is_kept: impl Fn(Pbn) -> bool) -> u64 {
        let gone = self.held.drain().filter(|(_, entry)| is_kept(entry.pbn));
        self.away.extend(gone.map(|(content, entry)| (content, Away { pbn: entry.pbn, used: entry.used })));
        self.uses.clear();
        std::mem::take(&mut self.unwritten)
    }

    /// Brings the most recently used fingerprints, at most `room` of them, from the medium to memory. Returns how many.
    pub fn swap_in(&mut self, room: u64) -> u64 {
        let mut coming: Vec<(u64, Content, Pbn)> = self.away.iter().map(|(&content, away)| (away.used, content, away.pbn)).collect();
        coming.sort_unstable();
        let first = coming.len().saturating_sub(usize::try_from(room).unwrap_or(usize::MAX));
        let mut before: VecDeque<(u64, Content)> = std::mem::take(&mut self.uses);
        for &(used, content, pbn) in &coming[first..] {
            self.away.remove(&content);
            self.held.insert(content, Entry { pbn, count: 1, used, is_on_medium: true });
            self.uses.push_back((used, content));
        }
        self.uses.append(&mut before);
        (coming.len() - first) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(contents: &[Content]) -> Part {
        let mut part = Part::default();
        contents.iter().for_each(|&content| assert!(part.insert(content, content + 100)));
        part
    }

    #[test]
    fn what_was_written_once_leaves_first_and_a_count_halves_with_each_round() {
        let mut part = part(&[1, 2, 3]);
        // Content 1 was written three times, content 2 once.
        assert_eq!([part.look_up(1), part.look_up(1), part.look_up(4)], [Some(101), Some(101), None]);
        let order: Vec<Content> = std::iter::from_fn(|| part.pop().map(|(content, ..)| content)).collect();
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn a_part_that_was_loaded_has_what_it_held_before() {
        let mut part = part(&[1, 2, 3]);
        assert_eq!(part.swap_out(|_| true), 3, "all of them are new to the medium");
        assert_eq!((part.held(), part.away(), part.look_up(2)), (0, 3, None));
        assert_eq!((part.swap_in(2), part.look_up(1), part.look_up(2), part.look_up(3)), (2, None, Some(102), Some(103)));
        assert!(part.insert(4, 104));
        assert_eq!((part.swap_out(|_| true), part.swap_in(9), part.held()), (1, 4, 4), "one was new");
        assert!(!part.remove(3, 7) && part.remove(4, 104));
        assert_eq!((part.look_up(3), part.look_up(4), part.swap_out(|_| true)), (Some(103), None, 0));
    }

    #[test]
    fn what_the_medium_does_not_have_is_lost() {
        let mut part = part(&[1, 2]);
        part.evict(|_, is_written| is_written);
        assert_eq!((part.held(), part.away()), (1, 0));
        part.swap_out(|_| true);
        part.swap_in(1);
        part.evict(|_, is_written| is_written);
        assert_eq!((part.held(), part.away()), (0, 1));
    }
}
