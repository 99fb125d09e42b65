//! The sectors, with the observations that wait for each of them.
//!
//! 1. Segments of one class do not overlap, and none is empty.
//! 2. Each segment has at least one observation, the oldest first.
//! 3. A segment lies within the range of each of its observations.

use super::{Class, Range};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    oldest: u64,
    /// Seldom has a sector more than one; then nothing is allocated.
    newer: Vec<u64>,
    /// Two that have waited here disagreed.
    is_ambiguous: bool,
}

/// Observations, by serial number, for each range of sectors.
#[derive(Default)]
pub(super) struct Segments {
    segments: BTreeMap<(Class, u64), Segment>,
    /// The number of observations in `newer` of all segments.
    newer: usize,
}

impl Segments {
    /// Adds an observation to all sectors of a range; `agrees` compares it with another one.
    pub fn add(&mut self, range: Range, serial: u64, agrees: impl Fn(u64) -> bool) {
        self.split(range.class, range.start);
        self.split(range.class, range.end);
        let mut at = range.start;
        while at < range.end {
            let next = self.segments.range_mut((range.class, at)..(range.class, range.end)).next();
            match next {
                Some((&(_, start), segment)) if start == at => {
                    segment.is_ambiguous |= !agrees(segment.oldest);
                    segment.newer.push(serial);
                    self.newer += 1;
                    at = segment.end;
                }
                other => {
                    let end = other.map_or(range.end, |(&(_, start), _)| start);
                    let alone = Segment { end, oldest: serial, newer: Vec::new(), is_ambiguous: false };
                    self.segments.insert((range.class, at), alone);
                    at = end;
                }
            }
        }
    }

    /// Takes the oldest observation of the range's first sectors. Returns where these sectors end, with the observation's serial number and
    /// whether it is ambiguous; `None` if there is none.
    pub fn take(&mut self, range: Range) -> (u64, Option<(u64, bool)>) {
        self.split(range.class, range.start);
        let next = self.segments.range((range.class, range.start)..(range.class, range.end)).next();
        let Some((&key, _)) = next else { return (range.end, None) };
        if key.1 > range.start {
            return (key.1, None);
        }
        self.split(range.class, range.end);
        let segment = self.segments.get_mut(&key).expect("it was found above");
        let taken = (segment.oldest, segment.is_ambiguous);
        let end = segment.end;
        if segment.newer.is_empty() {
            self.segments.remove(&key);
        } else {
            segment.oldest = segment.newer.remove(0);
            self.newer -= 1;
        }
        (end, Some(taken))
    }

    /// Removes an observation from all sectors of its range that still have it.
    pub fn remove(&mut self, range: Range, serial: u64) {
        let mut emptied = Vec::new();
        for (key, segment) in self.segments.range_mut((range.class, range.start)..(range.class, range.end)) {
            let before = segment.newer.len();
            segment.newer.retain(|newer| *newer != serial);
            if segment.oldest == serial {
                match segment.newer.is_empty() {
                    true => emptied.push(*key),
                    false => segment.oldest = segment.newer.remove(0),
                }
            }
            self.newer -= before - segment.newer.len();
        }
        for key in emptied {
            self.segments.remove(&key);
        }
    }

    /// Returns about how many bytes are in use.
    pub fn bytes(&self) -> usize {
        // Nodes of the tree are at least half full; a vector may have room for twice what is in it, and begins with four.
        self.segments.len() * 2 * (size_of::<(Class, u64)>() + size_of::<Segment>()) + self.newer * 4 * size_of::<u64>()
    }

    /// Makes a segment end at this sector, if one goes across it.
    fn split(&mut self, class: Class, at: u64) {
        let Some((_, across)) = self.segments.range_mut((class, 0)..(class, at)).next_back() else { return };
        if across.end <= at {
            return;
        }
        let behind = across.clone();
        across.end = at;
        self.newer += behind.newer.len();
        self.segments.insert((class, at), behind);
    }
}
