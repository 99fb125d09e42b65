//! Counts that can be derived by hand.

use crate::bench::Bench;
use onefold_engine::interface::{Class, Op, Reply};
use onefold_engine::settings::Persistence;
use onefold_engine::units::Blocks;
use onefold_sim::rivals::{Baseline, Settings, journal, none, shadow};

fn settings(persistence: Persistence) -> Settings {
    Settings::new(persistence, Blocks(4096))
}

/// Returns the units by class, and the flushes, that `what` adds.
fn added<M: Baseline>(bench: &mut Bench<M>, what: impl FnOnce(&mut Bench<M>)) -> ([u64; Class::ALL.len()], u64) {
    let before = (bench.units, bench.flushes);
    what(bench);
    bench.settle();
    let units = std::array::from_fn(|i| bench.units[i] - before.0[i]);
    (units, bench.flushes - before.1)
}

/// Returns the counts that one write and a flush add.
fn synced<M: Baseline>(bench: &mut Bench<M>, first: u64, contents: &[u64]) -> ([u64; Class::ALL.len()], u64) {
    added(bench, |b| {
        b.write(first, contents);
        b.flush();
    })
}

/// Makes counts in the order of the classes: data, refs, map, fingerprints, written, superblock; no rival has a log of units.
const fn units(data: u64, refs: u64, map: u64, fingerprints: u64, written: u64, superblock: u64) -> [u64; Class::ALL.len()] {
    [data, refs, map, fingerprints, written, superblock, 0]
}

#[test]
fn a_plain_disk_writes_what_it_is_given() {
    let mut bench = Bench::new(none::Plain::new(settings(Persistence::Weak)), 1);
    assert_eq!(
        added(&mut bench, |b| {
            b.write(7, &[1, 1, 0]);
            b.write(7, &[1]);
        }),
        (units(4, 0, 0, 0, 0, 0), 0)
    );
    assert_eq!(bench.replies.len(), 2, "answered with no flush");
    assert_eq!(
        added(&mut bench, |b| {
            b.flush();
        }),
        (units(0, 0, 0, 0, 0, 0), 1)
    );
    assert_eq!(
        added(&mut bench, |b| {
            b.ask(Op::Write, 0, 1, &[5], true);
        }),
        (units(1, 0, 0, 0, 0, 0), 1)
    );
    bench.close();
}

#[test]
fn strong_writes_of_a_plain_disk_share_flushes() {
    let mut bench = Bench::new(none::Plain::new(settings(Persistence::Strong)), 1);
    assert_eq!(
        added(&mut bench, |b| {
            b.write(7, &[1]);
        }),
        (units(1, 0, 0, 0, 0, 0), 1)
    );
    let (written, flushes) = added(&mut bench, |b| (0..32).for_each(|i| _ = b.write(i, &[i])));
    assert_eq!(written, units(32, 0, 0, 0, 0, 0));
    assert!((1..=32).contains(&flushes), "{flushes} flushes");
    assert_eq!(bench.replies.len(), 33);
}

#[test]
fn a_shadow_writes_each_page_on_the_road() {
    let mut bench = Bench::new(shadow::machine(settings(Persistence::Weak)), 1);
    // This is one block of content; a leaf of each tree (each has height 1); one page of counts and redb's freed pages; roots and header.
    let first = synced(&mut bench, 0, &[1]);
    assert_eq!(first, (units(1, 2, 1, 1, 0, 2), 2), "{}", bench.machine.report());
    // A duplicate has no content, and so no flush for it, and no hash; its count of 3 goes to the table of large counts.
    let duplicate = synced(&mut bench, 1, &[1]);
    assert_eq!(duplicate, (units(0, 3, 1, 0, 0, 2), 1), "{}", bench.machine.report());
    // With a fourth link, the two bits already say "large", so that their page stays.
    let again = synced(&mut bench, 2, &[1]);
    assert_eq!(again, (units(0, 2, 1, 0, 0, 2), 1), "{}", bench.machine.report());
    // The same content in the same place changes nothing; the flush has nothing to commit.
    assert_eq!(synced(&mut bench, 2, &[1]), (units(0, 0, 0, 0, 0, 0), 0));
    assert_eq!(bench.replies.len(), 8);
}

#[test]
fn a_shadow_grows_higher_trees() {
    let mut bench = Bench::new(shadow::machine(settings(Persistence::Weak)), 1);
    let contents: Vec<u64> = (1..=4000).collect();
    synced(&mut bench, 0, &contents);
    let report = bench.machine.report();
    assert_eq!((report.fact("height: tree lbn"), report.fact("height: tree fingerprints")), (Some(2), Some(2)), "{report}");
    // Each tree now has two pages.
    let one = synced(&mut bench, 4001, &[5000]);
    assert_eq!(one, (units(1, 2, 2, 2, 0, 2), 2), "{}", bench.machine.report());
    // The timer of a second commits as a flush would.
    let timer = added(&mut bench, |b| {
        b.write(4002, &[5001]);
        b.settle();
        b.pass_ms(1000);
    });
    assert_eq!(timer, (units(1, 2, 2, 2, 0, 2), 2), "{}", bench.machine.report());
    assert_eq!(bench.machine.report().fact("timer"), Some(1));
    assert_eq!(bench.count(Class::Data), 4002);
}

#[test]
fn a_strong_shadow_commits_each_block() {
    let mut bench = Bench::new(shadow::machine(settings(Persistence::Strong)), 1);
    let (written, flushes) = added(&mut bench, |b| {
        b.write(0, &[1, 2, 3, 4]);
    });
    assert_eq!(written, units(4, 8, 4, 4, 0, 8), "{}", bench.machine.report());
    // There is one for each commit, and one for the content, which all four may share.
    assert!((5..=8).contains(&flushes), "{flushes} flushes");
    assert_eq!((bench.replies.len(), bench.machine.report().fact("strong")), (1, Some(4)));
}

#[test]
fn a_journal_writes_a_block_for_each_epoch_and_its_pages_later() {
    let mut bench = Bench::new(journal::machine(settings(Persistence::Weak)), 1);
    let one = synced(&mut bench, 0, &[1]);
    assert_eq!(one, (units(1, 0, 0, 0, 1, 0), 1));
    let duplicate = synced(&mut bench, 1, &[1]);
    assert_eq!(duplicate, (units(0, 0, 0, 0, 1, 0), 1));
    // These are 1000 new blocks of 13 + 9 + 27 bytes each, in blocks with 4072 bytes of records: 13 * 313, then 9 * 452, then 27 * 150.
    let contents: Vec<u64> = (100..1100).collect();
    let many = synced(&mut bench, 2, &contents);
    assert_eq!(many, (units(1000, 0, 0, 0, 13, 0), 1), "{}", bench.machine.report());
    // After 30 s the two map pages of 1002 LBNs, and one page of counts and five of fingerprints of 1001 PBNs, are written home without a
    // flush.
    assert_eq!(added(&mut bench, |b| b.pass_ms(29_000)), (units(0, 0, 0, 0, 0, 0), 0));
    assert_eq!(added(&mut bench, |b| b.pass_ms(1_000)), (units(0, 1, 2, 5, 0, 0), 0));
    // The next flush covers them; the one after it brings the ring's new tail.
    assert_eq!(synced(&mut bench, 0, &[5000]), (units(1, 0, 0, 0, 1, 0), 1));
    assert_eq!(synced(&mut bench, 0, &[5001]), (units(1, 0, 0, 0, 1, 1), 1));
    // The close writes home what those two changed: one page of each table, flush, superblock, flush.
    assert_eq!(added(&mut bench, |b| b.close()), (units(0, 1, 1, 1, 0, 1), 2), "{}", bench.machine.report());
}

#[test]
fn a_full_ring_goes_home_and_around() {
    let mut bench = Bench::new(journal::machine(settings(Persistence::Weak)), 1);
    for i in 0..3000 {
        synced(&mut bench, i, &[i + 1]);
    }
    let report = bench.machine.report();
    let fact = |name: &str| report.fact(name).expect("it is reported");
    assert!(fact("journal blocks written") > fact("blocks of the ring"), "{report}");
    assert!(fact("write-backs") >= 2 && fact("blocks of the ring in use, at most") <= fact("blocks of the ring"), "{report}");
}

#[test]
fn a_commit_waits_where_write_back_is_slow_and_the_ring_is_full() {
    let mut bench = Bench::new(journal::machine(settings(Persistence::Weak)), 1);
    bench.late = &[Class::Map, Class::Refs, Class::Fingerprints];
    for i in 0..3000 {
        bench.write(i, &[i + 1]);
        let flush = bench.flush();
        while !bench.replies.contains_key(&flush) {
            assert!(bench.complete_one(), "the flush waits for nothing: {}", bench.machine.report());
        }
    }
    let report = bench.machine.report();
    let fact = |name: &str| report.fact(name).expect("it is reported");
    assert_eq!(fact("blocks of the ring in use, at most"), fact("blocks of the ring"), "{report}");
    // Each wait costs two flushes: one for the home pages, and one for the superblock with the new tail.
    assert!(bench.flushes > 3000 && bench.flushes <= 3000 + 2 * fact("write-backs"), "{} flushes; {report}", bench.flushes);
}

#[test]
fn large_epochs_end_by_pressure_and_space_is_collected_again_and_again() {
    let mut bench = Bench::new(journal::machine(settings(Persistence::Weak)), 1);
    let mut content = 0;
    for round in 0..60 {
        // New content is written everywhere, round after round.
        for first in (0..4096).step_by(1024) {
            let contents: Vec<u64> = (content + 1..=content + 1024).collect();
            content += 1024;
            bench.write(first, &contents);
            bench.complete_some(1 + round);
        }
    }
    bench.flush();
    bench.settle();
    assert!(bench.replies.values().all(|reply| matches!(reply, Reply::Done)) && bench.replies.len() == 241);
    let report = bench.machine.report();
    let fact = |name: &str| report.fact(name).expect("it is reported");
    assert!(fact("pressure") > 20 && fact("waits for space") > 20 && fact("write-backs") > 4, "{report}");
    bench.close();
}

#[test]
fn strong_writes_of_a_journal_share_commits() {
    let mut bench = Bench::new(journal::machine(settings(Persistence::Strong)), 1);
    let (written, flushes) = added(&mut bench, |b| (0..32).for_each(|i| _ = b.write(i, &[i + 1])));
    // The first is written alone, the other 31 wait together.
    assert_eq!((written, flushes), (units(32, 0, 0, 0, 2, 0), 2), "{}", bench.machine.report());
    assert_eq!(bench.replies.len(), 32);
}

#[test]
fn the_same_load_costs_the_same_each_time() {
    let run = || {
        let mut bench = Bench::new(shadow::machine(settings(Persistence::Weak)), 7);
        for i in 0..400u64 {
            let contents: Vec<u64> = (0..1 + i % 9).map(|k| (i * 7919 + k) % 3000).collect();
            bench.write(i * 2_654_435_761 % 4000, &contents);
            if i % 3 == 0 {
                bench.flush();
            }
            bench.complete_some(30);
        }
        bench.close();
        (bench.units, bench.flushes, bench.machine.report().facts)
    };
    assert_eq!(run(), run());
}
