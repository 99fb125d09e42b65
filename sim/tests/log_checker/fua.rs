//! Units that are written with FUA: each is durable when it has completed, and nothing else is.

use super::bench::{Bench, block, link, says};
use onefold_engine::format::{MapEntry, Record};
use onefold_sim::checkers::oracle::Patch;
use onefold_sim::ground::content::pattern;

fn clear(lbn: u64) -> Vec<Record> {
    vec![link(lbn, MapEntry::Zero, None)]
}

/// Acknowledges a client's write of this, and promises that it survives.
fn promised(bench: &mut Bench, lbn: u64, label: &str) {
    let mark = bench.oracle.send(lbn, Patch::Whole(pattern(label)), true);
    bench.oracle.acknowledge(mark);
    bench.oracle.raise(mark);
}

#[test]
fn epochs_of_one_unit_each_are_durable_one_after_another_without_a_flush() {
    let mut bench = Bench::with_two_links();
    bench.fua = true;
    for lbn in 9..12 {
        bench.epoch(clear(lbn)).unwrap();
    }
    bench.client(7, "a");
    bench.epoch(vec![link(7, block(3), None)]).unwrap();
    promised(&mut bench, 7, "a");
    bench.checker.floor_raised(7, bench.view()).unwrap();
}

#[test]
fn what_an_epoch_unlinked_is_freed_by_the_next_single_write() {
    let mut bench = Bench::with_two_links();
    bench.fua = true;
    bench
        .epoch(vec![
            link(5, MapEntry::Zero, Some(3)),
            link(6, MapEntry::Zero, Some(3)),
            Record::Removed { pbn: onefold_engine::units::Pbn(3), blocks: 1 },
        ])
        .unwrap();
    says(bench.discard(3), "L6: a discard at PBN 3");
    bench.epoch(clear(9)).unwrap();
    bench.discard(3).unwrap();
}

#[test]
fn r5_promised_before_the_single_write_has_completed() {
    let mut bench = Bench::with_two_links();
    bench.client(7, "a");
    bench.fua = true;
    bench.send_epoch(vec![link(7, block(3), None)]).unwrap();
    promised(&mut bench, 7, "a");
    says(bench.checker.floor_raised(7, bench.view()), "P1: LBN 7");
    bench.complete().unwrap();
    bench.checker.floor_raised(7, bench.view()).unwrap();
}

#[test]
fn r5_promised_by_a_single_write_beside_content_that_was_not_flushed() {
    let mut bench = Bench::new();
    bench.client(5, "a");
    bench.data(3, &pattern("a")).unwrap();
    bench.fua = true;
    let new = bench.new_block(5, 3, "a", None);
    bench.epoch(vec![new]).unwrap();
    says(bench.epoch(clear(9)), "L2: unit 2 says that 1 is flushed, but 0 is");
    promised(&mut bench, 5, "a");
    says(bench.checker.floor_raised(5, bench.view()), "P1: LBN 5");
}

#[test]
fn r5_a_unit_beside_a_single_write_is_not_durable_by_it() {
    let mut bench = Bench::with_two_links();
    bench.epoch(clear(9)).unwrap();
    bench.fua = true;
    says(bench.epoch(clear(10)), "L2: unit 4 says that 3 is flushed, but 2 is");
}
