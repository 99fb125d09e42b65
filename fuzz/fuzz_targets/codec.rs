//! The data of slots: hostile bytes, a valid slot with hostile bytes in it, and any block compressed and decompressed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_engine::format::codec::{compress, decompress};
use onefold_engine::units::BLOCK_SIZE;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else { return };
    let mut block = [mode; BLOCK_SIZE];
    onefold_fuzz::overlay(&mut block, data);
    let mut out = [0x55; BLOCK_SIZE];
    if let Some(mut slot) = compress(&block, BLOCK_SIZE) {
        assert!(slot.len() <= BLOCK_SIZE && decompress(&slot, &mut out) && out == block, "what is written is what is read");
        assert_eq!(compress(&block, slot.len() - 1), None, "no more than there is room for");
        for (at, &byte) in data.iter().enumerate().filter(|(at, _)| at % 7 == 0) {
            let at = (at * 31 + usize::from(mode)) % slot.len();
            slot[at] ^= byte;
        }
        assert_same_twice(&slot);
    }
    assert_same_twice(data);
});

/// Checks that data that decompress to a block do so whatever the memory held before.
fn assert_same_twice(data: &[u8]) {
    let (mut out, mut again) = ([0; BLOCK_SIZE], [0xff; BLOCK_SIZE]);
    let read = decompress(data, &mut out);
    assert_eq!(decompress(data, &mut again), read);
    assert!(!read || out == again, "all of the block is read from the data");
}
