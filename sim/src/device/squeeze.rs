//! The compressor of simulated machines, and its mirror, which finds out what content is in a slot. The size of a compressed content
//! depends on the content alone, and all sizes occur.
//!
//! The contents of a simulation repeat a word, so a good compressor would reduce each of them to a few bytes, and one unit would hold all.
//! Some contents are therefore declared incompressible; of others, the beginning stays uncompressed.

use crate::ground::content::Content;
use onefold_engine::format::codec::{compress, decompress};
use onefold_engine::format::unit;
use onefold_engine::units::BLOCK_SIZE;

/// The number of bytes that stay uncompressed, depending on the content; none for a content that does not compress.
const PLAIN_BYTES: [Option<usize>; 8] = [None, None, Some(0), Some(100), Some(700), Some(1500), Some(2200), Some(3400)];

/// Compresses a content to at most `most` bytes; returns none if it does not fit.
#[must_use]
pub fn squeeze(content: &Content, most: usize) -> Option<Vec<u8>> {
    let plain = PLAIN_BYTES[usize::try_from(content.id() >> 61).expect("three bits")]?;
    let data = with_plain(content.bytes(), plain).or_else(|| compress(content.bytes(), BLOCK_SIZE))?;
    (data.len() <= most).then_some(data)
}

/// Makes a block in the codec's format whose first bytes are uncompressed: a raw zstd block, followed by the content of a frame of the
/// rest.
fn with_plain(block: &[u8; BLOCK_SIZE], plain: usize) -> Option<Vec<u8>> {
    if plain == 0 {
        return None;
    }
    let raw = u32::try_from(plain).expect("below a block") << 3;
    let rest = zstd::bulk::compress(&block[plain..], 1).ok()?;
    let mut data = raw.to_le_bytes()[..3].to_vec();
    data.extend_from_slice(&block[..plain]);
    data.extend_from_slice(rest.get(FRAME_HEADER_BYTES..)?);
    let mut found = [0; BLOCK_SIZE];
    (decompress(&data, &mut found) && found == *block).then_some(data)
}

/// The size of the header of a frame of 256 bytes or more.
const FRAME_HEADER_BYTES: usize = 7;

/// Returns the name of the content of a slot, if it has any.
#[must_use]
pub fn in_slot(carrier: &Content, slot: u8) -> Option<u64> {
    let slots = unit::slots(carrier.bytes())?;
    let slot = slots.get(usize::from(slot) - 1)?;
    let mut content = [0; BLOCK_SIZE];
    slot.codec.decompress(&carrier.bytes()[slot.at.clone()], &mut content).then(|| Content::of(&content).id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::content::pattern;

    #[test]
    fn what_is_squeezed_comes_back_and_is_of_many_sizes() {
        let mut sizes = std::collections::BTreeSet::new();
        for i in 0..200 {
            let content = pattern(&format!("u{i}"));
            let Some(data) = squeeze(&content, BLOCK_SIZE) else {
                sizes.insert(0);
                continue;
            };
            let mut found = [0; BLOCK_SIZE];
            assert!(decompress(&data, &mut found) && found == *content.bytes());
            sizes.insert(data.len() / 512 + 1);
        }
        assert!(sizes.len() >= 6 && sizes.contains(&0) && sizes.contains(&7), "{sizes:?}");
    }
}
