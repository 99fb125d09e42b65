//! How small LZ4 makes a block.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use onefold_engine::units::BLOCK_SIZE;

/// What sizes are multiples of, in bytes.
pub const STEP_BYTES: u16 = 64;

/// Finds sizes of blocks, one after another in the same memory.
pub struct Sizer {
    table: CompressTable,
    output: Box<[u8]>,
}

impl Default for Sizer {
    fn default() -> Self {
        Self { table: CompressTable::small(), output: vec![0; get_maximum_output_size(BLOCK_SIZE)].into_boxed_slice() }
    }
}

impl Sizer {
    /// Bytes that LZ4 brings a block to, rounded up to [`STEP_BYTES`]; no more than the block itself, which would be stored as it is then.
    ///
    /// # Panics
    /// Never: a block's size fits.
    pub fn size(&mut self, block: &[u8; BLOCK_SIZE]) -> u16 {
        let bytes = compress_into_with_table(block, &mut self.output, &mut self.table).unwrap_or(BLOCK_SIZE);
        u16::try_from(bytes.min(BLOCK_SIZE)).expect("a block's size fits").next_multiple_of(STEP_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_lz4() {
        let mut sizer = Sizer::default();
        let mut few = [0; BLOCK_SIZE];
        few[0] = 1;
        assert_eq!(sizer.size(&few), 64);
        let mut noise = [0; BLOCK_SIZE];
        let mut state = 1u64;
        for bytes in noise.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        assert_eq!(sizer.size(&noise), 4096, "what cannot be compressed stays a block");
        assert_eq!(sizer.size(&few), 64, "a block leaves nothing behind for the next");
        noise[2048..].fill(7);
        let half = sizer.size(&noise);
        assert!((2048..=2176).contains(&half) && half % STEP_BYTES == 0, "{half}");
        assert_eq!(usize::from(half), lz4_flex::block::compress(&noise).len().next_multiple_of(64));
    }
}
