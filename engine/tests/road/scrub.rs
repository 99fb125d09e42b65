//! The scrub: it finds every damaged piece and nothing else, and writes again what memory has.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use onefold_engine::format::page::{PageId, Region};
use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::format::{CommitMode, copies, unit};
use onefold_engine::interface::{Class, Event, Notice, Op, ScrubOrder};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::stats::{DamagedPiece, ScrubCounts};
use onefold_engine::units::{Bytes, Pbn, index};

/// The parts of a scrub that are pages, with their regions.
pub const PAGES: [(ScrubPart, Region); 4] = [
    (ScrubPart::Written, Region::Written),
    (ScrubPart::Refs, Region::Refs),
    (ScrubPart::Fingerprints, Region::Fingerprints),
    (ScrubPart::Map, Region::Map),
];
pub const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const VOLUME: u64 = 32 << 20;
pub const BLOCKS: u64 = 300;
/// Blocks that compress, which mode `log` puts into slots.
pub const SOFT: u64 = 64;
pub const AT_ONCE: ScrubOrder = ScrubOrder::Begin { kib_per_second: 1 << 24 };
pub const LONG_MS: u64 = 3_600_000;

pub fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, compression: Compression::All, ..Settings::default() }
}

/// A volume with content of both kinds, which was closed and is open again.
pub fn used(mode: CommitMode) -> Machine {
    let mut m = Machine::open(blank(VOLUME, None), settings(mode));
    (0..BLOCKS).for_each(|n| m.write(4096 * n, &pattern(n, 4096)));
    (0..SOFT).for_each(|n| m.write(4096 * (BLOCKS + n), &soft(n, 1)));
    m.flush();
    served(m.close(), settings(mode))
}

pub fn served(medium: Vec<u8>, settings: Settings) -> Machine {
    let mut m = Machine::open(medium, settings);
    m.feed(Event::Tick);
    m.pass_ms(10_000);
    m
}

pub fn counts(m: &Machine) -> ScrubCounts {
    m.engine.stats().scrub
}

/// Scrubs all of it, and returns what it found.
pub fn scrubbed(m: &mut Machine) -> ScrubCounts {
    m.feed(Event::Scrub(AT_ONCE));
    m.pass_ms(LONG_MS);
    assert!(!counts(m).is_under_way, "{:?}", counts(m));
    counts(m)
}

pub fn rot(m: &mut Machine, at: Bytes) {
    m.medium[index(at.0) + 77] ^= 4;
}

pub fn piece(part: ScrubPart, number: u64, is_mended: bool) -> DamagedPiece {
    DamagedPiece { part, number, is_mended }
}

pub fn is_right(m: &mut Machine) -> bool {
    (0..BLOCKS).all(|n| m.read(4096 * n, 4096) == pattern(n, 4096)) && (0..SOFT).all(|n| m.read(4096 * (BLOCKS + n), 4096) == soft(n, 1))
}

/// The place of a page, by its number in its region.
pub fn page(m: &Machine, region: Region, index: u64) -> Bytes {
    m.engine.geometry().page_at(PageId { region, index })
}

#[test]
fn a_sound_volume_is_read_as_a_whole_and_nothing_is_found() {
    for mode in MODES {
        let mut m = used(mode);
        let found = scrubbed(&mut m);
        assert_eq!((found.damaged, found.mended, found.listed.len()), (0, 0, 0), "{mode:?}: {found:?}");
        assert!(found.read_units > BLOCKS + 8 && found.read_units < 2 * BLOCKS, "{mode:?}: {found:?}");
        assert!(m.notices.contains(&Notice::Scrubbed { damaged: 0, mended: 0, lost: 0 }), "{mode:?}: {:?}", m.notices);
        let superblock = chosen(&m.medium).expect("a volume");
        assert_eq!(superblock.scrub, None, "{mode:?}");
        assert!(is_right(&mut m) && m.ends());
    }
}

#[test]
fn each_damaged_block_is_found_and_no_other() {
    for mode in MODES {
        let mut m = used(mode);
        // The first, neighbours, one alone, and one that compresses, which is a pack in mode log.
        let whole = [0, 10, 11, 40].map(|n| block_with(&m, |block| *block == pattern(n, 4096)));
        let soft = block_with(&m, |block| if mode == CommitMode::Log { holds_slots(block) } else { *block == soft(SOFT - 1, 1) });
        let rotten = [whole[0], whole[1], whole[2], whole[3], soft];
        for pbn in rotten {
            let at = m.engine.geometry().block_at(Pbn(pbn));
            rot(&mut m, at);
        }
        let found = scrubbed(&mut m);
        assert_eq!((found.damaged, found.mended), (5, 0), "{mode:?}: {found:?}");
        assert_eq!(found.listed, rotten.map(|pbn| piece(ScrubPart::Data, pbn, false)), "{mode:?}");
        let named = |pbn| m.notices.iter().any(|notice| matches!(notice, Notice::Damage { at, .. } if *at == pbn));
        assert!(rotten.into_iter().all(named), "{mode:?}: {:?}", m.notices);
        let lost = (0..BLOCKS + SOFT).filter(|&lbn| m.fails_to_read(lbn)).count();
        assert!(lost >= 4, "{mode:?}: {lost} cannot be read");
    }
}

/// The first block whose bytes are like that.
pub fn block_with(m: &Machine, is_it: impl Fn(&[u8]) -> bool) -> u64 {
    let geometry = m.engine.geometry();
    let bytes = |pbn| index(geometry.block_at(Pbn(pbn)).0);
    (0..geometry.data_blocks).find(|&pbn| is_it(&m.medium[bytes(pbn)..bytes(pbn) + 4096])).expect("some block is like that")
}

/// Whether a block is a unit that has content in slots.
fn holds_slots(block: &[u8]) -> bool {
    block.first_chunk().and_then(unit::slots).is_some_and(|slots| slots.len() > 1)
}

/// A crash may leave only the page itself to say whether it was written, so junk in its place would be damage then.
#[test]
fn a_page_that_was_never_written_has_to_be_blank() {
    for mode in MODES {
        let mut m = used(mode);
        let at = page(&m, Region::Refs, 1);
        assert!(
            m.medium[index(at.0)..index(at.0) + 4096].iter().all(|byte| *byte == 0),
            "{mode:?}: no block behind the first 4,000 is used"
        );
        rot(&mut m, at);
        let found = scrubbed(&mut m);
        assert_eq!((found.damaged, found.mended, found.listed), (0, 1, vec![piece(ScrubPart::Refs, 1, true)]), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

#[test]
fn a_damaged_page_of_which_memory_has_a_copy_is_written_again() {
    for mode in MODES {
        for (part, region) in PAGES {
            let mut m = used(mode);
            assert!(is_right(&mut m), "all pages are in memory");
            let at = page(&m, region, 0);
            let before = m.medium[index(at.0)..index(at.0) + 500].to_vec();
            rot(&mut m, at);
            let found = scrubbed(&mut m);
            assert_eq!(found.listed, [piece(part, 0, true)], "{mode:?}: {:?}", m.notices);
            assert_eq!((found.damaged, found.mended), (0, 1), "{mode:?}");
            m.pass_ms(LONG_MS);
            assert!(m.medium[index(at.0)..index(at.0) + 500] == before, "{mode:?}, {region:?}: it is written again");
            let mut m = served(m.close(), settings(mode));
            assert_eq!(scrubbed(&mut m).listed, [], "{mode:?}, {region:?}");
            assert!(is_right(&mut m));
        }
    }
}

#[test]
fn a_damaged_page_that_nobody_has_is_reported() {
    for mode in MODES {
        let mut m = used(mode);
        m.request(Op::Discard, 0, 4096 * (BLOCKS + SOFT), None, false);
        m.flush();
        let mut m = served(m.close(), settings(mode));
        // Nothing has asked for the map since.
        let at = page(&m, Region::Map, 0);
        rot(&mut m, at);
        let found = scrubbed(&mut m);
        assert_eq!(found.listed, [piece(ScrubPart::Map, 0, false)], "{mode:?}: {:?}", m.notices);
        assert!(m.notices.iter().any(|notice| matches!(notice, Notice::Damage { at: named, .. } if *named == at.0)), "{mode:?}");
    }
}

#[test]
fn damaged_copies_of_the_superblock_are_written_again() {
    for mode in MODES {
        for copy in 0..4 {
            let mut m = used(mode);
            let at = copies(Bytes(VOLUME))[copy];
            rot(&mut m, at);
            let found = scrubbed(&mut m);
            // The update with which the scrub begins may have written it already.
            assert!(found.damaged == 0 && found.mended <= 1, "{mode:?}, copy {copy}: {found:?}");
            assert_eq!(scrubbed(&mut m).listed, [], "{mode:?}, copy {copy}");
            assert!(m.ends());
        }
    }
}

/// Neither copy of the newest pair may be an old one: the device would have lost an update.
#[test]
fn a_copy_of_the_superblock_that_the_device_has_lost_is_found() {
    for mode in MODES {
        let mut m = used(mode);
        let place = |copy: usize| index(copies(Bytes(VOLUME))[copy].0);
        let before: Vec<Vec<u8>> = (0..4).map(|copy| m.medium[place(copy)..place(copy) + 4096].to_vec()).collect();
        let reads = m.keeps_reads_of.replace(Class::Superblock);
        m.feed(Event::Scrub(AT_ONCE));
        m.keeps_reads_of = reads;
        // The update with which it begins goes on only now; then the copies are looked at.
        let kept: Vec<Event> = std::mem::take(&mut m.kept_reads);
        kept.into_iter().for_each(|read| m.feed(read));
        let found = scrubbed(&mut m);
        assert_eq!(found.listed, [], "{mode:?}");
        let newest = chosen(&m.medium).expect("a volume").generation;
        let pair = if newest % 2 == 0 { [0, 2] } else { [1, 3] };
        m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 1 }));
        let newest = chosen(&m.medium).expect("a volume").generation;
        let pair_now = if newest % 2 == 0 { [0, 2] } else { [1, 3] };
        assert_ne!(pair, pair_now, "the order is saved");
        m.medium[place(pair_now[1])..place(pair_now[1]) + 4096].copy_from_slice(&before[pair_now[1]]);
        m.pass_ms(60_000);
        let listed = counts(&m).listed;
        assert_eq!(listed, [piece(ScrubPart::Superblocks, pair_now[1] as u64, true)], "{mode:?}: {:?}", counts(&m));
    }
}

#[test]
fn a_damaged_unit_of_the_log_is_made_superfluous() {
    let mut m = used(CommitMode::Log);
    m.write(4096 * 900, &pattern(900, 4096));
    m.flush();
    m.write(4096 * 901, &pattern(901, 4096));
    m.flush();
    let units = m.engine.stats().log.expect("a log");
    assert!(units.to_scan >= 2, "{units:?}");
    let tail = chosen(&m.medium).and_then(|superblock| superblock.log_tail).expect("a log tail");
    let first = tail.places[0].first;
    let at = m.engine.geometry().block_at(first);
    rot(&mut m, at);
    let found = scrubbed(&mut m);
    assert_eq!(found.listed, [piece(ScrubPart::Log, first.0, true)], "{:?}", m.notices);
    m.pass_ms(LONG_MS);
    // The server is killed: the next one does not need the unit.
    let mut m = served(m.medium, settings(CommitMode::Log));
    assert!(!m.notices.iter().any(|notice| matches!(notice, Notice::Damage { .. })), "{:?}", m.notices);
    assert!(is_right(&mut m) && m.read(4096 * 900, 4096) == pattern(900, 4096) && m.read(4096 * 901, 4096) == pattern(901, 4096));
}

/// A page that is written while it is read proves nothing, whatever the reads bring.
#[test]
fn a_page_that_is_written_meanwhile_is_sound() {
    let mode = CommitMode::Ordered;
    let mut m = used(mode);
    m.keeps_reads_of = Some(Class::Refs);
    m.feed(Event::Scrub(AT_ONCE));
    m.pass_ms(1000);
    assert_eq!(m.kept_reads.len(), 1, "it reads one run at a time");
    for round in 0..8 {
        // New content changes the first page of counts, which is written within a minute.
        let written = m.written.get(&Class::Refs).copied();
        m.write(4096 * (1000 + round), &pattern(1000 + round, 4096));
        m.flush();
        m.pass_ms(60_000);
        assert!(m.written.get(&Class::Refs).copied() > written);
        for mut event in std::mem::take(&mut m.kept_reads) {
            if let Event::Read { buffer, .. } = &mut event {
                buffer.block_mut(0)[77] ^= 4;
            }
            m.feed(event);
        }
        m.pass_ms(1000);
    }
    m.keeps_reads_of = None;
    for event in std::mem::take(&mut m.kept_reads) {
        m.feed(event);
    }
    m.pass_ms(LONG_MS);
    let found = counts(&m);
    assert!(!found.is_under_way && found.listed.is_empty(), "{found:?}: {:?}", m.notices);
}

/// A block keeps its content while it is read, though nothing refers to it any more (R7).
#[test]
fn a_block_that_is_freed_meanwhile_keeps_its_content() {
    for mode in MODES {
        let mut m = served(blank(16 << 20, None), settings(mode));
        let blocks = m.engine.geometry().logical_blocks;
        (0..blocks).for_each(|n| m.write(4096 * n, &pattern(n, 4096)));
        m.flush();
        m.keeps_reads_of = Some(Class::Data);
        m.feed(Event::Scrub(AT_ONCE));
        m.pass_ms(60_000);
        m.keeps_reads_of = None;
        let kept = std::mem::take(&mut m.kept_reads);
        assert_eq!(kept.len(), 1, "{mode:?}");
        for round in 1..3 {
            (0..blocks).for_each(|n| m.write(4096 * n, &pattern(n + round * 100_000, 4096)));
            m.flush();
        }
        // What the device has there now is what the read would bring.
        for mut event in kept {
            if let Event::Read { buffer, .. } = &mut event {
                block_with(&m, |block| *block == buffer.block(0)[..]);
            }
            m.feed(event);
        }
        m.pass_ms(LONG_MS);
        assert_eq!(counts(&m).listed, [], "{mode:?}: {:?}", m.notices);
    }
}

#[test]
fn a_volume_that_is_opened_to_be_read_is_scrubbed_and_not_written() {
    for mode in MODES {
        let medium = used(mode).close();
        let mut m = served(medium.clone(), Settings { read_only: true, ..settings(mode) });
        let at = page(&m, Region::Refs, 0);
        rot(&mut m, at);
        // A crash may have torn a copy of the superblock.
        rot(&mut m, Bytes(4096));
        let rotten = m.medium.clone();
        let found = scrubbed(&mut m);
        assert_eq!((found.damaged, found.mended), (1, 0), "{mode:?}: {found:?}");
        assert!(m.medium == rotten, "{mode:?}");
    }
}
