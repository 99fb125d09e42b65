//! Requests for extents: what the bytes of a volume are made of, as reads would find them.

use crate::carriers::soft;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Extent, ExtentKind, Op, Reply};
use onefold_engine::settings::{Compression, Settings};

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, compression: Compression::Off, ..Settings::default() }
}

/// The kinds of a range, without the numbers of blocks: bytes and a letter each. Asks again for what an answer leaves out.
fn extents(m: &mut Machine, offset: u64, length: u64) -> Vec<(u64, char)> {
    let (mut at, mut all) = (offset, Vec::new());
    while at < offset + length {
        let Reply::Extents(found) = m.request(Op::Extents, at, offset + length - at, None, false) else { panic!("no extents") };
        assert!(!found.is_empty());
        for Extent { bytes, kind } in found {
            at += bytes;
            all.push((bytes, letter(kind)));
        }
    }
    assert_eq!(at, offset + length);
    all
}

fn letter(kind: ExtentKind) -> char {
    match kind {
        ExtentKind::Hole => 'h',
        ExtentKind::Zeroes => 'z',
        ExtentKind::Data { .. } => 'd',
        ExtentKind::Damaged => 'x',
    }
}

/// The extents of these blocks: how many, and of which kind.
fn of_blocks(m: &mut Machine, first: u64, blocks: u64) -> Vec<(u64, char)> {
    extents(m, first * 4096, blocks * 4096).into_iter().map(|(bytes, kind)| (bytes / 4096, kind)).collect()
}

#[test]
fn holes_zeros_and_data_are_told_apart_before_a_commit_and_after_it() {
    for mode in [CommitMode::Log, CommitMode::Ordered] {
        let mut m = Machine::open(blank(32 << 20, Some(1 << 20)), settings(mode));
        let expected = [(2, 'h'), (3, 'd'), (1, 'z'), (1, 'd'), (1000, 'h')];
        assert_eq!(of_blocks(&mut m, 0, 1007), [(1007, 'h')], "{mode:?}");
        m.write(2 * 4096, &pattern(1, 4 * 4096));
        m.write(5 * 4096, &[0; 4096]);
        m.write(6 * 4096, &pattern(9, 4096));
        assert_eq!(of_blocks(&mut m, 0, 1007), expected, "{mode:?}, open");
        m.flush();
        assert_eq!(of_blocks(&mut m, 0, 1007), expected, "{mode:?}, committed");
        let mut m = Machine::open(m.close(), settings(mode));
        assert_eq!(of_blocks(&mut m, 0, 1007), expected, "{mode:?}, opened again");
        m.request(Op::Discard, 3 * 4096, 4096, None, false);
        assert_eq!(of_blocks(&mut m, 2, 3), [(1, 'd'), (1, 'h'), (1, 'd')], "{mode:?}");
    }
}

#[test]
fn an_extent_has_the_bytes_that_were_asked_for() {
    let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Log));
    m.write(4096, &pattern(1, 4096));
    assert_eq!(extents(&mut m, 512, 8192), [(3584, 'h'), (4096, 'd'), (512, 'h')]);
    assert_eq!(extents(&mut m, 4608, 512), [(512, 'd')]);
    assert!(matches!(m.request(Op::Extents, 0, 0, None, false), Reply::Extents(found) if found.is_empty()));
    let end = m.engine.geometry().logical_blocks * 4096;
    assert!(matches!(m.request(Op::Extents, end - 4096, 8192, None, false), Reply::Failed(_)), "it ends beyond the volume");
}

/// A duplicate lies elsewhere; slots lie in the block of the slot before them.
#[test]
fn data_goes_on_where_its_blocks_follow_each_other() {
    let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Ordered));
    m.write(0, &pattern(1, 3 * 4096));
    m.write(3 * 4096, &pattern(1, 4096));
    m.write(4 * 4096, &pattern(7, 2 * 4096));
    assert_eq!(of_blocks(&mut m, 0, 6), [(3, 'd'), (1, 'd'), (2, 'd')]);

    let mut m = Machine::open(blank(32 << 20, None), Settings { compression: Compression::All, ..Settings::default() });
    (0..4).for_each(|n| m.write(n * 4096, &soft(n + 1, 1)));
    m.flush();
    assert_eq!(of_blocks(&mut m, 0, 4), [(4, 'd')]);
}

#[test]
fn a_walk_over_many_pages_is_several_answers_and_one_over_blank_pages_is_not() {
    let mut m = Machine::open(blank(64 << 20, Some(800 * 2000)), settings(CommitMode::Log));
    assert_eq!(of_blocks(&mut m, 0, 800 * 2000), [(800 * 2000, 'h')]);
    (0..40).for_each(|page| m.write(800 * page * 4096, &pattern(page, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings(CommitMode::Log));
    let found = of_blocks(&mut m, 0, 800 * 2000);
    assert_eq!(found.iter().filter(|&&(_, kind)| kind == 'd').count(), 40);
    let first = m.request(Op::Extents, 0, 800 * 2000 * 4096, None, false);
    let Reply::Extents(first) = first else { panic!("{first:?}") };
    assert_eq!(first.iter().map(|extent| extent.bytes).sum::<u64>(), 16 * 800 * 4096);
}

#[test]
fn requests_for_extents_are_answered_one_after_the_other() {
    let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Log));
    m.write(0, &pattern(1, 4096));
    let mut m = Machine::open(m.close(), settings(CommitMode::Log));
    let asked: Vec<_> = (0..5).map(|n| m.begin(Op::Extents, n % 2 * 4096, 4096, None, false)).collect();
    for (id, kind) in asked.into_iter().zip("dhdhd".chars()) {
        let Reply::Extents(found) = m.answer(id) else { panic!("no extents") };
        assert_eq!(found.into_iter().map(|extent| (extent.bytes, letter(extent.kind))).collect::<Vec<_>>(), [(4096, kind)]);
    }
}

/// After a failure of the device only what is committed is known.
#[test]
fn what_was_not_committed_when_the_device_failed_is_damaged() {
    let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Ordered));
    m.write(0, &pattern(1, 4096));
    m.flush();
    m.write(4096, &pattern(2, 4096));
    m.flushes_fail = true;
    assert!(m.flush_fails());
    assert_eq!(of_blocks(&mut m, 0, 3), [(1, 'd'), (1, 'x'), (1, 'h')]);
}

/// Places of the log are reserved while a large epoch is written. Each of them alone would cut the data.
#[test]
fn places_of_the_log_do_not_cut_data_into_small_pieces() {
    let mut m = Machine::open(blank(256 << 20, None), settings(CommitMode::Log));
    // Until the free blocks are counted, it is not known how many there are for the log.
    m.write(4096 * 2000, &pattern(2, 4096));
    m.flush();
    assert!(m.engine.stats().free_complete);
    m.write(0, &pattern(1, 4096 * 1500));
    let found = of_blocks(&mut m, 0, 1500);
    assert!(found.len() <= 1500 / 46 / 16 + 2, "{found:?}");
}
