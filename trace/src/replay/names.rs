//! Content by its name: numbers that stand for a block's bytes where only equality matters.
//!
//! 1. A block has a word at the beginning of each sector and zeros everywhere else. A block with a single name has it in all eight sectors;
//!    name 0 is all zeros.
//! 2. A write of only some sectors over another block therefore gives a new content, whose name is made from its eight words.
//! 3. A digest is made from the name: no bytes are hashed.

use crate::mixing::{GOLDEN, rounds};
use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::units::{BLOCK_SIZE, SECTOR_SIZE};

/// The number of sectors of a block.
pub const SECTORS: usize = BLOCK_SIZE / SECTOR_SIZE;

/// The words of a block.
pub type Words = [u64; SECTORS];

/// Reads the words from a block's bytes.
///
/// # Panics
/// Never panics: a block has room for all words.
#[must_use]
pub fn words_of(block: &[u8; BLOCK_SIZE]) -> Words {
    std::array::from_fn(|i| u64::from_le_bytes(block[i * SECTOR_SIZE..][..8].try_into().expect("eight bytes")))
}

/// Writes words into a block whose other bytes are zeros.
pub fn write_words(words: &Words, out: &mut [u8; BLOCK_SIZE]) {
    for (i, word) in words.iter().enumerate() {
        out[i * SECTOR_SIZE..][..8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Writes the bytes of a named content into a block whose other bytes are zeros.
pub fn write_name(name: u64, out: &mut [u8; BLOCK_SIZE]) {
    write_words(&[name; SECTORS], out);
}

/// Combines two numbers into one, which is not 0.
#[must_use]
pub fn mix(a: u64, b: u64) -> u64 {
    let x = rounds(a, 31, b);
    (x ^ (x >> 31)).max(1)
}

/// Returns the name of a content.
#[must_use]
pub fn name_of_words(words: &Words) -> u64 {
    if words.iter().all(|&word| word == words[0]) {
        return words[0];
    }
    words.iter().fold(GOLDEN, |name, &word| mix(name, word))
}

/// Returns the name of a block's content.
#[must_use]
pub fn name_of(block: &[u8; BLOCK_SIZE]) -> u64 {
    name_of_words(&words_of(block))
}

/// Returns the digest of a content.
#[must_use]
pub fn digest_of(name: u64) -> Digest {
    if name == 0 {
        return Digest::Zero;
    }
    let mut digest = [0; 24];
    digest[..8].copy_from_slice(&rounds(name.wrapping_mul(GOLDEN), 31, 0).to_le_bytes());
    digest[8..16].copy_from_slice(&name.to_le_bytes());
    Digest::Of(Fingerprint::of_digest(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_over_a_named_block_gives_a_content_of_its_own() {
        let mut block = [0; BLOCK_SIZE];
        write_name(7, &mut block);
        assert_eq!(name_of(&block), 7);
        let mut other = [0; BLOCK_SIZE];
        write_name(8, &mut other);
        let names: Vec<u64> = [(0, 9), (3, 9), (3, 8)]
            .into_iter()
            .flat_map(|(sector, word)| [[7; SECTORS], [8; SECTORS]].map(|words| (sector, word, words)))
            .map(|(sector, word, mut words): (usize, u64, Words)| {
                words[sector] = word;
                name_of_words(&words)
            })
            .collect();
        let distinct: std::collections::BTreeSet<u64> = names.iter().copied().chain([7, 9]).collect();
        // The last of the six writes 8 over 8, which gives 8.
        assert_eq!((names[5], distinct.len()), (8, 8));
        assert_eq!((digest_of(0), name_of(&[0; BLOCK_SIZE])), (Digest::Zero, 0));
    }
}
