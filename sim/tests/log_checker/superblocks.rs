//! Superblocks refer to what is there; and the checker's initial state.

use super::bench::{Bench, PLACES, block, link, log_tail_behind, runs, says};
use onefold_engine::format::{Compacted, Record, Region, UnitHeader, UnitKind};
use onefold_engine::units::{Epoch, Lbn, Pbn};

/// Returns the records that copy the epochs of [`Bench::with_two_links`].
fn copied(since_epoch: u64) -> Vec<Record> {
    let born = Record::NewLink { lbn: Lbn(5), to: block(3), old: None };
    assert_eq!(since_epoch, 5);
    vec![born, Record::Later { epochs: 1 }, link(6, block(3), None)]
}

/// Writes a compacted unit to a block, and flushes on request; the fingerprints are on their page, with its bit.
fn compact(bench: &mut Bench, pbn: u64, records: Vec<Record>, flushes: bool) {
    let name = bench.name("a");
    bench.confirm().unwrap();
    bench.page(Region::Fingerprints, 6, |page| page.set_fingerprint(3, name)).unwrap();
    bench.flush().unwrap();
    let (_, bit) = bench.volume.geometry.written_of(onefold_engine::format::PageId { region: Region::Fingerprints, index: 0 });
    bench.bits(|page| page.set_bit(bit, true)).unwrap();
    let header = UnitHeader { kind: UnitKind::Compacted, sequence: 2, epoch: Epoch(5), flushed_upto: 0, ..bench.header };
    let unit = bench.unit(&header, pbn, &[], records);
    if flushes {
        bench.data(pbn, &unit).unwrap();
        bench.flush().unwrap();
    } else {
        bench.flush().unwrap();
        bench.data(pbn, &unit).unwrap();
    }
}

fn compacted(pbn: u64) -> Compacted {
    Compacted { since: 0, places: runs(&[pbn]) }
}

#[test]
fn a_checkpoint_is_in_order() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.move_log_tail(2, 6, Compacted::default()).unwrap();
    bench.epoch(vec![link(9, onefold_engine::format::MapEntry::Zero, None)]).unwrap();
    bench.flush().unwrap();
}

#[test]
fn l8_pages_that_lack_records_before_the_anchor() {
    let mut bench = Bench::with_two_links();
    says(bench.move_log_tail(2, 6, Compacted::default()), "L8: the log tail moves past epoch 6, but sector 0 of");
    let name = bench.name("a");
    let mut bench = Bench::with_two_links();
    bench.confirm().unwrap();
    bench.page(Region::Refs, 6, |page| page.set_refs(3, 3)).unwrap();
    bench.page(Region::Fingerprints, 6, |page| page.set_fingerprint(3, name)).unwrap();
    bench.flush().unwrap();
    bench
        .page(Region::Map, 6, |page| {
            page.set_map(5, block(3));
            page.set_map(6, block(3));
        })
        .unwrap();
    says(bench.move_log_tail(2, 6, Compacted::default()), "sector 0 of map lacks");
}

#[test]
fn l8_bits_behind_the_anchor() {
    let mut bench = Bench::with_two_links();
    bench.confirm().unwrap();
    let name = bench.name("a");
    bench
        .page(Region::Map, 6, |page| {
            page.set_map(5, block(3));
            page.set_map(6, block(3));
        })
        .unwrap();
    bench.page(Region::Refs, 6, |page| page.set_refs(3, 3)).unwrap();
    bench.page(Region::Fingerprints, 6, |page| page.set_fingerprint(3, name)).unwrap();
    bench.flush().unwrap();
    says(bench.move_log_tail(2, 6, Compacted::default()), "has no bit");
}

#[test]
fn l8_an_anchor_behind_what_is_not_flushed() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.epoch(vec![link(9, onefold_engine::format::MapEntry::Zero, None)]).unwrap();
    says(bench.move_log_tail(3, 7, Compacted::default()), "L8: the log tail lies after unit 3");
}

#[test]
fn l8_an_anchor_at_no_epochs_end_or_with_a_wrong_epoch() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    says(bench.move_log_tail(2, 5, Compacted::default()), "L8: the log tail lies after unit 2 and epoch");
}

#[test]
fn l8_an_anchor_that_goes_back() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.move_log_tail(2, 6, Compacted::default()).unwrap();
    says(bench.move_log_tail(1, 5, Compacted::default()), "L8: the log tail moves back from unit 3 to 2");
}

#[test]
fn l8_an_anchor_with_other_places() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    let other = |places: &'static [u64]| {
        move |s: &mut onefold_engine::format::Superblock| {
            s.log_tail = Some(log_tail_behind(2, 6, places, Compacted::default()));
        }
    };
    says(bench.say(other(&[30])), "L8: the log tail names PBN 30 where PBN 22");
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    says(bench.say(other(&[])), "L9: the log tail names no place");
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    says(bench.say(other(&[22, 23, 3])), "R4: a place at PBN 3");
}

#[test]
fn l3_an_anchor_with_a_later_incarnation() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    let later = |s: &mut onefold_engine::format::Superblock| {
        let mut log_tail = log_tail_behind(1, 5, &PLACES[1..2], Compacted::default());
        log_tail.incarnation = 3;
        (s.incarnation, s.log_tail) = (3, Some(log_tail));
    };
    says(bench.say(later), "L3: the log tail has incarnation 3");
}

#[test]
fn compaction_is_in_order() {
    let mut bench = Bench::with_two_links();
    compact(&mut bench, 30, copied(5), true);
    bench.move_log_tail(2, 6, compacted(30)).unwrap();
    says(bench.discard(30), "L8: a discard at PBN 30");
}

#[test]
fn l8_compacted_units_that_are_not_durable() {
    let mut bench = Bench::with_two_links();
    compact(&mut bench, 30, copied(5), false);
    says(bench.move_log_tail(2, 6, compacted(30)), "L8: the log tail names a compacted unit at PBN 30, which is not durable");
}

#[test]
fn l8_compacted_units_that_say_something_else() {
    let lacks_one = copied(5)[..1].to_vec();
    let other_old = vec![Record::NewLink { lbn: Lbn(5), to: block(3), old: Some(Pbn(9)) }, copied(5)[1].clone(), copied(5)[2].clone()];
    let no_entry = vec![link(5, block(3), None), copied(5)[1].clone(), copied(5)[2].clone()];
    let all_of_one_epoch = vec![copied(5)[0].clone(), copied(5)[2].clone()];
    for (records, words) in [
        (lacks_one, "L8: the compacted units say of epoch 6"),
        (other_old, "L8: the compacted units say of epoch 5"),
        (no_entry, "L8: the compacted units say of epoch 5"),
        (all_of_one_epoch, "L8: the compacted units say of epoch 5"),
        ([copied(5), vec![Record::Later { epochs: 9 }, link(7, block(3), None)]].concat(), "the compacted units mention epoch 15"),
    ] {
        let mut bench = Bench::with_two_links();
        compact(&mut bench, 30, records, true);
        says(bench.move_log_tail(2, 6, compacted(30)), words);
    }
}

#[test]
fn l8_compacted_units_that_are_none_or_not_all() {
    let mut bench = Bench::with_two_links();
    compact(&mut bench, 30, copied(5), true);
    says(bench.move_log_tail(2, 6, compacted(31)), "where there is none");
    let mut bench = Bench::with_two_links();
    bench.header.units = 2;
    compact(&mut bench, 30, copied(5), true);
    says(bench.move_log_tail(2, 6, compacted(30)), "lacks units");
    let mut bench = Bench::with_two_links();
    (bench.header.unit, bench.header.units) = (1, 2);
    compact(&mut bench, 30, copied(5), true);
    says(bench.move_log_tail(2, 6, compacted(30)), "is number 0");
    let mut bench = Bench::with_two_links();
    compact(&mut bench, 30, copied(5), true);
    let since = Compacted { since: 1, ..compacted(30) };
    // Epoch 5 is neither on pages nor in the copied records.
    says(bench.move_log_tail(2, 6, since), "sector 0 of");
}

#[test]
fn l8_fingerprints_of_what_is_compacted() {
    let mut bench = Bench::with_two_links();
    let header = UnitHeader { kind: UnitKind::Compacted, sequence: 2, epoch: Epoch(5), flushed_upto: 0, ..bench.header };
    let unit = bench.unit(&header, 30, &[], copied(5));
    bench.data(30, &unit).unwrap();
    bench.flush().unwrap();
    says(bench.move_log_tail(2, 6, compacted(30)), "sector 0 of fingerprints lacks 5");
}

#[test]
fn l8_one_pair_of_copies_at_a_time() {
    let mut bench = Bench::new();
    bench.superblock.generation += 1;
    let [front, end] = onefold_engine::format::pair_of(bench.superblock.generation);
    bench.copy(front).unwrap();
    bench.copy(end).unwrap();
    bench.superblock.generation += 1;
    let [other, _] = onefold_engine::format::pair_of(bench.superblock.generation);
    says(bench.copy(other), "of the other pair, is not durable");
    bench.flush().unwrap();
    bench.superblock.generation += 1;
    says(bench.copy(other), "L8: generation");
    says(
        bench.write(0, &onefold_sim::ground::content::pattern("x")),
        "L8: what is written as copy 0 of the superblock is not a superblock",
    );
}

#[test]
fn an_end_that_is_not_one() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.epoch(vec![link(9, onefold_engine::format::MapEntry::Zero, None)]).unwrap();
    says(bench.say(|s| s.set_log_live(false)), "the log is empty while an epoch is under way");
    let mut bench = Bench::with_two_links();
    says(bench.say(|s| s.set_log_live(false)), "L8: the log tail moves past epoch 6");
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.page(Region::Map, 6, |_| {}).unwrap();
    says(bench.say(|s| s.clean = true), "P1: the superblock says clean while Page");
}

#[test]
fn it_begins_where_the_log_is_whole() {
    let (volume, disk, oracle, superblock) =
        Bench::medium(&mut |s| s.log_tail = Some(log_tail_behind(2, 6, &PLACES[2..3], Compacted { since: 0, places: runs(&[30]) })));
    says(Bench::over(volume, disk, oracle, superblock).map(|_| ()), "L2: compacted unit 0, at PBN 30, is not there");

    let bench = Bench::with_two_links();
    let (volume, disk, superblock) = (bench.volume.clone(), bench.disk.clone(), bench.superblock.clone());
    let mut again = Bench::over(volume.clone(), disk.clone(), bench.oracle.clone(), superblock.clone()).unwrap();
    again.header = bench.header;
    says(again.discard(3), "R4: a discard at PBN 3");
    says(again.discard(20), "L8: a discard at PBN 20");
    again.epoch(vec![link(9, onefold_engine::format::MapEntry::Zero, None)]).unwrap();

    // Records refer to something that is not there.
    let (mut other, mut oracle) = (disk, bench.oracle.clone());
    let header = UnitHeader { flushed_upto: 0, sequence: 1, epoch: Epoch(5), ..bench.header };
    let head = bench.unit(&header, 20, &[21], vec![bench.new_block(5, 4, "a", None)]);
    other.plant(volume.block_of(20), head);
    let a = oracle.send(5, onefold_sim::checkers::oracle::Patch::Whole(onefold_sim::ground::content::pattern("a")), true);
    oracle.raise(a);
    says(Bench::over(volume, other, oracle, superblock).map(|_| ()), "LBN 5 may be");
}

#[test]
fn l8_the_older_pair_leads_to_the_same_end() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.move_log_tail(2, 6, Compacted::default()).unwrap();
    let over = |disk| Bench::over(bench.volume.clone(), disk, bench.oracle.clone(), bench.superblock.clone());
    says(over(bench.disk.clone()).unwrap().discard(20), "L8: a discard at PBN 20");
    let mut gone = bench.disk.clone();
    gone.plant(bench.volume.block_of(20), onefold_sim::ground::content::Content::zero());
    says(over(gone).map(|_| ()), "L8: the older pair's scan from unit 1 reaches 1, not 3");
}
