//! A damaged log: content is served if it is proved to be what its LBN means, and every other read is an error.

use super::volume::{Volume, content, place};
use super::{link, with_refs};
use onefold_engine::format::entry::{Kind, MapEntry};
use onefold_engine::format::{FingerprintEntry, PageId, Record, Region};
use onefold_engine::units::{Epoch, Pbn};

const MISSING: &str = "a unit of the log that was flushed is not there";

/// Four units of one block each, LBN 1 to 4; the third, which was flushed, is gone.
fn with_a_hole() -> Volume {
    let mut volume = Volume::new();
    for i in 1..=4 {
        volume.store(20 + i);
        let record = volume.new_block(i, 20 + i, None);
        volume.unit(i, vec![record]);
    }
    volume.data(place(3)).fill(0xee);
    volume
}

/// Writes the fingerprint of a block to its page, with `name_tag`, and a link from an LBN to that block to the map, with `map_tag`.
fn with_pages(volume: &mut Volume, pbn: u64, name_tag: u64, lbn: u64, map_tag: u64) {
    let name = volume.name(&content(pbn));
    volume.change_page(PageId { region: Region::Fingerprints, index: 0 }, |page| {
        page.set_fingerprint(usize::try_from(pbn).expect("small"), name);
        page.set_tag(0, name_tag);
    });
    volume.change_page(PageId { region: Region::Map, index: 0 }, |page| {
        page.set_map(usize::try_from(lbn).expect("small"), MapEntry::Block { pbn: Pbn(pbn), slot: 0 });
        page.set_tag(0, map_tag);
    });
}

#[test]
fn what_counts_before_the_hole_is_served() {
    let mut machine = with_a_hole().open();
    assert_eq!([1, 2].map(|lbn| machine.read(lbn)), [Some(21), Some(22)]);
    assert_eq!([3, 4, 5].map(|lbn| machine.read(lbn)), [None; 3], "nothing proves zeros, and what stands behind the hole does not count");
    assert_eq!(machine.damage(), [MISSING]);
    assert!(!machine.done.iter().any(|what| what != "flush"), "nothing is written: {:?}", machine.done);
}

#[test]
fn content_that_is_not_what_its_fingerprint_says_is_an_error() {
    let mut volume = with_a_hole();
    volume.store(29);
    *volume.data(Pbn(21)) = content(29);
    let mut machine = volume.open();
    assert_eq!([1, 2].map(|lbn| machine.read(lbn)), [None, Some(22)]);
}

/// The block may have been freed and given to another LBN, in epochs that the log no longer has: the pages prove a link only if the sectors
/// of fingerprints and map are equally old.
#[test]
fn a_block_that_became_a_strangers_is_an_error() {
    for (map_tag, name_tag, answer) in [(0, 0, Some(21)), (0, 4, None), (4, 4, Some(21)), (3, 4, None), (4, 0, None)] {
        let mut volume = with_a_hole();
        with_pages(&mut volume, 21, name_tag, 1, map_tag);
        assert_eq!(volume.open().read(1), answer, "map {map_tag}, fingerprints {name_tag}");
    }
}

#[test]
fn content_with_a_checksum_only_is_an_error() {
    let mut volume = with_a_hole();
    let value = volume.superblock.fingerprinter().checksum(&content(21));
    let name = FingerprintEntry { kind: Kind::Checksum, value };
    let Record::New { lbn, pbn, old, .. } = volume.new_block(1, 21, None) else { panic!("a new block") };
    volume.unit(1, vec![Record::New { lbn, pbn, old, name }]);
    let mut machine = volume.open();
    assert_eq!([1, 2].map(|lbn| machine.read(lbn)), [None, Some(22)]);
}

/// Pages of the same age prove a link together, even where nothing is replayed.
#[test]
fn pages_alone_prove_what_they_held_together() {
    for (name_tag, answer) in [(7, Some(20)), (6, None)] {
        let mut volume = with_refs(32 << 20, |pbn| if pbn == 20 { 2 } else { 0 });
        volume.store(20);
        volume.superblock.last_epoch = Epoch(9);
        with_pages(&mut volume, 20, name_tag, 3, 7);
        volume.unit(1, vec![link(3, volume.superblock.geometry.data_blocks)]);
        let mut machine = volume.open();
        assert_eq!((machine.read(3), machine.read(1)), (answer, None), "{name_tag}");
    }
}
