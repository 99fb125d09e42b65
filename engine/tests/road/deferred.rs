//! Writes that are deferred: they get a checksum, and their fingerprints, and so their duplicates, out of line.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use crate::out_of_line::{BLOCKS, COPY, SOON_MS, is_sound, reads, write_content};
use crate::replay::{MODES, settings as journaled};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Allowance, Class, Deduplicate, Event, IoFailure, Notice};
use onefold_engine::settings::Settings;
use onefold_engine::units::{Lbn, count};

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
}

fn open(settings: Settings) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.feed(Event::Tick);
    // The work out of line wants to be woken, too.
    m.patience = 10;
    m
}

/// Two copies of the same blocks, of which these were deferred.
fn two_copies(m: &mut Machine, is_deferred: impl Fn(u64, u64) -> bool) {
    for first in [0, COPY] {
        for n in 0..BLOCKS {
            m.defers = is_deferred(first, n);
            write_content(m, first + n, n);
        }
        m.flush();
    }
    m.defers = false;
}

/// Writes until what was unlinked is free: in mode `log` another epoch confirms it.
fn confirm(m: &mut Machine) {
    m.flush();
    write_content(m, 3000, 3000);
    m.flush();
}

#[test]
fn duplicates_that_were_deferred_are_linked_later() {
    // With the filter of short runs nothing goes to a later block, so new content has to be looked up, too.
    for (mode, min_run) in MODES.into_iter().flat_map(|mode| [(mode, 1), (mode, 2)]) {
        let settings = || Settings { min_run, ..settings(mode) };
        // The first copy, the second one, both, and every other block of each.
        let cases: [fn(u64, u64) -> bool; 4] =
            [|first, _| first == 0, |first, _| first == COPY, |_, _| true, |first, n| (first / COPY + n) % 2 == 0];
        for (case, is_deferred) in cases.into_iter().enumerate() {
            let mut m = open(settings());
            two_copies(&mut m, is_deferred);
            let deferred = m.engine.ledger().deferred;
            assert_eq!(deferred, if case == 2 { 2 * BLOCKS } else { BLOCKS });
            assert_eq!(m.engine.ledger().new_blocks, 2 * BLOCKS, "{mode:?}, {case}: nothing was found at once");
            m.pass_ms(SOON_MS);
            assert_eq!(m.engine.linked_out_of_line(), BLOCKS, "{mode:?}, {min_run}, {case}");
            confirm(&mut m);
            let stats = m.engine.stats();
            assert_eq!((stats.shared_blocks, stats.unique_blocks), (BLOCKS, 1), "{mode:?}, {min_run}, {case}: each content has one block");
            is_sound(m, settings());
        }
    }
}

/// Without the work out of line nothing is found, and everything reads back.
#[test]
fn what_is_deferred_is_safe_without_its_fingerprint() {
    for mode in MODES {
        let settings = || settings(mode).with_knobs(|knobs| knobs.out_of_line_reads_per_second = 0);
        let mut m = open(settings());
        two_copies(&mut m, |_, _| true);
        m.pass_ms(SOON_MS);
        assert_eq!(m.engine.linked_out_of_line(), 0);
        is_sound(m, settings());
    }
}

#[test]
fn zeros_are_found_without_a_fingerprint() {
    let mut m = open(settings(CommitMode::Log));
    m.defers = true;
    m.write(0, &[0; 8192]);
    assert_eq!((m.engine.ledger().zeroes, m.engine.ledger().deferred), (2, 0));
}

/// A crash forgets no more than a minute of what was deferred, and a detach nothing.
#[test]
fn what_was_deferred_is_found_in_the_next_life() {
    for mode in MODES {
        let mut m = open(settings(mode).with_knobs(|knobs| knobs.out_of_line_delay_ms = u64::MAX / 1_000_000_000));
        two_copies(&mut m, |_, _| true);
        let mut m = Machine::open(m.close(), settings(mode));
        m.feed(Event::Tick);
        m.patience = 10;
        m.pass_ms(SOON_MS);
        assert_eq!(m.engine.linked_out_of_line(), BLOCKS, "{mode:?}");
        confirm(&mut m);
        is_sound(m, settings(mode));
    }
}

/// Content that has rotted since is named (P6), gets no fingerprint, and the rest does. It is read once.
#[test]
fn rotten_content_gets_no_fingerprint() {
    for mode in MODES {
        let mut reads = Vec::new();
        for rotten in [None, Some(0), Some(7)] {
            let mut m = open(settings(mode));
            two_copies(&mut m, |_, _| true);
            if let Some(rotten) = rotten {
                let at = m.medium.windows(4096).step_by(4096).position(|block| block == pattern(rotten, 4096)).expect("it is stored");
                m.medium[4096 * at + 100] ^= 1;
            }
            m.pass_ms(SOON_MS);
            let is_damage = |notice: &&Notice| matches!(notice, Notice::Damage { .. });
            let damages = u64::from(rotten.is_some());
            assert_eq!(count(m.notices.iter().filter(is_damage).count()), damages, "{mode:?}: {:?}", m.notices);
            assert_eq!(m.engine.linked_out_of_line(), BLOCKS - damages, "{mode:?}");
            reads.push(m.engine.ledger().read[Class::Data as usize].commands);
            let bad = rotten.map_or(0, |n| [n, COPY + n].into_iter().filter(|&lbn| m.fails_to_read(lbn)).count());
            assert_eq!(count(bad), damages, "{mode:?}: the other copy is intact");
        }
        // One more at the most: the blocks that others are mapped to are read in runs, and the damaged one divides a run.
        assert!(reads.iter().all(|commands| *commands <= reads[0] + 1), "{mode:?}: {reads:?}");
    }
}

/// The server is killed when the writes are acknowledged and not durable: the checksum proves their content.
#[test]
fn an_acknowledged_write_that_was_deferred_outlives_its_server() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), journaled(mode));
        m.feed(Event::Tick);
        m.defers = true;
        (0..20).for_each(|n| write_content(&mut m, n, n));
        let mut next = m.next(m.medium.clone(), journaled(mode));
        assert!((0..20).all(|n| reads(&mut next, n, n)), "{mode:?}");
        assert!(!next.flush_fails(), "{mode:?}");
        // Content that the device has lost is not believed.
        let mut medium = m.medium.clone();
        let at = medium.windows(4096).step_by(4096).position(|block| block == pattern(7, 4096)).expect("it is stored");
        medium[4096 * at..4096 * (at + 1)].copy_from_slice(&pattern(99, 4096));
        let mut next = m.next(medium, journaled(mode));
        assert!(next.notices.contains(&Notice::AcknowledgedLost { writes: 1 }), "{mode:?}: {:?}", next.notices);
        assert_eq!(next.read(4096 * 7, 4096), [0; 4096]);
    }
}

/// The work rests, unless somebody asks for it.
#[test]
fn the_work_rests_while_the_machine_cannot_afford_it() {
    for mode in MODES {
        let mut m = open(settings(mode));
        m.feed(Event::Allowance(Allowance { in_line: 0, out_of_line: 0 }));
        assert_eq!(m.engine.selectivity(), 0);
        two_copies(&mut m, |_, _| true);
        m.pass_ms(20 * SOON_MS);
        assert_eq!(m.engine.linked_out_of_line(), 0, "{mode:?}");
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(COPY), end: Lbn(COPY + 10) }));
        m.pass_ms(SOON_MS);
        assert!(m.engine.linked_out_of_line() > 0, "{mode:?}: somebody asked");
        m.feed(Event::Allowance(Allowance::default()));
        m.pass_ms(20 * SOON_MS);
        assert_eq!((m.engine.selectivity(), m.engine.linked_out_of_line()), (100, BLOCKS), "{mode:?}");
    }
}

/// At a tenth of the rate the blocks are read in ten times the time.
#[test]
fn the_rate_is_what_the_machine_can_afford() {
    let time_at = |out_of_line: u8| {
        let settings = settings(CommitMode::Ordered).with_knobs(|knobs| {
            (knobs.out_of_line_reads_per_second, knobs.out_of_line_delay_ms) = (100, 0);
        });
        let mut m = open(settings);
        m.feed(Event::Allowance(Allowance { in_line: 100, out_of_line }));
        two_copies(&mut m, |_, _| true);
        (1..).find(|_| {
            m.pass_ms(100);
            m.engine.linked_out_of_line() == BLOCKS
        })
    };
    let (all, tenth) = (time_at(100).expect("it ends"), time_at(10).expect("it ends"));
    assert!((5 * all..=20 * all).contains(&tenth), "{all} and {tenth} tenths of a second");
}

/// Neighbours are read together.
#[test]
fn blocks_that_were_deferred_are_read_in_runs() {
    let mut m = open(settings(CommitMode::Ordered));
    two_copies(&mut m, |_, _| true);
    let before = m.engine.ledger().read[Class::Data as usize];
    m.pass_ms(SOON_MS);
    let after = m.engine.ledger().read[Class::Data as usize];
    let (blocks, commands) = (after.units - before.units, after.commands - before.commands);
    assert!(blocks >= 2 * BLOCKS && commands <= blocks / 10, "{blocks} blocks by {commands} commands");
}

/// A block that cannot be read is skipped: nobody reads it again and again.
#[test]
fn a_deferred_block_that_cannot_be_read_is_tried_once() {
    let mut m = open(settings(CommitMode::Ordered));
    two_copies(&mut m, |_, _| true);
    m.keeps_reads_of = Some(Class::Data);
    let mut tries = 0;
    for _ in 0..4 * BLOCKS {
        m.pass_ms(SOON_MS);
        let Some(mut read) = m.kept_reads.pop() else { break };
        let Event::Read { result, .. } = &mut read else { panic!("{read:?}") };
        *result = Err(IoFailure);
        m.feed(read);
        tries += 1;
    }
    assert_eq!(tries, 2 * BLOCKS);
    assert_eq!(m.engine.linked_out_of_line(), 0);
}

/// The links of one epoch that the work out of line makes take a quarter of the memory for records at most, so that clients find room.
#[test]
fn the_work_leaves_room_for_the_records_of_clients() {
    const MANY: u64 = 2500;
    // Those of clients would fill fewer epochs, up to half of the memory each.
    for (mode, epochs) in [(CommitMode::Log, 6), (CommitMode::Ordered, 3)] {
        let settings = Settings { memory_bytes: 2 << 20, commit_period_ms: 1000, ..settings(mode) };
        let mut m = open(settings.with_knobs(|knobs| knobs.out_of_line_reads_per_second = 1_000_000));
        m.defers = true;
        for first in [0, 3000] {
            (0..MANY).for_each(|n| write_content(&mut m, first + n, n));
            m.flush();
        }
        m.defers = false;
        let sealed = |m: &Machine| m.engine.ledger().epochs_timer + m.engine.ledger().epochs_pressure;
        let before = sealed(&m);
        m.pass_ms(SOON_MS);
        assert_eq!((m.engine.linked_out_of_line(), sealed(&m) - before), (MANY, epochs), "{mode:?}");
    }
}
