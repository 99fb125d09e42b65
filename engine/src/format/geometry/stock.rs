//! The part of the data region that formatting writes ahead where the store is a file.

use super::lookup::Geometry;

/// The blocks of a piece, which is aligned on the store: flash is erased by pieces of this size, or by a few of them together.
pub(crate) const PIECE_BLOCKS: u64 = 256;
/// The stock is this part of the data blocks, as the journal that ext4 makes for itself is of its file system; and this many pieces at
/// least and at most.
const STOCK_FRACTION: u64 = 32;
const STOCK_PIECES: (u64, u64) = (1, 64);

impl Geometry {
    /// The number of blocks in the stock of a volume whose store is a file. Formatting writes zeros to this many, from the first data block
    /// on.
    #[must_use]
    pub fn stock_blocks(&self) -> u64 {
        self.stock_of(PIECE_BLOCKS)
    }

    /// The same for pieces of another size.
    pub(crate) fn stock_of(&self, piece_blocks: u64) -> u64 {
        let (least, most) = (STOCK_PIECES.0 * piece_blocks, STOCK_PIECES.1 * piece_blocks);
        (self.data_blocks / STOCK_FRACTION).clamp(least, most).min(self.data_blocks / 2)
    }
}
