//! Blocks that are free: which of them the device is told of.

use crate::machine::{Machine, blank, pattern};
use onefold_engine::interface::{Op, Reply};
use onefold_engine::settings::Settings;

/// Writes runs of blocks with one between them, and discards the runs before anything is committed, so that they are free at once.
/// Blocks that the device was told of, and in how many commands.
fn discarded(runs: u64, blocks: u64) -> (u64, u64) {
    let settings = Settings { discard_freed: true, discard_batch_blocks: 1024, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.write(0, &pattern(1, 4096 * usize::try_from(runs * (blocks + 1)).expect("it fits")));
    for run in 0..runs {
        let reply = m.request(Op::Discard, 4096 * run * (blocks + 1), 4096 * blocks, None, false);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    m.flush();
    m.wait(10);
    let ledger = m.engine.ledger();
    (ledger.device_discarded_bytes / 4096, ledger.device_discards)
}

#[test]
fn a_run_of_free_blocks_is_worth_a_command_from_eight_on() {
    assert_eq!(discarded(140, 8), (64 * 8, 64), "a batch has 64 commands");
    assert_eq!(discarded(150, 7), (0, 0));
}
