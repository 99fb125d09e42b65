//! The compressor of simulated machines: what it brings a content to depends on the content alone, and is of all sizes.
//!
//! The contents of simulation repeat a word, so a good compressor would bring each of them to a few bytes, and one unit would hold all. Some
//! are said not to compress; of others, the beginning stays as it is.

use crate::content::Content;
use onefold_engine::format::codec::{compress, decompress};
use onefold_engine::units::BLOCK_SIZE;
use std::cell::RefCell;
use zstd::bulk::Compressor;

/// Bytes that stay as they are, of one content or another; none: it does not compress.
const PLAIN_BYTES: [Option<usize>; 8] = [None, None, Some(0), Some(100), Some(700), Some(1500), Some(2200), Some(3400)];

/// A content in at most `most` bytes; none where it does not come to so few.
#[must_use]
pub fn squeeze(content: &Content, most: usize) -> Option<Vec<u8>> {
    let plain = PLAIN_BYTES[usize::try_from(content.id() >> 61).expect("three bits")]?;
    let data = with_plain(content.bytes(), plain).or_else(|| compress(content.bytes(), BLOCK_SIZE))?;
    (data.len() <= most).then_some(data)
}

thread_local! {
    static WRITER: RefCell<Compressor<'static>> = RefCell::new(Compressor::new(1).expect("memory for a compressor"));
}

/// The block in the codec's format, its first bytes as they are: a raw block of a frame, and the blocks of another frame that holds the rest.
fn with_plain(block: &[u8; BLOCK_SIZE], plain: usize) -> Option<Vec<u8>> {
    /// What a frame of 256 bytes or more begins with.
    const HEADER_BYTES: usize = 7;
    if plain == 0 {
        return None;
    }
    // Not the last, and raw: the lower three bits are zero.
    let [low, middle, high, _] = u32::try_from(plain << 3).expect("it fits").to_le_bytes();
    let mut data = vec![low, middle, high];
    data.extend_from_slice(&block[..plain]);
    let rest = WRITER.with_borrow_mut(|writer| writer.compress(&block[plain..])).expect("memory");
    data.extend_from_slice(&rest[HEADER_BYTES..]);
    let mut found = [0; BLOCK_SIZE];
    assert!(decompress(&data, &mut found) && found == *block, "blocks of frames follow each other");
    Some(data)
}

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
