//! Nothing that any state may refer to is overwritten or discarded.

use super::bench::{Bench, block, link, says};
use onefold_engine::format::{Compacted, MapEntry};
use onefold_sim::ground::content::pattern;

#[test]
fn r4_content_that_is_linked() {
    let mut bench = Bench::with_two_links();
    says(bench.data(3, &pattern("b")), "R4: a write at PBN 3");
    says(bench.discard(3), "R4: a discard at PBN 3");
    bench.data(4, &pattern("b")).unwrap();
    bench.discard(5).unwrap();
}

#[test]
fn r4_content_of_the_epoch_under_way() {
    let mut bench = Bench::new();
    bench.client(5, "a");
    bench.data(3, &pattern("a")).unwrap();
    let new = bench.new_block(5, 3, "a", None);
    bench.epoch(vec![new]).unwrap();
    says(bench.data(3, &pattern("b")), "R4: a write at PBN 3");
    says(bench.discard(3), "R4: a discard at PBN 3");
    // Writing the same content again is allowed.
    bench.data(3, &pattern("a")).unwrap();
}

#[test]
fn l6_what_the_last_epoch_unlinked() {
    let mut bench = Bench::with_two_links();
    for lbn in [5, 6] {
        bench.oracle.send(lbn, onefold_sim::checkers::oracle::Patch::Whole(onefold_sim::ground::content::Content::zero()), true);
    }
    let removed = onefold_engine::format::Record::Removed { pbn: onefold_engine::units::Pbn(3), blocks: 1 };
    bench.epoch(vec![link(5, MapEntry::Zero, Some(3)), link(6, MapEntry::Zero, Some(3)), removed]).unwrap();
    says(bench.data(3, &pattern("b")), "R4: a write at PBN 3");
    bench.flush().unwrap();
    says(bench.data(3, &pattern("b")), "L6: a write at PBN 3");
    says(bench.discard(3), "L6: a discard at PBN 3");
    bench.epoch(vec![link(9, MapEntry::Zero, None)]).unwrap();
    says(bench.discard(3), "L6: a discard at PBN 3");
    bench.flush().unwrap();
    bench.data(3, &pattern("b")).unwrap();
}

#[test]
fn l8_units_and_places() {
    let mut bench = Bench::with_two_links();
    says(bench.data(20, &pattern("b")), "L8: a write at PBN 20");
    says(bench.discard(21), "L8: a discard at PBN 21");
    says(bench.data(22, &pattern("b")), "L8: a write at PBN 22");
}

#[test]
fn l8_units_after_the_older_pairs_log_tail() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    bench.move_log_tail(2, 6, Compacted::default()).unwrap();
    says(bench.discard(20), "L8: a discard at PBN 20");
    bench.move_log_tail(2, 6, Compacted::default()).unwrap();
    bench.discard(20).unwrap();
    says(bench.discard(3), "R4: a discard at PBN 3");
}

#[test]
fn a_discard_of_a_page() {
    let bench = Bench::new();
    let page = bench.volume.block_of_page(onefold_engine::format::PageId { region: onefold_engine::format::Region::Map, index: 0 });
    says(bench.checker.about_to_discard(page), "R4: a discard of Page");
}

#[test]
fn r1_a_link_whose_content_is_gone() {
    let mut bench = Bench::with_two_links();
    // This happens without the checker's knowledge.
    bench.disk.discard(onefold_engine::interface::IoId(1 << 30), bench.volume.block_of(3), 1).unwrap();
    says(bench.checker.floor_raised(5, bench.view()), "R1: LBN 5 refers to PBN 3, whose content is undecided");
    assert_eq!(block(3).pbn().map(|pbn| pbn.get()), Some(3));
}
