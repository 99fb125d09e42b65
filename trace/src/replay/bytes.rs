//! Bytes for content that is known by its name only: the same name, the same bytes, in every run and on every machine.
//!
//! 1. A sector's bytes follow from its word, its place in its block and the word's compressed size, and from nothing else: neither from what
//!    else is in the block nor from whoever wrote it. Each begins with its word, so two words never have equal sectors.
//! 2. The codec of slots brings a block of one name to its recorded size or a few bytes less: so many bytes of noise, then zeros between the
//!    words. Where no size was recorded, all is noise.
//! 3. The size that counts is the one that came with a word first: whatever a trace says later, equal names stay equal bytes.

use super::asks::Content;
use super::names::{Words, mix};
use onefold_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// What the codec needs beside the noise, by sectors full of noise: sequences, the words between zeros. Words that come again in noise save some.
const FRAMING: [i16; BLOCK_SIZE / SECTOR_SIZE] = [28, 34, 37, 38, 25, 24, 17, -4];
/// A sector's word.
const WORD_BYTES: usize = 8;

/// Makes bytes.
#[derive(Debug, Default)]
pub struct Bytes {
    /// Bytes of noise in the blocks of a word; those of all other words are nothing else.
    noise: HashMap<u64, u16, FxBuildHasher>,
}

/// Bytes of noise that the codec brings to this size, which is below that of a block.
fn noise_of(compressed: u16) -> usize {
    let framing = FRAMING[usize::from(compressed) / SECTOR_SIZE];
    usize::from(compressed.saturating_add_signed(-framing)).clamp(WORD_BYTES, BLOCK_SIZE - 1)
}

impl Bytes {
    /// Takes note of a content that comes; to be called before it is [written](Self::write).
    pub fn meet(&mut self, content: &Content) {
        let Some(compressed) = content.compressed.filter(|&bytes| usize::from(bytes) < BLOCK_SIZE) else { return };
        let noise = noise_of(compressed);
        for word in content.words.into_iter().filter(|&word| word != 0) {
            self.noise.entry(word).or_insert(u16::try_from(noise).expect("below 4096"));
        }
    }

    /// The bytes of a block of these words.
    pub fn write(&self, words: &Words, out: &mut [u8; BLOCK_SIZE]) {
        for (place, (&word, sector)) in words.iter().zip(out.chunks_exact_mut(SECTOR_SIZE)).enumerate() {
            let noise = self.noise.get(&word).map_or(BLOCK_SIZE, |&noise| usize::from(noise));
            let here = noise.saturating_sub(place * SECTOR_SIZE).clamp(WORD_BYTES, SECTOR_SIZE);
            write_sector(word, place, if word == 0 { 0 } else { here }, sector);
        }
    }
}

fn write_sector(word: u64, place: usize, noise: usize, out: &mut [u8]) {
    let (noisy, rest) = out.split_at_mut(noise);
    rest.fill(0);
    let mut state = mix(word, place as u64);
    for (i, chunk) in noisy.chunks_mut(8).enumerate() {
        let value = if i == 0 { word } else { mix(state, i as u64) };
        state = state.wrapping_add(value);
        chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::names::SECTORS;
    use onefold_engine::format::codec::compress;

    fn content(word: u64, compressed: Option<u16>) -> Content {
        Content { words: [word; SECTORS], compressed }
    }

    fn block(bytes: &Bytes, words: &Words) -> [u8; BLOCK_SIZE] {
        let mut out = [0xee; BLOCK_SIZE];
        bytes.write(words, &mut out);
        out
    }

    #[test]
    fn the_codec_brings_a_block_to_its_recorded_size() {
        for compressed in (64..4096).step_by(32) {
            let mut bytes = Bytes::default();
            bytes.meet(&content(mix(compressed, 1), Some(u16::try_from(compressed).unwrap())));
            let out = block(&bytes, &[mix(compressed, 1); SECTORS]);
            let found = compress(&out, BLOCK_SIZE).expect("it is not all noise").len();
            let wanted = usize::try_from(compressed).unwrap();
            assert!(found <= wanted && found + 16 >= wanted, "{found} bytes in place of {wanted}");
        }
        let mut bytes = Bytes::default();
        bytes.meet(&content(7, Some(4096)));
        assert_eq!(compress(&block(&bytes, &[7; SECTORS]), BLOCK_SIZE), None);
    }

    #[test]
    fn a_sector_does_not_depend_on_its_block() {
        let mut bytes = Bytes::default();
        bytes.meet(&content(7, Some(640)));
        bytes.meet(&content(7, Some(4000)));
        bytes.meet(&content(9, None));
        let (seven, nine) = (block(&bytes, &[7; SECTORS]), block(&bytes, &[9; SECTORS]));
        let both = block(&bytes, &[7, 9, 0, 7, 7, 9, 9, 9]);
        for (place, from) in [Some(&seven), Some(&nine), None, Some(&seven), Some(&seven), Some(&nine)].into_iter().enumerate() {
            let sector = place * SECTOR_SIZE..(place + 1) * SECTOR_SIZE;
            assert_eq!(&both[sector.clone()], from.map_or([0; SECTOR_SIZE].as_slice(), |from| &from[sector]), "sector {place}");
        }
        assert_eq!(block(&bytes, &[0; SECTORS]), [0; BLOCK_SIZE]);
        let places: std::collections::BTreeSet<&[u8]> = nine.chunks(SECTOR_SIZE).collect();
        assert_eq!(places.len(), SECTORS, "noise does not repeat");
    }
}
