//! Pages hold the result of the records up to their tags.

use super::bench::{Bench, block, link, says};
use onefold_engine::format::{FingerprintEntry, MapEntry, PageContent, PageId, Region};
use onefold_engine::units::Pbn;
use onefold_sim::device::volume::{short_entry, short_of};
use onefold_sim::ground::content::{Content, pattern};
use onefold_sim::ground::violation::Violation;

#[test]
fn l7_an_epoch_that_is_not_durable() {
    let mut bench = Bench::with_two_links();
    bench.confirm().unwrap();
    bench.epoch(vec![link(7, MapEntry::Zero, None)]).unwrap();
    let says_all = |page: &mut PageContent| {
        page.set_map(5, block(3));
        page.set_map(6, block(3));
        page.set_map(7, MapEntry::Zero);
    };
    says(bench.page(Region::Map, 7, says_all), "written with tag 7 while epoch 6 is the last");
    says(bench.page(Region::Map, 6, says_all), "differs in entry 7");
    bench.flush().unwrap();
    says(bench.page(Region::Map, 7, says_all), "written with tag 7 while epoch 6 is the last that more than its own units confirms");
    bench.epoch(vec![link(8, MapEntry::Zero, None)]).unwrap();
    says(bench.page(Region::Map, 7, says_all), "written with tag 7 while epoch 6 is the last");
    bench.flush().unwrap();
    bench.page(Region::Map, 7, says_all).unwrap();
}

#[test]
fn the_epoch_before_the_last_is_right_with_its_own_tag() {
    let mut bench = Bench::with_two_links();
    bench.page(Region::Map, 5, |page| page.set_map(5, block(3))).unwrap();
    says(
        bench.page(Region::Map, 5, |page| page.set_map(6, block(3))),
        "L7: sector 0 of map page 0, written with tag 5, differs in entry 6",
    );
}

#[test]
fn l7_records_that_a_page_leaves_out() {
    let mut bench = Bench::with_two_links();
    bench.confirm().unwrap();
    says(bench.page(Region::Map, 6, |page| page.set_map(5, block(3))), "differs in entry 6");
    says(bench.page(Region::Refs, 6, |page| page.set_refs(3, 2)), "differs in entry 3");
    says(bench.page(Region::Refs, 6, |page| page.set_refs(3, 4)), "differs in entry 3");
    says(bench.page(Region::Fingerprints, 6, |_| {}), "differs in entry 3");
    says(bench.page(Region::Map, 4, |_| {}), "was changed by epoch 6 since");
    bench.pages().unwrap();
}

#[test]
fn l7_a_tag_that_falls() {
    let mut bench = Bench::with_two_links();
    bench.pages().unwrap();
    let other = PageId { region: Region::Map, index: 0 };
    assert_eq!(other.sector(7), 7);
    says(bench.page(Region::Map, 5, |_| {}), "has tag 6 already");
}

/// Makes a volume on which nothing links to PBN 9, whose count is 2.
fn with_garbage(possible: bool) -> Result<Bench, Violation> {
    let (volume, mut disk, oracle, superblock) = Bench::medium(&mut |superblock| superblock.garbage_possible = possible);
    let id = PageId { region: Region::Refs, index: 0 };
    let mut page = PageContent::empty();
    page.set_refs(9, 2);
    let mut bytes = [0; 4096];
    onefold_engine::format::page::seal(&volume.uuid, id, &mut page, &mut bytes);
    disk.plant(volume.block_of_page(id), Content::of(&bytes));
    Bench::over(volume, disk, oracle, superblock)
}

#[test]
fn counts_that_fall_where_garbage_is_possible() {
    says(with_garbage(false).map(|_| ()), "P3: after replay refs of PBN 9 are 2, but it has 0 links");
    let mut bench = with_garbage(true).unwrap();
    says(bench.page(Region::Refs, 4, |page| page.set_refs(9, 3)), "differs in entry 9");
    bench.page(Region::Refs, 4, |page| page.set_refs(9, 0)).unwrap();
    says(bench.page(Region::Refs, 4, |page| page.set_refs(9, 1)), "differs in entry 9");
}

/// Run 74 of seed 1, in any mode: a recount reached the medium in a page without the epoch that had just become durable.
#[test]
fn counts_that_fall_in_a_page_without_the_last_epoch() {
    let mut bench = with_garbage(true).unwrap();
    bench.link_twice();
    bench.confirm().unwrap();
    let counts = |of_three: u8, of_nine: u8| {
        move |page: &mut PageContent| {
            page.set_refs(3, of_three);
            page.set_refs(9, of_nine);
        }
    };
    says(bench.page(Region::Refs, 5, counts(1, 0)), "differs in entry 3");
    bench.page(Region::Refs, 5, counts(2, 1)).unwrap();
    says(bench.page(Region::Refs, 6, counts(2, 1)), "differs in entry 3");
    says(bench.page(Region::Refs, 6, counts(3, 2)), "differs in entry 9");
    bench.page(Region::Refs, 6, counts(3, 1)).unwrap();
    bench.page(Region::Refs, 6, counts(3, 0)).unwrap();
}

#[test]
fn names_of_large_epochs_that_come_later() {
    let mut bench = Bench::new();
    bench.client(5, "a");
    bench.data(3, &pattern("a")).unwrap();
    bench.flush().unwrap();
    let extent = bench.extent(5, 3, "a");
    bench.change_unit(vec![extent], |header, _, _| header.content_flushed = true).unwrap();
    bench.flush().unwrap();
    bench.confirm().unwrap();
    let (right, wrong) = (bench.name("a"), bench.name("b"));
    says(bench.page(Region::Fingerprints, 5, |page| page.set_fingerprint(3, wrong)), "differs in entry 3");
    says(bench.page(Region::Fingerprints, 5, |page| page.set_fingerprint(3, Bench::kind_two(1))), "differs in entry 3");
    let [right_short, wrong_short] = [right, wrong].map(|name| short_entry(short_of(&name.value)));
    says(bench.page(Region::Fingerprints, 5, |page| page.set_fingerprint(3, wrong_short)), "differs in entry 3");
    bench.page(Region::Fingerprints, 5, |page| page.set_fingerprint(3, right_short)).unwrap();
    bench.page(Region::Fingerprints, 5, |page| page.set_fingerprint(3, right)).unwrap();
    says(bench.page(Region::Fingerprints, 5, |page| page.set_fingerprint(3, FingerprintEntry::NONE)), "differs in entry 3");
}

#[test]
fn p6_a_sector_that_fails_its_check() {
    let mut bench = Bench::new();
    let at = bench.volume.block_of_page(PageId { region: Region::Map, index: 0 });
    says(bench.write(at, &pattern("x")), "P6: sector 0 of map page 0");
}

#[test]
fn p6_a_written_bit_before_its_page_is_durable() {
    let mut bench = Bench::with_two_links();
    let (_, bit) = bench.volume.geometry.written_of(PageId { region: Region::Refs, index: 0 });
    bench.confirm().unwrap();
    bench.page(Region::Refs, 6, |page| page.set_refs(3, 3)).unwrap();
    says(bench.bits(|page| page.set_bit(bit, true)), "P6: refs page 0 gets its written bit");
    bench.flush().unwrap();
    bench.bits(|page| page.set_bit(bit, true)).unwrap();
    says(bench.bits(|page| page.set_bit(bit, false)), "P6: written bit");
    says(bench.bits(|page| page.set_bit(31_999, true)), "P6: written bit 31999");
}

#[test]
fn a_block_of_no_region() {
    let mut bench = Bench::new();
    let unused =
        (0..bench.disk.blocks()).find(|&at| bench.volume.place(at) == onefold_sim::device::volume::BlockUse::Unused).expect("there is one");
    says(bench.write(unused, &pattern("x")), "belongs to no region");
    assert_eq!(Pbn(3).get(), 3);
}
