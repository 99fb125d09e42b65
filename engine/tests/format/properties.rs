//! Properties that hold for all inputs: what is written comes back, and no bytes make a decoder panic.

use super::{Page, UUID, eventful, fresh};
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::layouts::LAYOUTS;
use onefold_engine::format::page::{open, open_sector, seal};
use onefold_engine::format::superblock::at;
use onefold_engine::format::{
    COUNTER_MAX, FingerprintEntry, Geometry, Kind, MapEntry, PBN_MAX, PageContent, PageId, Region, Superblock, Wish, choose, claimed_bytes,
    end_copies,
};
use onefold_engine::units::{BLOCK_SIZE, Bytes, Lbn, Pbn, index};
use proptest::collection::vec;
use proptest::prelude::*;

fn map_entry() -> impl Strategy<Value = MapEntry> {
    prop_oneof![
        Just(MapEntry::Unmapped),
        Just(MapEntry::Zero),
        Just(MapEntry::Lost),
        (0..=PBN_MAX.get(), 0..16u8).prop_map(|(pbn, slot)| MapEntry::Block { pbn: Pbn(pbn), slot }),
    ]
}

fn fingerprint_entry() -> impl Strategy<Value = FingerprintEntry> {
    let kind = prop_oneof![Just(Kind::Fingerprint), Just(Kind::Checksum), Just(Kind::Carrier)];
    let some = (kind, any::<[u8; 20]>()).prop_map(|(kind, bytes)| FingerprintEntry { kind, value: Fingerprint::of_digest(&bytes) });
    prop_oneof![Just(FingerprintEntry::NONE), some]
}

fn region() -> impl Strategy<Value = Region> {
    proptest::sample::select(Region::ALL.to_vec())
}

/// Pages that are nearly sound: a sound page with a few changed bytes, or, less often, random bytes.
fn nearly(sound: Page) -> impl Strategy<Value = Page> {
    let changed = vec((0..BLOCK_SIZE, any::<u8>()), 0..6).prop_map(move |changes| {
        let mut page = sound.clone();
        changes.into_iter().for_each(|(at, byte)| page[at] = byte);
        page
    });
    let random = vec(any::<u8>(), BLOCK_SIZE).prop_map(|bytes| Box::new(bytes.try_into().expect("a page of bytes")));
    prop_oneof![3 => changed, 1 => random]
}

fn encoded(s: &Superblock) -> Page {
    super::encoded(s, 0)
}

proptest! {
    #[test]
    fn map_entries_come_back(entry in map_entry()) {
        prop_assert_eq!(MapEntry::decode(&entry.encode()), Ok(entry));
    }

    #[test]
    fn map_entries_have_one_encoding(bytes: [u8; 5]) {
        if let Ok(entry) = MapEntry::decode(&bytes) {
            prop_assert_eq!(entry.encode(), bytes);
        }
    }

    #[test]
    fn fingerprint_entries_come_back(entry in fingerprint_entry()) {
        prop_assert_eq!(FingerprintEntry::decode(&entry.encode()), Ok(entry));
    }

    #[test]
    fn fingerprint_entries_have_one_encoding(bytes: [u8; 20]) {
        if let Ok(entry) = FingerprintEntry::decode(&bytes) {
            prop_assert_eq!(entry.encode(), bytes);
        }
    }

    /// Compares pages with an obvious model: the last value of each entry, in a map.
    #[test]
    fn pages_hold_what_was_set(
        region in region(),
        index in 0..1u64 << 40,
        sets in vec((0..32_000usize, any::<u8>(), map_entry(), fingerprint_entry()), 0..64),
        tags in proptest::array::uniform8(0..=COUNTER_MAX),
    ) {
        let entries = usize::try_from(region.entries_per_page()).unwrap();
        let mut page = PageContent::empty();
        let mut last = std::collections::BTreeMap::new();
        let id = PageId { region, index };
        let mut bytes = [0; BLOCK_SIZE];
        for (i, byte, map, fingerprint) in sets {
            let i = i % entries;
            // Nothing that the page remembers of a sealing may outlive the next change.
            seal(&UUID, id, &mut page, &mut bytes);
            match region {
                Region::Written => page.set_bit(i, byte % 2 == 1),
                Region::Refs => page.set_refs(i, byte),
                Region::Fingerprints => page.set_fingerprint(i, fingerprint),
                Region::Map => page.set_map(i, map),
            }
            last.insert(i, (byte, map, fingerprint));
        }
        tags.iter().enumerate().for_each(|(sector, &tag)| page.set_tag(sector, tag));
        seal(&UUID, id, &mut page, &mut bytes);
        prop_assert!(bytes.chunks(512).all(|sector| sector.iter().any(|&b| b != 0)), "no sealed sector is all zero");
        let opened = open(&UUID, id, &bytes, true);
        prop_assert_eq!(opened.damaged, 0);
        let page = opened.content;
        prop_assert_eq!(std::array::from_fn(|sector| page.tag(sector)), tags);
        for i in 0..entries {
            let (byte, map, fingerprint) = last.get(&i).copied().unwrap_or((0, MapEntry::Unmapped, FingerprintEntry::NONE));
            match region {
                Region::Written => prop_assert_eq!(page.bit(i), byte % 2 == 1),
                Region::Refs => prop_assert_eq!(page.refs(i), byte),
                Region::Fingerprints => prop_assert_eq!(page.fingerprint(i), fingerprint),
                Region::Map => prop_assert_eq!(page.map(i), map),
            }
        }
    }

    /// A tag that no epoch can have makes its sector a damaged one, and no other sector.
    #[test]
    fn a_sector_whose_tag_could_wrap_is_damaged(region in region(), sector in 0..8usize, tag in COUNTER_MAX + 1..=u64::MAX) {
        let id = PageId { region, index: 5 };
        let mut page = PageContent::empty();
        page.set_tag(sector, tag);
        let mut bytes = [0; BLOCK_SIZE];
        seal(&UUID, id, &mut page, &mut bytes);
        let opened = open(&UUID, id, &bytes, true);
        prop_assert_eq!((opened.damaged, opened.content.tag(sector)), (1 << sector, 0));
        prop_assert_eq!(open_sector(&UUID, region, id.sector(sector), bytes[sector * 512..][..512].try_into().unwrap()), None);
    }

    /// Up to four changed bits of a sector are always found: CRC32C distinguishes all messages of this length that differ in so few bits.
    #[test]
    fn few_flipped_bits_of_a_sector_are_found(
        region in region(), content: [[u8; 20]; 25], sector in 0..8usize, bits in proptest::collection::btree_set(0..4096usize, 1..=4),
    ) {
        let id = PageId { region, index: 5 };
        let mut page = PageContent::empty();
        for (i, bytes) in content.iter().enumerate() {
            page.set_fingerprint(sector * 25 + i, FingerprintEntry::of(Fingerprint::of_digest(bytes)));
        }
        let mut bytes = [0; BLOCK_SIZE];
        seal(&UUID, id, &mut page, &mut bytes);
        bits.iter().for_each(|bit| bytes[sector * 512 + bit / 8] ^= 1 << (bit % 8));
        prop_assert_eq!(open(&UUID, id, &bytes, true).damaged, 1 << sector);
    }

    #[test]
    fn no_page_makes_its_reader_panic(region in region(), index: u32, written: bool, bytes in nearly(Box::new([0; BLOCK_SIZE]))) {
        let id = PageId { region, index: u64::from(index) };
        let opened = open(&UUID, id, &bytes, written);
        for i in 0..usize::try_from(region.entries_per_page()).unwrap() {
            match region {
                Region::Written => drop(opened.content.bit(i)),
                Region::Refs => drop(opened.content.refs(i)),
                Region::Fingerprints => drop(opened.content.fingerprint(i)),
                Region::Map => drop(opened.content.map(i)),
            }
        }
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            let alone = open_sector(&UUID, region, id.sector(sector), bytes.try_into().unwrap());
            let sound = opened.damaged & (1 << sector) == 0 && bytes.iter().any(|&b| b != 0);
            prop_assert_eq!(alone.is_some(), sound, "one sector and the whole page agree");
        }
    }

    /// The checksum is made to fit, so that the checks behind it are reached. Some changes aim at single fields.
    #[test]
    fn no_superblock_makes_its_reader_panic(
        mut bytes in prop_oneof![nearly(encoded(&fresh())), nearly(encoded(&eventful()))],
        field in 0..at::LAYOUT.fields.len(),
        value: u64,
        device_bytes: u64,
    ) {
        let field = at::LAYOUT.fields[field];
        let width = field.width.min(8);
        bytes[field.offset..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
        let checksum = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(superblock) = Superblock::decode(&bytes, 0) {
            prop_assert_eq!(encoded(&superblock), bytes.clone(), "one superblock has one encoding");
        }
        let _ = claimed_bytes(&bytes);
        let _ = end_copies([Some(&bytes), None], Bytes(device_bytes));
        let _ = choose([Some(&bytes), Some(&bytes), None, Some(&bytes)], Bytes(device_bytes));
    }

    #[test]
    fn geometries_are_sound(
        bytes in 0..1u64 << 52,
        logical in proptest::option::of(0..1u64 << 41),
        reserve in proptest::option::of(0..1u64 << 30),
    ) {
        let wish = Wish { logical_blocks: logical, reserve_blocks: reserve, guard: false, notes_blocks: 0 };
        let Ok(g) = Geometry::plan(Bytes(bytes), &wish) else { return Ok(()) };
        prop_assert_eq!(Geometry::of_extents(g.device_bytes, g.logical_blocks, g.reserve_blocks, g.extents.clone()), Ok(g.clone()));
        let (last, last_lbn) = (Pbn(g.data_blocks - 1), Lbn(g.logical_blocks - 1));
        prop_assert!(g.block_at(last).get() + 4096 <= g.device_bytes.get() - 8192);
        for (id, _) in [g.refs_of(last), g.fingerprint_of(last), g.map_of(last_lbn)] {
            prop_assert_eq!(id.index, g.pages(id.region) - 1, "the last entry stands in the last page");
            prop_assert!(g.page_at(id) < g.block_at(Pbn(0)));
            let (written, bit) = g.written_of(id);
            prop_assert!(written.index < g.pages(Region::Written));
            prop_assert_eq!(g.page_of_written(written, bit), Some(id));
        }
    }

    #[test]
    fn a_grown_table_finds_the_obvious_place(
        lengths in vec((0..5usize, 1..6u64, 0..3u64), 1..40), region in region(), probe: u64,
    ) {
        use onefold_engine::format::{Extent, ExtentKind};
        let kinds = [ExtentKind::Pages(Region::Written), ExtentKind::Pages(Region::Refs), ExtentKind::Pages(Region::Fingerprints),
            ExtentKind::Pages(Region::Map), ExtentKind::Data];
        // One of each, so that the table is complete; then any others, with gaps.
        let all = (0..5).map(|k| (k, 9, 0)).chain(lengths);
        let (mut offset, mut next, mut extents) = (8192, [0; 5], Vec::new());
        let mut places: [Vec<u64>; 5] = Default::default();
        for (k, pages, gap) in all {
            offset += gap * 4096;
            let kind = kinds[k];
            extents.push(Extent { kind, instance: 0, first_entry: next[k], offset: Bytes(offset), length: Bytes(pages * 4096) });
            next[k] += pages * kind.entries_per_page();
            (0..pages).for_each(|p| places[k].push(offset + p * 4096));
            offset += pages * 4096;
        }
        let g = Geometry::of_extents(Bytes(offset + 8192), 5000, 1, extents).expect("a geometry");
        let data = &places[4];
        prop_assert_eq!(g.data_blocks, data.len() as u64);
        let pbn = probe % g.data_blocks;
        prop_assert_eq!(g.block_at(Pbn(pbn)), Bytes(data[index(pbn)]));
        let page = probe % g.pages(region);
        prop_assert_eq!(g.page_at(PageId { region, index: page }), Bytes(places[region as usize][index(page)]));
    }
}

#[test]
fn layouts_are_listed_once() {
    let mut titles: Vec<_> = LAYOUTS.iter().map(|l| l.title).collect();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), LAYOUTS.len());
}
