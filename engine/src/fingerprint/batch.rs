//! Keyed BLAKE3 of several blocks at once.
//!
//! A block of 4 KiB is a tree of four chunks: alone it fills four of a vector unit's sixteen lanes, and its two upper levels one or two.
//! Blocks side by side fill them all. The hashes are the same as [`blake3::keyed_hash`] gives, which a test compares.

use crate::units::BLOCK_SIZE;
use blake3::IncrementCounter;
use blake3::platform::Platform;

/// The most blocks at once: as many as the widest vector unit has lanes.
pub(super) const BLOCKS_MAX: usize = 16;

/// Fewer blocks than this are hashed sooner one by one, measured with AVX-512 (2 blocks: 2.2 µs each against 1.0; 8: 1.7 against 1.9; 16:
/// 1.1 against 1.7).
pub(super) const BLOCKS_MIN: usize = 8;

const CHUNK_SIZE: usize = 1024;
const CHUNKS: usize = BLOCK_SIZE / CHUNK_SIZE;
/// Bytes of a chaining value.
const VALUE_SIZE: usize = 32;
/// Two chaining values, the input of a parent.
const PAIR_SIZE: usize = 2 * VALUE_SIZE;

// Section 2.2 of the BLAKE3 paper.
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// The keyed BLAKE3 hashes of at most [`BLOCKS_MAX`] blocks.
///
/// # Panics
/// When there are more blocks.
pub(super) fn keyed_hashes(key: &[u8; 32], blocks: &[&[u8; BLOCK_SIZE]]) -> [[u8; VALUE_SIZE]; BLOCKS_MAX] {
    let n = blocks.len();
    assert!(n <= BLOCKS_MAX, "{n} blocks at once");
    let platform = Platform::detect();
    let words: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|byte| key[4 * i + byte])));

    // Level 0: the first chunks of all blocks, then the second ones, and so on, since one call has one chunk number.
    let mut chunks = [[0; VALUE_SIZE]; CHUNKS * BLOCKS_MAX];
    for (chunk, number) in (0..CHUNKS).zip(0u64..) {
        let mut inputs = [&[0; CHUNK_SIZE]; BLOCKS_MAX];
        for (input, block) in inputs.iter_mut().zip(blocks) {
            *input = block[chunk * CHUNK_SIZE..].first_chunk().expect("a block is a multiple of whole chunks");
        }
        let out = chunks[chunk * BLOCKS_MAX..][..n].as_flattened_mut();
        platform.hash_many(&inputs[..n], &words, number, IncrementCounter::No, KEYED_HASH, CHUNK_START, CHUNK_END, out);
    }
    let parents = |pairs: &[[u8; PAIR_SIZE]], flags: u8, out: &mut [u8]| {
        let mut inputs = [&[0; PAIR_SIZE]; 2 * BLOCKS_MAX];
        inputs.iter_mut().zip(pairs).for_each(|(input, pair)| *input = pair);
        // Not more at once than there are lanes: the portable code has room for no more.
        for (inputs, out) in inputs[..pairs.len()].chunks(BLOCKS_MAX).zip(out.chunks_mut(BLOCKS_MAX * VALUE_SIZE)) {
            platform.hash_many(inputs, &words, 0, IncrementCounter::No, KEYED_HASH | PARENT | flags, 0, 0, out);
        }
    };
    // Level 1: left parents of all blocks, then the right ones.
    let mut pairs = [[0; PAIR_SIZE]; 2 * BLOCKS_MAX];
    for side in 0..2 {
        for i in 0..n {
            pairs[side * n + i] = pair(&chunks[2 * side * BLOCKS_MAX + i], &chunks[(2 * side + 1) * BLOCKS_MAX + i]);
        }
    }
    let mut middles = [[0; VALUE_SIZE]; 2 * BLOCKS_MAX];
    parents(&pairs[..2 * n], 0, middles[..2 * n].as_flattened_mut());
    // Level 2: the roots.
    for i in 0..n {
        pairs[i] = pair(&middles[i], &middles[n + i]);
    }
    let mut roots = [[0; VALUE_SIZE]; BLOCKS_MAX];
    parents(&pairs[..n], ROOT, roots[..n].as_flattened_mut());
    roots
}

fn pair(left: &[u8; VALUE_SIZE], right: &[u8; VALUE_SIZE]) -> [u8; PAIR_SIZE] {
    let mut pair = [0; PAIR_SIZE];
    pair[..VALUE_SIZE].copy_from_slice(left);
    pair[VALUE_SIZE..].copy_from_slice(right);
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_the_same_names_as_one_by_one() {
        let key: [u8; 32] = std::array::from_fn(|i| u8::try_from(i * 7).expect("small"));
        let blocks: Vec<[u8; BLOCK_SIZE]> =
            (0..BLOCKS_MAX).map(|n| std::array::from_fn(|i| u8::try_from((i * (n + 3) + i / 256 + n) % 251).expect("below 251"))).collect();
        for n in 0..=BLOCKS_MAX {
            let some: Vec<&[u8; BLOCK_SIZE]> = blocks[..n].iter().collect();
            let names = keyed_hashes(&key, &some);
            for (block, name) in some.iter().zip(&names) {
                assert_eq!(blake3::keyed_hash(&key, &block[..]).as_bytes(), name, "among {n}");
            }
        }
    }
}
