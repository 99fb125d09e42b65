//! Observations that wait for their requests, and the joining of both.
//!
//! A bio is seen once, whole; requests merge bios and split them. So observations are kept by ranges of sectors, and each sector of a
//! request uses up one of them. Several threads may bring requests, and the reader of the ring may be behind: what is not certain is
//! unknown.
//!
//! 1. An observation is used at most once for each sector.
//! 2. Where two observations that wait for one sector disagree, all requests of the sector find it ambiguous, until none waits there.
//! 3. After a loss in the ring, after [`WAITS_NS`], or beyond the bound of memory an observation is forgotten: it is never joined to
//!    the next request of the block.
//! 4. A request that came before its observation was visible has used it up all the same.
//!
//! The module has no clock: times come with the observations and the requests. What it cannot know: of two writes to one sector that are
//! under way at once, with the observation of the first one lost, the first request may get the facts of the second.

#[cfg(test)]
mod late_tests;
mod segments;
#[cfg(test)]
mod tests;

use crate::observation::{Observation, Operation};
use crate::runs::{Facts, Runs};
use segments::Segments;
use std::collections::VecDeque;
use std::sync::Arc;

/// The time that an observation waits for its request, in nanoseconds.
pub(crate) const WAITS_NS: u64 = 5_000_000_000;
/// The most requests that may wait for hidden observations.
const OWED_MAX: usize = 256;
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Kinds of requests that are joined apart from each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    Read,
    Write,
    /// Discards and writes of zeroes, which a server may not be able to tell from each other.
    Clear,
}

impl From<Operation> for Class {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read => Self::Read,
            Operation::Write => Self::Write,
            Operation::Discard | Operation::WriteZeroes => Self::Clear,
        }
    }
}

/// A bio as it comes out of the ring.
#[derive(Clone, Debug)]
pub(crate) struct Bio {
    /// The time at which it was seen: nanoseconds of CLOCK_MONOTONIC.
    pub time: u64,
    pub start: u64,
    /// In sectors, as `start` is; the first one behind the bio.
    pub end: u64,
    pub observation: Observation,
}

/// Sectors of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub class: Class,
    pub start: u64,
    pub end: u64,
}

/// The counts since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub bios: u64,
    pub joined_blocks: u64,
    pub unknown_blocks: u64,
    pub ambiguous_blocks: u64,
    pub expired: u64,
    pub forgotten: u64,
}

/// A bio that waits, in the order of its arrival.
#[derive(Debug)]
struct Waiting {
    time: u64,
    range: Range,
    /// Sectors that no request has used yet.
    left: u64,
    /// `None` as soon as nothing is left.
    observation: Option<Arc<Observation>>,
}

/// A part of a request that found nothing while observations were hidden from the reader.
#[derive(Clone, Copy, Debug)]
struct Owed {
    time: u64,
    range: Range,
}

/// The observations that wait.
pub(crate) struct Joiner {
    /// The serial number of the first one in `waiting`.
    first: u64,
    waiting: VecDeque<Waiting>,
    /// The number of those of which something is left.
    pending: usize,
    name_bytes: usize,
    segments: Segments,
    owed: Vec<Owed>,
    /// Observations from before this time are not kept.
    not_before: u64,
    bytes_max: usize,
    tally: Tally,
}

impl Joiner {
    /// Makes a joiner that keeps at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            first: 0,
            waiting: VecDeque::new(),
            pending: 0,
            name_bytes: 0,
            segments: Segments::default(),
            owed: Vec::new(),
            not_before: 0,
            bytes_max,
            tally: Tally::default(),
        }
    }

    /// Takes a bio out of the ring.
    pub fn insert(&mut self, bio: Bio) {
        self.tally.bios += 1;
        if bio.start >= bio.end || bio.time < self.not_before {
            return;
        }
        let range = Range { class: bio.observation.operation.into(), start: bio.start, end: bio.end };
        let serial = self.first + self.waiting.len() as u64;
        let observation = Arc::new(bio.observation);
        self.name_bytes += name_bytes(&observation);
        let (first, waiting) = (self.first, &self.waiting);
        self.segments.add(range, serial, |other| observation_of(waiting, first, other).is_some_and(|other| other.agrees(&observation)));
        self.waiting.push_back(Waiting { time: bio.time, range, left: range.end - range.start, observation: Some(observation) });
        self.pending += 1;
        if !self.owed.is_empty() {
            self.pay(range, bio.time);
        }
        self.keep_within_bound();
    }

    /// The ring has been drained up to everything that was in it when the drain began: nothing is hidden any more.
    pub fn caught_up(&mut self) {
        self.owed.clear();
    }

    /// Begins anew at this time: bios from before it are not joined, and everything that waits is forgotten.
    pub fn begin_at(&mut self, now: u64) {
        self.forget_all();
        self.owed.clear();
        self.not_before = now;
    }

    /// Forgets everything, because the ring has lost something.
    pub fn forget_all(&mut self) {
        self.tally.forgotten += self.pending as u64;
        self.first += self.waiting.len() as u64;
        self.waiting = VecDeque::new();
        self.segments = Segments::default();
        (self.pending, self.name_bytes) = (0, 0);
    }

    /// Forgets what has waited for too long.
    pub fn expire(&mut self, now: u64) {
        while self.waiting.front().is_some_and(|oldest| oldest.observation.is_none() || oldest.time + WAITS_NS < now) {
            self.tally.expired += u64::from(self.forget_oldest());
        }
    }

    /// Joins a request of `length` bytes at `offset`, which has arrived at `now`. While the reader is `behind`, observations may be hidden.
    pub fn take(&mut self, operation: Operation, offset: u64, length: u64, now: u64, behind: bool) -> Runs {
        let mut runs = Runs::default();
        let request_end = offset + length;
        let range = Range { class: operation.into(), start: offset / SECTOR_BYTES, end: request_end.div_ceil(SECTOR_BYTES) };
        self.use_up(range, |joiner, part, facts| {
            if behind && matches!(facts, Facts::Unknown) {
                joiner.owe(Owed { time: now, range: part });
            }
            runs.push((part.start * SECTOR_BYTES).max(offset), (part.end * SECTOR_BYTES).min(request_end), facts);
        });
        for run in runs.iter() {
            match (run.observation(), run.is_ambiguous()) {
                (Some(_), _) => self.tally.joined_blocks += run.blocks(),
                (None, is_ambiguous) => {
                    self.tally.unknown_blocks += run.blocks();
                    self.tally.ambiguous_blocks += u64::from(is_ambiguous) * run.blocks();
                }
            }
        }
        // A request may split segments, which takes memory.
        self.keep_within_bound();
        runs
    }

    /// Returns the counts.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the number of observations of which a part waits.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Returns about how many bytes of memory are in use.
    pub fn bytes(&self) -> usize {
        // A deque may have room for twice what is in it. What is in an Arc has two counts before it.
        let waiting = self.waiting.len() * 2 * size_of::<Waiting>();
        waiting + self.pending * (size_of::<Observation>() + 32) + self.name_bytes + self.segments.bytes()
    }

    /// Uses up one observation for each sector, and passes on what the parts of the range have found, in their order.
    fn use_up(&mut self, range: Range, mut found: impl FnMut(&mut Self, Range, Facts)) {
        let mut at = range.start;
        while at < range.end {
            let (end, taken) = self.segments.take(Range { start: at, ..range });
            let part = Range { start: at, end, ..range };
            let facts = match taken {
                None => Facts::Unknown,
                Some((serial, is_ambiguous)) => {
                    let observation = self.use_sectors(serial, end - at);
                    if is_ambiguous { Facts::Ambiguous } else { Facts::Known(observation) }
                }
            };
            found(self, part, facts);
            at = end;
        }
    }

    fn use_sectors(&mut self, serial: u64, sectors: u64) -> Arc<Observation> {
        let waiting = usize::try_from(serial - self.first).ok().and_then(|at| self.waiting.get_mut(at));
        let waiting = waiting.expect("a segment names observations that wait");
        waiting.left -= sectors;
        if waiting.left > 0 {
            return waiting.observation.clone().expect("sectors are left");
        }
        let observation = waiting.observation.take().expect("sectors were left");
        self.pending -= 1;
        self.name_bytes -= name_bytes(&observation);
        while self.waiting.front().is_some_and(|oldest| oldest.observation.is_none()) {
            self.waiting.pop_front();
            self.first += 1;
        }
        observation
    }

    fn keep_within_bound(&mut self) {
        while self.bytes() > self.bytes_max && !self.waiting.is_empty() {
            self.tally.forgotten += u64::from(self.forget_oldest());
        }
    }

    /// Drops the oldest, and returns whether something of it was left.
    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.waiting.pop_front() else { return false };
        self.first += 1;
        let Some(observation) = oldest.observation else { return false };
        self.segments.remove(oldest.range, self.first - 1);
        self.pending -= 1;
        self.name_bytes -= name_bytes(&observation);
        true
    }

    fn owe(&mut self, owed: Owed) {
        if self.owed.len() < OWED_MAX {
            self.owed.push(owed);
        } else {
            // Too many to be kept one by one: nothing that is hidden now will be used.
            self.owed.clear();
            self.not_before = owed.time;
        }
    }

    /// A bio has become visible: each sector of it has been used up by the oldest request that came after the bio and found nothing.
    fn pay(&mut self, bio: Range, time: u64) {
        let mut still_owed = Vec::new();
        let mut unpaid = vec![bio];
        for owed in std::mem::take(&mut self.owed) {
            let mut left = vec![owed.range];
            let common: Vec<Range> = unpaid.iter().filter_map(|part| part.common(owed.range)).collect();
            for paid in common.into_iter().filter(|_| owed.time > time) {
                self.use_up(paid, |_, _, _| {});
                left = left.into_iter().flat_map(|part| part.without(paid)).collect();
                unpaid = unpaid.into_iter().flat_map(|part| part.without(paid)).collect();
            }
            still_owed.extend(left.into_iter().map(|range| Owed { range, ..owed }));
        }
        self.owed = still_owed;
    }
}

impl Range {
    /// Returns the sectors that both have.
    fn common(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (self.class == other.class && start < end).then_some(Self { start, end, ..self })
    }

    /// Returns what is left of it without the other one, which is of the same class.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self { end: self.end.min(other.start), ..self };
        let behind = Self { start: self.start.max(other.end), ..self };
        [before, behind].into_iter().filter(|range| range.start < range.end)
    }
}

fn observation_of(waiting: &VecDeque<Waiting>, first: u64, serial: u64) -> Option<&Observation> {
    waiting.get(usize::try_from(serial - first).ok()?)?.observation.as_deref()
}

fn name_bytes(observation: &Observation) -> usize {
    observation.file.as_ref().and_then(|file| file.name.as_ref()).map_or(0, |name| name.as_bytes().len() + 16)
}
