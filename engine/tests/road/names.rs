//! Blocks that a crash leaves without a whole fingerprint get it again: in the background, and when they are read.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use onefold_engine::format::{CommitMode, ProtectedRange};
use onefold_engine::interface::{Class, Event, Legacy, Notice};
use onefold_engine::settings::Settings;
use onefold_engine::units::{Lbn, index};

/// Enough blocks for a large epoch, and too few for a page of fingerprints, which would be written at once.
const BLOCKS: u64 = 100;
const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, noncritical_delay_ms: 1_000_000, ..Settings::default() }
}

/// The medium of a server that was killed just after a flush of blocks that do not compress: no page has their fingerprints.
fn killed(commit_mode: CommitMode) -> Vec<u8> {
    let mut m = Machine::open(blank(32 << 20, None), settings(commit_mode));
    m.write(0, &pattern(1, index(BLOCKS * 4096)));
    m.flush();
    m.medium
}

/// Writes the same blocks elsewhere. Returns how many are stored anew, and how many are duplicates.
fn copied(m: &mut Machine) -> (u64, u64) {
    let before = (m.engine.ledger().new_blocks, m.engine.ledger().duplicates);
    m.write(4096 * 1000, &pattern(1, index(BLOCKS * 4096)));
    m.flush();
    (m.engine.ledger().new_blocks - before.0, m.engine.ledger().duplicates - before.1)
}

/// Returns `named`, `unnamed` and `goes_on` of the last notice of a rebuilt index.
fn rebuilt(m: &Machine) -> Option<(u64, u64, bool)> {
    let counts = |notice: &Notice| match *notice {
        Notice::IndexRebuilt { named, unnamed, goes_on, .. } => Some((named, unnamed, goes_on)),
        _ => None,
    };
    m.notices.iter().filter_map(counts).next_back()
}

/// Closes the volume, and asserts that a check finds nothing.
fn is_sound(m: Machine) {
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
}

#[test]
fn what_a_kill_left_without_a_fingerprint_is_found_as_a_duplicate_again() {
    for commit_mode in MODES {
        let mut m = Machine::open(killed(commit_mode), settings(commit_mode));
        m.feed(Event::Tick);
        m.wait(200);
        assert_eq!(rebuilt(&m), Some((BLOCKS, 0, false)), "{commit_mode:?}: {:?}", m.notices);
        assert_eq!(m.engine.ledger().read[Class::Data as usize].units, BLOCKS, "{commit_mode:?}: each is read once");
        assert_eq!(copied(&mut m), (0, BLOCKS), "{commit_mode:?}");
        // The next server finds the fingerprints on their pages.
        let mut m = Machine::open(m.close(), settings(commit_mode));
        m.feed(Event::Tick);
        m.wait(200);
        assert_eq!(m.engine.ledger().read[Class::Data as usize].units, 0, "{commit_mode:?}: there is nothing to read");
        assert_eq!(rebuilt(&m), Some((0, 0, false)), "{commit_mode:?}");
        assert_eq!(m.read(4096 * 1000, BLOCKS * 4096), pattern(1, index(BLOCKS * 4096)));
        is_sound(m);
    }
}

/// A second kill comes while blocks get their fingerprints: nothing is lost by it, and the third server gives all of them theirs.
#[test]
fn a_kill_while_blocks_are_named_leaves_them_to_the_next_server() {
    for commit_mode in MODES {
        for steps in 0..40 {
            let mut m = Machine::open(killed(commit_mode), settings(commit_mode));
            m.feed(Event::Tick);
            m.wait(steps);
            let mut m = Machine::open(m.medium, settings(commit_mode));
            m.feed(Event::Tick);
            m.wait(300);
            let (_, unnamed, goes_on) = rebuilt(&m).expect("the index is filled");
            assert_eq!((unnamed, goes_on), (0, false), "{commit_mode:?}, {steps} steps: {:?}", m.notices);
            assert_eq!(copied(&mut m), (0, BLOCKS), "{commit_mode:?}, {steps} steps");
            is_sound(m);
        }
    }
}

#[test]
fn what_a_client_reads_is_named() {
    for commit_mode in MODES {
        let unfilled = settings(commit_mode).with_knobs(|knobs| {
            knobs.rebuild_reads_per_second = 0;
            knobs.recount_window_blocks = 64;
        });
        let mut m = Machine::open(killed(commit_mode), unfilled.clone());
        assert_eq!(copied(&mut m), (BLOCKS, 0), "{commit_mode:?}: nobody has read them");
        let mut m = Machine::open(killed(commit_mode), unfilled);
        m.read(0, BLOCKS * 4096);
        // In mode `ordered` they get their fingerprints when their counts are durable.
        m.flush();
        m.wait(10);
        assert_eq!(copied(&mut m), (0, BLOCKS), "{commit_mode:?}");
        m.wait(300);
        is_sound(m);
    }
}

/// A block that is read and gets its fingerprint again is overwritten meanwhile with the same content: its link is counted once.
#[test]
fn a_block_that_is_named_in_the_epoch_that_links_to_it_is_counted_right() {
    let mut m = Machine::open(killed(CommitMode::Ordered), settings(CommitMode::Ordered));
    m.read(0, BLOCKS * 4096);
    m.write(0, &pattern(1, index(BLOCKS * 4096)));
    m.flush();
    m.write(4096 * 7, &pattern(9, 4096));
    m.write(4096 * 2000, &pattern(1, 4096 * 8));
    m.flush();
    m.wait(300);
    is_sound(m);
}

/// A block has rotted: its content is not what its LBN means, so it gets no fingerprint, and nothing is linked to it.
#[test]
fn what_has_rotted_gets_no_name() {
    let mut medium = killed(CommitMode::Log);
    let content = pattern(1, index(BLOCKS * 4096));
    let fifth = &content[5 * 4096..6 * 4096];
    let at = (0..medium.len()).step_by(4096).find(|&at| &medium[at..at + 4096] == fifth).expect("it is stored");
    medium[at + 99] ^= 1;
    let mut m = Machine::open(medium, settings(CommitMode::Log));
    m.feed(Event::Tick);
    m.wait(200);
    assert_eq!(rebuilt(&m), Some((BLOCKS - 1, 1, false)), "{:?}", m.notices);
    assert_eq!(copied(&mut m), (1, BLOCKS - 1));
    assert!(m.fails_to_read(5));
    let mut rotten = fifth.to_vec();
    rotten[99] ^= 1;
    m.write(4096 * 3000, &rotten);
    m.flush();
    assert_eq!(m.engine.ledger().new_blocks, 2, "the index does not have the rotten content");
}

/// A crash takes no fingerprints from packs, and they are not mistaken for blocks without one.
#[test]
fn packs_are_left_as_they_are() {
    let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Log));
    m.write(0, &soft(1, 99));
    m.flush();
    for commit_mode in MODES {
        let mut m = Machine::open(m.medium.clone(), settings(commit_mode));
        m.feed(Event::Tick);
        m.wait(200);
        let (named, unnamed, _) = rebuilt(&m).expect("the index is filled");
        assert_eq!((named, unnamed), (0, 0), "{commit_mode:?}");
        assert_eq!(m.read(0, 99 * 4096), soft(1, 99));
        is_sound(m);
    }
}

#[test]
fn the_blocks_of_protected_ranges_are_not_named() {
    let mut m = Machine::open(killed(CommitMode::Ordered), settings(CommitMode::Ordered));
    let mut superblock = chosen(&m.medium).expect("a volume");
    superblock.protected = vec![ProtectedRange { first: Lbn(0), blocks: 300, is_found: false }];
    m = Machine::over(m.medium, superblock, settings(CommitMode::Ordered), Legacy::default());
    m.feed(Event::Tick);
    m.wait(200);
    m.read(0, BLOCKS * 4096);
    m.flush();
    assert_eq!(rebuilt(&m), Some((0, 0, false)));
    assert_eq!(copied(&mut m), (BLOCKS, 0));
}
