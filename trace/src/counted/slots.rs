//! A stand-in for the slot codec for content that is known by its name only: slots of the recorded or assumed size.
//!
//! 1. A slot decodes to exactly the bytes that were sent: a comparison with a duplicate finds them equal.
//! 2. A slot is a frame of raw blocks and of repeated bytes, of the wanted length. Nothing is compressed.
//! 3. The first size that came with a word counts. A block of several words takes the mean of their sizes.

use crate::replay::names::{SECTORS, words_of};
use crate::replay::planned::Content;
use onefold_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use rustc_hash::FxHashMap;

/// The bytes before each block of a frame; and those of a block of one repeated byte.
const HEADER_BYTES: usize = 3;
const REPEATED_BYTES: usize = HEADER_BYTES + 1;
/// The bytes of a sector's word; zeros follow.
const WORD_BYTES: usize = 8;

/// The sizes of contents.
#[derive(Debug)]
pub struct Slots {
    sizes: FxHashMap<u64, u16>,
    /// The size for all other words; that of a block if they do not compress.
    otherwise: u16,
}

impl Default for Slots {
    fn default() -> Self {
        Self { sizes: FxHashMap::default(), otherwise: WHOLE }
    }
}

/// The size of a block that does not compress.
#[allow(clippy::cast_possible_truncation)] // 4096
const WHOLE: u16 = BLOCK_SIZE as u16;

impl Slots {
    /// Makes a stand-in for which all blocks compress to this size.
    #[must_use]
    pub fn of_size(bytes: u16) -> Self {
        Self { otherwise: bytes, ..Self::default() }
    }

    /// Notes a content that will be written.
    pub fn meet(&mut self, content: &Content) {
        let Some(bytes) = content.compressed.filter(|&bytes| bytes < WHOLE) else { return };
        for word in content.words.into_iter().filter(|&word| word != 0) {
            self.sizes.entry(word).or_insert(bytes);
        }
    }

    /// Compresses a block into a slot; returns none if it takes more than `most` bytes.
    #[must_use]
    pub fn slot(&self, block: &[u8; BLOCK_SIZE], most: usize) -> Option<Vec<u8>> {
        let size = |word: u64| if word == 0 { 0 } else { self.sizes.get(&word).copied().unwrap_or(self.otherwise) };
        let sizes = words_of(block).map(|word| usize::from(size(word)));
        let bytes = sizes.iter().sum::<usize>() / SECTORS;
        assert!(is_of_words(block), "content is known by its words");
        (bytes <= most && bytes < BLOCK_SIZE).then(|| frame(block, bytes))
    }
}

/// Makes a frame of `bytes` bytes, or up to 3 fewer; it is longer if the words between zeros need more.
fn frame(block: &[u8; BLOCK_SIZE], bytes: usize) -> Vec<u8> {
    // As much of the front as there is room for is stored raw.
    let most = bytes.saturating_sub(HEADER_BYTES);
    let front = (0..=most).rev().find(|&front| frame_bytes(front) <= bytes).unwrap_or(0);
    let mut out = Vec::with_capacity(bytes);
    let mut put = |repeats: bool, from: usize, to: usize| {
        let is_last = to == BLOCK_SIZE;
        let length = u32::try_from(to - from).expect("within a block");
        let header = u32::from(is_last) | (u32::from(repeats) << 1) | (length << 3);
        out.extend_from_slice(&header.to_le_bytes()[..HEADER_BYTES]);
        out.extend_from_slice(&block[from..if repeats { from + 1 } else { to }]);
    };
    put(false, 0, front);
    let mut at = front;
    while at < BLOCK_SIZE {
        let word_end = at / SECTOR_SIZE * SECTOR_SIZE + WORD_BYTES;
        if at < word_end {
            put(false, at, word_end);
        }
        let end = (at / SECTOR_SIZE + 1) * SECTOR_SIZE;
        put(true, at.max(word_end), end);
        at = end;
    }
    out
}

/// Returns the bytes of a frame of which this much is stored raw.
const fn frame_bytes(front: usize) -> usize {
    let within = front % SECTOR_SIZE;
    let begun = match within {
        0 => 0,
        1..WORD_BYTES => HEADER_BYTES + WORD_BYTES - within + REPEATED_BYTES,
        _ => REPEATED_BYTES,
    };
    let behind = (BLOCK_SIZE - front) / SECTOR_SIZE;
    HEADER_BYTES + front + begun + behind * (HEADER_BYTES + WORD_BYTES + REPEATED_BYTES)
}

/// Returns whether a block consists of words and zeros.
fn is_of_words(block: &[u8; BLOCK_SIZE]) -> bool {
    block.chunks_exact(SECTOR_SIZE).all(|sector| sector[WORD_BYTES..].iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::names::write_words;
    use onefold_engine::format::codec::decompress;

    fn content(word: u64, compressed: Option<u16>) -> Content {
        Content { words: [word; SECTORS], compressed }
    }

    #[test]
    fn a_slot_has_the_size_that_was_told_and_decodes_to_the_very_block() {
        for bytes in (64..4096u16).step_by(13) {
            let mut slots = Slots::default();
            slots.meet(&content(7, Some(bytes)));
            slots.meet(&content(7, Some(100)));
            let mut block = [0; BLOCK_SIZE];
            write_words(&[7; SECTORS], &mut block);
            let slot = slots.slot(&block, BLOCK_SIZE).expect("it compresses");
            let (least, most) = (usize::from(bytes).saturating_sub(3), usize::from(bytes).max(123));
            assert!((least..=most).contains(&slot.len()), "{} bytes instead of {bytes}", slot.len());
            let mut out = [9; BLOCK_SIZE];
            assert!(decompress(&slot, &mut out) && out == block, "{bytes} bytes");
            assert_eq!(slots.slot(&block, usize::from(bytes) - 1), None);
        }
    }

    #[test]
    fn what_is_not_known_does_not_compress_and_several_words_take_the_mean() {
        let mut slots = Slots::default();
        slots.meet(&content(7, Some(1000)));
        let mut block = [0; BLOCK_SIZE];
        write_words(&[8; SECTORS], &mut block);
        assert_eq!(slots.slot(&block, BLOCK_SIZE), None);
        write_words(&[7, 7, 7, 7, 7, 7, 8, 0], &mut block);
        let slot = slots.slot(&block, BLOCK_SIZE).expect("it compresses");
        assert!(slot.len().abs_diff((6 * 1000 + 4096) / 8) <= 3, "{}", slot.len());
        let mut out = [9; BLOCK_SIZE];
        assert!(decompress(&slot, &mut out) && out == block);
    }
}
