//! The set checker reports each violation that it can detect: writes by hand, right and wrong, on a real volume's device.

use onefold_engine::fingerprint::Digest;
use onefold_engine::format::page::{self, PageContent};
use onefold_engine::format::{FingerprintEntry, MapEntry, PageId, Region};
use onefold_engine::interface::IoId;
use onefold_engine::units::Pbn;
use onefold_sim::checkers::oracle::{Oracle, Patch};
use onefold_sim::checkers::setcheck::{SetChecker, View};
use onefold_sim::device::disk::{IoOutcome, SimDisk};
use onefold_sim::device::volume::{Volume, short_entry, short_of};
use onefold_sim::explorer::options::Shape;
use onefold_sim::explorer::prepare::Prepared;
use onefold_sim::ground::content::{Content, Shared, pattern};
use onefold_sim::ground::violation::Violation;
use std::rc::Rc;

/// A test bench: a device, its checker, and functions that write.
struct Bench {
    volume: Rc<Volume>,
    disk: SimDisk,
    oracle: Oracle,
    checker: SetChecker,
    io: u64,
}

type Checked = Result<(), Violation>;

impl Bench {
    /// Makes a bench with an empty volume that has been opened: its superblocks say that it is not clean.
    fn new() -> Self {
        let prepared = Prepared::new(Shape::Tiny, false).expect("a prepared volume");
        let mut disk = prepared.disk.clone();
        let mut superblock = prepared.superblock.clone();
        superblock.clean = false;
        for (copy, at) in [0, 1, disk.blocks() - 2, disk.blocks() - 1].into_iter().enumerate() {
            superblock.generation += 1;
            let mut page = [0; 4096];
            superblock.encode(copy, &mut page);
            disk.plant(at, Content::of(&page));
        }
        let (volume, oracle) = (prepared.volume.clone(), prepared.oracle.clone());
        let checker = SetChecker::new(volume.clone(), View { disk: &disk, oracle: &oracle }).expect("an empty volume is in order");
        Self { volume, disk, oracle, checker, io: 0 }
    }

    fn write(&mut self, block: u64, content: &Shared) -> Checked {
        self.checker.about_to_write(block, content, View { disk: &self.disk, oracle: &self.oracle })?;
        self.io += 1;
        self.disk.write(IoId(self.io), block, std::slice::from_ref(content))?;
        self.disk.finish(IoId(self.io), IoOutcome::Done);
        self.checker.changed(block, View { disk: &self.disk, oracle: &self.oracle })
    }

    fn flush(&mut self) -> Checked {
        self.io += 1;
        self.disk.flush(IoId(self.io));
        let decided = self.disk.finish(IoId(self.io), IoOutcome::Done);
        let view = View { disk: &self.disk, oracle: &self.oracle };
        decided.into_iter().try_for_each(|block| self.checker.changed(block, view))
    }

    fn data(&mut self, pbn: u64, content: &Shared) -> Checked {
        self.write(self.volume.block_of(pbn), content)
    }

    /// Writes the first page of a region again, with a change.
    fn change(&mut self, region: Region, change: impl FnOnce(&mut PageContent)) -> Checked {
        let id = PageId { region, index: 0 };
        let block = self.volume.block_of_page(id);
        let mut content = page::open(&self.volume.uuid, id, self.disk.cell(block).newest().bytes(), false).content;
        change(&mut content);
        let mut bytes = [0; 4096];
        page::seal(&self.volume.uuid, id, &mut content, &mut bytes);
        self.write(block, &Content::of(&bytes))
    }

    fn refs(&mut self, pbn: usize, refs: u8) -> Checked {
        self.change(Region::Refs, |page| page.set_refs(pbn, refs))
    }

    fn link(&mut self, lbn: usize, pbn: u64) -> Checked {
        self.change(Region::Map, |page| page.set_map(lbn, MapEntry::Block { pbn: Pbn(pbn), slot: 0 }))
    }

    fn unlink(&mut self, lbn: usize) -> Checked {
        self.change(Region::Map, |page| page.set_map(lbn, MapEntry::Unmapped))
    }

    fn name(&mut self, pbn: usize, content: &Shared) -> Checked {
        let Digest::Of(value) = self.volume.digest(content) else { panic!("content with a fingerprint") };
        self.change(Region::Fingerprints, |page| page.set_fingerprint(pbn, FingerprintEntry::of(value)))
    }

    fn unname(&mut self, pbn: usize) -> Checked {
        self.change(Region::Fingerprints, |page| page.set_fingerprint(pbn, FingerprintEntry::NONE))
    }

    /// Sends `a` to LBN 5, which becomes PBN 3, following the ordered commit up to the links.
    fn with_content_and_count() -> Self {
        let mut bench = Self::new();
        let a = bench.oracle.send(5, Patch::Whole(pattern("a")), true);
        bench.oracle.acknowledge(a);
        bench.data(3, &pattern("a")).unwrap();
        bench.refs(3, 2).unwrap();
        bench.flush().unwrap();
        bench
    }

    /// Continues the commit: the block is linked, durable, and has its fingerprint.
    fn committed() -> Self {
        let mut bench = Self::with_content_and_count();
        bench.link(5, 3).unwrap();
        bench.flush().unwrap();
        bench.name(3, &pattern("a")).unwrap();
        bench.flush().unwrap();
        bench
    }
}

fn says(checked: Checked, word: &str) {
    let violation = checked.expect_err("a violation");
    assert!(violation.0.starts_with(word), "{violation}");
}

#[test]
fn an_ordered_commit_is_in_order() {
    let mut bench = Bench::committed();
    bench.oracle.send(5, Patch::Whole(Content::zero()), true);
    bench.unlink(5).unwrap();
    bench.flush().unwrap();
    bench.refs(3, 1).unwrap();
    bench.unname(3).unwrap();
    bench.flush().unwrap();
    bench.refs(3, 0).unwrap();
    bench.data(3, &pattern("b")).unwrap();
}

#[test]
fn r1_a_link_before_its_content_is_durable() {
    let mut bench = Bench::new();
    bench.oracle.send(5, Patch::Whole(pattern("a")), true);
    bench.refs(3, 2).unwrap();
    bench.flush().unwrap();
    bench.data(3, &pattern("a")).unwrap();
    says(bench.link(5, 3), "R1");
}

#[test]
fn r1_a_fingerprint_before_its_content_is_durable() {
    let mut bench = Bench::new();
    bench.refs(3, 2).unwrap();
    bench.flush().unwrap();
    bench.data(3, &pattern("a")).unwrap();
    says(bench.name(3, &pattern("a")), "R1");
}

#[test]
fn r2_a_link_before_its_count_is_durable() {
    let mut bench = Bench::new();
    bench.oracle.send(5, Patch::Whole(pattern("a")), true);
    bench.data(3, &pattern("a")).unwrap();
    bench.flush().unwrap();
    bench.refs(3, 2).unwrap();
    says(bench.link(5, 3), "P3");
}

#[test]
fn r3_a_count_that_falls_before_the_unlink_is_durable() {
    let mut bench = Bench::committed();
    bench.oracle.send(5, Patch::Whole(Content::zero()), true);
    bench.unlink(5).unwrap();
    says(bench.refs(3, 1), "P3");
}

#[test]
fn r3_two_links_of_which_each_is_possible_count_both() {
    let mut bench = Bench::committed();
    bench.oracle.send(105, Patch::Whole(pattern("a")), true);
    bench.oracle.send(5, Patch::Whole(Content::zero()), true);
    // The link moves from one sector of the map to another: a power loss may leave both.
    says(
        bench.change(Region::Map, |page| {
            page.set_map(5, MapEntry::Unmapped);
            page.set_map(105, MapEntry::Block { pbn: Pbn(3), slot: 0 });
        }),
        "P3",
    );
}

#[test]
fn a_link_that_moves_within_a_sector_is_one_link() {
    let mut bench = Bench::committed();
    bench.oracle.send(6, Patch::Whole(pattern("a")), true);
    bench.oracle.send(5, Patch::Whole(Content::zero()), true);
    let moved = |page: &mut PageContent| {
        page.set_map(5, MapEntry::Unmapped);
        page.set_map(6, MapEntry::Block { pbn: Pbn(3), slot: 0 });
    };
    bench.change(Region::Map, moved).expect("a sector is written whole or not at all");
}

#[test]
fn r4_content_is_overwritten_while_a_link_is_possible() {
    let mut bench = Bench::committed();
    bench.oracle.send(5, Patch::Whole(Content::zero()), true);
    bench.unlink(5).unwrap();
    bench.unname(3).unwrap();
    says(bench.data(3, &pattern("b")), "R4");
}

/// Recovery writes the content that it finds again.
#[test]
fn content_is_written_again_as_it_is_while_it_is_linked() {
    let mut bench = Bench::committed();
    bench.data(3, &pattern("a")).expect("nothing changes");
    bench.flush().expect("nothing has changed");
}

#[test]
fn r4_content_is_overwritten_while_only_a_fingerprint_names_it() {
    let mut bench = Bench::committed();
    bench.oracle.send(5, Patch::Whole(Content::zero()), true);
    bench.unlink(5).unwrap();
    bench.flush().unwrap();
    bench.unname(3).unwrap();
    says(bench.data(3, &pattern("b")), "R4");
    bench.flush().unwrap();
    bench.data(3, &pattern("b")).expect("now the removal is durable");
}

#[test]
fn p1_something_older_than_the_floor() {
    let mut bench = Bench::committed();
    let b = bench.oracle.send(5, Patch::Whole(pattern("b")), true);
    bench.oracle.acknowledge(b);
    bench.oracle.raise(b);
    let view = View { disk: &bench.disk, oracle: &bench.oracle };
    says(bench.checker.floor_raised(5, view), "P");
}

#[test]
fn p2_another_blocks_content() {
    let mut bench = Bench::committed();
    bench.refs(3, 3).unwrap();
    bench.flush().unwrap();
    says(bench.link(6, 3), "P2");
}

#[test]
fn p4_a_fingerprint_of_other_content() {
    let mut bench = Bench::with_content_and_count();
    says(bench.name(3, &pattern("b")), "P4");
}

#[test]
fn p4_a_checksum_or_a_short_name_of_other_content() {
    let mut bench = Bench::with_content_and_count();
    let entry = |value| FingerprintEntry { kind: onefold_engine::format::Kind::Checksum, value };
    let wrong = bench.volume.fingerprinter.checksum(pattern("b").bytes());
    says(bench.change(Region::Fingerprints, |page| page.set_fingerprint(3, entry(wrong))), "P4");
    for (of, is_right) in [("a", true), ("b", false)] {
        let mut bench = Bench::with_content_and_count();
        let Digest::Of(name) = bench.volume.digest(&pattern(of)) else { panic!("no zeros") };
        let found = bench.change(Region::Fingerprints, |page| page.set_fingerprint(3, short_entry(short_of(&name))));
        if is_right { found.expect("its own") } else { says(found, "P4") }
    }
}

#[test]
fn p6_a_written_bit_over_a_page_that_may_be_zeros() {
    let mut bench = Bench::with_content_and_count();
    let bit = |bench: &Bench, region| bench.volume.geometry.written_of(PageId { region, index: 0 }).1;
    let refs = bit(&bench, Region::Refs);
    bench.change(Region::Written, |page| page.set_bit(refs, true)).expect("the refs page is durably sealed");
    let map = bit(&bench, Region::Map);
    says(bench.change(Region::Written, |page| page.set_bit(map, true)), "P6");
}

#[test]
fn p6_a_sector_that_fails_its_check() {
    let mut bench = Bench::with_content_and_count();
    let block = bench.volume.block_of_page(PageId { region: Region::Refs, index: 0 });
    let torn = bench.disk.cell(block).newest().patched(9, &[1]);
    says(bench.write(block, &torn), "P6");
}

#[test]
fn clean_while_something_is_undecided_or_counts_too_much() {
    let prepared = Prepared::new(Shape::Tiny, false).expect("a prepared volume");
    let clean = |bench: &mut Bench| {
        let mut superblock = prepared.superblock.clone();
        superblock.generation = 100;
        let mut page = [0; 4096];
        superblock.encode(0, &mut page);
        bench.write(0, &Content::of(&page))
    };
    let mut bench = Bench::committed();
    bench.refs(3, 3).unwrap();
    says(clean(&mut bench), "P1");
    bench.flush().unwrap();
    says(clean(&mut bench), "P5");
    let mut bench = Bench::committed();
    clean(&mut bench).expect("everything is durable and counted");
    says(bench.refs(3, 3), "R8");
}
