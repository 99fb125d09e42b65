//! Log compaction: the records of a long log scan are copied into few units, and give the same state after a crash.

use super::machine::Machine;
use super::volume::{Volume, place};
use onefold_engine::format::{CommitMode, REFS_UNKNOWN};
use std::cell::Cell;

/// The number of LBNs that are written.
const LBNS: u64 = 50;

/// A volume whose log is compacted when it has more units to scan than this.
fn compacting_beyond(units: u64) -> Volume {
    let mut volume = Volume::new();
    volume.compact_beyond = units;
    volume
}

/// Writes and flushes this many times, always to the same LBNs.
fn write(machine: &mut Machine, writes: u64) {
    (0..writes).for_each(|n| machine.write(n * 7 % LBNS, 1000 + n));
}

fn expected(lbn: u64, writes: u64) -> Option<u64> {
    Some((0..writes).rev().find(|n| n * 7 % LBNS == lbn).map_or(0, |n| 1000 + n))
}

fn all(machine: &mut Machine) -> Vec<Option<u64>> {
    (0..LBNS).map(|lbn| machine.read(lbn)).collect()
}

fn superblocks(machine: &Machine) -> usize {
    machine.done.iter().filter(|what| *what == "Superblock").count()
}

#[test]
fn a_long_log_scan_becomes_short_and_gives_the_same_after_a_crash() {
    for writes in [30, 40, 100, 401] {
        let mut machine = compacting_beyond(16).open();
        let before = superblocks(&machine);
        write(&mut machine, writes);
        assert!(superblocks(&machine) > before, "{writes} units were compacted");
        let metadata = machine.done.iter().any(|what| ["Map", "Refs"].contains(&what.as_str()));
        assert!(!metadata, "no page of map or refs is written for that: {:?}", machine.done);
        let volume = machine.crash();
        let log_tail = volume.newest_log_tail();
        assert!(!log_tail.compacted.places.is_empty() && log_tail.sequence > writes / 2, "{log_tail:?}");
        let mut machine = volume.open();
        assert_eq!(all(&mut machine), (0..LBNS).map(|lbn| expected(lbn, writes)).collect::<Vec<_>>());
        assert_eq!(machine.damage(), <[&str; 0]>::default());
        // Opened again, it goes on, and a second crash finds all of it.
        write(&mut machine, writes);
        let mut machine = machine.crash().open();
        assert_eq!(all(&mut machine), (0..LBNS).map(|lbn| expected(lbn, writes)).collect::<Vec<_>>());
        assert_eq!(machine.damage(), <[&str; 0]>::default());
    }
}

/// A superblock names at most 128 runs of places. If each compaction began a run of its own, that would soon be too few.
#[test]
fn the_copies_of_one_compaction_follow_those_of_the_one_before() {
    let mut machine = compacting_beyond(16).open();
    let before = superblocks(&machine);
    write(&mut machine, 200);
    let compactions = superblocks(&machine) - before;
    let places = machine.crash().newest_log_tail().compacted.places;
    assert!(compactions > 4 && places.len() == 1 && places[0].blocks > 2, "{compactions} compactions: {places:?}");
}

/// Each superblock has the whole ledger: a crash loses only what was counted since the last one.
#[test]
fn the_lifetime_ledger_comes_with_each_superblock() {
    let lived = |volume: &Volume| volume.newest().lifetime;
    let mut machine = compacting_beyond(16).open();
    write(&mut machine, 40);
    let volume = machine.crash();
    let first = lived(&volume);
    assert!((20..=40).contains(&first.client_write_units), "{first:?}");
    assert!(first.device_flushes >= first.client_write_units && first.classes.iter().any(|class| class.units > 20), "{first:?}");
    let mut machine = volume.open();
    write(&mut machine, 400);
    let second = lived(&machine.crash());
    assert!((first.client_write_units + 20..=440).contains(&second.client_write_units), "counted once: {first:?} {second:?}");
}

/// The crash comes at any point: before the copies are written, before the superblock refers to them, or after that.
#[test]
fn a_crash_within_a_compaction_loses_nothing() {
    for stop_at in 0..60 {
        let operations = Cell::new(0);
        let mut machine = compacting_beyond(16).open_until(move |_| {
            operations.set(operations.get() + 1);
            // The opening comes first, then seventeen epochs of content, unit and flush.
            operations.get() > 40 + stop_at
        });
        let mut done = 0;
        while !machine.stopped {
            machine.try_write(done * 7 % LBNS, 1000 + done);
            done += u64::from(!machine.stopped);
        }
        let mut machine = machine.crash().open();
        assert_eq!(machine.damage(), <[&str; 0]>::default(), "stopped at {stop_at}");
        for lbn in 0..LBNS {
            let read = machine.read(lbn);
            assert!(read == expected(lbn, done) || read == expected(lbn, done + 1), "LBN {lbn} reads {read:?}, stopped at {stop_at}");
        }
    }
}

#[test]
fn mode_ordered_finds_what_was_compacted() {
    let mut machine = compacting_beyond(16).open();
    write(&mut machine, 60);
    let mut volume = machine.crash();
    volume.mode = CommitMode::Ordered;
    let mut machine = volume.open();
    assert_eq!(all(&mut machine), (0..LBNS).map(|lbn| expected(lbn, 60)).collect::<Vec<_>>());
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}

#[test]
fn a_compacted_unit_that_is_gone_makes_the_log_a_damaged_one() {
    let mut machine = compacting_beyond(16).open();
    write(&mut machine, 60);
    let mut volume = machine.crash();
    let pbn = volume.newest_log_tail().compacted.places[0].first;
    volume.data(pbn)[100] ^= 1;
    let mut machine = volume.open();
    assert_eq!((machine.read(3), machine.damage()), (None, vec!["a compacted unit of the log is not there"]));
}

/// Without a free block beyond the reserve there is no log compaction, and checkpoints keep the log scan short.
#[test]
fn without_free_blocks_checkpoints_keep_the_log_scan_short() {
    let mut volume = super::with_refs(32 << 20, |pbn| if pbn < 120 || pbn == place(1).get() { 0 } else { REFS_UNKNOWN });
    volume.compact_beyond = 16;
    assert!(volume.superblock.geometry.reserve_blocks > 120);
    let mut machine = volume.open();
    write(&mut machine, 300);
    let volume = machine.crash();
    assert_eq!(volume.newest_log_tail().compacted.places, []);
    let mut machine = volume.open();
    assert_eq!(all(&mut machine), (0..LBNS).map(|lbn| expected(lbn, 300)).collect::<Vec<_>>());
    assert_eq!(machine.damage(), <[&str; 0]>::default());
}
