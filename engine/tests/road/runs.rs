//! The filter against fragmentation: duplicates are linked to in line only within long runs.

use crate::carriers::soft;
use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use crate::replay;
use onefold_engine::format::{CommitMode, ProtectedRange};
use onefold_engine::interface::{Event, Legacy, Op};
use onefold_engine::settings::Settings;
use onefold_engine::units::Lbn;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const BLOCK: u64 = 4096;
/// The first block of copies.
const COPY: u64 = 1000;
const LATER_MS: u64 = 3_600_000;

fn with_runs_of(min_run: u64, commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, min_run, ..Settings::default() }
}

/// Content of blocks that do not compress, each of its own.
fn blocks(content: u64, count: usize) -> Vec<u8> {
    pattern(content, 4096 * count)
}

/// A volume with eight blocks in a row.
fn eight(settings: Settings) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.feed(Event::Tick);
    m.write(0, &blocks(1, 8));
    m.flush();
    m
}

/// The numbers of duplicates, blocks that were filtered, unchanged ones and new ones since the first eight.
fn counts(m: &Machine) -> [u64; 4] {
    let ledger = m.engine.ledger();
    [ledger.duplicates, ledger.filtered, ledger.unchanged, ledger.new_blocks - 8]
}

/// Everything reads back in the next life, too.
fn is_sound(mut m: Machine, settings: Settings, first: u64, content: &[u8]) {
    m.flush();
    assert!(m.read(first * BLOCK, content.len() as u64) == content);
    let mut m = Machine::open(m.close(), settings);
    assert!(m.read(first * BLOCK, content.len() as u64) == content && m.read(0, 8 * BLOCK) == blocks(1, 8));
}

/// The next life of a volume, once its index is rebuilt.
fn opened_again(m: Machine, settings: Settings) -> Machine {
    let mut m = Machine::open(m.close(), settings);
    m.read(2000 * BLOCK, 512);
    m.wait(200);
    m
}

#[test]
fn a_run_that_is_too_short_is_stored_again_and_a_longer_one_is_linked_to() {
    for mode in MODES {
        for (length, expected) in [(1, [0, 1, 0, 1]), (3, [0, 3, 0, 3]), (4, [4, 0, 0, 0]), (8, [8, 0, 0, 0])] {
            let mut m = eight(with_runs_of(4, mode));
            let copy = blocks(1, 8)[..4096 * length].to_vec();
            m.write(COPY * BLOCK, &copy);
            assert_eq!(counts(&m), expected, "{mode:?}, a run of {length}");
            is_sound(m, with_runs_of(4, mode), COPY, &copy);
        }
    }
}

#[test]
fn other_content_and_a_gap_on_the_device_end_a_run() {
    for mode in MODES {
        let stored = blocks(1, 8);
        let rows: [&[usize]; 3] = [&[0, 1, 2, 4, 5, 6], &[0, 1, 9, 2, 3], &[3, 2, 1, 0]];
        for row in rows {
            let mut m = eight(with_runs_of(4, mode));
            let other = blocks(2, 10);
            let content = |&n: &usize| if n < 8 { &stored[4096 * n..][..4096] } else { &other[4096 * n..][..4096] };
            let copy: Vec<u8> = row.iter().flat_map(content).copied().collect();
            m.write(COPY * BLOCK, &copy);
            assert_eq!(counts(&m)[0], 0, "{mode:?}, {row:?}");
            assert_eq!(counts(&m)[3], row.len() as u64, "{mode:?}, {row:?}");
            is_sound(m, with_runs_of(4, mode), COPY, &copy);
        }
    }
}

/// Filtered content is a run of its own on the device: its next copy is linked to it.
#[test]
fn a_copy_of_what_was_filtered_is_linked_to_as_a_run() {
    for mode in MODES {
        let mut m = eight(with_runs_of(4, mode));
        let mixed = [&blocks(1, 8)[..4096 * 2], &blocks(2, 2)[..]].concat();
        m.write(COPY * BLOCK, &mixed);
        assert_eq!(counts(&m), [0, 2, 0, 4], "{mode:?}");
        m.write(2 * COPY * BLOCK, &mixed);
        assert_eq!(counts(&m), [4, 2, 0, 4], "{mode:?}");
        is_sound(m, with_runs_of(4, mode), 2 * COPY, &mixed);
    }
}

#[test]
fn content_that_an_lbn_means_already_stays() {
    for mode in MODES {
        let mut m = eight(with_runs_of(4, mode));
        m.write(3 * BLOCK, &blocks(1, 8)[4096 * 3..][..4096]);
        assert_eq!(counts(&m), [0, 0, 1, 0], "{mode:?}");
        // The index names the block of the copy from now on, and neither LBN loses its own.
        m.write(COPY * BLOCK, &blocks(1, 8)[4096 * 3..][..4096]);
        assert_eq!(counts(&m), [0, 1, 1, 1], "{mode:?}");
        for lbn in [COPY, 3, COPY, 3] {
            m.write(lbn * BLOCK, &blocks(1, 8)[4096 * 3..][..4096]);
        }
        assert_eq!(counts(&m), [0, 1, 5, 1], "{mode:?}");
        // The map page is not in memory after an opening.
        let mut m = opened_again(m, with_runs_of(4, mode));
        m.write(3 * BLOCK, &blocks(1, 8)[4096 * 3..][..4096]);
        assert_eq!((m.engine.ledger().unchanged, m.engine.ledger().new_blocks), (1, 0), "{mode:?}");
        is_sound(m, with_runs_of(4, mode), 3, &blocks(1, 8)[4096 * 3..][..4096]);
    }
}

/// Several copies in the slots of one carrier are distinguished.
#[test]
fn content_in_a_slot_stays_there() {
    let settings = || with_runs_of(4, CommitMode::Log);
    let mut m = eight(settings());
    for lbn in [COPY, COPY + 1] {
        m.write(lbn * BLOCK, &soft(7, 1));
    }
    m.flush();
    assert_eq!(counts(&m), [0, 1, 0, 2]);
    for is_second in [false, true] {
        if is_second {
            m = opened_again(m, settings());
        }
        let before = m.engine.ledger().clone();
        for lbn in [COPY, COPY + 1] {
            m.write(lbn * BLOCK, &soft(7, 1));
        }
        let after = m.engine.ledger();
        assert_eq!((after.unchanged - before.unchanged, after.new_blocks - before.new_blocks), (2, 0), "opened again: {is_second}");
    }
    is_sound(m, settings(), COPY, &soft(7, 1));
}

#[test]
fn slots_of_one_carrier_are_a_run() {
    // Four of these have room in one block.
    let soft_blocks: Vec<u8> = (0..4).flat_map(|n| [pattern(10 + n, 300), vec![b'a'; 3796]].concat()).collect();
    for (length, duplicates) in [(3, 0), (4, 4)] {
        let mut m = eight(with_runs_of(4, CommitMode::Log));
        m.write(20 * BLOCK, &soft_blocks);
        m.flush();
        let copy = soft_blocks[..4096 * length].to_vec();
        m.write(COPY * BLOCK, &copy);
        assert_eq!(counts(&m)[0], duplicates, "a run of {length}");
        is_sound(m, with_runs_of(4, CommitMode::Log), COPY, &copy);
    }
}

#[test]
fn a_part_of_a_block_is_a_run_of_one() {
    for mode in MODES {
        let mut m = eight(with_runs_of(2, mode));
        // By its second half the block becomes a duplicate of the first one.
        let copy = blocks(1, 1);
        m.write(COPY * BLOCK, &[&copy[..2048], &[0; 2048]].concat());
        let before = counts(&m);
        m.write(COPY * BLOCK + 2048, &copy[2048..]);
        m.flush();
        assert_eq!(counts(&m), [before[0], before[1] + 1, before[2], before[3] + 1], "{mode:?}");
        // Once more, it changes nothing.
        m.write(COPY * BLOCK + 2048, &copy[2048..]);
        m.flush();
        assert_eq!(counts(&m), [before[0], before[1] + 1, before[2] + 1, before[3] + 1], "{mode:?}");
        is_sound(m, with_runs_of(2, mode), COPY, &copy);
    }
}

/// The work out of line looks only for what the index missed, but all of it on demand.
#[test]
fn what_was_filtered_is_not_linked_to_out_of_line() {
    for mode in MODES {
        // An index that is not whole: what is new may be stored all the same.
        let settings = || with_runs_of(4, mode).with_knobs(|knobs| knobs.index_bytes_max = 0);
        let mut m = Machine::open(blank(32 << 20, None), settings());
        m.feed(Event::Tick);
        let skipped = |m: &Machine| m.engine.stats().out_of_line.skipped.named.used;
        (0..100).for_each(|n| m.write(n * BLOCK, &blocks(n, 1)));
        let before = skipped(&m);
        assert!(before > 0, "{mode:?}");
        m.write(COPY * BLOCK, &blocks(99, 1));
        m.flush();
        assert_eq!((m.engine.ledger().filtered, skipped(&m)), (1, before), "{mode:?}");
        m.pass_ms(LATER_MS);
        assert_eq!(m.engine.stats().out_of_line.linked, 0, "{mode:?}");
        assert_eq!(m.read(COPY * BLOCK, BLOCK), blocks(99, 1));
    }
}

/// Zeros are not stored, so nothing on the device is their neighbour.
#[test]
fn zeros_end_a_run() {
    for mode in MODES {
        let mut m = eight(with_runs_of(3, mode));
        let stored = blocks(1, 8);
        let copy = [&stored[..8192], &[0; 4096], &stored[8192..16384]].concat();
        m.write(COPY * BLOCK, &copy);
        assert_eq!((counts(&m), m.engine.ledger().zeroes), ([0, 4, 0, 4], 1), "{mode:?}");
        is_sound(m, with_runs_of(3, mode), COPY, &copy);
    }
}

#[test]
fn without_the_filter_a_single_block_is_linked_to() {
    for mode in MODES {
        let mut m = eight(Settings { commit_mode: mode, ..Settings::default() });
        m.write(COPY * BLOCK, &blocks(1, 1));
        m.request(Op::Flush, 0, 0, None, false);
        assert_eq!(counts(&m), [1, 0, 0, 0], "{mode:?}");
    }
}

/// The map page of the copy has to be read first, so the write waits, and is no less filtered for that.
#[test]
fn a_write_that_waits_is_filtered_too() {
    for mode in MODES {
        let mut m = eight(with_runs_of(4, mode));
        // Otherwise the page would be known to be empty.
        m.write(6 * COPY * BLOCK, &blocks(2, 1));
        let mut m = opened_again(m, with_runs_of(4, mode));
        m.write(6 * COPY * BLOCK, &blocks(1, 1));
        let ledger = m.engine.ledger();
        assert_eq!((ledger.filtered, ledger.duplicates, ledger.new_blocks), (1, 0, 1), "{mode:?}");
        is_sound(m, with_runs_of(4, mode), 6 * COPY, &blocks(1, 1));
    }
}

/// The next server links to what the last one had linked to, although the journal has it block by block.
#[test]
fn what_was_acknowledged_passes() {
    let settings = || Settings { min_run: 4, ..replay::settings(CommitMode::Log) };
    let content = soft(1, 8);
    let mut m = Machine::open(blank(32 << 20, None), settings());
    assert_eq!(m.read(0, 512).len(), 512);
    m.write(0, &content);
    m.write(COPY * BLOCK, &content);
    assert_eq!(m.engine.ledger().duplicates, 8);
    let mut next = m.next(m.medium.clone(), settings());
    assert!(next.read(0, 8 * BLOCK) == content && next.read(COPY * BLOCK, 8 * BLOCK) == content);
    let ledger = next.engine.ledger();
    assert_eq!((ledger.filtered, ledger.new_blocks), (0, 8));
}

/// An LBN means a block that turned out to be damaged, and another block has the same content.
#[test]
fn a_damaged_block_is_not_what_the_lbn_is_to_mean() {
    for mode in MODES {
        let mut m = eight(with_runs_of(4, mode));
        let content = blocks(1, 1);
        m.write(COPY * BLOCK, &content);
        let mut medium = m.close();
        let copies: Vec<usize> = (0..medium.len()).step_by(4096).filter(|&at| medium[at..][..4096] == content).collect();
        let [_, second] = copies[..] else { panic!("{mode:?}: it is stored twice: {copies:?}") };
        // The index has the first one.
        medium[second + 9] ^= 1;
        let mut m = Machine::open(medium, with_runs_of(4, mode));
        let damaged = [0, COPY].into_iter().find(|&lbn| m.fails_to_read(lbn)).expect("one of them is damaged");
        m.wait(200);
        m.write(damaged * BLOCK, &content);
        m.flush();
        assert!(m.read(0, BLOCK) == content && m.read(COPY * BLOCK, BLOCK) == content, "{mode:?}");
    }
}

#[test]
fn a_protected_block_ends_a_run() {
    for mode in MODES {
        let medium = eight(with_runs_of(4, mode)).close();
        let mut superblock = chosen(&medium).expect("a volume");
        superblock.protected = vec![ProtectedRange { first: Lbn(COPY), blocks: 1, is_found: false }];
        let mut m = Machine::over(medium, superblock, with_runs_of(4, mode), Legacy::default());
        m.read(2000 * BLOCK, 512);
        m.wait(200);
        m.write(COPY * BLOCK, &blocks(1, 4));
        assert_eq!((m.engine.ledger().duplicates, m.engine.ledger().new_blocks), (0, 4), "{mode:?}");
    }
}
