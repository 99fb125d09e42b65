//! Epochs that are one unit alone, on a device that takes FUA.

use crate::carriers::{settings, soft};
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::interface::Op;
use onefold_engine::stats::EpochCounts;
use std::collections::BTreeMap;

fn served() -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings().with_facts(|facts| facts.device_takes_fua = true));
    assert_eq!(m.read(0, 512).len(), 512);
    assert_eq!(m.fua_writes, 0, "an opening has none");
    (m.flushes, m.written) = (0, BTreeMap::new());
    m
}

/// Returns the numbers of units, flushes and writes with FUA since the last call.
fn cost(m: &mut Machine) -> (u64, u64, u64) {
    let units = std::mem::take(&mut m.written).values().sum();
    (units, std::mem::take(&mut m.flushes), std::mem::take(&mut m.fua_writes))
}

const ONE_FUA_WRITE: (u64, u64, u64) = (1, 0, 1);

#[test]
fn what_rides_in_one_unit_goes_by_one_write() {
    let mut m = served();
    m.write(4096, &soft(1, 1));
    m.flush();
    assert_eq!(cost(&mut m), ONE_FUA_WRITE);
    m.write(0, &soft(2, 3));
    m.flush();
    assert_eq!(cost(&mut m), ONE_FUA_WRITE, "three blocks");
    m.write(4096 * 20, &soft(2, 3));
    m.flush();
    assert_eq!(cost(&mut m), ONE_FUA_WRITE, "duplicates of them");
    m.request(Op::Discard, 4096 * 20, 4096, None, true);
    assert_eq!(cost(&mut m), ONE_FUA_WRITE, "records alone");
    m.flush();
    assert_eq!(cost(&mut m), (0, 0, 0), "there is nothing to commit");
    let EpochCounts { epochs, flushes, by_fua, .. } = m.engine.ledger().log_epochs.riding;
    assert_eq!((epochs, flushes, by_fua), (2, 0, 2));
    assert_eq!((m.engine.ledger().device_fua_writes, m.engine.ledger().client_flushes), (4, 4));
    assert_eq!(m.read(0, 3 * 4096), soft(2, 3));
    let medium = m.medium;
    let mut m = Machine::open(medium, settings());
    assert_eq!(m.read(0, 3 * 4096), soft(2, 3), "after a crash");
    assert_eq!(m.read(4096 * 21, 2 * 4096), soft(2, 3)[4096..]);
    assert_eq!(m.read(4096 * 20, 4096), [0; 4096]);
}

#[test]
fn content_that_lies_elsewhere_is_flushed() {
    let mut m = served();
    m.write(4096, &pattern(1, 4096));
    m.flush();
    assert_eq!(cost(&mut m), (2, 1, 0), "it does not compress");
    m.write(4096 * 9, &[soft(3, 1), pattern(4, 4096), soft(5, 1)].concat());
    m.flush();
    assert_eq!(cost(&mut m), (2, 1, 0), "one of three does not");
    m.write(4096 * 30, &pattern(4, 4096));
    m.flush();
    assert_eq!(cost(&mut m), ONE_FUA_WRITE, "what it is a duplicate of was flushed");
    m.write(4096 * 40, &soft(6, 8));
    m.flush();
    let (units, flushes, fua_writes) = cost(&mut m);
    assert!(units > 1, "eight blocks of a quarter each");
    assert_eq!((flushes, fua_writes), (1, 0), "several units");
    m.write(4096 * 100, &soft(7, 65));
    m.flush();
    let (_, flushes, fua_writes) = cost(&mut m);
    assert_eq!((flushes, fua_writes), (2, 0), "a large epoch");
}

#[test]
fn what_died_in_its_epoch_is_not_waited_for() {
    let mut m = served();
    m.write(4096, &pattern(1, 4096));
    m.write(4096, &soft(2, 1));
    m.flush();
    assert_eq!(cost(&mut m), (2, 0, 1));
    assert_eq!(m.read(4096, 4096), soft(2, 1));
}

#[test]
fn a_device_without_fua_is_never_asked_for_it() {
    let mut m = Machine::open(blank(32 << 20, None), settings());
    (0..100).for_each(|i| {
        m.write(4096 * i, &soft(i, 1));
        m.flush();
    });
    assert_eq!((m.fua_writes, m.engine.ledger().device_fua_writes), (0, 0));
}
