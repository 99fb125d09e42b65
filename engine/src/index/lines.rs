//! The lines of the index in one piece of memory, each in a line of the processor's cache.

use super::line::{LINE_BYTES, Layout, Line};
use crate::fingerprint::Fingerprint;
use crate::units::{count, index};

/// The place of an entry: its bucket, and its place there.
pub(super) type Place = (usize, usize);

/// The lines.
pub(super) struct Lines {
    pub layout: Layout,
    bytes: Box<[u8]>,
    /// The first byte that begins a line of the processor's cache.
    first: usize,
    buckets: usize,
}

impl Lines {
    /// Makes this number of empty lines.
    pub fn new(layout: Layout, buckets: usize) -> Self {
        let bytes = vec![0; buckets * LINE_BYTES + LINE_BYTES - 1].into_boxed_slice();
        // `align_offset` may fail, which costs speed only.
        let first = bytes.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES - 1);
        Self { layout, bytes, first, buckets }
    }

    /// The number of entries that fit.
    pub fn capacity(&self) -> u64 {
        count(self.buckets * self.layout.ways())
    }

    /// The bytes of its memory.
    pub fn bytes(&self) -> u64 {
        count(self.bytes.len())
    }

    /// A bucket by the high bits of a word (by multiply and shift, for any number of buckets).
    fn bucket(&self, word: u64) -> usize {
        index(((word >> 28) * count(self.buckets)) >> 36)
    }

    /// The first bucket of a fingerprint. The low bits of its head are its tag.
    pub fn first_of(&self, fp: &Fingerprint) -> usize {
        self.bucket(fp.head())
    }

    /// The other bucket of an entry with this tag that is in this bucket. The tag tells the sum of both, so either leads to the other.
    pub fn other_of(&self, bucket: usize, tag: u64) -> usize {
        let sum = self.bucket(tag.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if sum >= bucket { sum - bucket } else { sum + self.buckets - bucket }
    }

    /// Moves an entry of a full bucket to its other bucket. The place that is empty then, if one had room.
    pub fn move_one(&mut self, bucket: usize) -> Option<usize> {
        let (at, to) = (0..self.layout.ways()).find_map(|at| {
            let other = self.other_of(bucket, self.layout.tag_of(self.get((bucket, at))));
            self.find_empty(other).map(|free| (at, (other, free)))
        })?;
        let entry = self.get((bucket, at));
        self.put(to, entry);
        self.take_out((bucket, at));
        Some(self.layout.ways() - 1)
    }

    /// The place of the entry that leaves a full bucket: the least recently used one that is no sample; or that is one, if samples have
    /// more than a quarter of the bucket. The sample of the highest rank stays then, however old it is.
    pub fn evicted(&self, bucket: usize) -> usize {
        let (layout, line) = (self.layout, self.line(bucket));
        let is_sample = |at: usize| layout.is_sample(layout.get(line, at));
        let samples = (0..layout.ways()).filter(|&at| is_sample(at)).count();
        let sample_leaves = samples > layout.ways() / 4;
        let highest = (0..layout.ways()).filter(|&at| is_sample(at)).max_by_key(|&at| layout.rank(layout.get(line, at)));
        (0..layout.ways()).find(|&at| is_sample(at) == sample_leaves && Some(at) != highest).unwrap_or(0)
    }

    pub fn line(&self, bucket: usize) -> &Line {
        self.bytes[self.first + bucket * LINE_BYTES..][..LINE_BYTES].try_into().expect("a line")
    }

    fn line_mut(&mut self, bucket: usize) -> &mut Line {
        (&mut self.bytes[self.first + bucket * LINE_BYTES..][..LINE_BYTES]).try_into().expect("a line")
    }

    /// The first empty place of a bucket.
    pub fn find_empty(&self, bucket: usize) -> Option<usize> {
        self.layout.find_empty(self.line(bucket))
    }

    pub fn get(&self, (bucket, at): Place) -> u64 {
        self.layout.get(self.line(bucket), at)
    }

    /// Whether a bucket has room for another entry, and none with this tag.
    pub fn has_room_without(&self, bucket: usize, tag: u64) -> bool {
        self.layout.has_room_without(self.line(bucket), tag)
    }

    /// Writes an entry to a bucket that has room, as its most recently used one.
    pub fn append(&mut self, bucket: usize, entry: u64) {
        let layout = self.layout;
        layout.append(self.line_mut(bucket), entry);
    }

    /// Removes the entry at a place, and makes this one the most recently used of the bucket.
    pub fn replace(&mut self, (bucket, at): Place, entry: u64) {
        let layout = self.layout;
        layout.replace(self.line_mut(bucket), at, entry);
    }

    /// Writes an entry to the first empty place of its bucket, or changes one in its place.
    pub fn put(&mut self, (bucket, at): Place, entry: u64) {
        let layout = self.layout;
        layout.put(self.line_mut(bucket), at, entry);
    }

    /// Removes the entry at a place.
    pub fn take_out(&mut self, (bucket, at): Place) {
        let layout = self.layout;
        layout.take_out(self.line_mut(bucket), at);
    }

    pub fn set_doubt(&mut self, place: Place, is_doubtful: bool) {
        let entry = self.layout.with_doubt(self.get(place), is_doubtful);
        self.put(place, entry);
    }
}
