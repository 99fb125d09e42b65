//! Units: their place, order and incarnation, one epoch at a time; and their records.

use super::bench::{Bench, PLACES, block, link, says};
use onefold_engine::format::{MapEntry, OldRun, Record};
use onefold_engine::units::{Lbn, Pbn};
use onefold_sim::ground::content::pattern;

fn clear(lbn: u64) -> Vec<Record> {
    vec![link(lbn, MapEntry::Zero, None)]
}

#[test]
fn epochs_one_after_another_are_in_order() {
    let mut bench = Bench::with_two_links();
    bench.checker.floor_raised(5, bench.view()).unwrap();
    bench.epoch(clear(9)).unwrap();
    bench.flush().unwrap();
}

#[test]
fn l2_a_unit_in_another_place() {
    says(Bench::new().change_unit(clear(9), |_, pbn, _| *pbn = 30), "L2: unit 1 is written to PBN 30; the place");
}

#[test]
fn l2_a_unit_out_of_its_order() {
    let skips = |header: &mut onefold_engine::format::UnitHeader, _: &mut u64, _: &mut Vec<u64>| header.sequence = 2;
    says(Bench::new().change_unit(clear(9), skips), "L2: unit 2 is written to PBN 20, but 1 comes next");
}

#[test]
fn l2_a_unit_that_says_too_little_or_too_much_of_what_is_flushed() {
    let mut bench = Bench::with_two_links();
    says(bench.change_unit(clear(9), |header, _, _| header.flushed_upto = 1), "L2: unit 3 says that 1 is flushed, but 2 is");
    let mut bench = Bench::new();
    bench.epoch(clear(9)).unwrap();
    says(bench.epoch(clear(10)), "L2: unit 2 says that 1 is flushed, but 0 is");
}

#[test]
fn l2_records_of_what_the_volume_does_not_have() {
    let mut bench = Bench::new();
    says(bench.epoch(clear(1 << 30)), "L2: a record names something that the volume does not have");
    let mut bench = Bench::new();
    says(bench.epoch(vec![link(1, block(1 << 20), None)]), "L2: a record names something that the volume does not have");
}

#[test]
fn l3_an_incarnation_that_is_not_durable() {
    says(Bench::new().change_unit(clear(9), |header, _, _| header.incarnation = 3), "L3: unit 1 has incarnation 3, but 2 is durable");
}

#[test]
fn l3_an_incarnation_that_falls() {
    let mut bench = Bench::with_two_links();
    says(bench.change_unit(clear(9), |header, _, _| header.incarnation = 1), "L3: unit 3 has incarnation 1, less");
}

#[test]
fn l4_a_closing_unit_while_the_log_is_open() {
    says(Bench::new().epoch(vec![Record::Closing { first: 0, lost: Vec::new() }]), "L4: unit 1 closes");
}

#[test]
fn l9_places_of_the_next_unit() {
    says(Bench::new().change_unit(clear(9), |_, _, places| places.clear()), "L9: unit 1 names no place");
    says(Bench::new().change_unit(clear(9), |_, _, places| *places = vec![21, 22, 20]), "L9: unit 1 names its own");
    says(Bench::new().change_unit(clear(9), |_, _, places| *places = vec![22, 21]), "L2: unit 1 names PBN 22 where PBN 21");
    let mut bench = Bench::with_two_links();
    says(bench.change_unit(clear(9), |_, _, places| *places = vec![23, 24, 3]), "R4: a place at PBN 3");
}

#[test]
fn l10_an_epoch_before_the_one_before_it_is_durable() {
    let mut bench = Bench::new();
    bench.epoch(clear(9)).unwrap();
    says(bench.change_unit(clear(10), |header, _, _| header.flushed_upto = 0), "L10: unit 2 of epoch");
}

#[test]
fn l10_an_epoch_that_is_not_later_or_does_not_begin_at_its_beginning() {
    let mut bench = Bench::with_two_links();
    says(bench.change_unit(clear(9), |header, _, _| header.epoch = onefold_engine::units::Epoch(6)), "L10: unit 3 begins epoch");
    let mut bench = Bench::with_two_links();
    let middle = |header: &mut onefold_engine::format::UnitHeader, _: &mut u64, _: &mut Vec<u64>| {
        (header.unit, header.units, header.flushed_upto) = (0, 2, 2);
    };
    bench.change_unit(clear(9), middle).unwrap();
    // The second unit of the epoch has to belong to it.
    says(bench.change_unit(clear(10), |header, _, _| header.flushed_upto = 2), "L10: unit 4 of epoch");
}

#[test]
fn r5_an_epoch_counts_when_all_of_it_is_durable() {
    let mut bench = Bench::new();
    bench.client(5, "a");
    let mark = bench.oracle.acknowledged(5);
    bench.data(3, &pattern("a")).unwrap();
    let new = bench.new_block(5, 3, "a", None);
    bench.epoch(vec![new]).unwrap();
    let a = bench.oracle.send(5, onefold_sim::checkers::oracle::Patch::Whole(pattern("a")), true);
    assert_ne!(mark, a);
    bench.oracle.acknowledge(a);
    bench.oracle.raise(a);
    says(bench.checker.floor_raised(5, bench.view()), "P1: LBN 5");
    bench.flush().unwrap();
    bench.checker.floor_raised(5, bench.view()).unwrap();
}

#[test]
fn l1_the_earlier_block_of_an_lbn() {
    let mut bench = Bench::with_two_links();
    says(bench.epoch(vec![link(5, MapEntry::Zero, None)]), "L1: epoch 7 says that LBN 5 referred to PBN None");
    let mut bench = Bench::new();
    let clear = Record::Clear { lbn: Lbn(7), to: MapEntry::Unmapped, olds: vec![OldRun { first: Some(Pbn(9)), blocks: 1 }] };
    says(bench.epoch(vec![clear]), "L1: epoch 5 says that LBN 7 referred to PBN Some(9)");
}

#[test]
fn l1_a_count_below_zero() {
    let mut bench = Bench::new();
    bench.epoch(vec![Record::Removed { pbn: Pbn(9), blocks: 1 }]).unwrap();
    says(bench.flush(), "L1: records of epoch 5 change refs of PBN 9 from 0");
}

#[test]
fn l5_a_record_of_other_content() {
    let mut bench = Bench::new();
    bench.client(5, "b");
    bench.data(3, &pattern("b")).unwrap();
    let new = bench.new_block(5, 3, "a", None);
    says(bench.epoch(vec![new]), "L5: the record of PBN 3");
}

#[test]
fn r1_a_large_epoch_before_its_content_is_durable() {
    let mut bench = Bench::new();
    let extent = bench.extent(5, 3, "a");
    bench.client(5, "a");
    bench.data(3, &pattern("a")).unwrap();
    says(bench.change_unit(vec![extent.clone()], |header, _, _| header.content_flushed = true), "R1: large epoch 5 names PBN 3");
    let mut bench = Bench::new();
    bench.client(5, "a");
    bench.data(3, &pattern("a")).unwrap();
    bench.flush().unwrap();
    bench.change_unit(vec![extent], |header, _, _| header.content_flushed = true).unwrap();
    bench.flush().unwrap();
}

#[test]
fn l5_a_short_name_of_other_content() {
    let mut bench = Bench::new();
    bench.client(5, "b");
    bench.data(3, &pattern("b")).unwrap();
    bench.flush().unwrap();
    let extent = bench.extent(5, 3, "a");
    says(bench.change_unit(vec![extent], |header, _, _| header.content_flushed = true), "L5: the record of PBN 3");
}

#[test]
fn r1_links_to_nothing() {
    let mut bench = Bench::new();
    says(bench.epoch(vec![link(5, block(9), None)]), "R1: epoch 5 links LBN 5 to PBN 9, which has no entry");
    let mut bench = Bench::with_two_links();
    says(bench.epoch(vec![link(7, MapEntry::Block { pbn: Pbn(3), slot: 2 }, None)]), "R1: LBN 7 refers to slot 2 of PBN 3, which has none");
}

#[test]
fn p2_anothers_content() {
    let mut bench = Bench::with_two_links();
    says(bench.epoch(vec![link(9, block(3), None)]), "P2: LBN 9");
}

#[test]
fn r4_an_entry_over_what_is_in_use() {
    let mut bench = Bench::with_two_links();
    let new = bench.new_block(9, 3, "a", None);
    says(bench.epoch(vec![new]), "R4: epoch 7 gives PBN 3 an entry");
}

#[test]
fn the_first_places_are_those_of_the_log_tail() {
    assert_eq!(PLACES[0], 20);
    let mut bench = Bench::new();
    bench.epoch(clear(9)).unwrap();
    bench.flush().unwrap();
}
