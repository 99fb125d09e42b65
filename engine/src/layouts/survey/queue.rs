//! The looks that a survey has still to take, and the one under way.
//!
//! 1. A look is a run of bytes of the volume, read block by block. Where a block cannot be read, it ends with the bytes before it.
//! 2. No more than [`READS_MAX`] blocks are read, and no more than [`LOOKS_MAX`] looks wait.

use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Blocks, Lbn, count, index};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// The most blocks that a survey reads.
pub const READS_MAX: usize = 4096;
/// The most looks that wait.
const LOOKS_MAX: usize = 4096;
/// The most bytes of a look: a table of partitions of that length is the longest structure.
const LOOK_BYTES_MAX: u64 = 128 << 10;

/// A look under way.
#[derive(Debug)]
struct Reading<P> {
    range: Range<u64>,
    purpose: P,
    bytes: Vec<u8>,
}

/// Looks, each with its purpose.
#[derive(Debug)]
pub(super) struct Queue<P> {
    volume: Blocks,
    waiting: VecDeque<(Range<u64>, P)>,
    reading: Option<Reading<P>>,
    read: BTreeSet<Lbn>,
    reads: usize,
}

impl<P> Queue<P> {
    pub(super) fn new(volume: Blocks) -> Self {
        Self { volume, waiting: VecDeque::new(), reading: None, read: BTreeSet::new(), reads: 0 }
    }

    /// Adds a look at bytes of the volume. Returns whether there was room, and the bytes lie in the volume.
    pub(super) fn push(&mut self, range: Range<u64>, purpose: P) -> bool {
        let fits = range.start < range.end
            && range.end - range.start <= LOOK_BYTES_MAX
            && range.end.div_ceil(BLOCK_BYTES) <= self.volume.0
            && self.waiting.len() < LOOKS_MAX;
        if fits {
            self.waiting.push_back((range, purpose));
        }
        fits
    }

    /// The block to read next.
    pub(super) fn next(&mut self) -> Option<Lbn> {
        if self.reads >= READS_MAX {
            return None;
        }
        if self.reading.is_none() {
            let (range, purpose) = self.waiting.pop_front()?;
            self.reading = Some(Reading { range, purpose, bytes: Vec::new() });
        }
        self.reading.as_ref().map(Reading::lbn)
    }

    /// Whether looks are left that were not taken.
    pub(super) fn is_cut_short(&self) -> bool {
        self.reading.is_some() || !self.waiting.is_empty()
    }

    /// Whether a block has been read already.
    pub(super) fn has_read(&self, lbn: Lbn) -> bool {
        self.read.contains(&lbn)
    }

    /// Takes the block that was to be read, or none if it is unreadable. Returns the look if that ends it: its purpose, its first byte, and
    /// its content.
    pub(super) fn take(&mut self, block: Option<&[u8; BLOCK_SIZE]>) -> Option<(P, u64, Vec<u8>)> {
        let mut reading = self.reading.take()?;
        self.reads += 1;
        self.read.insert(reading.lbn());
        let is_over = block.is_none_or(|block| reading.append(block));
        if is_over {
            return Some((reading.purpose, reading.range.start, reading.bytes));
        }
        self.reading = Some(reading);
        None
    }
}

impl<P> Reading<P> {
    /// The byte that follows those that are there.
    fn at(&self) -> u64 {
        self.range.start + count(self.bytes.len())
    }

    fn lbn(&self) -> Lbn {
        Lbn(self.at() / BLOCK_BYTES)
    }

    /// Appends what the look needs of its next block. Returns whether that was the last.
    fn append(&mut self, block: &[u8; BLOCK_SIZE]) -> bool {
        let first = self.lbn().0 * BLOCK_BYTES;
        let end = BLOCK_BYTES.min(self.range.end - first);
        self.bytes.extend_from_slice(&block[index(self.at() - first)..index(end)]);
        self.at() == self.range.end
    }
}
