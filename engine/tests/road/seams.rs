//! Volumes whose regions lie in two extents: no command crosses the seam between them.

use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{format_over, pattern};
use crate::out_of_line::SOON_MS;
use crate::replay::{MODES, noise, settings};
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::geometry::{Extent, SUPERBLOCKS_BYTES};
use onefold_engine::format::{CommitMode, ExtentKind, Geometry, Region, Superblock};
use onefold_engine::interface::{Event, Notice, Op, StoreRoom};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, Bytes, index};

/// The blocks before the seam: fewer than the tests write at once.
const SEAM: u64 = 37;
const SECOND: u64 = 3900;
const LOGICAL: u64 = 3800;
const MEDIUM_BYTES: u64 = 17 << 20;
/// The byte of which the medium is made before it is formatted.
const BLANK: u8 = 0xA5;

/// A geometry with two extents of each region, and with a gap of a page behind each extent.
fn seamed() -> Geometry {
    let pages = |region| (ExtentKind::Pages(region), 1);
    let first = [pages(Region::Written), pages(Region::Refs), pages(Region::Fingerprints), pages(Region::Map), (ExtentKind::Data, SEAM)];
    let second = [
        pages(Region::Written),
        pages(Region::Refs),
        (ExtentKind::Pages(Region::Fingerprints), 19),
        (ExtentKind::Pages(Region::Map), 4),
        (ExtentKind::Data, SECOND),
    ];
    let (mut offset, mut extents) = (Bytes(SUPERBLOCKS_BYTES), Vec::<Extent>::new());
    for (kind, pages) in first.into_iter().chain(second) {
        let before: u64 = extents.iter().filter(|e| e.kind == kind).map(Extent::pages).sum();
        let length = Bytes(pages * BLOCK_BYTES);
        extents.push(Extent { kind, instance: 0, first_entry: before * kind.entries_per_page(), offset, length });
        offset += length.get() + BLOCK_BYTES;
    }
    Geometry::of_extents(Bytes(MEDIUM_BYTES), LOGICAL, 64, extents).expect("nothing overlaps")
}

fn blank() -> Vec<u8> {
    let superblock = Superblock::new(seamed(), [7; 16], [9; 32], Algorithm::Blake3, &Settings::default());
    format_over(vec![BLANK; index(MEDIUM_BYTES)], &superblock)
}

/// Whether the medium is as it was before it was formatted wherever nothing of the volume lies.
fn gaps_are_untouched(medium: &[u8]) -> bool {
    let extents = seamed().extents;
    let behind = |e: &Extent| index(e.offset.get() + e.length.get());
    extents.iter().map(|e| &medium[behind(e)..behind(e) + 4096]).all(|gap| gap.iter().all(|&byte| byte == BLANK))
}

fn is_sound(medium: &[u8]) {
    assert!(gaps_are_untouched(medium), "a command crossed a seam");
    assert_eq!(findings(medium), []);
}

#[test]
fn runs_are_written_and_read_on_both_sides_of_the_seam() {
    for mode in MODES {
        let mut m = Machine::open(blank(), settings(mode));
        let (a, b) = (pattern(1, 4096 * 300), pattern(2, 4096 * 300));
        m.write(0, &a);
        m.flush();
        assert_eq!(m.read(0, 4096 * 300), a, "{mode:?}");
        m.write(4096 * 1000, &a);
        m.write(4096 * 2000, &b);
        m.flush();
        let mut m = Machine::open(m.close(), settings(mode));
        m.wait(10);
        assert_eq!(m.read(0, 4096 * 300), a, "{mode:?}");
        assert_eq!(m.read(4096 * 1000, 4096 * 300), a, "{mode:?}");
        assert_eq!(m.read(4096 * 2000, 4096 * 300), b, "{mode:?}");
        is_sound(&m.close());
    }
}

/// Content that compresses is packed, and units of the log lie on both sides.
#[test]
fn what_the_log_packs_is_found_on_both_sides_of_the_seam() {
    let soft = |n: u64| [pattern(n, 256), vec![0; 4096 - 256]].concat();
    let mut m = Machine::open(blank(), settings(CommitMode::Log));
    for n in 0..200 {
        m.write(4096 * n, &soft(n));
        m.write(4096 * (1000 + n), &noise(n, 1));
        if n % 20 == 0 {
            m.flush();
        }
    }
    m.flush();
    let mut m = Machine::open(m.medium.clone(), settings(CommitMode::Log));
    m.wait(10);
    for n in 0..200 {
        assert_eq!(m.read(4096 * n, 4096), soft(n));
        assert_eq!(m.read(4096 * (1000 + n), 4096), noise(n, 1));
    }
    is_sound(&m.close());
}

#[test]
fn freed_blocks_are_discarded_on_both_sides_of_the_seam() {
    for mode in MODES {
        let mut m = Machine::open(blank(), settings(mode));
        m.write(0, &pattern(1, 4096 * 600));
        m.flush();
        m.request(Op::Discard, 0, 4096 * 600, None, false);
        m.flush();
        m.write(4096 * 3000, &pattern(3, 4096));
        m.flush();
        m.pass_ms(2_000);
        m.feed(Event::StoreRoom(StoreRoom { is_short: true, blocks: 1000, refuses: false }));
        m.pass_ms(5_000);
        assert!(m.engine.ledger().device_discarded_bytes >= 4096 * 590, "{mode:?}");
        is_sound(&m.close());
    }
}

/// The next server reads what the acknowledgement journal promises, to prove it.
#[test]
fn what_was_promised_is_proved_on_both_sides_of_the_seam() {
    for mode in MODES {
        let mut m = Machine::open(blank(), settings(mode));
        m.write(0, &noise(1, 20));
        m.flush();
        m.write(4096 * 100, &noise(2, 40));
        let mut next = m.next(m.medium.clone(), settings(mode));
        assert!(!next.notices.iter().any(|notice| matches!(notice, Notice::AcknowledgedLost { .. })), "{mode:?}: {:?}", next.notices);
        next.flush();
        assert_eq!(next.read(0, 4096 * 20), noise(1, 20), "{mode:?}");
        assert_eq!(next.read(4096 * 100, 4096 * 40), noise(2, 40), "{mode:?}");
        next.pass_ms(60_000);
        is_sound(&next.close());
    }
}

/// A crash in mode `ordered` takes fingerprints, and the index rebuild reads the blocks to restore them.
#[test]
fn blocks_without_a_fingerprint_get_theirs_on_both_sides_of_the_seam() {
    let mut m = Machine::open(blank(), settings(CommitMode::Ordered));
    m.write(0, &noise(1, 60));
    m.flush();
    let mut m = Machine::open(m.medium.clone(), settings(CommitMode::Ordered));
    m.feed(Event::Tick);
    m.pass_ms(60_000);
    assert!(m.notices.iter().any(|n| matches!(n, Notice::IndexRebuilt { named: 60, .. })), "{:?}", m.notices);
    m.write(4096 * 100, &noise(1, 60));
    assert_eq!(m.engine.ledger().duplicates, 60);
    m.flush();
    is_sound(&m.close());
}

#[test]
fn deferred_blocks_get_their_fingerprints_on_both_sides_of_the_seam() {
    for mode in MODES {
        let mut m = Machine::open(blank(), settings(mode));
        m.feed(Event::Tick);
        m.patience = 10;
        m.defers = true;
        for lbn in [0, 100] {
            m.write(4096 * lbn, &noise(1, 60));
            m.flush();
        }
        m.defers = false;
        m.pass_ms(SOON_MS);
        assert_eq!(m.engine.linked_out_of_line(), 60, "{mode:?}");
        assert_eq!(m.read(0, 4096 * 60), noise(1, 60), "{mode:?}");
        assert_eq!(m.read(4096 * 100, 4096 * 60), noise(1, 60), "{mode:?}");
        is_sound(&m.close());
    }
}

/// Every block is used, one after the other and again.
#[test]
fn a_volume_with_seams_is_filled_and_overwritten() {
    for mode in MODES {
        let mut m = Machine::open(blank(), settings(mode));
        for round in 0..3 {
            (0..LOGICAL / 50).for_each(|i| m.write(4096 * 50 * i, &noise(round * LOGICAL + i, 50)));
            m.flush();
        }
        let mut m = Machine::open(m.close(), settings(mode));
        m.wait(10);
        (0..LOGICAL / 50).for_each(|i| assert_eq!(m.read(4096 * 50 * i, 4096 * 50), noise(2 * LOGICAL + i, 50), "{mode:?}"));
        is_sound(&m.close());
    }
}
