//! The codec of client blocks in slots: one zstd frame each, without the header that would be the same in all of them (decision 0072).
//!
//! 1. What is written reads back to the same block, whatever its content.
//! 2. No input makes the decoder panic; what is not exactly one block is refused.
//! 3. The unit that holds slots names their codec, so that another one can be added beside this one.
//! 4. What a block is brought to depends on the block alone. Another writer, or another level, may bring it to other bytes: only reading is
//!    part of the format.

use crate::units::BLOCK_SIZE;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{compress_bound, find_frame_compressed_size};

/// The bytes with which each frame would begin: the magic number; one segment, no checksum, no dictionary, the size in two bytes; 4096 less
/// 256.
const HEADER: [u8; 7] = [0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x0f];
/// The level at which fewer units cost the least processor time.
const LEVEL: i32 = 1;

/// Bytes of a block that are looked at before it is compressed.
const SAMPLES: u32 = 1024;
/// The average sum, over all values of a byte, of the square of how often it comes among the samples of noise.
const NOISE: u32 = SAMPLES + SAMPLES * (SAMPLES - 1) / 256;
/// The excess over that average which one block of noise in a thousand has.
const NOISE_SPREAD: u32 = 280;

/// A codec of slots, as a unit names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    #[default]
    Zstd,
}

impl Codec {
    const ALL: [Self; 1] = [Self::Zstd];

    /// The number by which a unit names it.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Zstd => 0,
        }
    }

    /// The codec of this number, if there is one.
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.number() == number)
    }

    /// Unpacks `data` into one block. False where they are anything else than one block; `out` is undefined then.
    ///
    /// # Panics
    /// When there is no memory.
    #[must_use]
    pub fn decompress(self, data: &[u8], out: &mut [u8; BLOCK_SIZE]) -> bool {
        match self {
            Self::Zstd => decompress(data, out),
        }
    }
}

thread_local! {
    // Memory that lasts, 74 and 96 KB a thread. Nothing of a block outlives its call.
    static WRITER: RefCell<(Compressor<'static>, Vec<u8>)> =
        RefCell::new((ready(Compressor::new(LEVEL)), Vec::new()));
    static READER: RefCell<(Decompressor<'static>, Vec<u8>)> =
        RefCell::new((ready(Decompressor::new()), Vec::new()));
}

/// A context of zstd that was just made.
fn ready<T>(context: std::io::Result<T>) -> T {
    context.expect("a context of zstd fails for want of memory only")
}

/// The block in at most `most` bytes; none where it takes more. The caller has looked whether it is noise ([`looks_random`]).
///
/// # Panics
/// When there is no memory.
#[must_use]
pub fn compress(block: &[u8; BLOCK_SIZE], most: usize) -> Option<Vec<u8>> {
    WRITER.with_borrow_mut(|(writer, frame)| {
        frame.clear();
        frame.reserve(compress_bound(BLOCK_SIZE));
        writer.compress_to_buffer(block, frame).ok()?;
        let data = frame.strip_prefix(&HEADER)?;
        (data.len() <= most).then(|| data.to_vec())
    })
}

/// Writes the block that [`compress`] made `data` of to `out`. False where `data` are anything else than one block; `out` is undefined
/// then.
///
/// # Panics
/// When there is no memory.
#[must_use]
pub fn decompress(data: &[u8], out: &mut [u8; BLOCK_SIZE]) -> bool {
    if data.len() > BLOCK_SIZE {
        return false;
    }
    READER.with_borrow_mut(|(reader, frame)| {
        frame.clear();
        frame.extend_from_slice(&HEADER);
        frame.extend_from_slice(data);
        // Behind the frame the decoder would take another, or one to be skipped.
        find_frame_compressed_size(frame) == Ok(frame.len())
            && reader.decompress_to_buffer(frame, &mut out[..]).is_ok_and(|bytes| bytes == BLOCK_SIZE)
    })
}

/// Whether each byte comes about as often as any other, so that hardly anything could be saved. It is a quick way out: it looks at four of
/// 16 bytes, at each place of a word once, so that numbers whose low bytes are noise do not pass for it.
#[must_use]
pub fn looks_random(block: &[u8; BLOCK_SIZE]) -> bool {
    // Four tables: a byte that comes twice in a row does not wait for its own count.
    let mut counts = [[0u16; 256]; 4];
    for bytes in block.chunks_exact(16) {
        for (table, at) in counts.iter_mut().zip([0, 5, 10, 15]) {
            table[usize::from(bytes[at])] += 1;
        }
    }
    let [a, b, c, d] = counts;
    let squares = (0..256).map(|byte| u32::from(a[byte] + b[byte] + c[byte] + d[byte]).pow(2)).sum::<u32>();
    squares <= NOISE + NOISE_SPREAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Bytes that no codec makes smaller.
    fn noise(seed: u64) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
        assert!(!looks_random(&half));
    }

    #[test]
    fn other_lengths_are_no_block() {
        let mut out = [0; BLOCK_SIZE];
        // One block of a frame: the last, of one byte repeated so often.
        for (length, sound) in [(0, false), (1, false), (4095, false), (4096, true), (4097, false), (131_072, false)] {
            let [low, middle, high, _] = (1u32 | (1 << 1) | (length << 3)).to_le_bytes();
            assert_eq!(decompress(&[low, middle, high, 7], &mut out), sound, "{length} bytes");
        }
        assert_eq!(out, [7; BLOCK_SIZE]);
        assert!(!decompress(&[], &mut out) && !decompress(&[0; BLOCK_SIZE + 1], &mut out));
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
        assert!(decompress(&data, &mut out));
        for more in [&[0x10][..], &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0], &data.clone()] {
            let length = data.len();
            data.extend_from_slice(more);
            assert!(!decompress(&data, &mut out), "{more:?} behind it");
            data.truncate(length);
        }
    }

    #[test]
    fn noise_is_told_from_what_compresses() {
        let taken = (0..2000).filter(|&seed| looks_random(&noise(seed))).count();
        assert!(taken > 1980, "{taken}");
        let mut numbers = noise(5);
        numbers.chunks_exact_mut(4).for_each(|number| number[2..].fill(0));
        let mut padded = noise(7);
        padded[3900..].fill(0);
        let letters = noise(9).map(|byte| byte & 0x7f);
        assert!([numbers, padded, letters].iter().all(|block| !looks_random(block) && compress(block, 3981).is_some()));
    }

    /// Returns a block whose values of a byte come this much more, and this much less, often than the average, in pairs.
    fn uneven(excesses: &[usize]) -> [u8; BLOCK_SIZE] {
        let average = 4;
        let mut counts = [average; 256];
        for (pair, excess) in counts.chunks_exact_mut(2).zip(excesses) {
            (pair[0], pair[1]) = (average + excess, average - excess);
        }
        let bytes: Vec<u8> = (0..=u8::MAX).zip(counts).flat_map(|(byte, times)| vec![byte; times]).collect();
        let mut block = [0; BLOCK_SIZE];
        for (chunk, samples) in block.chunks_exact_mut(16).zip(bytes.chunks_exact(4)) {
            [0, 5, 10, 15].into_iter().zip(samples).for_each(|(at, &sample)| chunk[at] = sample);
        }
        block
    }

    /// The sum of the squares is 5116 on average, and 280 more in one block of noise in a thousand.
    #[test]
    fn noise_is_no_more_uneven_than_one_block_in_a_thousand() {
        // Each pair adds twice the square of its excess to 256 squares of 4.
        let [most, more] = [2, 3].map(|ones| [vec![3; 72], vec![1; ones]].concat());
        let sum = |excesses: &[usize]| 256 * 16 + excesses.iter().map(|excess| 2 * excess * excess).sum::<usize>();
        assert_eq!((sum(&most), sum(&more)), (5116 + 280, 5116 + 282));
        assert_eq!((looks_random(&uneven(&most)), looks_random(&uneven(&more))), (true, false));
    }

    /// Other writers may make frames that this one does not.
    #[test]
    fn a_frame_may_take_as_many_bytes_as_a_block_and_no_more() {
        // A block of zstd that is kept as it is, and a last one that repeats a byte: three bytes each that give their kind and length.
        let frame = |plain: usize| {
            let head = |kind: usize, bytes: usize| (bytes << 3 | kind).to_le_bytes();
            let (kept, repeated) = (head(0, plain), head(0b011, BLOCK_SIZE - plain));
            [&kept[..3], &vec![7; plain], &repeated[..3], &[7]].concat()
        };
        for (plain, is_block) in [(16, true), (BLOCK_SIZE - 7, true), (BLOCK_SIZE - 6, false)] {
            let data = frame(plain);
            assert_eq!(comes_back(&[7; BLOCK_SIZE], &data), is_block, "{} bytes", data.len());
        }
    }

    #[test]
    fn these_bytes_are_a_block_for_ever() {
        for data in [&[0x03, 0x80, 0x00, 7][..], &[77, 0, 0, 16, 7, 7, 1, 0, 251, 247, 1, 22]] {
            assert!(comes_back(&[7; BLOCK_SIZE], data), "{data:?}");
        }
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
