//! Tests of pages: sealed, opened, damaged.

use super::*;
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, MapEntry, REFS_UNKNOWN};
use crate::units::{BLOCK_SIZE, Pbn, SECTOR_SIZE, count};

const UUID: [u8; 16] = *b"0123456789abcdef";

fn id(region: Region) -> PageId {
    PageId { region, index: 3 }
}

/// A page with something in each sector.
fn filled(region: Region) -> PageContent {
    let mut page = PageContent::empty();
    for i in 0..usize::try_from(region.entries_per_page()).unwrap() {
        match region {
            Region::Written => page.set_bit(i, i % 3 == 0),
            Region::Refs => page.set_refs(i, u8::try_from(i % 255).unwrap()),
            Region::Fingerprints => page.set_fingerprint(i, FingerprintEntry::of(Fingerprint::of_digest(&count(i).to_be_bytes()))),
            Region::Map => page.set_map(i, MapEntry::Block { pbn: Pbn(count(i) * 7), slot: 0 }),
        }
    }
    (0..8).for_each(|s| page.set_tag(s, 1000 + count(s)));
    page
}

fn sealed(region: Region) -> [u8; BLOCK_SIZE] {
    let mut bytes = [0; BLOCK_SIZE];
    seal(&UUID, id(region), &mut filled(region), &mut bytes);
    bytes
}

#[test]
fn entries_fill_the_sector() {
    for (region, bits) in [(Region::Written, 1), (Region::Refs, 8), (Region::Fingerprints, 160), (Region::Map, 40)] {
        assert_eq!(region.entries_per_sector() * bits, count(ENTRY_BYTES) * 8, "{}", region.name());
    }
}

#[test]
fn sealed_pages_open() {
    for region in Region::ALL {
        let opened = open(&UUID, id(region), &sealed(region), true);
        assert_eq!((opened.damaged, opened.blank), (0, false));
        assert_eq!(opened.content, filled(region));
        let page = opened.content;
        match region {
            Region::Written => assert!(page.bit(0) && !page.bit(31_999) && page.bit(31_998)),
            Region::Refs => assert_eq!(page.refs(3999), 174),
            Region::Fingerprints => assert_eq!(page.fingerprint(199).value.0[7], 199),
            Region::Map => assert_eq!(page.map(799), MapEntry::Block { pbn: Pbn(5593), slot: 0 }),
        }
    }
}

#[test]
fn every_single_bit_flip_is_found_in_its_sector() {
    for region in Region::ALL {
        let good = sealed(region);
        for bit in 0..BLOCK_SIZE * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&UUID, id(region), &bytes, true).damaged, 1 << (bit / 4096), "bit {bit} of {}", region.name());
        }
    }
}

#[test]
fn a_page_at_another_place_is_damaged() {
    let bytes = sealed(Region::Refs);
    assert_eq!(open(&UUID, PageId { region: Region::Refs, index: 4 }, &bytes, true).damaged, 0xff);
    assert_eq!(open(&UUID, PageId { region: Region::Map, index: 3 }, &bytes, true).damaged, 0xff);
    assert_eq!(open(&[7; 16], id(Region::Refs), &bytes, true).damaged, 0xff);
}

#[test]
fn zeros_are_empty_only_until_written() {
    for region in Region::ALL {
        let opened = open(&UUID, id(region), &[0; BLOCK_SIZE], false);
        assert_eq!((opened.damaged, opened.blank), (0, true));
        assert_eq!(opened.content, PageContent::empty());
        let opened = open(&UUID, id(region), &[0; BLOCK_SIZE], true);
        assert_eq!((opened.damaged, opened.blank), (0xff, true));
    }
}

#[test]
fn a_torn_first_write_is_no_damage() {
    let mut bytes = sealed(Region::Map);
    bytes[512..1024].fill(0);
    let opened = open(&UUID, id(Region::Map), &bytes, false);
    assert_eq!((opened.damaged, opened.blank), (0, false));
    assert_eq!(opened.content.map(99), MapEntry::Block { pbn: Pbn(693), slot: 0 });
    assert_eq!(opened.content.map(100), MapEntry::Unmapped);
    assert_eq!(open(&UUID, id(Region::Map), &bytes, true).damaged, 2);
}

#[test]
fn damaged_sectors_promise_nothing() {
    for region in Region::ALL {
        let mut bytes = sealed(region);
        bytes[512 + 17] ^= 4;
        let page = open(&UUID, id(region), &bytes, true).content;
        assert_eq!(page.sector(0), filled(region).sector(0));
        assert_eq!(page.sector(2), filled(region).sector(2));
        assert_eq!(page.tag(1), 0);
        match region {
            Region::Written => assert!((4000..8000).all(|i| page.bit(i))),
            Region::Refs => assert!((500..1000).all(|i| page.refs(i) == REFS_UNKNOWN)),
            Region::Fingerprints => assert!((25..50).all(|i| page.fingerprint(i).is_none())),
            Region::Map => assert!((100..200).all(|i| page.map(i) == MapEntry::Lost)),
        }
    }
}

#[test]
fn entries_that_are_none_read_as_lost_or_none() {
    let mut page = PageContent::empty();
    page.set_bytes(5, &[9, 0, 0, 0, 0]);
    assert_eq!(page.map(5), MapEntry::Lost);
    let mut page = PageContent::empty();
    page.set_bytes(5, &[1; 20]);
    assert_eq!(page.fingerprint(5), FingerprintEntry::NONE);
}

#[test]
fn single_sectors_open() {
    let bytes = sealed(Region::Map);
    for i in 0..8 {
        let sector: &[u8; SECTOR_SIZE] = bytes[i * SECTOR_SIZE..][..SECTOR_SIZE].try_into().unwrap();
        let (entries, tag) = open_sector(&UUID, Region::Map, 24 + count(i), sector).expect("a sealed sector");
        assert_eq!((&entries, tag), (filled(Region::Map).sector(i), 1000 + count(i)));
        assert!(open_sector(&UUID, Region::Map, 25 + count(i), sector).is_none());
    }
    assert!(open_sector(&UUID, Region::Map, 0, &[0; SECTOR_SIZE]).is_none());
}
