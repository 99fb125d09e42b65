//! What the codec of slots would bring content to that is known by its name: slots of the size that is known, or taken, of it.
//!
//! 1. A slot decodes to the very bytes that were sent: whoever compares a duplicate with it finds them equal.
//! 2. It is a frame of blocks as they are and of repeated bytes, as long as it has to be. Nothing is compressed.
//! 3. The size that counts is the one that came with a word first. A block of several words takes the mean of theirs.

use crate::counts::names::{SECTORS, words_of};
use onefold_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use onefold_trace::replay::asks::Content;
use rustc_hash::FxHashMap;

/// Bytes in front of each block of a frame; and of a block of one byte that is repeated.
const HEADER_BYTES: usize = 3;
const REPEATED_BYTES: usize = HEADER_BYTES + 1;
/// Of a sector; zeros follow.
const WORD_BYTES: usize = 8;

/// Sizes of contents.
#[derive(Debug)]
pub struct Slots {
    sizes: FxHashMap<u64, u16>,
    /// Of all other words; as large as a block: they do not compress.
    otherwise: u16,
}

impl Default for Slots {
    fn default() -> Self {
        Self { sizes: FxHashMap::default(), otherwise: WHOLE }
    }
}

/// Of a block that does not compress.
#[allow(clippy::cast_possible_truncation)] // 4096
const WHOLE: u16 = BLOCK_SIZE as u16;

impl Slots {
    /// Where all blocks come to this size.
    #[must_use]
    pub fn of_size(bytes: u16) -> Self {
        Self { otherwise: bytes, ..Self::default() }
    }

    /// Takes note of a content that comes.
    pub fn meet(&mut self, content: &Content) {
        let Some(bytes) = content.compressed.filter(|&bytes| bytes < WHOLE) else { return };
        for word in content.words.into_iter().filter(|&word| word != 0) {
            self.sizes.entry(word).or_insert(bytes);
        }
    }

    /// The block in a slot; none where it takes more than `most` bytes.
    #[must_use]
    pub fn slot(&self, block: &[u8; BLOCK_SIZE], most: usize) -> Option<Vec<u8>> {
        let size = |word: u64| if word == 0 { 0 } else { self.sizes.get(&word).copied().unwrap_or(self.otherwise) };
        let sizes = words_of(block).map(|word| usize::from(size(word)));
        let bytes = sizes.iter().sum::<usize>() / SECTORS;
        assert!(is_of_words(block), "content is known by its words");
        (bytes <= most && bytes < BLOCK_SIZE).then(|| frame(block, bytes))
    }
}

/// A frame of so many bytes, or up to 3 fewer; of more where the words between zeros need them.
fn frame(block: &[u8; BLOCK_SIZE], bytes: usize) -> Vec<u8> {
    // As much of the front as there is room for stands as it is.
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

/// Bytes of a frame of which so much stands as it is.
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

/// Whether a block has words and zeros and nothing else.
fn is_of_words(block: &[u8; BLOCK_SIZE]) -> bool {
    block.chunks_exact(SECTOR_SIZE).all(|sector| sector[WORD_BYTES..].iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::names::write_words;
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
            assert!((least..=most).contains(&slot.len()), "{} bytes in place of {bytes}", slot.len());
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
