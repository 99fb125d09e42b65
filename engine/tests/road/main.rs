//! The engine from end to end over a medium that does everything at once: what is written reads back, repeats are stored once, and a second
//! opening finds it all.

mod apart;
mod cached;
mod carriers;
mod checked;
mod checkpoints;
mod copies;
mod counters;
mod deferred;
mod edges;
mod extents;
mod failed;
mod forged;
mod fua;
mod full;
mod give_back;
mod grown;
mod index_memory;
mod ledger;
mod machine;
mod media;
mod names;
mod out_of_line;
mod out_of_line_kept;
mod out_of_line_later;
mod out_of_line_slots;
mod packs;
mod pages;
mod prefetch;
mod proofs;
mod protect;
mod recount;
mod refused;
mod replay;
mod ring;
mod runs;
mod scrub;
mod scrub_lost;
mod scrub_mends;
mod scrub_orders;
mod seams;
mod sieve;
mod sizes;
mod space;
mod stock;
mod streams;
mod suspects;
mod two_servers;

use machine::Machine;
use media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Event, Notice, Op};
use onefold_engine::memory::Part;
use onefold_engine::settings::Settings;

#[test]
fn what_is_written_reads_back_also_after_another_opening() {
    let mut m = Machine::open(blank(32 << 20, None), Settings::default());
    assert_eq!(m.read(0, 65536), vec![0; 65536]);
    let a = pattern(1, 128 << 10);
    m.write(4096 * 5, &a);
    assert_eq!(m.read(4096 * 5, 128 << 10), a);
    m.write(512 * 3, &a[..5120]);
    assert_eq!(m.read(512 * 3, 5120), a[..5120]);
    assert_eq!(m.read(0, 1536), vec![0; 1536]);
    m.flush();
    assert_eq!(m.read(4096 * 5, 128 << 10), a);
    let medium = m.close();
    let mut m = Machine::open(medium, Settings::default());
    assert_eq!(m.read(4096 * 5, 128 << 10), a);
    assert_eq!(m.read(512 * 3, 5120), a[..5120]);
}

#[test]
fn repeats_are_stored_once_and_found_again_after_another_opening() {
    let mut m = Machine::open(blank(64 << 20, None), Settings::default());
    let a = pattern(2, 1 << 20);
    m.write(0, &a);
    m.write(8 << 20, &a);
    m.flush();
    m.write(16 << 20, &a);
    assert_eq!((m.engine.ledger().new_blocks, m.engine.ledger().duplicates), (256, 512));
    assert_eq!(m.read(16 << 20, 1 << 20), a);
    let mut m = Machine::open(m.close(), Settings::default());
    m.feed(Event::Tick);
    assert!(m.notices.contains(&Notice::IndexRebuilt { entries: 256, named: 0, unnamed: 0, goes_on: false }), "{:?}", m.notices);
    m.write(24 << 20, &a);
    assert_eq!((m.engine.ledger().new_blocks, m.engine.ledger().duplicates), (0, 256));
    m.flush();
    assert_eq!(m.flushes, 1 + 2 + 2, "three to open, two to commit");
}

#[test]
fn discards_and_zeroes_read_as_zeroes() {
    let mut m = Machine::open(blank(32 << 20, None), Settings::default());
    let a = pattern(3, 1 << 20);
    m.write(0, &a);
    m.flush();
    m.request(Op::Discard, 4096, 8192, None, false);
    assert_eq!(m.read(0, 4096), a[..4096]);
    assert_eq!(m.read(4096, 8192), vec![0; 8192]);
    m.request(Op::WriteZeroes, 512 * 100, 512 * 10, None, false);
    let mut want = a.clone();
    want[4096..12288].fill(0);
    want[51200..51200 + 5120].fill(0);
    assert_eq!(m.read(0, 1 << 20), want);
    m.write(4096, &a[..4096]);
    want[4096..8192].copy_from_slice(&a[..4096]);
    m.flush();
    assert_eq!(m.read(0, 1 << 20), want);
    let mut m = Machine::open(m.close(), Settings::default());
    assert_eq!(m.read(0, 1 << 20), want);
}

#[test]
fn a_small_volume_is_overwritten_many_times() {
    let mut m = Machine::open(blank(16 << 20, None), Settings::default());
    let blocks = m.engine.geometry().logical_blocks;
    for round in 0..6 {
        for b in 0..blocks {
            m.write(b * 4096, &pattern(round * blocks + b, 4096));
        }
        m.flush();
    }
    for b in 0..blocks {
        assert_eq!(m.read(b * 4096, 4096), pattern(5 * blocks + b, 4096), "block {b}");
    }
    assert!(m.notices.iter().all(|n| !matches!(n, Notice::Damage { .. })), "{:?}", m.notices);
    m.close();
}

/// In mode `log` the links that a commit removes take memory until the next commit, which only another request brings.
#[test]
fn a_write_is_admitted_though_the_links_that_are_gone_take_all_memory_for_records() {
    const BLOCKS: u64 = 4 * 800;
    let settings = Settings { commit_mode: CommitMode::Log, memory_bytes: 2 << 20, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, None), settings);
    (0..BLOCKS / 100).for_each(|i| m.write(4096 * 100 * i, &pattern(i, 4096 * 100)));
    m.flush();
    m.wait(10);
    m.request(Op::Discard, 0, 4096 * BLOCKS, None, false);
    m.flush();
    m.wait(10);
    assert!(!m.accountant.within(Part::Dirty) && m.engine.stats().gone.links == BLOCKS, "{:?}", m.engine.stats().gone);
    m.write(0, &pattern(1, 4096));
    m.flush();
    assert!(m.accountant.within(Part::Dirty));
    assert_eq!(m.read(0, 8192), [pattern(1, 4096), vec![0; 4096]].concat());
}

/// Discards take records as writes do, and wait for room as they do (`--memory`).
#[test]
fn discards_in_any_order_stay_within_their_memory() {
    for commit_mode in [CommitMode::Log, CommitMode::Ordered] {
        let settings = Settings { commit_mode, memory_bytes: 2 << 20, commit_period_ms: 3_600_000, ..Settings::default() };
        let mut m = Machine::open(blank(256 << 20, None), settings);
        m.write(0, &pattern(1, 4096 * 2));
        m.flush();
        // A commit takes its time, and each second block is discarded meanwhile, so that no two ranges touch.
        m.keeps_flushes = true;
        m.write(4096, &pattern(2, 4096));
        let flush = m.begin(Op::Flush, 0, 0, None, false);
        m.wait(3);
        let ids: Vec<_> = (0..10_000).map(|i| m.begin(Op::Discard, i * 7919 % 10_000 * 2 * 4096, 4096, None, false)).collect();
        // Each of two epochs may be one record beyond its half.
        let (peak, limit) = (m.accountant.peak(Part::Dirty), m.accountant.limit(Part::Dirty) + 4 * 64);
        assert!(peak <= limit, "{commit_mode:?}: {peak} bytes of records, {limit} allowed");
        m.keeps_flushes = false;
        std::mem::take(&mut m.flushed).into_iter().for_each(|flushed| m.feed(flushed));
        ids.into_iter().chain([flush]).for_each(|id| m.finish(id));
        m.flush();
        let peak = m.accountant.peak(Part::Dirty);
        assert!(peak <= limit, "{commit_mode:?}: {peak} bytes of records, {limit} allowed");
        assert_eq!(m.read(0, 4096 * 2), [vec![0; 4096], pattern(2, 4096)].concat());
    }
}
