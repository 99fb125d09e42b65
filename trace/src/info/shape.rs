//! The shape of a trace's writes: their places, their sizes, and the age of the contents that they duplicate.
//!
//! It takes about 16 bytes of memory for each written block and 4 for each content.

use crate::record::Record;
use onefold_engine::units::BLOCK_BYTES;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The shape of writes; a share or mean of nothing is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shape {
    /// The number of blocks that were written at least once.
    pub blocks_ever_written: u64,
    /// The share of block writes that went to a block written before.
    pub overwrites: Option<f64>,
    /// The share of block writes that went to the busiest tenth of the blocks ever written.
    pub busiest_tenth: Option<f64>,
    /// The share of writes that begin where the previous one ends.
    pub sequential: Option<f64>,
    /// The share of reads among reads and writes.
    pub reads: Option<f64>,
    /// The mean number of blocks of a write.
    pub write_blocks_mean: Option<f64>,
    /// The mean compressed size of a written block, in bytes, if it was recorded.
    pub compressed_bytes_mean: Option<f64>,
    /// The median number of block writes between a duplicate and the last write of its content; within 7 %.
    pub duplicates_back_median: Option<u64>,
}

/// Counts write by write.
#[derive(Debug, Default)]
pub(super) struct Shaper {
    /// The number of times that each block was written.
    times: FxHashMap<u64, u32>,
    sequential: u64,
    end: Option<u64>,
    compressed: u64,
    compressed_bytes: u64,
    back: Octaves,
}

impl Shaper {
    pub fn write(&mut self, record: &Record) {
        let begin = record.offset.get();
        self.sequential += u64::from(self.end.replace(begin + record.length.get()) == Some(begin));
        let first = begin / BLOCK_BYTES;
        // A request far larger than its fingerprints is a mistake, or too large for anybody to count block by block.
        for block in first..first + record.blocks_touched().min(BLOCKS_MAX) {
            let times = self.times.entry(block).or_default();
            *times = times.saturating_add(1);
        }
        for bytes in record.blocks.iter().filter_map(|block| block.compressed) {
            self.compressed += 1;
            self.compressed_bytes += u64::from(bytes);
        }
    }

    /// Counts a duplicate whose content was last written `back` block writes ago.
    pub fn duplicate(&mut self, back: u64) {
        self.back.add(back);
    }

    pub fn shape(self, writes: u64, reads: u64, blocks_written: u64) -> Shape {
        let mut times: Vec<u32> = self.times.into_values().collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = times.iter().map(|times| u64::from(*times)).sum();
        let busiest: u64 = times.iter().take(times.len().div_ceil(10)).map(|times| u64::from(*times)).sum();
        let ever = times.len() as u64;
        Shape {
            blocks_ever_written: ever,
            overwrites: ratio(all - ever, all),
            busiest_tenth: ratio(busiest, all),
            sequential: ratio(self.sequential, writes),
            reads: ratio(reads, reads + writes),
            write_blocks_mean: ratio(blocks_written, writes),
            compressed_bytes_mean: ratio(self.compressed_bytes, self.compressed),
            duplicates_back_median: self.back.median(),
        }
    }
}

/// The largest number of blocks of a write that are counted one by one: 1 GiB.
const BLOCKS_MAX: u64 = 1 << 18;

#[allow(clippy::cast_precision_loss)] // shares are shown with one digit
fn ratio(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}

/// Counts of numbers in buckets, eight for each power of two.
#[derive(Debug, Default)]
struct Octaves {
    buckets: Vec<u64>,
    total: u64,
}

impl Octaves {
    fn bucket(number: u64) -> usize {
        let shift = (u64::BITS - number.leading_zeros()).saturating_sub(4);
        // A bucket covers numbers with the same four leading bits; below 16 each number has a bucket of its own.
        usize::try_from(u64::from(shift) * 8 + (number >> shift)).unwrap_or(usize::MAX)
    }

    fn add(&mut self, number: u64) {
        let bucket = Self::bucket(number);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.total += 1;
    }

    fn median(&self) -> Option<u64> {
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below > self.total / 2
        })?;
        let (shift, bits) = if bucket < 16 { (0, bucket) } else { (bucket / 8 - 1, bucket % 8 + 8) };
        let (first, width) = ((bits as u64) << shift, 1u64 << shift);
        Some(first + width / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Op;
    use onefold_engine::units::Bytes;

    #[test]
    fn a_median_is_near() {
        for middle in [0, 1, 7, 15, 16, 17, 100, 1000, 123_456, 1 << 40] {
            let mut octaves = Octaves::default();
            [0, middle, u64::MAX / 2].into_iter().for_each(|number| octaves.add(number));
            let median = octaves.median().expect("three");
            assert!(median.abs_diff(middle) <= middle / 14, "{median} for {middle}");
        }
        assert_eq!(Octaves::default().median(), None);
    }

    #[test]
    fn writes_are_counted_by_place() {
        let mut shaper = Shaper::default();
        let write = |block: u64, count: u64| Record::new(0, Op::Write, Bytes(block * BLOCK_BYTES), Bytes(count * BLOCK_BYTES));
        for record in [write(0, 2), write(2, 1), write(0, 1), write(9, 1), write(0, 1)] {
            shaper.write(&record);
        }
        let shape = shaper.shape(5, 15, 6);
        assert_eq!(
            (shape.blocks_ever_written, shape.overwrites, shape.sequential, shape.reads),
            (4, Some(2.0 / 6.0), Some(0.2), Some(0.75))
        );
        assert_eq!((shape.busiest_tenth, shape.write_blocks_mean, shape.compressed_bytes_mean), (Some(0.5), Some(1.2), None));
    }
}
