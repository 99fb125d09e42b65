//! Volumes whose counters come to their end: they are read forever, and written no more.

use super::machine::Machine;
use super::media::{blank, pattern};
use onefold_engine::format::{CommitMode, Superblock, pair_of};
use onefold_engine::interface::{Failure, Notice, Op, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Epoch, index};

const STOP: u64 = onefold_engine::format::COUNTER_STOP;
const MAX: u64 = onefold_engine::format::COUNTER_MAX;

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
}

pub fn changed(medium: &mut [u8], change: impl Fn(&mut Superblock)) {
    let places = onefold_engine::format::copies(Bytes(medium.len() as u64));
    for copy in 0..4 {
        let page: &mut [u8; BLOCK_SIZE] = (&mut medium[index(places[copy].0)..][..BLOCK_SIZE]).try_into().expect("a page");
        let mut superblock = Superblock::decode(page, copy).expect("a superblock");
        change(&mut superblock);
        superblock.encode(copy, page);
    }
}

/// A closed volume with something on it, its superblocks changed.
fn volume(mode: CommitMode, change: impl Fn(&mut Superblock)) -> Vec<u8> {
    let mut m = Machine::open(blank(16 << 20, None), settings(mode));
    m.write(0, &pattern(1, 8192));
    m.flush();
    let mut medium = m.close();
    changed(&mut medium, change);
    medium
}

/// Writes and flushes until a write is refused. Returns the number of writes that were not.
fn written_until_refused(m: &mut Machine) -> u64 {
    for n in 0..20 {
        let id = m.begin_write((4 + n) * 4096, &pattern(100 + n, 4096));
        match m.answer(id) {
            Reply::Done => m.flush(),
            Reply::Failed(Failure::ReadOnly) => return n,
            other => panic!("{other:?}"),
        }
    }
    panic!("20 epochs were committed");
}

fn is_refused(m: &mut Machine) -> bool {
    let id = m.begin_write(4096, &pattern(9, 4096));
    let refused = |reply: Reply| matches!(reply, Reply::Failed(Failure::ReadOnly));
    refused(m.answer(id))
        && refused(m.request(Op::Discard, 0, 4096, None, false))
        && refused(m.request(Op::WriteZeroes, 0, 4096, None, true))
}

fn reports_it(m: &Machine) -> bool {
    m.notices.iter().filter(|notice| **notice == Notice::CountersUsedUp).count() == 1
}

/// Asserts that a volume with a counter at its end serves what was written, refuses more, and leaves the medium alone.
fn is_read_only(medium: Vec<u8>, mode: CommitMode, blocks: u64) {
    let mut m = Machine::open(medium.clone(), settings(mode));
    assert_eq!(m.read(0, 8192), pattern(1, 8192));
    (0..blocks).for_each(|n| assert_eq!(m.read((4 + n) * 4096, 4096), pattern(100 + n, 4096)));
    assert!(is_refused(&mut m) && reports_it(&m), "{:?}", m.notices);
    m.flush();
    assert!(m.close() == medium, "nothing was written");
}

type Change = fn(&mut Superblock, u64);
/// Each counter, and whether it goes on while a volume serves.
const COUNTERS: [(Change, bool); 4] = [
    (|s, n| s.last_epoch = Epoch(n), true),
    (|s, n| s.generation = n + u64::from(pair_of(n) != pair_of(s.generation)), false),
    (|s, n| s.incarnation = n, false),
    (|s, n| s.mount_count = n, false),
];

#[test]
fn a_volume_with_a_counter_at_its_end_is_read_and_not_written() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        for (change, _) in COUNTERS {
            for value in [STOP, MAX - 1] {
                is_read_only(volume(mode, |s| change(s, value)), mode, 0);
            }
        }
        is_read_only(volume(mode, |s| s.last_log_sequence = MAX), mode, 0);
    }
}

#[test]
fn epochs_come_to_their_end_while_the_volume_serves() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut m = Machine::open(volume(mode, |s| s.last_epoch = Epoch(STOP - 4)), settings(mode));
        let blocks = written_until_refused(&mut m);
        assert_eq!(blocks, 4, "up to the stop itself");
        assert!(reports_it(&m) && is_refused(&mut m));
        (0..blocks).for_each(|n| assert_eq!(m.read((4 + n) * 4096, 4096), pattern(100 + n, 4096)));
        m.flush();
        is_read_only(m.close(), mode, blocks);
    }
}

#[test]
fn sequences_of_the_log_come_to_their_end_while_the_volume_serves() {
    let set = |s: &mut Superblock| {
        let log_tail = s.log_tail.as_mut().expect("mode log left one");
        (s.last_log_sequence, log_tail.sequence, log_tail.flushed_upto) = (STOP - 4, STOP - 3, STOP - 4);
    };
    let mut m = Machine::open(volume(CommitMode::Log, set), settings(CommitMode::Log));
    let blocks = written_until_refused(&mut m);
    assert_eq!(blocks, 5, "up to the stop itself");
    assert!(reports_it(&m) && is_refused(&mut m));
    is_read_only(m.close(), CommitMode::Log, blocks);
}

#[test]
fn openings_come_to_their_end() {
    for mode in [CommitMode::Ordered, CommitMode::Log] {
        for (change, _) in COUNTERS {
            let mut m = Machine::open(volume(mode, |s| change(s, STOP - 1)), settings(mode));
            let blocks = written_until_refused(&mut m);
            assert!(blocks <= 1, "{blocks}");
            is_read_only(m.close(), mode, blocks);
        }
    }
}

/// The log was never closed, and its units have the last numbers that there are.
#[test]
fn a_live_log_at_the_end_of_the_epochs_is_read_and_not_written() {
    let mut m = Machine::open(volume(CommitMode::Log, |s| s.last_epoch = Epoch(STOP - 3)), settings(CommitMode::Log));
    assert_eq!(written_until_refused(&mut m), 3);
    // The volume was not closed: the superblock does not have the last epochs, the units do.
    is_read_only(m.medium, CommitMode::Log, 3);
}

#[test]
fn lifetime_sums_stay_at_the_highest_there_is() {
    let medium = volume(CommitMode::Log, |s| {
        s.lifetime.classes.iter_mut().for_each(|class| (class.units, class.bytes, class.commands) = (u64::MAX, u64::MAX - 1, u64::MAX));
        (s.lifetime.client_write_units, s.lifetime.device_flushes) = (u64::MAX, u64::MAX);
    });
    let mut m = Machine::open(medium, settings(CommitMode::Log));
    m.write(0, &pattern(2, 8192));
    m.flush();
    let medium = m.close();
    let page: &[u8; BLOCK_SIZE] = medium[..BLOCK_SIZE].try_into().expect("a page");
    let lifetime = Superblock::decode(page, 0).expect("a superblock").lifetime;
    assert!(lifetime.classes.iter().all(|class| class.units == u64::MAX && class.commands == u64::MAX), "{lifetime:?}");
    assert_eq!((lifetime.client_write_units, lifetime.device_flushes), (u64::MAX, u64::MAX));
}
