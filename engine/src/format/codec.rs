//! How client blocks lie in slots: the LZ4 block format, without a frame, without a dictionary, without a length.
//!
//! 1. What is written reads back to the same block, whatever its content.
//! 2. No input makes the decoder panic; what is not exactly one block is refused.
//! 3. What a block is brought to depends on the block alone. Another writer may bring it to other bytes: only reading is part of the format.

use crate::units::BLOCK_SIZE;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

/// The block in at most `most` bytes; none where it does not come to so few.
#[must_use]
pub fn compress(block: &[u8; BLOCK_SIZE], most: usize) -> Option<Vec<u8>> {
    let mut out = [0; get_maximum_output_size(BLOCK_SIZE)];
    let bytes = compress_into(block, &mut out).ok()?;
    (bytes <= most).then(|| out[..bytes].to_vec())
}

/// The block that [`compress`] made `data` of. False where `data` are anything else than one block; `out` is undefined then.
#[must_use]
pub fn decompress(data: &[u8], out: &mut [u8; BLOCK_SIZE]) -> bool {
    decompress_into(data, out).is_ok_and(|bytes| bytes == BLOCK_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Bytes that no codec makes smaller.
    fn noise(seed: u64) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        let mut state = seed | 1;
        for byte in &mut block {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            [.., *byte] = state.to_le_bytes();
        }
        block
    }

    fn comes_back(block: &[u8; BLOCK_SIZE], data: &[u8]) -> bool {
        let mut out = noise(99);
        decompress(data, &mut out) && out == *block
    }

    #[test]
    fn what_compresses_comes_back() {
        let text: Vec<u8> = (0..400).flat_map(|line| format!("line {line} of some text\n").into_bytes()).collect();
        let text = text.first_chunk().expect("enough of it");
        let data = compress(text, BLOCK_SIZE).expect("text compresses");
        assert!(data.len() < BLOCK_SIZE / 2, "{}", data.len());
        assert!(comes_back(text, &data));
    }

    #[test]
    fn the_limit_counts_to_the_byte() {
        let mut half = noise(1);
        half[2048..].fill(7);
        let bytes = compress(&half, BLOCK_SIZE).expect("half of it compresses").len();
        assert!((2048..2200).contains(&bytes), "{bytes}");
        assert_eq!(compress(&half, bytes).map(|data| data.len()), Some(bytes));
        assert_eq!(compress(&half, bytes - 1), None);
        assert_eq!(compress(&noise(1), BLOCK_SIZE), None, "noise does not compress");
    }

    #[test]
    fn other_lengths_are_no_block() {
        let mut out = [0; BLOCK_SIZE];
        for length in [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE + 1, 2 * BLOCK_SIZE, 1 << 20] {
            assert!(!decompress(&lz4_flex::block::compress(&vec![5; length]), &mut out), "{length} bytes");
        }
        assert!(decompress(&lz4_flex::block::compress(&[5; BLOCK_SIZE]), &mut out));
        assert!(!decompress(&[], &mut out));
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_no_block() {
        let mut half = noise(3);
        half[1000..].fill(0);
        let mut data = compress(&half, BLOCK_SIZE).expect("most of it compresses");
        let mut out = [0; BLOCK_SIZE];
        for length in 0..data.len() {
            assert!(!decompress(&data[..length], &mut out), "{length} bytes of {}", data.len());
        }
        data.push(0x10);
        assert!(!decompress(&data, &mut out));
    }

    /// Blocks between noise and nothing: pieces of noise, of one byte, and of what stands further in front.
    fn blocks() -> impl Strategy<Value = Box<[u8; BLOCK_SIZE]>> {
        vec((0..3u8, any::<u64>(), 1..600usize), 0..24).prop_map(|pieces| {
            let mut block = Box::new([0; BLOCK_SIZE]);
            let mut at = 0;
            for (kind, seed, length) in pieces {
                let end = BLOCK_SIZE.min(at + length);
                let [byte, ..] = seed.to_le_bytes();
                match kind {
                    0 => block[at..end].copy_from_slice(&noise(seed)[at..end]),
                    1 => block[at..end].fill(byte),
                    _ => block.copy_within(at / 2..at / 2 + (end - at).min(at - at / 2), at),
                }
                at = end;
            }
            block
        })
    }

    proptest! {
        #[test]
        fn every_block_comes_back(block in blocks(), most in 0..=BLOCK_SIZE) {
            let all = compress(&block, BLOCK_SIZE);
            let some = compress(&block, most);
            prop_assert_eq!(&some, &all.clone().filter(|data| data.len() <= most));
            if let Some(data) = all {
                prop_assert!(comes_back(&block, &data));
            }
        }

        #[test]
        fn bytes_that_were_changed_do_no_harm(block in blocks(), changes in vec((any::<u16>(), any::<u8>()), 1..9)) {
            let Some(mut data) = compress(&block, BLOCK_SIZE) else { return Ok(()) };
            for (at, byte) in changes {
                let at = usize::from(at) % data.len();
                data[at] = byte;
            }
            // Whatever is made of them, reading them is the same each time: nothing of what lay in `out` shows.
            let (mut out, mut again) = ([0; BLOCK_SIZE], [0xff; BLOCK_SIZE]);
            let read = decompress(&data, &mut out);
            prop_assert_eq!(decompress(&data, &mut again), read);
            prop_assert!(!read || out == again);
        }
    }
}
