//! The live records against a plain model, what they take of memory, and what a seed would find late.

mod memory;
mod model;
mod property;

use super::{Live, Pieces, UnlinkedRecords};
use crate::fingerprint::Fingerprint;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, PBN_MAX, REFS_MAX, REFS_UNKNOWN};
use crate::format::geometry::LOGICAL_BLOCKS_MAX;
use crate::format::page::{PageContent, PageId, Region};
use crate::tables::effect::{Effect, EntryChange};
use crate::units::{Epoch, Lbn, Pbn};

fn block(pbn: u64) -> MapEntry {
    MapEntry::Block { pbn: Pbn(pbn), slot: 0 }
}

fn link(lbn: u64, to: MapEntry, old: Option<u64>) -> Effect<'static> {
    Effect { lbn: Some(Lbn(lbn)), blocks: 1, to, old: old.map(Pbn), name: EntryChange::None }
}

fn removed(pbn: u64) -> Effect<'static> {
    Effect { lbn: None, blocks: 1, to: MapEntry::Unmapped, old: Some(Pbn(pbn)), name: EntryChange::Removed }
}

fn named(n: u64) -> EntryChange<'static> {
    EntryChange::Of(FingerprintEntry::of(Fingerprint::of_digest(blake3::hash(&n.to_le_bytes()).as_bytes())))
}

/// Short names, all different.
static SHORTS: [u32; 500] = {
    let mut shorts = [1; 500];
    let mut i = 1;
    while i < shorts.len() {
        shorts[i] = shorts[i - 1] + 1;
        i += 1;
    }
    shorts
};

fn page(region: Region, index: u64) -> PageId {
    PageId { region, index }
}

fn loaded(live: &Live, id: PageId, medium: &PageContent) -> PageContent {
    let mut content = medium.clone();
    live.apply(Epoch(u64::MAX), id, &mut content);
    content
}

#[test]
fn all_that_an_effect_says_comes_back() {
    let whole = |name, to, old| Effect { lbn: Some(Lbn(LOGICAL_BLOCKS_MAX - 1)), blocks: 1, to, old, name };
    let last = MapEntry::Block { pbn: PBN_MAX, slot: 15 };
    let effects = [
        whole(named(1), last, Some(PBN_MAX)),
        whole(EntryChange::Short(&[u32::MAX]), last, None),
        whole(EntryChange::ShortApart(&[u32::MAX]), last, None),
        whole(EntryChange::None, last, Some(Pbn(0))),
        whole(EntryChange::None, MapEntry::Zero, Some(PBN_MAX)),
        whole(EntryChange::None, MapEntry::Lost, None),
        Effect { blocks: 800, lbn: Some(Lbn(0)), ..whole(EntryChange::None, MapEntry::Unmapped, None) },
        Effect { lbn: None, ..whole(EntryChange::Of(FingerprintEntry { kind: Kind::Carrier, ..FingerprintEntry::NONE }), block(0), None) },
        Effect { lbn: None, ..whole(EntryChange::None, MapEntry::Unmapped, Some(PBN_MAX)) },
        removed(PBN_MAX.get()),
    ];
    let mut live = Live::new(0);
    effects.iter().for_each(|effect| live.push(Epoch(7), effect));
    fn all(pieces: &Pieces) -> Vec<(Epoch, Effect<'_>)> {
        pieces.iter().collect()
    }
    assert_eq!(all(&live.links), effects.map(|effect| (Epoch(7), effect.apart().0)));
    let names: Vec<_> = effects.iter().filter_map(|effect| Some((Epoch(7), effect.apart().1?))).collect();
    assert_eq!((all(&live.names), names.len()), (names.clone(), 5));
}

#[test]
fn runs_are_cut_where_a_page_or_a_granule_ends() {
    let mut live = Live::new(0);
    let run = Effect { lbn: Some(Lbn(700)), blocks: 500, to: block(150), old: Some(Pbn(3990)), name: EntryChange::Short(&SHORTS) };
    live.push(Epoch(1), &run);
    let pieces: Vec<_> =
        live.links.iter().map(|(_, e)| (e.lbn.unwrap().get(), e.blocks, e.to.pbn().unwrap().get(), e.old.unwrap().get())).collect();
    assert_eq!(
        pieces,
        [
            (700, 10, 150, 3990),
            (710, 40, 160, 4000),
            (750, 50, 200, 4040),
            (800, 110, 250, 4090),
            (910, 40, 360, 4200),
            (950, 160, 400, 4240),
            (1110, 40, 560, 4400),
            (1150, 50, 600, 4440)
        ]
    );
    let pages = [
        page(Region::Refs, 0),
        page(Region::Refs, 1),
        page(Region::Fingerprints, 0),
        page(Region::Fingerprints, 1),
        page(Region::Fingerprints, 2),
        page(Region::Fingerprints, 3),
        page(Region::Map, 0),
        page(Region::Map, 1),
    ];
    assert_eq!(live.pages(Epoch(u64::MAX)).collect::<Vec<_>>(), pages);
    assert!(pages.into_iter().all(|id| live.touches(id)));
    assert!(
        !live.touches(page(Region::Map, 2)) && !live.touches(page(Region::Fingerprints, 19)) && !live.touches(page(Region::Written, 0))
    );
}

#[test]
fn a_sector_whose_tag_is_as_new_is_left_alone() {
    let mut live = Live::new(0);
    live.push(Epoch(5), &link(99, block(499), None));
    live.push(Epoch(5), &link(100, block(500), None));
    let (map, refs) = (page(Region::Map, 0), page(Region::Refs, 0));
    let mut medium = PageContent::empty();
    medium.set_tag(1, 5);
    let content = loaded(&live, map, &medium);
    assert_eq!((content.map(99), content.map(100)), (block(499), MapEntry::Unmapped));
    let content = loaded(&live, refs, &medium);
    assert_eq!((content.refs(499), content.refs(500)), (1, 0));
    medium.set_tag(1, 4);
    assert_eq!(loaded(&live, refs, &medium).refs(500), 1);
}

#[test]
fn the_last_to_speak_of_an_entry_is_right() {
    let mut live = Live::new(0);
    let new = |n| Effect { name: named(n), ..link(3, block(9), None) };
    live.push(Epoch(1), &new(1));
    live.push(Epoch(1), &removed(9));
    live.push(Epoch(2), &link(3, MapEntry::Zero, Some(9)));
    live.push(Epoch(3), &new(2));
    let read = |live: &Live| {
        let content = |region| loaded(live, page(region, 0), &PageContent::empty());
        (content(Region::Map).map(3), content(Region::Refs).refs(9), EntryChange::Of(content(Region::Fingerprints).fingerprint(9)))
    };
    assert_eq!(read(&live), (block(9), 2, named(2)));
    live.push(Epoch(3), &removed(9));
    assert_eq!(read(&live), (block(9), 1, EntryChange::Of(FingerprintEntry::NONE)));
}

#[test]
fn a_full_count_takes_a_link_that_takes_its_own_place() {
    let (id, mut content) = (page(Region::Refs, 0), PageContent::empty());
    content.set_refs(9, REFS_MAX);
    content.set_refs(10, REFS_UNKNOWN);
    let mut live = Live::new(0);
    live.push(Epoch(1), &link(3, block(9), Some(9)));
    live.push(Epoch(1), &link(4, block(10), None));
    assert_eq!((loaded(&live, id, &content).refs(9), loaded(&live, id, &content).refs(10)), (REFS_MAX, REFS_UNKNOWN));
}

#[test]
fn a_count_that_no_right_log_asks_for_is_unknown() {
    let (id, mut content) = (page(Region::Refs, 0), PageContent::empty());
    content.set_refs(9, REFS_MAX);
    let mut live = Live::new(0);
    live.push(Epoch(1), &link(3, block(9), Some(10)));
    assert_eq!((loaded(&live, id, &content).refs(9), loaded(&live, id, &content).refs(10)), (REFS_UNKNOWN, REFS_UNKNOWN));
}

#[test]
fn epochs_far_apart_are_told_apart() {
    let mut live = Live::new(0);
    let epochs = [1, 1, 0x7fff, 0x8000, 0x8001, 0x1_0000, 1 << 40, u64::MAX].map(Epoch);
    epochs.iter().zip(0..).for_each(|(&epoch, n)| live.push(epoch, &link(n, MapEntry::Zero, None)));
    assert_eq!(live.links.iter().map(|(epoch, _)| epoch).collect::<Vec<_>>(), epochs);
    for (i, &epoch) in epochs.iter().enumerate() {
        live.forget_upto(epoch);
        let left = epochs.iter().filter(|&&e| e > epoch).count();
        let oldest = live.links.iter().next().map(|(epoch, _)| epoch);
        assert_eq!((oldest, live.links.nodes.len()), (epochs[i + 1..].iter().copied().find(|&e| e > epoch), u64::try_from(left).unwrap()));
    }
}

#[test]
#[should_panic(expected = "is committed after")]
fn epochs_never_fall() {
    let mut live = Live::new(0);
    live.push(Epoch(2), &link(1, MapEntry::Zero, None));
    live.push(Epoch(1), &link(1, MapEntry::Zero, None));
}

#[test]
#[should_panic(expected = "is no effect")]
fn a_run_has_no_single_fingerprint() {
    Live::new(0).push(Epoch(1), &Effect { blocks: 2, name: named(1), ..link(1, block(1), None) });
}
