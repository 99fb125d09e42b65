//! The working set of a trace: the blocks that it reads or writes, moved together on a device that has no others.
//!
//! 1. The order of the blocks stays, and so do runs of them: a read or a write is as long as before.
//! 2. A discard keeps the blocks of the working set in its range; one without any is left out.

use onefold_engine::units::{BLOCK_BYTES, Bytes};
use onefold_trace::record::{Op, Record};

/// The blocks of a working set.
#[derive(Clone, Debug, Default)]
pub struct WorkingSet {
    /// A bit for each block of the traced device.
    words: Vec<u64>,
    /// The number of blocks of the set before each word.
    before: Vec<u64>,
}

impl WorkingSet {
    /// Collects the blocks that these records read or write.
    ///
    /// # Errors
    /// Fails with the first record that cannot be read.
    pub fn of<E>(records: impl Iterator<Item = Result<Record, E>>) -> Result<Self, E> {
        let mut words = Vec::new();
        for record in records {
            let record = record?;
            if matches!(record.op, Op::Read | Op::Write) {
                blocks_of(&record).for_each(|block| set(&mut words, block));
            }
        }
        let mut sum = 0;
        let before = words
            .iter()
            .map(|word: &u64| {
                sum += u64::from(word.count_ones());
                sum - u64::from(word.count_ones())
            })
            .collect();
        Ok(Self { words, before })
    }

    /// Returns the number of its blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.rank(self.words.len() as u64 * 64)
    }

    /// Returns the record as it is on the device of the working set alone; none if nothing of it is left.
    #[must_use]
    pub fn moved(&self, mut record: Record) -> Option<Record> {
        let (offset, end) = (record.offset.get(), record.offset.get() + record.length.get());
        match record.op {
            Op::Read | Op::Write => record.offset = Bytes(self.rank(offset / BLOCK_BYTES) * BLOCK_BYTES + offset % BLOCK_BYTES),
            Op::Discard | Op::WriteZeroes => {
                let (first, behind) = (self.rank(offset.div_ceil(BLOCK_BYTES)), self.rank(end / BLOCK_BYTES));
                record.offset = Bytes(first * BLOCK_BYTES);
                record.length = Bytes(behind.checked_sub(first).filter(|blocks| *blocks > 0)? * BLOCK_BYTES);
            }
            Op::Flush | Op::Mark => {}
        }
        Some(record)
    }

    /// Returns the number of its blocks before this one.
    fn rank(&self, block: u64) -> u64 {
        let at = usize::try_from(block / 64).unwrap_or(usize::MAX);
        match (self.words.get(at), self.before.get(at)) {
            (Some(word), Some(before)) => before + u64::from((word & ((1 << (block % 64)) - 1)).count_ones()),
            _ => self.before.last().zip(self.words.last()).map_or(0, |(before, word)| before + u64::from(word.count_ones())),
        }
    }
}

fn blocks_of(record: &Record) -> std::ops::Range<u64> {
    let (offset, end) = (record.offset.get(), record.offset.get() + record.length.get());
    offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
}

fn set(words: &mut Vec<u64>, block: u64) {
    let at = usize::try_from(block / 64).expect("a device has fewer blocks");
    if at >= words.len() {
        words.resize(at + 1, 0);
    }
    words[at] |= 1 << (block % 64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn record(op: Op, offset: u64, length: u64) -> Record {
        Record::new(0, op, Bytes(offset), Bytes(length))
    }

    #[test]
    fn blocks_move_together_in_their_order() {
        const B: u64 = BLOCK_BYTES;
        let trace = [(Op::Write, 5 * B, 2 * B), (Op::Read, 100 * B + 512, 512), (Op::Write, 64 * B, B), (Op::Discard, 0, 1000 * B)];
        let records = trace.map(|(op, offset, length)| record(op, offset, length));
        let set = WorkingSet::of(records.iter().cloned().map(Ok::<_, Infallible>)).expect("nothing fails");
        assert_eq!(set.blocks(), 4);
        let moved = |op, offset, length| set.moved(record(op, offset, length)).map(|r| (r.offset.get(), r.length.get()));
        assert_eq!(moved(Op::Write, 5 * B, 2 * B), Some((0, 2 * B)));
        assert_eq!(moved(Op::Write, 64 * B, B), Some((2 * B, B)));
        assert_eq!(moved(Op::Read, 100 * B + 512, 512), Some((3 * B + 512, 512)));
        assert_eq!(moved(Op::Discard, 0, 1000 * B), Some((0, 4 * B)), "it covers all");
        assert_eq!(moved(Op::Discard, 6 * B, 58 * B + 5), Some((B, B)), "the block that it touches in part stays");
        assert_eq!(moved(Op::WriteZeroes, 7 * B, 50 * B), None);
        assert_eq!(moved(Op::Flush, 0, 0), Some((0, 0)));
        assert_eq!(WorkingSet::default().blocks(), 0);
    }
}
