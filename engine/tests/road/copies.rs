//! Copies are followed block by block, where the index has room for few fingerprints.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Event;
use onefold_engine::settings::{Compression, Settings};

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const SOON_MS: u64 = 60_000;
/// The blocks that are copied, and the places of copies.
const BLOCKS: u64 = 1000;
const HOOK: u64 = 3000;
const COPY: u64 = 4000;
/// The block from which on they are copied.
const FROM: u64 = 100;

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }.with_knobs(|knobs| knobs.index_bytes_max = 0)
}

/// A volume with the smallest index, which has the fingerprint of block [`FROM`], and of few others that were written long ago.
fn volume(mode: CommitMode, content: fn(u64) -> Vec<u8>) -> Machine {
    let mut m = Machine::open(blank(64 << 20, None), settings(mode));
    m.feed(Event::Tick);
    for n in 0..BLOCKS {
        m.write(4096 * n, &content(n));
        if n % 4 == 3 {
            m.flush();
        }
    }
    // The work out of line finds the first block with this content, and so it comes back to the index.
    m.write(4096 * HOOK, &content(FROM));
    m.pass_ms(SOON_MS);
    assert_eq!(m.engine.stats().out_of_line.linked, 1, "{mode:?}");
    m
}

fn is_sound(mut m: Machine, mode: CommitMode, copied: &[(u64, Vec<u8>)]) {
    m.flush();
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    let mut m = Machine::open(medium, settings(mode));
    assert!(copied.iter().all(|(lbn, content)| m.read(4096 * lbn, 4096) == *content));
}

#[test]
fn a_copy_in_order_is_found_from_its_first_block_that_the_index_has() {
    for mode in MODES {
        let content = |n| pattern(n, 4096);
        let mut m = volume(mode, content);
        let (found, copied) = (m.engine.ledger().duplicates, 200);
        (0..copied).for_each(|i| m.write(4096 * (COPY + i), &content(FROM + i)));
        assert_eq!(m.engine.ledger().duplicates - found, copied, "{mode:?}");
        let copied: Vec<_> = (0..copied).map(|i| (COPY + i, content(FROM + i))).collect();
        is_sound(m, mode, &copied);
    }
}

#[test]
fn blocks_that_have_changed_do_not_end_it() {
    for mode in MODES {
        let mut m = volume(mode, |n| pattern(n, 4096));
        let found = m.engine.ledger().duplicates;
        let content = |i: u64| pattern(if (5..8).contains(&(i % 20)) { 5000 + i } else { FROM + i }, 4096);
        (0..200).for_each(|i| m.write(4096 * (COPY + i), &content(i)));
        assert_eq!(m.engine.ledger().duplicates - found, 200 - 30, "{mode:?}");
        let copied: Vec<_> = (0..200).map(|i| (COPY + i, content(i))).collect();
        is_sound(m, mode, &copied);
    }
}

#[test]
fn slots_are_followed_from_carrier_to_carrier() {
    let content = |n| soft(n, 1);
    let mut m = volume(CommitMode::Log, content);
    assert!(m.engine.stats().carriers.is_some_and(|carriers| carriers > BLOCKS / 8));
    let (found, copied) = (m.engine.ledger().duplicates, 150);
    (0..copied).for_each(|i| m.write(4096 * (COPY + i), &content(FROM + i)));
    // Three of four blocks share a carrier, and the fourth ones lie elsewhere.
    assert!(m.engine.ledger().duplicates - found >= copied * 3 / 4, "{}", m.engine.ledger().duplicates - found);
    let copied: Vec<_> = (0..copied).map(|i| (COPY + i, content(FROM + i))).collect();
    is_sound(m, CommitMode::Log, &copied);
}

/// Nothing says that the neighbours of a duplicate are what comes next.
#[test]
fn neighbours_with_other_content_are_not_linked_to() {
    for mode in MODES {
        let mut m = volume(mode, |n| pattern(n, 4096));
        let found = m.engine.ledger().duplicates;
        let content = |i: u64| pattern(if i == 0 { FROM } else { 9000 + i }, 4096);
        (0..20).for_each(|i| m.write(4096 * (COPY + i), &content(i)));
        assert_eq!(m.engine.ledger().duplicates - found, 1, "{mode:?}");
        let copied: Vec<_> = (0..20).map(|i| (COPY + i, content(i))).collect();
        is_sound(m, mode, &copied);
    }
}

/// Two blocks hold one content, since the first one takes no third link, and the one that the index has rots. Of two that differ from a
/// write, each would be read again and again in turn.
#[test]
fn what_differs_from_one_block_is_compared_with_no_other() {
    for mode in MODES {
        let settings = Settings { verify_duplicates: true, compression: Compression::Off, commit_mode: mode, ..Settings::default() };
        let settings = settings.with_knobs(|knobs| (knobs.refs_limit, knobs.index_bytes_max) = (3, 1024));
        let (before, content) = ([pattern(5, 4096), pattern(6, 4096)], pattern(7, 4096));
        let mut m = Machine::open(blank(32 << 20, None), settings.clone());
        for (lbn, block) in [&before[0], &content, &content, &before[1], &content].into_iter().enumerate() {
            m.write(4096 * lbn as u64, block);
        }
        m.flush();
        m.write(4096, &pattern(8, 4096));
        let medium = m.close();
        let copies: Vec<usize> = medium.windows(4096).enumerate().filter(|(_, bytes)| *bytes == content).map(|(at, _)| at).collect();
        assert_eq!(copies.len(), 2, "{mode:?}");
        let new_blocks = [0, 1].map(|rotten| {
            let mut medium = medium.clone();
            medium[copies[rotten]] ^= 1;
            let mut m = Machine::open(medium, settings.clone());
            m.pass_ms(SOON_MS);
            // A copy of these two leads to the sound one.
            m.write(4096 * 20, &before[1 - rotten]);
            m.write(4096 * 21, &content);
            assert!(m.read(4096 * 21, 4096) == content, "{mode:?}");
            m.engine.ledger().new_blocks
        });
        assert_eq!(new_blocks.iter().sum::<u64>(), 1, "{mode:?}: {new_blocks:?}: it is stored where the first one was rotten");
    }
}

fn soft_blocks(first: u64, blocks: u64) -> Vec<u8> {
    (first..first + blocks).flat_map(|n| soft(n, 1)).collect()
}

#[test]
fn slots_are_followed_from_pack_to_pack() {
    let content = |n| soft(n, 1);
    let mut m = Machine::open(blank(64 << 20, None), settings(CommitMode::Log));
    m.feed(Event::Tick);
    for n in 0..BLOCKS {
        m.write(4096 * n, &content(n));
    }
    m.flush();
    m.write(4096 * HOOK, &content(FROM));
    m.pass_ms(SOON_MS);
    m.flush();
    assert_eq!((m.engine.stats().out_of_line.linked, m.engine.stats().carriers), (1, Some(334)));
    let (found, copied) = (m.engine.ledger().duplicates, 300);
    // Blocks of one write wait for their carriers side by side.
    (0..copied).step_by(100).for_each(|i| m.write(4096 * (COPY + i), &soft_blocks(FROM + i, 100)));
    let found = m.engine.ledger().duplicates - found;
    assert!(found >= copied * 8 / 10, "{found} of {copied}");
    let copied: Vec<_> = (0..copied).map(|i| (COPY + i, content(FROM + i))).collect();
    is_sound(m, CommitMode::Log, &copied);
}

/// Requests of the first copy came in another order, eight blocks each.
#[test]
fn what_lies_elsewhere_on_the_page_is_found() {
    for mode in MODES {
        let place = |n: u64| n ^ if n % 32 < 16 { 8 } else { 0 };
        let mut m = volume(mode, |n| pattern(n, 4096));
        let found = m.engine.ledger().duplicates;
        (0..160).for_each(|i| m.write(4096 * (COPY + i), &pattern(FROM + place(i), 4096)));
        let found = m.engine.ledger().duplicates - found;
        assert!(found >= 140, "{mode:?}: {found} of 160");
        let copied: Vec<_> = (0..160).map(|i| (COPY + i, pattern(FROM + place(i), 4096))).collect();
        is_sound(m, mode, &copied);
    }
}

/// After an opening the index has the newest blocks, and some of all others.
#[test]
fn a_copy_is_found_after_an_opening_wherever_its_blocks_are() {
    const ALL: u64 = 8000;
    for mode in MODES {
        let settings = || settings(mode).with_knobs(|knobs| knobs.index_bytes_max = 8 << 10);
        let mut m = Machine::open(blank(64 << 20, None), settings());
        m.feed(Event::Tick);
        for n in 0..ALL {
            m.write(4096 * n, &pattern(n, 4096));
            if n % 64 == 63 {
                m.flush();
            }
        }
        let mut m = Machine::open(m.close(), settings());
        m.feed(Event::Tick);
        m.pass_ms(SOON_MS);
        assert!(m.engine.stats().index_capacity < ALL / 4, "{mode:?}");
        for from in [200, 1600, 3000, 5000, 7000] {
            let found = m.engine.ledger().duplicates;
            let content: Vec<u8> = (from..from + 500).flat_map(|n| pattern(n, 4096)).collect();
            content.chunks(4096 * 250).zip([0, 250]).for_each(|(part, at)| m.write(4096 * (ALL + from + at), part));
            let found = m.engine.ledger().duplicates - found;
            assert!(found >= 400, "{mode:?}: from {from} on {found} of 500");
        }
        assert!(findings(&m.close()).is_empty());
    }
}
