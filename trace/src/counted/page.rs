//! A page as the counting device keeps it.

use onefold_engine::buffer::Slice;
use onefold_engine::format::codec::{compress, decompress};
use onefold_engine::units::BLOCK_SIZE;

/// A page of metadata, whole or compressed.
#[derive(Clone)]
pub(super) enum Page {
    Whole(Slice),
    Compressed(Box<[u8]>),
}

impl Page {
    /// Keeps a page of one block, compressed if that is asked for and makes it smaller.
    pub fn new(page: Slice, compresses: bool) -> Self {
        let data = if compresses { compress(page.block(0), BLOCK_SIZE) } else { None };
        data.map_or(Self::Whole(page), |data| Self::Compressed(data.into()))
    }

    /// Returns its bytes.
    ///
    /// # Panics
    /// Never panics: what was compressed here decompresses.
    pub fn bytes(&self) -> [u8; BLOCK_SIZE] {
        match self {
            Self::Whole(page) => *page.block(0),
            Self::Compressed(data) => {
                let mut out = [0; BLOCK_SIZE];
                assert!(decompress(data, &mut out), "it was compressed here");
                out
            }
        }
    }

    /// Returns the memory that it takes.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Self::Whole(_) => BLOCK_SIZE as u64,
            Self::Compressed(data) => data.len() as u64,
        }
    }
}
