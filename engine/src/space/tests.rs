//! Tests of the summaries of free and kept blocks.

use super::*;
use crate::format::entry::REFS_UNKNOWN;
use crate::format::geometry::Wish;
use crate::interface::Action;
use crate::io::Stage;
use crate::units::{Bytes, Lbn};

fn space_of(geometry: Geometry, newest: Pbn) -> Space {
    Space::new(Arc::new(geometry), newest, 1 << 20, Policy::of(&Settings::default()))
}

#[test]
fn granules_are_given_by_what_they_keep_each_once() {
    let geometry = Geometry::plan(Bytes(256 << 20), &Wish::default()).unwrap();
    let mut space = space_of(geometry, Pbn(0));
    let kept = [(3, 5), (4, 1), (5, 200), (6, 7), (7, 60), (8, 8), (9, 1), (10, 2)];
    for (granule, blocks) in kept {
        (0..blocks).for_each(|_| space.kept.add(granule));
    }
    // The number rises and falls over the borders of ranks; the granule is found by its final number.
    (0..100).for_each(|_| space.kept.add(4));
    (0..98).for_each(|_| space.kept.remove(4));
    (0..1).for_each(|_| space.kept.remove(6));
    (0..8).for_each(|_| space.kept.remove(8));
    space.kept.remove(10);
    let given: Vec<_> = std::iter::from_fn(|| space.kept.take_most()).collect();
    assert_eq!(given, [(200, 5), (60, 7), (6, 6), (5, 3), (3, 4), (1, 10), (1, 9)]);
    space.kept.add(3);
    assert_eq!(space.kept.take_most(), None, "it is not given again before its removals are durable");
    space.reclaimed(3);
    assert_eq!(space.kept.take_most(), Some((6, 3)));
}

/// A volume may have more granules than memory has room to note.
#[test]
fn where_no_further_granule_is_noted_those_that_are_go_on_being_counted() {
    let geometry = Geometry::plan(Bytes(256 << 20), &Wish::default()).unwrap();
    let mut space = Space::new(Arc::new(geometry), Pbn(0), 0, Policy::of(&Settings::default()));
    (0..65).for_each(|granule| space.kept.add(granule));
    [3, 3, 5, 64].into_iter().for_each(|granule| space.kept.add(granule));
    let given: Vec<_> = std::iter::from_fn(|| space.kept.take_most()).collect();
    assert_eq!((given.len(), &given[..3]), (64, &[(3, 3), (2, 5), (1, 63)][..]));
}

#[test]
fn the_scan_begins_where_the_newest_block_is_and_goes_round() {
    for (mib, pages) in [(4, 1), (16, 2), (60, 4)] {
        let wish = Wish { reserve_blocks: Some(4), ..Wish::default() };
        let geometry = Geometry::plan_tiny(Bytes(mib << 20), &wish).unwrap();
        for (newest, begins) in [(0, 0), (3999, 0), (4000, 1), (geometry.data_blocks - 1, pages - 1), (geometry.data_blocks, pages - 1)] {
            let begins = begins.min(pages - 1);
            let mut space = space_of(geometry.clone(), Pbn(newest.min(geometry.data_blocks)));
            let scanned = std::iter::from_fn(|| {
                let page = space.scan_next()?;
                space.scanned_page(page, []);
                Some(page)
            });
            assert_eq!(scanned.collect::<Vec<_>>(), (begins..pages).chain(0..begins).collect::<Vec<_>>(), "{mib} MiB, {newest}");
        }
    }
}

#[test]
fn each_granule_is_tried_once_but_those_under_way() {
    let mut even = 0;
    for mib in 256..272 {
        let geometry = Geometry::plan(Bytes(mib << 20), &Wish::default()).unwrap();
        let mut space = space_of(geometry, Pbn(0));
        (0..9).for_each(|_| space.kept.add(4));
        assert_eq!(space.kept.take_most(), Some((9, 4)));
        let granules = space.granules();
        even += u64::from(granules % 2 == 0);
        let mut tried: Vec<u64> = (0..granules).filter_map(|_| space.kept.next_trial()).collect();
        tried.sort_unstable();
        assert_eq!(tried, (0..granules).filter(|&granule| granule != 4).collect::<Vec<_>>());
        assert_eq!(space.kept.next_trial(), None, "until a block is freed");
    }
    assert!((1..16).contains(&even), "their number is even and odd");
}

/// A refs page that was rewritten gives counts to blocks that have none by what the commit scheme knows.
#[test]
fn what_the_log_says_of_a_block_that_was_counted_otherwise_does_not_wrap_the_census() {
    let geometry = Geometry::plan(Bytes(256 << 20), &Wish::default()).unwrap();
    for refs in [0, 1, 2, 5, REFS_UNKNOWN] {
        let mut space = space_of(geometry.clone(), Pbn(0));
        space.of_scheme.insert(Pbn(0), SchemeBlock::Plain);
        space.scanned_page(0, [(Pbn(0), refs), (Pbn(1), refs)]);
        space.belongs_to_scheme(0, 0, false);
        space.belongs_to_scheme(0, 0, true);
        space.counted(0, Pbn(1), 2, 0, false);
        space.counted(0, Pbn(1), REFS_UNKNOWN, 0, false);
        let Census { free, kept, unique, shared, of_scheme, unknown, links } = space.census;
        assert!([free, kept, unique, shared, of_scheme, unknown, links].iter().all(|&n| n <= 8), "{refs}: {:?}", space.census);
    }
}

/// Otherwise writes that wait for a block would fail, although the granule brings some.
#[test]
fn reclaim_is_under_way_while_the_pages_of_its_granules_are_read() {
    let mut parts = crate::test_kit::parts();
    parts.pool.io.enter(Stage::Serving);
    parts.pool.space.kept.add(3);
    assert!(!parts.pool.space.is_reclaiming(&parts.pool.tables.removals));
    assert!(parts.pool.space.reclaim_for_waiters(&mut parts.pool.io, &parts.pool.tables.removals));
    parts.pool.reclaim(usize::MAX);
    assert!(parts.pool.io.actions().iter().any(|action| matches!(action, Action::Read { .. })));
    assert!(parts.pool.space.is_reclaiming(&parts.pool.tables.removals));
}

#[test]
fn the_blocks_that_follow_a_journals_first_take_the_reserve_down_to_its_half() {
    let geometry = Geometry::plan(Bytes(256 << 20), &Wish::default()).unwrap();
    let half = geometry.reserve_blocks / 2;
    // These are the first bytes of journal blocks of ext4 and of XFS.
    for (magic, is_journal) in [([0xc0, 0x3b, 0x39, 0x98], true), ([0xfe, 0xed, 0xba, 0xbe], true), ([0xfe, 0xed, 0xfa, 0xce], false)] {
        let mut space = space_of(geometry.clone(), Pbn(0));
        space.look_for_journal(Lbn(100), &magic);
        let mut takes = |free, lbn| {
            space.census.free = free;
            space.may_journal_take_from_reserve(Lbn(lbn))
        };
        assert_eq!([takes(half, 101), takes(half + 1, 101), takes(half + 1, 99)], [false, is_journal, false], "{magic:x?}");
    }
}
