//! The answer for one request: runs of consecutive blocks with the same facts.
//!
//! 1. The runs of a request follow each other without a gap, from its first byte to its last.
//! 2. A run begins and ends at a block's border, or at the request's.
//! 3. Two neighbouring runs differ.
//! 4. A block is known only if each of its bytes in the request is, and all of them agree.

use crate::observation::Observation;
use std::sync::Arc;

/// The bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;

/// A run of consecutive blocks of a request of which the same is known.
#[derive(Clone, Debug)]
pub struct Run {
    offset: u64,
    length: u64,
    facts: Facts,
}

/// The blocks of a request with what is known of each: runs, in the order of their places.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    // Most requests are one run, which needs no allocation.
    first: Option<Run>,
    rest: Vec<Run>,
}

/// The facts that a part of a request has found.
#[derive(Clone, Debug)]
pub(crate) enum Facts {
    Known(Arc<Observation>),
    Unknown,
    /// Observations that disagree.
    Ambiguous,
}

impl Facts {
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(mine), Self::Known(theirs)) => Arc::ptr_eq(mine, theirs) || mine.agrees(theirs),
            (Self::Unknown, Self::Unknown) | (Self::Ambiguous, Self::Ambiguous) => true,
            _ => false,
        }
    }

    /// Returns what is known of a block of which two parts do not agree.
    fn mixed(&self, other: &Self) -> Self {
        let is_unknown = matches!((self, other), (Self::Unknown, Self::Known(_)) | (Self::Known(_), Self::Unknown));
        if is_unknown { Self::Unknown } else { Self::Ambiguous }
    }
}

impl Run {
    /// Returns the run's place, in bytes from the disk's start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the run's bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns what the kernel knew of these blocks, or `None` if that is unknown.
    pub fn observation(&self) -> Option<&Arc<Observation>> {
        match &self.facts {
            Facts::Known(observation) => Some(observation),
            Facts::Unknown | Facts::Ambiguous => None,
        }
    }

    /// Returns the place of the run's first byte in its file, in bytes from the file's start, if it is known. The other bytes follow it.
    pub fn file_offset(&self) -> Option<u64> {
        self.observation()?.file_offset(self.offset)
    }

    /// Returns whether several observations contradicted each other.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self.facts, Facts::Ambiguous)
    }

    /// Returns the number of blocks that it touches.
    pub fn blocks(&self) -> u64 {
        self.end().div_ceil(BLOCK_BYTES) - self.offset / BLOCK_BYTES
    }

    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

impl Runs {
    /// Returns a request of which nothing is known.
    pub(crate) fn unknown(offset: u64, length: u64) -> Self {
        let mut runs = Self::default();
        runs.push(offset, offset + length, Facts::Unknown);
        runs
    }

    /// Returns the runs in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.first.iter().chain(&self.rest)
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Returns whether the request had no bytes.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds the next part of the request, from `start` to before `end`, in bytes of the disk.
    pub(crate) fn push(&mut self, start: u64, end: u64, facts: Facts) {
        if start == end {
            return;
        }
        let Some(last) = self.last() else {
            self.first = Some(Run { offset: start, length: end - start, facts });
            return;
        };
        debug_assert_eq!(last.end(), start, "runs have no gap");
        if last.facts.agrees(&facts) {
            last.length += end - start;
            return;
        }
        let block = start - start % BLOCK_BYTES;
        if block == start {
            self.rest.push(Run { offset: start, length: end - start, facts });
            return;
        }
        // The block has two parts that differ: it gets a run of its own.
        let mixed = last.facts.mixed(&facts);
        let mixed_end = end.min(block + BLOCK_BYTES);
        if last.offset < block {
            last.length = block - last.offset;
            self.rest.push(Run { offset: block, length: mixed_end - block, facts: mixed });
        } else {
            last.facts = mixed;
            last.length = mixed_end - last.offset;
            self.join_last();
        }
        self.push(mixed_end, end, facts);
    }

    /// Joins the last run to the one before it if they have come to agree.
    fn join_last(&mut self) {
        let Some(last) = self.rest.pop() else { return };
        match self.last() {
            Some(before) if before.facts.agrees(&last.facts) => before.length += last.length,
            _ => self.rest.push(last),
        }
    }

    fn last(&mut self) -> Option<&mut Run> {
        self.rest.last_mut().or(self.first.as_mut())
    }
}
