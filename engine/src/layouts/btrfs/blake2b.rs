//! BLAKE2b with a digest of 32 bytes and no key (RFC 7693), which Btrfs takes for checksums and the engine has no crate for.

use crate::layouts::bytes::le64;
use crate::units::count;

const START: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
/// The order of a block's words in each round. The last two rounds have that of the first two.
const ORDERS: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const ROUNDS: usize = 12;
const BLOCK_BYTES: usize = 128;
const DIGEST_BYTES: usize = 32;
/// The columns and diagonals of the state that a round mixes, in turn.
const MIXED: [[usize; 4]; 8] =
    [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

/// The digest of `bytes`.
pub(super) fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut state = START;
    // One way of hashing, no key, and the length of the digest.
    state[0] ^= 0x0101_0020;
    let blocks = bytes.len().div_ceil(BLOCK_BYTES).max(1);
    let mut hashed = 0;
    for number in 0..blocks {
        let part = &bytes[number * BLOCK_BYTES..bytes.len().min((number + 1) * BLOCK_BYTES)];
        let mut block = [0; BLOCK_BYTES];
        block[..part.len()].copy_from_slice(part);
        hashed += count(part.len());
        compress(&mut state, &block, hashed, number + 1 == blocks);
    }
    let mut digest = [0; DIGEST_BYTES];
    for (bytes, word) in digest.chunks_exact_mut(8).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// Mixes a block into the state.
fn compress(state: &mut [u64; 8], block: &[u8; BLOCK_BYTES], hashed: u64, is_last: bool) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(8)) {
        *word = le64(bytes, 0);
    }
    let mut v = [0; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&START);
    v[12] ^= hashed;
    if is_last {
        v[14] = !v[14];
    }
    for round in 0..ROUNDS {
        let order = &ORDERS[round % ORDERS.len()];
        for (pair, [a, b, c, d]) in order.chunks_exact(2).zip(MIXED) {
            v[a] = v[a].wrapping_add(v[b]).wrapping_add(words[pair[0]]);
            v[d] = (v[d] ^ v[a]).rotate_right(32);
            v[c] = v[c].wrapping_add(v[d]);
            v[b] = (v[b] ^ v[c]).rotate_right(24);
            v[a] = v[a].wrapping_add(v[b]).wrapping_add(words[pair[1]]);
            v[d] = (v[d] ^ v[a]).rotate_right(16);
            v[c] = v[c].wrapping_add(v[d]);
            v[b] = (v[b] ^ v[c]).rotate_right(63);
        }
    }
    for (at, word) in state.iter_mut().enumerate() {
        *word ^= v[at] ^ v[at + 8];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn known_digests_come_out() {
        assert_eq!(hexadecimal(b""), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
        assert_eq!(hexadecimal(b"abc"), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    }
}
