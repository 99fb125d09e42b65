//! Blocks that are free: which of them the device is told of.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
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

#[test]
fn the_index_names_nothing_that_was_reclaimed() {
    for commit_mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut m = Machine::open(blank(16 << 20, Some(2000)), Settings { commit_mode, ..Settings::default() });
        for round in 0..5 {
            (0..20).for_each(|i| m.write(4096 * 100 * i, &pattern(100 * round + i, 4096 * 100)));
            m.flush();
        }
        m.wait(100);
        let (stats, ledger) = (m.engine.stats(), m.engine.ledger());
        assert!(ledger.reclaimed_blocks > 1000, "{commit_mode:?}");
        // Fewer, where buckets were full.
        let named = ledger.new_blocks - ledger.reclaimed_blocks;
        assert!(stats.index_entries <= named, "{commit_mode:?}: {} entries for {named} blocks", stats.index_entries);
    }
}

/// Blocks are free, but the page that names them is on its way: there is nothing to do until it is there.
#[test]
fn a_write_that_waits_for_the_page_of_free_blocks_lets_the_engine_rest() {
    const PAGES: u64 = 400;
    let settings = || Settings { memory_bytes: 2 << 20, ..Settings::default() };
    let of_page = |page: u64| 800 * 4096 * page;
    let mut m = Machine::open(blank(32 << 20, Some(800 * PAGES)), settings());
    (0..PAGES).for_each(|page| m.write(of_page(page), &pattern(page, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings());
    m.read(0, 512);
    m.wait(100);
    assert!(m.engine.stats().free_complete);
    // More pages of the map than memory holds: those of the free blocks go.
    (0..PAGES).for_each(|page| assert_eq!(m.read(of_page(page), 4096), pattern(page, 4096)));
    m.keeps_reads = true;
    let write = m.begin_write(of_page(PAGES - 1), &pattern(PAGES, 4096));
    assert!(!m.is_answered(write) && m.kept_reads.len() == 1, "it waits for a page");
    m.keeps_reads = false;
    std::mem::take(&mut m.kept_reads).into_iter().for_each(|read| m.feed(read));
    m.finish(write);
    assert_eq!(m.read(of_page(PAGES - 1), 4096), pattern(PAGES, 4096));
}
