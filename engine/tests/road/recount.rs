//! Counts that a recount has lowered leave no room for new links before that is durable: a crash may bring them back.

use crate::checked::findings;
use crate::forged::rewrite;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::{CommitMode, REFS_MAX, Region};
use onefold_engine::interface::{Class, Notice};
use onefold_engine::settings::Settings;
use onefold_engine::units::{count, index};

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, noncritical_delay_ms: 1_000_000, ..Settings::default() }.with_knobs(|knobs| knobs.recount_window_blocks = 64)
}

/// A volume after a crash in mode `ordered`: a block has this many links, its fingerprint, and a count that is one too high.
fn with_excess(links: u64) -> Machine {
    let mut m = Machine::open(blank(32 << 20, Some(800 * 400)), settings(CommitMode::Ordered));
    (0..links).for_each(|lbn| m.write(4096 * lbn, &pattern(1, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings(CommitMode::Ordered));
    m.write(4096 * 2000, &pattern(2, 4096));
    m.flush();
    rewrite(&mut m.medium, Region::Refs, |page| {
        let at = (0..1000).find(|&at| u64::from(page.refs(at)) == links + 1).expect("its count");
        page.set_refs(at, page.refs(at) + 1);
    });
    Machine::open(m.medium, settings(CommitMode::Log))
}

fn is_recounted(m: &Machine) -> bool {
    m.notices.iter().any(|notice| matches!(notice, Notice::Recounted { .. }))
}

/// Asserts that the server after a killed one finds all counts right.
fn is_sound_after_a_crash(killed: Machine) {
    let mut m = Machine::open(killed.medium, settings(CommitMode::Log).with_knobs(|knobs| knobs.recount_window_blocks = 1 << 20));
    assert_eq!(m.read(0, 4096), pattern(1, 4096));
    m.wait(1000);
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
}

#[test]
fn what_a_recount_gives_back_is_not_given_away_before_it_is_durable() {
    let mut m = with_excess(u64::from(REFS_MAX) - 2);
    m.read(0, 4096);
    // The first of many windows.
    m.wait(20);
    assert!(!is_recounted(&m), "{:?}", m.notices);
    m.write(4096 * 1000, &pattern(1, 4096));
    m.flush();
    assert_eq!(m.engine.ledger().new_blocks, 1, "it is stored anew");
    is_sound_after_a_crash(m);
}

/// A block that is free again is not used either, if its count on the medium leaves no room for new links: a write that needs the block
/// waits until the recount ends.
#[test]
fn a_block_whose_count_was_all_excess_is_not_used_before_that_is_durable() {
    const FREE: usize = 100;
    let mut m = Machine::open(blank(16 << 20, Some(800 * 400)), settings(CommitMode::Ordered));
    m.write(0, &pattern(1, 4096));
    m.flush();
    let blocks = index(m.engine.geometry().data_blocks);
    rewrite(&mut m.medium, Region::Refs, |page| {
        let free: Vec<usize> = (0..blocks).filter(|&at| page.refs(at) == 0).collect();
        free.into_iter().skip(FREE).for_each(|at| page.set_refs(at, REFS_MAX));
    });
    let mut m = Machine::open(m.medium, settings(CommitMode::Log));
    for n in 1..=count(FREE) {
        let write = m.begin_write(4096 * n, &pattern(1 + n, 4096));
        while !m.is_answered(write) {
            m.wait(1);
        }
        m.finish(write);
        m.flush();
    }
    assert!(is_recounted(&m), "the log has some of the free blocks: {:?}", m.notices);
    is_sound_after_a_crash(m);
}

/// A quarter of the memory for such work counts the links of a window of blocks; each window has the whole map read.
#[test]
fn a_recount_reads_the_map_once_where_its_memory_is_enough_for_all_blocks() {
    const PAGES: u64 = 400;
    let settings = || Settings { commit_mode: CommitMode::Ordered, memory_bytes: 2 << 20, ..Settings::default() };
    // Enough for 128 MiB.
    let mut m = Machine::open(blank(120 << 20, Some(800 * PAGES)), settings());
    (0..PAGES).for_each(|page| m.write(800 * 4096 * page, &pattern(page, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings());
    m.write(0, &pattern(PAGES, 4096));
    m.flush();
    let mut m = Machine::open(m.medium, settings());
    m.read(0, 512);
    m.wait(10_000);
    assert!(is_recounted(&m), "{:?}", m.notices);
    let read = m.engine.ledger().read[Class::Map as usize].units;
    assert!((PAGES..PAGES + PAGES / 4).contains(&read), "{read}");
}
