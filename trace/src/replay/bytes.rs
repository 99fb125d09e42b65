//! Bytes for content that is known by its name only: the same name gives the same bytes, in every run and on every machine.
//!
//! 1. The bytes of a sector depend only on its word, its place in its block and the word's compressed size: neither on the rest of the
//!    block nor on the writer. Each sector begins with its word, so two words never have equal sectors.
//! 2. The slot codec compresses a block of one name to its recorded size or a few bytes less: the block has noise, then zeros between the
//!    words. The amount of noise is found by trial, because the codec's overhead depends on the noise. A block without a recorded size is
//!    all noise.
//! 3. What came with a word first counts, whatever the trace says later, so that equal names keep equal bytes: also that there was no size,
//!    because a recorder that gives way measures only some of the blocks.

use super::names::{SECTORS, Words, mix};
use super::planned::Content;
use onefold_engine::format::codec::compress;
use onefold_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

/// The number of bytes by which a block may compress below its recorded size.
const SLACK: usize = 16;
/// The bytes that the codec adds to noise; in most blocks between none and twice as many.
const FRAMING: usize = 20;
/// The number of lengths of noise that are tried before all lengths near the size are tried; two or three are enough in most cases.
const TRIES: usize = 6;
/// The largest compressed size: the codec stores a block that saves less without compression.
const COMPRESSED_MAX: usize = BLOCK_SIZE - 67;
/// The number of bytes of a sector's word.
const WORD_BYTES: usize = 8;

/// Makes the bytes of contents.
#[derive(Debug, Default)]
pub struct Bytes {
    /// The bytes of noise in the blocks of a word.
    noise: HashMap<u64, u16, FxBuildHasher>,
}

/// Returns the bytes of noise in the blocks of a word that the codec compresses to this size, which is smaller than a block.
fn noise_of(word: u64, compressed: usize) -> usize {
    let wanted = compressed.min(COMPRESSED_MAX);
    let size_of = |noise: usize| {
        let mut block = [0; BLOCK_SIZE];
        write_block(&[word; SECTORS], |_| noise, &mut block);
        compress(&block, BLOCK_SIZE).map_or(BLOCK_SIZE, |data| data.len())
    };
    let in_range = |noise: usize| noise.clamp(WORD_BYTES, BLOCK_SIZE - 1);
    let mut noise = in_range(wanted.saturating_sub(FRAMING));
    for _ in 0..TRIES {
        let found = size_of(noise);
        if found <= wanted && found + SLACK >= wanted {
            return noise;
        }
        noise = in_range((noise + wanted).saturating_sub(found + SLACK / 2));
    }
    // One length in some hundred compresses worse than its neighbours, and the search then alternates around it.
    let all = in_range(wanted.saturating_sub(64))..=in_range(wanted + SLACK);
    all.max_by_key(|&noise| Some(size_of(noise)).filter(|&found| found <= wanted)).unwrap_or(WORD_BYTES)
}

impl Bytes {
    /// Notes a content that will be written; has to be called before it is [written](Self::write).
    pub fn meet(&mut self, content: &Content) {
        let compressed = content.compressed.map(usize::from).filter(|&bytes| bytes < BLOCK_SIZE);
        for word in content.words.into_iter().filter(|&word| word != 0) {
            let noise = || compressed.map_or(BLOCK_SIZE, |bytes| noise_of(word, bytes));
            self.noise.entry(word).or_insert_with(|| u16::try_from(noise()).expect("at most 4096"));
        }
    }

    /// Writes the bytes of a block with these words.
    pub fn write(&self, words: &Words, out: &mut [u8; BLOCK_SIZE]) {
        write_block(words, |word| self.noise.get(&word).map_or(BLOCK_SIZE, |&noise| usize::from(noise)), out);
    }
}

fn write_block(words: &Words, noise_of: impl Fn(u64) -> usize, out: &mut [u8; BLOCK_SIZE]) {
    for (place, (&word, sector)) in words.iter().zip(out.chunks_exact_mut(SECTOR_SIZE)).enumerate() {
        // The noise is spread evenly over the sectors. If all of it lay at the front, the size would jump with each sector that begins to
        // have some.
        let noise = ((noise_of(word) + SECTORS - 1 - place) / SECTORS).max(WORD_BYTES);
        write_sector(word, place, if word == 0 { 0 } else { noise }, sector);
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
        for compressed in 64..4096 {
            let word = mix(u64::from(compressed), 1);
            let mut bytes = Bytes::default();
            bytes.meet(&content(word, Some(compressed)));
            let found = compress(&block(&bytes, &[word; SECTORS]), BLOCK_SIZE).expect("it is not all noise").len();
            let wanted = usize::from(compressed).min(COMPRESSED_MAX);
            assert!(found <= wanted && found + 16 >= wanted, "{found} bytes instead of {wanted}");
        }
        let mut bytes = Bytes::default();
        bytes.meet(&content(7, Some(4096)));
        assert_eq!(compress(&block(&bytes, &[7; SECTORS]), BLOCK_SIZE), None);
    }

    #[test]
    fn content_keeps_its_bytes_when_its_size_comes_late() {
        for first in [None, Some(4096), Some(640)] {
            let mut bytes = Bytes::default();
            bytes.meet(&content(7, first));
            let before = block(&bytes, &[7; SECTORS]);
            for later in [Some(640), Some(4000), None] {
                bytes.meet(&content(7, later));
                assert_eq!(block(&bytes, &[7; SECTORS]), before, "{first:?}, then {later:?}");
            }
        }
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
