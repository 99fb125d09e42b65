//! The counts that a recount returns while there is a log.

use super::volume::MIB;
use super::with_refs;
use onefold_engine::interface::Notice;
use onefold_engine::units::BLOCK_BYTES;

/// A crash in mode `ordered` has left counts without links, in as many blocks as fill a batch of discards.
#[test]
fn the_device_discards_what_a_recount_has_freed() {
    const GARBAGE: std::ops::Range<u64> = 4000..5024;
    let mut volume = with_refs(64 * MIB, |pbn| if GARBAGE.contains(&pbn) { 2 } else { 0 });
    volume.superblock.garbage_possible = true;
    volume.write_superblock();
    let mut machine = volume.open();
    for n in 0..100 {
        machine.write(n, 1 + n);
    }
    assert!(machine.notices.contains(&Notice::Recounted { blocks: 2 * 1024 }), "{:?}", machine.notices);
    let ledger = machine.engine.ledger();
    assert_eq!((ledger.device_discards, ledger.device_discarded_bytes), (1, 1024 * BLOCK_BYTES));
    assert_eq!((machine.engine.stats().kept_blocks, machine.damage().len()), (0, 0));
}
