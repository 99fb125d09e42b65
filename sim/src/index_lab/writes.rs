//! The block writes of a trace, as the policy lab takes them: eight bytes each, so that 20 million fit in memory beside a policy.

use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::content;
use onefold_trace::header::Unit;
use onefold_trace::record::{ContentName, Op, Record};
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
    /// The block, renumbered in the order in which blocks first appear.
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
    /// The number of blocks that were ever written, and of contents, zeros included.
    pub lbns: u32,
    pub contents: u32,
}

/// Renumbers blocks and contents.
#[derive(Default)]
struct Numbers {
    lbns: FxHashMap<u64, u32>,
    contents: FxHashMap<[u8; 16], u32>,
}

impl Writes {
    /// Reads the writes and discards of a trace. A content that the trace does not name is one of its own.
    ///
    /// # Errors
    /// Fails if there are more than 2^31 blocks or contents.
    pub fn of(records: impl Iterator<Item = Record>, unit: Unit) -> Result<Self, String> {
        let (mut writes, mut numbers) = (Self { contents: 1, ..Self::default() }, Numbers::default());
        for record in records {
            match record.op {
                Op::Write | Op::WriteZeroes => writes.add(&record, unit, &mut numbers)?,
                Op::Discard => {
                    let (first, end) = (record.offset.0.div_ceil(BLOCK_BYTES), (record.offset.0 + record.length.0) / BLOCK_BYTES);
                    let known = (first..end).filter_map(|block| numbers.lbns.get(&block));
                    writes.list.extend(known.map(|&lbn| BlockWrite { lbn, what: ZEROS }));
                }
                Op::Read | Op::Flush | Op::Mark => {}
            }
        }
        Ok(writes)
    }

    fn add(&mut self, record: &Record, unit: Unit, numbers: &mut Numbers) -> Result<(), String> {
        let mut first = FIRST;
        for (block, name) in content::blocks(record, unit) {
            let lbn = *numbers.lbns.entry(block).or_insert_with(|| take(&mut self.lbns));
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
