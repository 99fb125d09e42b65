//! Tables with valid checksums and wrong numbers: the damage is reported, and costs no more than it must, never the server.

use super::machine::Machine;
use super::media::{blank, chosen, pattern};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::page::{open, seal};
use onefold_engine::format::{
    CommitMode, ExtentKind, FingerprintEntry, FormatStep, Geometry, MapEntry, PageContent, PageId, Region, format,
};
use onefold_engine::interface::{Event, Failure, Legacy, Notice, Op, Promised, Reply, StoreRoom, Trace};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Lbn, Pbn, index};

const MODES: [CommitMode; 2] = [CommitMode::Ordered, CommitMode::Log];

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, noncritical_delay_ms: 0, ..Settings::default() }
}

/// A closed volume with sixteen blocks on it. The first page of this region is changed.
fn forged(mode: CommitMode, region: Region, change: impl Fn(&mut PageContent)) -> Vec<u8> {
    let mut m = Machine::open(blank(16 << 20, None), settings(mode));
    m.write(0, &pattern(1, 16 * 4096));
    m.flush();
    let mut medium = m.close();
    rewrite(&mut medium, region, change);
    medium
}

/// Changes the first page of a region.
pub fn rewrite(medium: &mut [u8], region: Region, change: impl FnMut(&mut PageContent)) {
    rewrite_page(medium, PageId { region, index: 0 }, change);
}

fn rewrite_page(medium: &mut [u8], id: PageId, mut change: impl FnMut(&mut PageContent)) {
    let superblock = chosen(medium).expect("a volume");
    let at = index(superblock.geometry.page_at(id).get());
    let page: &mut [u8; BLOCK_SIZE] = (&mut medium[at..at + BLOCK_SIZE]).try_into().expect("a page");
    let mut content = open(&superblock.uuid, id, page, false).content;
    change(&mut content);
    seal(&superblock.uuid, id, &mut content, page);
}

/// Overwrites half of the blocks, discards the others, and reads all of them.
fn work(m: &mut Machine) {
    m.write(0, &pattern(2, 8 * 4096));
    m.flush();
    assert!(matches!(m.request(Op::Discard, 8 * 4096, 8 * 4096, None, false), Reply::Done));
    m.flush();
    m.wait(10);
    assert_eq!(m.read(0, 16 * 4096), [pattern(2, 8 * 4096), vec![0; 8 * 4096]].concat());
}

fn is_reported(m: &Machine, damage: &str) -> bool {
    m.notices.iter().any(|notice| matches!(notice, Notice::Damage { what, .. } if *what == damage))
}

#[test]
fn a_map_entry_of_a_block_that_the_volume_does_not_have_is_lost_until_it_is_written() {
    for mode in MODES {
        let blocks = Machine::open(blank(16 << 20, None), settings(mode)).engine.geometry().data_blocks;
        for pbn in [blocks, blocks + 4000, 1 << 35] {
            let medium = forged(mode, Region::Map, |page| page.set_map(3, MapEntry::Block { pbn: Pbn(pbn), slot: 0 }));
            let mut m = Machine::open(medium, settings(mode));
            assert!(matches!(m.request(Op::Read, 3 * 4096, 4096, None, false), Reply::Failed(Failure::Io)));
            assert_eq!(m.read(0, 3 * 4096), pattern(1, 16 * 4096)[..3 * 4096]);
            work(&mut m);
            m.close();
        }
    }
}

#[test]
fn a_count_that_is_less_than_its_links_is_not_known_any_more() {
    for mode in MODES {
        for refs in [0, 1] {
            let mut m = Machine::open(forged(mode, Region::Refs, |page| (0..4000).for_each(|i| page.set_refs(i, refs))), settings(mode));
            work(&mut m);
            m.write(4096, &pattern(3, 4096));
            m.flush();
            m.close();
        }
    }
}

#[test]
fn a_block_with_more_links_than_there_can_be_is_reported() {
    for mode in MODES {
        let medium = forged(mode, Region::Map, |page| (0..800).for_each(|i| page.set_map(i, MapEntry::Block { pbn: Pbn(0), slot: 0 })));
        let mut m = Machine::open(medium, settings(mode));
        assert!(matches!(m.request(Op::Discard, 0, 800 * 4096, None, false), Reply::Done));
        m.flush();
        m.wait(10);
        assert!(mode == CommitMode::Log || is_reported(&m, "a block's count does not agree with its links"), "{:?}", m.notices);
        work(&mut m);
        m.close();
    }
}

/// Entries of the acknowledgement journal with numbers that the volume cannot have are lost, and have no effect.
#[test]
fn what_is_replayed_is_bounded() {
    for mode in MODES {
        let (block, proof) = (BufferMut::zeroed(1).freeze().slice(0, 1), FingerprintEntry::of(Fingerprint([3; 20])));
        let far = [1 << 12, 1 << 32, 1 << 56, u64::MAX - 1, u64::MAX];
        let mut promises = vec![
            Promised::Link { lbn: Lbn(1), pbn: Pbn(1), slot: 16, proof },
            Promised::Link { lbn: Lbn(1), pbn: Pbn(1), slot: 255, proof },
            Promised::Unmap { first: Lbn(5), end: Lbn(5) },
            Promised::Unmap { first: Lbn(5), end: Lbn(4) },
            Promised::Unmap { first: Lbn(u64::MAX), end: Lbn(0) },
        ];
        promises.extend(far.into_iter().flat_map(|n| {
            let content = block.clone();
            [
                Promised::Link { lbn: Lbn(n), pbn: Pbn(1), slot: 0, proof },
                Promised::Link { lbn: Lbn(1), pbn: Pbn(n), slot: 0, proof },
                Promised::Zero { lbn: Lbn(n) },
                Promised::Content { lbn: Lbn(n), content },
                Promised::Unmap { first: Lbn(0), end: Lbn(n) },
            ]
        }));
        let count = promises.len();
        let medium = forged(mode, Region::Map, |_| ());
        let traces = [Some(Trace::Map { sector: 0, sum: 0 }), Some(Trace::Log { sequence: 0 })];
        let legacy = Legacy { promises, traces };
        let mut m = Machine::opened(medium, settings(mode).with_facts(|facts| facts.keeps_journal = true), legacy);
        m.feed(Event::Tick);
        assert!(m.notices.contains(&Notice::AcknowledgedLost { writes: u64::try_from(count).expect("few") }), "{:?}", m.notices);
        assert_eq!(m.read(0, 16 * 4096), pattern(1, 16 * 4096));
        assert!(matches!(m.request(Op::Flush, 0, 0, None, false), Reply::Failed(Failure::Io)), "the first flush reports it");
        work(&mut m);
        m.close();
    }
}

/// No store can have these traces, so the store is not the one that the last server left.
#[test]
fn traces_of_hostile_numbers_are_no_traces() {
    for mode in MODES {
        for number in [1 << 13, 1 << 40, u64::MAX - 1, u64::MAX] {
            let traces = [Some(Trace::Map { sector: number, sum: 0 }), Some(Trace::Log { sequence: number })];
            let legacy = Legacy { promises: vec![Promised::Zero { lbn: Lbn(0) }], traces };
            let mut m =
                Machine::opened(forged(mode, Region::Map, |_| ()), settings(mode).with_facts(|facts| facts.keeps_journal = true), legacy);
            m.feed(Event::Tick);
            assert!(m.notices.contains(&Notice::SetBack), "{:?}", m.notices);
            assert_eq!(m.read(0, 4096), pattern(1, 16 * 4096)[..4096]);
        }
    }
}

/// A table may have room for more blocks than there are: its last entries belong to no block.
#[test]
fn tables_of_more_pages_than_blocks_need_are_read_as_far_as_there_are_blocks() {
    let medium = blank(32 << 20, None);
    let mut superblock = chosen(&medium).expect("a volume");
    let mut extents = superblock.geometry.extents.clone();
    // There is room between the tables and the data.
    let mut by = 0;
    for extent in &mut extents {
        extent.offset += by;
        if matches!(extent.kind, ExtentKind::Pages(Region::Refs | Region::Fingerprints)) {
            extent.length += 4096;
            by += 4096;
        }
        if extent.kind == ExtentKind::Pages(Region::Map) {
            by = 0;
        }
    }
    let Geometry { device_bytes, logical_blocks, reserve_blocks, .. } = superblock.geometry;
    superblock.geometry = Geometry::of_extents(device_bytes, logical_blocks, reserve_blocks, extents).expect("nothing overlaps");
    let mut medium = vec![0; medium.len()];
    for step in format(&superblock, device_bytes, &[]) {
        if let FormatStep::Write { at, page } = step {
            medium[index(at.get())..][..BLOCK_SIZE].copy_from_slice(&page[..]);
        }
    }
    for mode in MODES {
        let mut m = Machine::open(medium.clone(), settings(mode));
        m.write(0, &pattern(1, 16 * 4096));
        m.flush();
        let mut m = Machine::open(m.close(), settings(mode));
        m.feed(Event::Tick);
        m.wait(10);
        assert!(m.notices.contains(&Notice::IndexRebuilt { entries: 16, named: 0, unnamed: 0, goes_on: false }), "{:?}", m.notices);
        assert!(m.engine.stats().free_complete);
        work(&mut m);
        m.close();
    }
}

/// A damaged map links an LBN to a free block, and a write of that LBN then gets this very block: the link counts all the same, and no
/// other LBN gets the block.
#[test]
fn a_new_block_that_the_map_had_named_before_it_was_anybodys_is_counted() {
    const LBN: u64 = 100;
    for mode in MODES {
        let unforged = forged(mode, Region::Map, |_| ());
        // This shows which block the LBN will get.
        let mut m = Machine::open(unforged.clone(), settings(mode));
        m.write(LBN * 4096, &pattern(7, 4096));
        m.flush();
        let (mut entry, mut medium) = (MapEntry::Unmapped, m.close());
        rewrite(&mut medium, Region::Map, |page| entry = page.map(index(LBN)));
        assert!(matches!(entry, MapEntry::Block { slot: 0, .. }), "{entry:?}");
        let mut medium = unforged;
        rewrite(&mut medium, Region::Map, |page| page.set_map(index(LBN), entry));
        let mut m = Machine::open(medium, settings(mode));
        m.write(LBN * 4096, &pattern(7, 4096));
        m.flush();
        m.wait(10);
        let mut m = m.next(m.medium.clone(), settings(mode));
        m.wait(10);
        assert_eq!(m.engine.stats().kept_blocks, 0, "it is linked to, mode {mode:?}");
        // Most of the volume, without that LBN, gets new content.
        let blocks = m.engine.geometry().logical_blocks;
        let others = (0..blocks - 64).step_by(16).filter(|lbn| !(lbn..&(lbn + 16)).contains(&&LBN));
        for lbn in others {
            m.write(lbn * 4096, &pattern(10 + lbn, 16 * 4096));
        }
        m.flush();
        assert_eq!(m.read(LBN * 4096, 4096), pattern(7, 4096), "mode {mode:?}");
    }
}

/// The last pages of the tables have room for more blocks than there are.
#[test]
fn blocks_that_the_volume_does_not_have_are_not_given_back() {
    for mode in MODES {
        let mut medium = blank(16 << 20, None);
        let geometry = chosen(&medium).expect("a volume").geometry;
        let last = Pbn(geometry.data_blocks - 1);
        let ((refs, at), (names, i)) = (geometry.refs_of(last), geometry.fingerprint_of(last));
        assert!(i < 190, "{i}");
        // Their fingerprints alone keep the last block and nine that follow it.
        rewrite_page(&mut medium, refs, |page| (0..10).for_each(|n| page.set_refs(at + n, 1)));
        let entry = |n: u8| FingerprintEntry::of(Fingerprint([1 + n; 20]));
        rewrite_page(&mut medium, names, |page| (0..10).for_each(|n| page.set_fingerprint(i + usize::from(n), entry(n))));
        for id in [refs, names] {
            let (bits, bit) = geometry.written_of(id);
            rewrite_page(&mut medium, bits, |page| page.set_bit(bit, true));
        }
        let mut m = Machine::open(medium, settings(mode));
        m.feed(Event::StoreRoom(StoreRoom { is_short: true, blocks: 1000, refuses: false }));
        m.pass_ms(5_000);
        assert_eq!((m.engine.ledger().reclaimed_blocks, m.engine.stats().kept_blocks), (1, 0), "{mode:?}");
    }
}
