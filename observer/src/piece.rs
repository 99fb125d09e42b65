//! The pieces of a write's content, and the writes of one block that have theirs with them, as `observer/bpf/observe.h` has them.

use crate::BLOCK_BYTES;

/// The length of a piece in the ring: no observation is as long.
const PIECE_BYTES: usize = CONTENT_AT + 4096;
const CONTENT_AT: usize = 24;
/// The length of an observation with its whole block behind it.
const WHOLE_BYTES: usize = OBSERVATION_BYTES + 4096;
const OBSERVATION_BYTES: usize = 224;

/// The name of a bio while its pieces come: its time, and the processor that saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct BioName {
    pub(crate) time: u64,
    pub(crate) processor: u32,
}

/// A part of a write's content, which lies within one block.
pub(crate) struct Piece<'a> {
    pub bio: BioName,
    /// Bytes from the beginning of the range.
    pub at: u64,
    pub content: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Decodes a record. Returns `None` if it is something else.
    pub fn decode(record: &'a [u8]) -> Option<Self> {
        let content = (record.len() == PIECE_BYTES).then(|| &record[CONTENT_AT..])?;
        let word = |at: usize| Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let half_word = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let (bytes, at) = (half_word(12)?, word(16)?);
        let is_within = bytes > 0 && at % BLOCK_BYTES + u64::from(bytes) <= BLOCK_BYTES;
        let bio = BioName { time: word(0)?, processor: half_word(8)? };
        is_within.then(|| Self { bio, at, content: &content[..bytes as usize] })
    }
}

/// Returns the observation and the content of a record that has both. Returns `None` if it is something else.
pub(crate) fn split_whole(record: &[u8]) -> Option<(&[u8], &[u8])> {
    (record.len() == WHOLE_BYTES).then(|| record.split_at(OBSERVATION_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_with_its_block_is_told_by_its_length() {
        let record = [vec![1; 224], vec![2; 4096]].concat();
        let (observation, content) = split_whole(&record).expect("both");
        assert!(observation == [1; 224] && content == [2; 4096]);
        assert!(split_whole(&record[1..]).is_none() && Piece::decode(&record).is_none());
    }

    #[test]
    fn a_piece_lies_within_a_block() {
        let record = |at: u64, bytes: u32| {
            let words = [&7_u64.to_ne_bytes()[..], &3_u32.to_ne_bytes(), &bytes.to_ne_bytes(), &at.to_ne_bytes(), &[9; 4096]];
            words.concat()
        };
        let whole = record(8192, 4096);
        let piece = Piece::decode(&whole).expect("a whole block");
        assert_eq!((piece.bio, piece.at, piece.content.len()), (BioName { time: 7, processor: 3 }, 8192, 4096));
        assert_eq!(Piece::decode(&record(8192 + 512, 3584)).expect("its end").content.len(), 3584);
        for (at, bytes) in [(0, 0), (512, 3585), (4095, 2), (0, 4097)] {
            assert!(Piece::decode(&record(at, bytes)).is_none(), "{bytes} bytes at {at}");
        }
        assert!(Piece::decode(&whole[1..]).is_none());
    }
}
