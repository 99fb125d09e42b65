//! The size to which the slot codec compresses a block, as Onefold itself would.

use onefold_engine::format::codec::compress;
use onefold_engine::units::BLOCK_SIZE;

/// The unit of sizes, in bytes.
pub const STEP_BYTES: u16 = 64;

/// Returns the compressed size of a block, rounded up to [`STEP_BYTES`], and at most the block's own size: a block that does not shrink is
/// stored uncompressed.
///
/// # Panics
/// Panics if there is no memory.
#[must_use]
pub fn size_of(block: &[u8; BLOCK_SIZE]) -> u16 {
    let bytes = compress(block, BLOCK_SIZE).map_or(BLOCK_SIZE, |data| data.len());
    u16::try_from(bytes).expect("a block's size fits").next_multiple_of(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_slots() {
        let mut few = [0; BLOCK_SIZE];
        few[0] = 1;
        assert_eq!(size_of(&few), 64);
        let mut noise = [0; BLOCK_SIZE];
        let mut state = 1u64;
        for bytes in noise.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        assert_eq!(size_of(&noise), 4096, "an incompressible block keeps its size");
        assert_eq!(size_of(&few), 64, "a block does not depend on the one before it");
        noise[2048..].fill(7);
        let half = size_of(&noise);
        assert!((2048..=2176).contains(&half) && half % STEP_BYTES == 0, "{half}");
        let slot = compress(&noise, BLOCK_SIZE).expect("half of it compresses");
        assert_eq!(usize::from(half), slot.len().next_multiple_of(64));
    }
}
