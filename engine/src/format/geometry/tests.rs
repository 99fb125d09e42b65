//! Tests of geometries: planned, grown, and refused.

use super::*;
use crate::format::page::{PageId, Region};
use crate::units::{BLOCK_BYTES, Bytes, Lbn, Pbn};

const MIB: u64 = 1 << 20;

fn plan(device_bytes: u64, logical_blocks: Option<u64>) -> Geometry {
    Geometry::plan(Bytes(device_bytes), &Wish { logical_blocks, reserve_blocks: None, guard: false, notes_blocks: 0 }).expect("a geometry")
}

#[test]
fn the_smallest_volume() {
    let g = plan(16 * MIB, None);
    // 16 MiB are 4096 blocks; 2 + 2 of superblocks, 1 written, 2 refs, 21 fingerprints, 5 map, up to the next 64 KiB.
    let regions = Region::ALL.map(|r| g.pages(r));
    assert_eq!(regions, [1, 2, 21, 5]);
    assert_eq!(g.block_at(Pbn(0)), Bytes(128 << 10));
    assert_eq!((g.data_blocks, g.reserve_blocks, g.logical_blocks), (4062, 64, 3998));
}

#[test]
fn a_large_volume_aligns_its_data() {
    let g = plan(64 << 30, None);
    assert_eq!(g.block_at(Pbn(0)).get() % (4 * MIB), 0);
    assert_eq!(g.reserve_blocks, g.data_blocks / 64);
    let metadata: u64 = Region::ALL.map(|r| g.pages(r)).iter().sum();
    assert!(metadata * 1000 < g.data_blocks * 7, "metadata is 0.65 % of the volume");
    assert_eq!(g.logical_blocks, g.data_blocks - g.reserve_blocks);
}

#[test]
fn no_block_is_wasted_but_by_alignment() {
    for size in [16 * MIB, 17 * MIB + 5000, 255 * MIB, 256 * MIB, 1000 * MIB, 1 << 33, (1 << 40) + 123_456] {
        let g = plan(size, None);
        let end = g.block_at(Pbn(g.data_blocks - 1)).get() + BLOCK_BYTES + SUPERBLOCKS_BYTES;
        assert!(end <= size, "the data end before the superblocks");
        let alignment = if size < 256 * MIB { 64 << 10 } else { 4 * MIB };
        assert!(size - end <= alignment + BLOCK_BYTES, "{} bytes unused of {size}", size - end);
    }
}

#[test]
fn every_page_has_its_own_bit_and_place() {
    let g = plan(300 * MIB, Some(500_000));
    let mut bit = 0;
    let mut at = SUPERBLOCKS_BYTES + g.pages(Region::Written) * BLOCK_BYTES;
    for region in [Region::Refs, Region::Fingerprints, Region::Map] {
        for index in 0..g.pages(region) {
            let id = PageId { region, index };
            let (page, i) = g.written_of(id);
            assert_eq!(page.index * 32_000 + u64::try_from(i).unwrap(), bit);
            assert_eq!(g.page_of_written(page, i), Some(id));
            assert_eq!(g.page_at(id), Bytes(at));
            bit += 1;
            at += BLOCK_BYTES;
        }
    }
    let (page, i) = (PageId { region: Region::Written, index: 0 }, usize::try_from(bit).unwrap());
    assert_eq!(g.page_of_written(page, i), None);
}

#[test]
fn entries_have_their_pages() {
    let g = plan(64 * MIB, None);
    assert_eq!(g.refs_of(Pbn(4001)), (PageId { region: Region::Refs, index: 1 }, 1));
    assert_eq!(g.fingerprint_of(Pbn(399)), (PageId { region: Region::Fingerprints, index: 1 }, 199));
    assert_eq!(g.map_of(Lbn(1600)), (PageId { region: Region::Map, index: 2 }, 0));
    assert_eq!(g.first_pbn(PageId { region: Region::Refs, index: 1 }), Pbn(4000));
    assert_eq!(g.first_pbn(PageId { region: Region::Fingerprints, index: 1 }), Pbn(200));
    assert_eq!(g.first_lbn(PageId { region: Region::Map, index: 2 }), Lbn(1600));
}

#[test]
fn what_does_not_fit_is_refused() {
    let wish = |logical_blocks, reserve_blocks| Wish { logical_blocks, reserve_blocks, guard: false, notes_blocks: 0 };
    let plan = |size, wish: Wish| Geometry::plan(Bytes(size), &wish).expect_err("refused");
    assert!(matches!(plan(16 * MIB - 1, Wish::default()), GeometryError::DeviceTooSmall { .. }));
    assert!(matches!(plan(16 * MIB, wish(Some(0), None)), GeometryError::LogicalOutOfRange { .. }));
    assert!(matches!(plan(16 * MIB, wish(Some(LOGICAL_BLOCKS_MAX + 1), None)), GeometryError::LogicalOutOfRange { .. }));
    assert!(matches!(plan(16 * MIB, wish(Some(LOGICAL_BLOCKS_MAX), None)), GeometryError::NoRoom { .. }));
    assert!(matches!(plan(16 * MIB, wish(None, Some(5000))), GeometryError::NoRoom { .. }));
    assert!(matches!(plan(16 * MIB, wish(None, Some(u64::MAX))), GeometryError::NoRoom { .. }));
}

#[test]
fn simulated_volumes_may_be_tiny() {
    let wish = Wish { logical_blocks: Some(64), reserve_blocks: Some(4), guard: false, notes_blocks: 0 };
    let g = Geometry::plan_tiny(Bytes((16 + 72 + 2) * 4096), &wish).expect("a geometry");
    assert_eq!((g.data_blocks, g.logical_blocks, g.reserve_blocks), (72, 64, 4));
    assert!(Geometry::plan_tiny(Bytes(0), &Wish::default()).is_err());
    assert!(Geometry::plan_tiny(Bytes(u64::MAX), &Wish::default()).is_ok());
}

/// A volume that has grown: a second extent of each region behind the first data.
fn grown() -> Geometry {
    let g = plan(16 * MIB, None);
    let mut extents = g.extents.clone();
    let mut offset = g.device_bytes;
    for (kind, pages) in [
        (ExtentKind::Pages(Region::Refs), 1),
        (ExtentKind::Pages(Region::Fingerprints), 5),
        (ExtentKind::Pages(Region::Map), 1),
        (ExtentKind::Data, 700),
    ] {
        let first_entry = match kind {
            ExtentKind::Pages(region) => g.pages(region) * region.entries_per_page(),
            ExtentKind::Data => g.data_blocks,
        };
        let length = Bytes(pages * BLOCK_BYTES);
        extents.push(Extent { kind, instance: 0, first_entry, offset, length });
        offset += length.get();
    }
    Geometry::of_extents(offset + SUPERBLOCKS_BYTES, 4100, 64, extents).expect("a geometry")
}

#[test]
fn growing_keeps_places_and_bits() {
    let (old, new) = (plan(16 * MIB, None), grown());
    assert_eq!(new.data_blocks, old.data_blocks + 700);
    for region in [Region::Refs, Region::Fingerprints, Region::Map] {
        for index in 0..old.pages(region) {
            let id = PageId { region, index };
            assert_eq!(new.page_at(id), old.page_at(id));
            assert_eq!(new.written_of(id), old.written_of(id));
        }
    }
    assert_eq!(new.block_at(Pbn(old.data_blocks)), Bytes(16 * MIB + 7 * BLOCK_BYTES));
    assert_eq!(new.page_at(PageId { region: Region::Map, index: 5 }), Bytes(16 * MIB + 6 * BLOCK_BYTES));
    let (page, bit) = new.written_of(PageId { region: Region::Fingerprints, index: 21 });
    assert_eq!((page.index, bit), (0, 2 + 21 + 5 + 1));
    assert_eq!(new.page_of_written(page, bit), Some(PageId { region: Region::Fingerprints, index: 21 }));
}

#[test]
fn no_run_of_blocks_goes_beyond_its_extent() {
    let (old, new) = (plan(16 * MIB, None), grown());
    let seam = old.data_blocks;
    let are_neighbours = |g: &Geometry, pbn| g.are_neighbours(Pbn(pbn), Pbn(pbn + 1));
    assert!(are_neighbours(&new, 0) && are_neighbours(&new, seam - 2) && are_neighbours(&new, seam));
    assert!(!are_neighbours(&new, seam - 1));
    assert!(are_neighbours(&old, seam - 2));
    assert!(!new.are_neighbours(Pbn(3), Pbn(5)) && !new.are_neighbours(Pbn(3), Pbn(3)) && !new.are_neighbours(Pbn(4), Pbn(3)));
    assert_eq!(new.extent_of(Pbn(seam - 1)), (Pbn(0), Pbn(seam)));
    assert_eq!(new.extent_of(Pbn(seam)), (Pbn(seam), Pbn(seam + 700)));
    assert_eq!(old.extent_of(Pbn(5)), (Pbn(0), Pbn(seam)));
}

#[test]
fn tables_that_break_an_invariant_are_refused() {
    let good = plan(16 * MIB, None);
    let with = |change: &dyn Fn(&mut Vec<Extent>)| {
        let mut extents = good.extents.clone();
        change(&mut extents);
        Geometry::of_extents(good.device_bytes, good.logical_blocks, good.reserve_blocks, extents)
    };
    assert_eq!(with(&|_| ()), Ok(good.clone()));
    assert!(matches!(with(&|e| e[1].offset = Bytes(4096)), Err(GeometryError::ExtentOverlaps { .. })));
    assert!(matches!(with(&|e| e[1].offset = e[2].offset), Err(GeometryError::ExtentOverlaps { .. })));
    assert!(matches!(with(&|e| e[4].length += 4096 * 100), Err(GeometryError::ExtentOverlaps { .. })));
    assert!(matches!(with(&|e| e[4].length = Bytes(u64::MAX)), Err(GeometryError::ExtentOverlaps { .. })));
    assert!(matches!(with(&|e| e[4].offset += 512), Err(GeometryError::BadExtent(_)) | Err(GeometryError::ExtentOverlaps { .. })));
    assert!(matches!(with(&|e| e[3].first_entry = 1), Err(GeometryError::BadExtent(_))));
    assert!(matches!(with(&|e| e[3].instance = 1), Err(GeometryError::BadExtent(_))));
    assert!(matches!(with(&|e| e[2].length = Bytes(20 * 4096)), Err(GeometryError::RegionTooSmall { .. })));
    assert!(matches!(with(&|e| e.truncate(4)), Err(GeometryError::BadReserve { .. })));
    assert!(matches!(with(&|e| e.resize(65, e[0])), Err(GeometryError::TooManyExtents { count: 65 })));
}

#[test]
fn a_table_that_begins_or_ends_within_a_block_is_refused() {
    let good = plan(16 * MIB, None);
    let of_data = |offset: u64, length: u64| {
        let mut extents = good.extents.clone();
        let data = extents.last_mut().expect("the data");
        (data.offset, data.length) = (Bytes(data.offset.get() + offset), Bytes(data.length.get() - length));
        Geometry::of_extents(good.device_bytes, good.logical_blocks, good.reserve_blocks, extents)
    };
    assert_eq!(of_data(4096, 4096).map(|of| of.data_blocks), Ok(good.data_blocks - 1));
    assert!(matches!(of_data(512, 4096), Err(GeometryError::BadExtent(_))));
    assert!(matches!(of_data(0, 512), Err(GeometryError::BadExtent(_))));
}

/// Checks that everything keeps its place in a grown volume.
fn keeps_places(old: &Geometry, new: &Geometry) {
    assert_eq!(Geometry::of_extents(new.device_bytes, new.logical_blocks, new.reserve_blocks, new.extents.clone()).as_ref(), Ok(new));
    for region in Region::ALL {
        for id in (0..old.pages(region)).map(|index| PageId { region, index }) {
            assert_eq!(new.page_at(id), old.page_at(id));
            assert!(region == Region::Written || new.written_of(id) == old.written_of(id));
        }
        // New pages lie where nothing of the old volume was.
        for id in (old.pages(region)..new.pages(region)).map(|index| PageId { region, index }) {
            assert!(new.page_at(id) >= old.device_bytes, "{id:?}");
        }
    }
    for pbn in [0, old.data_blocks / 2, old.data_blocks - 1].map(Pbn) {
        assert_eq!(new.block_at(pbn), old.block_at(pbn));
    }
}

#[test]
fn a_volume_takes_what_its_device_has_got() {
    for (before, after) in [(16, 17), (16, 300), (300, 301), (300, 4096), (1 << 14, 1 << 16), (1 << 14, 1 << 20)] {
        let old = plan(before * MIB, None);
        let new = old.grown(Bytes(after * MIB + 5000), None).expect("it grows");
        keeps_places(&old, &new);
        let planned = plan(after * MIB, None);
        assert_eq!(new.device_bytes, Bytes(after * MIB + 4096));
        let alignment = if after - before < 256 { 16 } else { 1024 };
        assert!(new.data_blocks + alignment + 8 >= planned.data_blocks, "{} of {} blocks", new.data_blocks, planned.data_blocks);
        assert_eq!(new.reserve_blocks, (new.data_blocks / 64).max(64));
        assert_eq!(new.logical_blocks, new.data_blocks - new.reserve_blocks, "clients see what fits, as before");
    }
    let large = plan(1 << 40, None);
    assert!(plan(16 << 30, None).pages(Region::Written) < large.pages(Region::Written));
    assert!(large.grown(Bytes(1 << 41), None).is_ok());
}

#[test]
fn clients_see_what_their_owner_chose() {
    let thin = plan(16 * MIB, Some(5000));
    let new = thin.grown(Bytes(64 * MIB), None).expect("it grows");
    assert_eq!(new.logical_blocks, 5000);
    assert_eq!(plan(16 * MIB, Some(100)).grown(Bytes(64 * MIB), None).expect("it grows").logical_blocks, 100);
    assert_eq!(thin.grown(Bytes(64 * MIB), Some(5000)), Ok(new.clone()));
    let more = thin.grown(Bytes(64 * MIB), Some(100_000)).expect("it grows");
    keeps_places(&thin, &more);
    assert!(more.data_blocks < new.data_blocks && more.logical_blocks == 100_000);
    let reserve = Wish { logical_blocks: None, reserve_blocks: Some(100), guard: false, notes_blocks: 0 };
    let own = Geometry::plan(Bytes(16 * MIB), &reserve).expect("a geometry").grown(Bytes(64 * MIB), None).expect("it grows");
    assert_eq!((own.reserve_blocks, own.logical_blocks), (100, own.data_blocks - 100));
}

#[test]
fn new_blocks_that_need_no_page_follow_the_last_one() {
    let old = plan(16 * MIB, None);
    // 4062 blocks have 21 pages of fingerprints, with room for 138 more; the map has room for 2 LBNs more.
    let new = old.grown(Bytes(16 * MIB + 100 * 4096), Some(old.logical_blocks)).expect("it grows");
    keeps_places(&old, &new);
    assert_eq!((new.extents.len(), new.data_blocks), (5, old.data_blocks + 100));
    assert!(new.are_neighbours(Pbn(old.data_blocks - 1), Pbn(old.data_blocks)));
    let again = new.grown(Bytes(64 * MIB), None).expect("it grows");
    keeps_places(&new, &again);
    assert_eq!(again.extents.len(), 8, "clients see what they saw, so the map is as long as it was");
}

#[test]
fn a_map_grows_into_a_gap_if_the_device_is_as_it_was() {
    let old = plan(300 * MIB, Some(50_000));
    let new = old.grown(old.device_bytes, Some(60_000)).expect("it grows");
    assert_eq!((new.extents.len(), new.data_blocks), (5, old.data_blocks), "the map lies before the gap");
    for id in (0..old.pages(Region::Map)).map(|index| PageId { region: Region::Map, index }) {
        assert_eq!((new.page_at(id), new.written_of(id)), (old.page_at(id), old.written_of(id)));
    }
    let later = old.grown(Bytes(600 * MIB), None).expect("it grows");
    let new = later.grown(later.device_bytes, Some(60_000)).expect("it grows");
    assert_eq!(new.extents.len(), later.extents.len() + 1, "bits of later pages keep their places");
    assert!(matches!(old.grown(old.device_bytes, Some(50_000_000)), Err(GeometryError::NoRoom { .. })));
}

#[test]
fn volumes_do_not_shrink_and_may_stay_as_they_are() {
    let g = plan(16 * MIB, None);
    assert_eq!(g.grown(g.device_bytes, None).as_ref(), Ok(&g));
    assert_eq!(g.grown(Bytes(16 * MIB + 8191), Some(g.logical_blocks)).as_ref(), Ok(&g), "no room for the copies of the superblock");
    assert!(matches!(g.grown(Bytes(16 * MIB - 1), None), Err(GeometryError::Shrinks { .. })));
    assert!(matches!(g.grown(Bytes(32 * MIB), Some(g.logical_blocks - 1)), Err(GeometryError::LogicalShrinks { .. })));
    assert!(matches!(g.grown(Bytes(32 * MIB), Some(LOGICAL_BLOCKS_MAX + 1)), Err(GeometryError::LogicalOutOfRange { .. })));
    assert!(matches!(g.grown(Bytes(32 * MIB), Some(LOGICAL_BLOCKS_MAX)), Err(GeometryError::NoRoom { .. })));
}
