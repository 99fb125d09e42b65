//! The compressor of simulated machines: what it brings a content to depends on the content alone, and is of all sizes.
//!
//! The contents of simulation repeat a word, so a good compressor brings each of them to a few bytes, and one unit would hold all. Some are said
//! not to compress; of others, the beginning stays as it is.

use crate::content::Content;
use onefold_engine::format::codec::{compress, decompress};
use onefold_engine::units::BLOCK_SIZE;

/// Bytes that stay as they are, of one content or another; none: it does not compress.
const PLAIN_BYTES: [Option<usize>; 8] = [None, None, Some(0), Some(100), Some(700), Some(1500), Some(2200), Some(3400)];

/// A content in at most `most` bytes; none where it does not come to so few.
#[must_use]
pub fn squeeze(content: &Content, most: usize) -> Option<Vec<u8>> {
    let plain = PLAIN_BYTES[usize::try_from(content.id() >> 61).expect("three bits")]?;
    let data = with_plain(content.bytes(), plain).or_else(|| compress(content.bytes(), BLOCK_SIZE))?;
    (data.len() <= most).then_some(data)
}

/// The block in the codec's format, its first bytes as they are: a raw block of zstd's, and behind it what a frame of the rest would have.
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

/// The header of a frame of 256 bytes or more.
const FRAME_HEADER_BYTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::pattern;

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
