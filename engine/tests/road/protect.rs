//! Ranges that are protected while the volume serves: what lies there already is parted from other blocks.

use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use crate::out_of_line::{reads, write_content};
use crate::replay::MODES;
use onefold_engine::format::{CommitMode, ProtectedRange};
use onefold_engine::interface::{Class, Event, ExtentKind, Op, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::units::{Lbn, Pbn};

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
}

fn opened(medium: Vec<u8>, mode: CommitMode) -> Machine {
    let mut m = Machine::open(medium, settings(mode));
    m.feed(Event::Tick);
    m.patience = 10;
    m
}

fn range(first: u64, blocks: u32) -> ProtectedRange {
    ProtectedRange { first: Lbn(first), blocks, is_found: true }
}

/// The block that has an LBN.
fn block_of(m: &mut Machine, lbn: u64) -> Option<Pbn> {
    let Reply::Extents(extents) = m.request(Op::Extents, 4096 * lbn, 4096, None, false) else { panic!("extents are known") };
    match extents[0].kind {
        ExtentKind::Data { first, .. } => Some(first),
        _ => None,
    }
}

/// Two copies of contents 0 to 9, from LBN 100 and from LBN 1000 on, which share their blocks.
fn two_copies(mode: CommitMode) -> Machine {
    let mut m = opened(blank(32 << 20, None), mode);
    for first in [100, 1000] {
        (0..10).for_each(|n| write_content(&mut m, first + n, n));
        m.flush();
    }
    assert_eq!(m.engine.ledger().duplicates, 10, "{mode:?}");
    m
}

fn protect(m: &mut Machine, ranges: &[ProtectedRange]) {
    m.feed(Event::Protect(ranges.to_vec()));
    m.pass_ms(10);
    m.flush();
}

#[test]
fn what_shared_a_block_has_one_of_its_own() {
    for mode in MODES {
        let mut m = two_copies(mode);
        assert_eq!(block_of(&mut m, 104), block_of(&mut m, 1004));
        protect(&mut m, &[range(103, 3)]);
        let parted: Vec<u64> = (0..10).filter(|n| block_of(&mut m, 100 + n) != block_of(&mut m, 1000 + n)).collect();
        assert_eq!(parted, [3, 4, 5], "{mode:?}");
        // Nothing is linked to them from now on, and the others are found as before.
        let before = m.engine.ledger().duplicates;
        (0..10).for_each(|n| write_content(&mut m, 2000 + n, n));
        m.flush();
        assert_eq!(m.engine.ledger().duplicates - before, 10, "{mode:?}");
        assert!((3..6).all(|n| block_of(&mut m, 2000 + n) == block_of(&mut m, 1000 + n)), "{mode:?}");
        assert!((0..10).all(|n| reads(&mut m, 100 + n, n) && reads(&mut m, 1000 + n, n)), "{mode:?}");
        let medium = m.close();
        assert_eq!(chosen(&medium).expect("a volume").protected, [range(103, 3)]);
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

/// They are moved no second time, and other ranges replace them.
#[test]
fn the_same_ranges_change_nothing() {
    for mode in MODES {
        let mut m = two_copies(mode);
        protect(&mut m, &[range(100, 5)]);
        let units = m.engine.ledger().written;
        protect(&mut m, &[range(100, 5)]);
        assert_eq!(m.engine.ledger().written, units, "{mode:?}");
        let new_blocks = m.engine.ledger().new_blocks;
        protect(&mut m, &[range(100, 3), range(500, 3)]);
        assert_eq!(m.engine.ledger().new_blocks, new_blocks, "{mode:?}: they are apart already, or empty");
        protect(&mut m, &[]);
        assert_eq!(chosen(&m.medium).expect("a volume").protected, []);
    }
}

/// A client that writes meanwhile has the last word.
#[test]
fn what_is_written_meanwhile_stays() {
    for mode in MODES {
        let mut m = two_copies(mode);
        m.keeps_digests = true;
        m.feed(Event::Protect(vec![range(100, 10)]));
        m.pass_ms(10);
        assert!(!m.digests.is_empty(), "{mode:?}: some are being moved");
        write_content(&mut m, 100, 77);
        let part = m.begin_write(4096 * 101 + 512, &[1; 512]);
        m.keeps_digests = false;
        for event in std::mem::take(&mut m.digests) {
            m.feed(event);
        }
        m.finish(part);
        m.pass_ms(10);
        m.flush();
        assert!(reads(&mut m, 100, 77), "{mode:?}");
        let mut expected = pattern(1, 4096);
        expected[512..1024].fill(1);
        assert_eq!(m.read(4096 * 101, 4096), expected, "{mode:?}");
        assert!((2..10).all(|n| reads(&mut m, 100 + n, n)), "{mode:?}");
        assert!((2..10).all(|n| block_of(&mut m, 100 + n) != block_of(&mut m, 1000 + n)), "{mode:?}");
    }
}

#[test]
fn ranges_outside_the_volume_are_left_out() {
    for mode in MODES {
        let mut m = two_copies(mode);
        protect(&mut m, &[range(1 << 40, 3), range(u64::MAX, 2), range(100, 1)]);
        assert_eq!(chosen(&m.medium).expect("a volume").protected, [range(100, 1)], "{mode:?}");
    }
}

/// A block that has rotted stays where it is, and so does the order of things.
#[test]
fn a_damaged_block_is_left_alone() {
    for mode in MODES {
        let mut m = opened(two_copies(mode).close(), mode);
        let at = m.medium.windows(4096).step_by(4096).position(|block| block == pattern(3, 4096));
        // It may lie compressed in a carrier, whose bytes are others.
        let Some(at) = at else { continue };
        m.medium[4096 * at + 100] ^= 1;
        protect(&mut m, &[range(100, 10)]);
        assert!(m.fails_to_read(103), "{mode:?}");
        assert!((0..10).filter(|&n| n != 3).all(|n| reads(&mut m, 100 + n, n)), "{mode:?}");
    }
}

/// An LBN of two ranges, or of one that comes again while it is moved, is moved once.
#[test]
fn overlapping_ranges_move_a_block_once() {
    for mode in MODES {
        let mut m = two_copies(mode);
        m.keeps_digests = true;
        m.feed(Event::Protect(vec![range(100, 4), range(102, 4)]));
        m.feed(Event::Protect(vec![range(101, 5)]));
        m.pass_ms(10);
        m.keeps_digests = false;
        for event in std::mem::take(&mut m.digests) {
            m.feed(event);
        }
        m.pass_ms(10);
        m.flush();
        assert!((1..6).all(|n| block_of(&mut m, 100 + n) != block_of(&mut m, 1000 + n)), "{mode:?}");
        assert!((0..10).all(|n| reads(&mut m, 100 + n, n)), "{mode:?}");
    }
}

/// The next server, which finds the same ranges, parts what the last one has left.
fn is_parted_by_the_next(medium: Vec<u8>, mode: CommitMode) {
    let mut m = opened(medium, mode);
    protect(&mut m, &[range(100, 10)]);
    assert!((0..10).all(|n| block_of(&mut m, 100 + n) != block_of(&mut m, 1000 + n)), "{mode:?}");
    assert!((0..10).all(|n| reads(&mut m, 100 + n, n) && reads(&mut m, 1000 + n, n)), "{mode:?}");
}

#[test]
fn what_a_dead_server_left_is_parted() {
    for mode in MODES {
        let mut m = two_copies(mode);
        m.keeps_digests = true;
        protect(&mut m, &[range(100, 10)]);
        assert_eq!(chosen(&m.medium).expect("a volume").protected, [range(100, 10)], "{mode:?}");
        assert!((0..10).any(|n| block_of(&mut m, 100 + n) == block_of(&mut m, 1000 + n)), "{mode:?}: some are still to be moved");
        is_parted_by_the_next(m.medium, mode);
    }
}

/// A close does not wait until everything is parted.
#[test]
fn what_was_left_at_a_close_is_parted() {
    for mode in MODES {
        let mut m = opened(two_copies(mode).close(), mode);
        m.keeps_reads_of = Some(Class::Map);
        protect(&mut m, &[range(100, 10)]);
        assert!(!m.kept_reads.is_empty(), "{mode:?}: it waits for a page of the map");
        assert_eq!(chosen(&m.medium).expect("a volume").protected, [range(100, 10)], "{mode:?}");
        is_parted_by_the_next(m.close(), mode);
    }
}
