//! The block writes of a trace, as the policy lab takes them: nine bytes each, so that 20 million fit in memory beside a policy.

use super::streams::{Stream, Streams};
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::analyze::By;
use onefold_trace::content;
use onefold_trace::header::Unit;
use onefold_trace::record::{ContentName, Op, Record};
use onefold_trace::synth::interleave::trace_at;
use rustc_hash::FxHashMap;

/// The number of a content: 0 for zeros, otherwise in the order in which contents first appear.
pub type Content = u32;

/// The content of a block of zeros, or of one that is discarded. It is never stored.
pub const ZEROS: Content = 0;

/// The mark of the first block of a request, in [`BlockWrite::what`].
const FIRST: u32 = 1 << 31;

/// The write of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockWrite {
    /// The block, renumbered in the order in which blocks first appear; of several traces, the blocks of each are numbered together.
    pub lbn: u32,
    what: u32,
}

impl BlockWrite {
    /// Returns the content.
    #[must_use]
    pub const fn content(self) -> Content {
        self.what & !FIRST
    }

    /// Returns whether it is the first block of its request.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.what & FIRST != 0
    }
}

/// All block writes of a trace.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    pub list: Vec<BlockWrite>,
    /// The stream of each of them.
    pub streams: Vec<Stream>,
    /// The names of the streams, by number.
    pub names: Vec<String>,
    /// The number of blocks that were ever written, and of contents, zeros included.
    pub lbns: u32,
    pub contents: u32,
}

/// Renumbers blocks and contents.
#[derive(Default)]
struct Numbers {
    lbns: FxHashMap<u64, u32>,
    contents: FxHashMap<[u8; 16], u32>,
    /// The trace of each block.
    traces: Vec<u8>,
}

impl Writes {
    /// Reads the writes and discards of a trace. A content that the trace does not name is one of its own.
    ///
    /// # Errors
    /// Fails if there are more than 2^31 blocks or contents.
    pub fn of(records: impl Iterator<Item = Record>, unit: Unit) -> Result<Self, String> {
        Self::divided(records, unit, Streams::new(By::Trace, []))
    }

    /// Reads the same, of a trace or of several that are interleaved, and divides the writes into streams.
    ///
    /// # Errors
    /// Fails if there are more than 2^31 blocks or contents.
    pub fn divided(records: impl Iterator<Item = Record>, unit: Unit, mut streams: Streams) -> Result<Self, String> {
        let (mut writes, mut numbers) = (Self { contents: 1, ..Self::default() }, Numbers::default());
        for record in records {
            match record.op {
                Op::Write | Op::WriteZeroes => writes.add(&record, unit, &mut numbers)?,
                Op::Discard => {
                    let (first, end) = (record.offset.0.div_ceil(BLOCK_BYTES), (record.offset.0 + record.length.0) / BLOCK_BYTES);
                    let known = (first..end).filter_map(|block| numbers.lbns.get(&block));
                    writes.list.extend(known.map(|&lbn| BlockWrite { lbn, what: ZEROS }));
                }
                Op::Read | Op::Flush | Op::Mark => continue,
            }
            writes.streams.resize(writes.list.len(), streams.of(&record));
        }
        writes.names = streams.names();
        writes.number_by_trace(&numbers.traces);
        Ok(writes)
    }

    /// Numbers the blocks of each trace together, in the order that they have.
    fn number_by_trace(&mut self, traces: &[u8]) {
        if traces.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..self.lbns).collect();
        order.sort_by_key(|&lbn| traces[lbn as usize]);
        let mut numbers = vec![0; order.len()];
        for (number, lbn) in (0..).zip(order) {
            numbers[lbn as usize] = number;
        }
        self.list.iter_mut().for_each(|write| write.lbn = numbers[write.lbn as usize]);
    }

    fn add(&mut self, record: &Record, unit: Unit, numbers: &mut Numbers) -> Result<(), String> {
        let mut first = FIRST;
        let trace = u8::try_from(trace_at(record.offset)).map_err(|_| format!("byte {} is beyond any device", record.offset.0))?;
        for (block, name) in content::blocks(record, unit) {
            let lbn = *numbers.lbns.entry(block).or_insert_with(|| {
                numbers.traces.push(trace);
                take(&mut self.lbns)
            });
            let content = match name {
                ContentName::Zero => ZEROS,
                ContentName::Unknown => take(&mut self.contents),
                ContentName::Of(bytes) => {
                    let key = bytes[..16].try_into().expect("sixteen bytes");
                    *numbers.contents.entry(key).or_insert_with(|| take(&mut self.contents))
                }
            };
            if self.lbns.max(self.contents) >= FIRST {
                return Err("the trace has more blocks or contents than the policy lab can number (2^31)".to_owned());
            }
            self.list.push(BlockWrite { lbn, what: content | first });
            first = 0;
        }
        Ok(())
    }
}

fn take(next: &mut u32) -> u32 {
    *next += 1;
    *next - 1
}

/// The first 64 bits of a content's fingerprint: a bijection, so that two contents never share them.
#[must_use]
pub const fn fingerprint(content: Content) -> u64 {
    let mut z = (content as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::Bytes;
    use onefold_trace::record::Block;
    use onefold_trace::synth::interleave::{Interleaved, Turn};

    #[test]
    fn blocks_of_interleaved_traces_are_numbered_trace_by_trace() {
        let trace = |blocks: &[u64]| {
            let record = |&block: &u64| Record {
                blocks: vec![Block::named(ContentName::Unknown)],
                ..Record::new(0, Op::Write, Bytes(block * BLOCK_BYTES), Bytes(BLOCK_BYTES))
            };
            blocks.iter().map(record).collect::<Vec<_>>().into_iter()
        };
        let both = Interleaved::new([trace(&[7, 8, 9]), trace(&[7, 6])], Turn::Requests(1));
        let streams = Streams::new(By::Trace, ["a".to_owned(), "b".to_owned()]);
        let writes = Writes::divided(both, Unit::Block, streams).expect("sound");
        assert_eq!(writes.list.iter().map(|write| write.lbn).collect::<Vec<_>>(), [0, 3, 1, 4, 2]);
        assert_eq!((writes.streams, writes.names), (vec![0, 1, 0, 1, 0], vec!["a".to_owned(), "b".to_owned()]));
    }
}
