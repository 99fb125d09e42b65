//! Damage stays known: a block that was found damaged is never linked to again, by no server and no work, and its content heals wherever
//! it is written anew.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Deduplicate, Event, IoFailure, Notice, Op, Reply, ScrubOrder};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::units::{Lbn, index};

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const LONG_MS: u64 = 3_600_000;
/// Blocks of each kind: those that do not compress, and those that do, which mode `log` puts into slots.
const BLOCKS: u64 = 24;

fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, compression: Compression::All, ..Settings::default() }
}

fn content(n: u64) -> Vec<u8> {
    if n < BLOCKS { pattern(n, 4096) } else { soft(n, 1) }
}

fn served(medium: Vec<u8>, settings: Settings) -> Machine {
    let mut m = Machine::open(medium, settings);
    m.feed(Event::Tick);
    m.pass_ms(10_000);
    m
}

/// A volume with content of both kinds, which was closed and is open again.
fn used(settings: Settings) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings.clone());
    (0..2 * BLOCKS).for_each(|n| m.write(4096 * n, &content(n)));
    m.flush();
    served(m.close(), settings)
}

/// Lets one bit of a content rot, where it lies as it was written or, in a slot, with its beginning. Returns the place of that bit's byte.
fn rot(m: &mut Machine, n: u64) -> usize {
    let from = index(m.engine.geometry().block_at(onefold_engine::units::Pbn(0)).0);
    let noise = &content(n)[..600];
    let found = m.medium[from..].windows(600).position(|bytes| bytes == noise);
    let at = from + found.expect("it lies somewhere");
    m.medium[at + 100] ^= 1;
    at + 100
}

fn lost(m: &mut Machine) -> Vec<u64> {
    (0..2 * BLOCKS).filter(|&n| m.fails_to_read(n)).collect()
}

fn is_damage(notice: &Notice) -> bool {
    matches!(notice, Notice::Damage { .. })
}

/// The end of a life.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Killed,
}

/// The server after this one.
fn next(m: Machine, end: End, settings: Settings) -> Machine {
    let medium = match end {
        End::Closed => m.close(),
        End::Killed => m.medium,
    };
    served(medium, settings)
}

/// All finds of damage, each in both modes, for content of both kinds, before a close and before a kill.
fn each_case(find: fn(&mut Machine, u64)) {
    for mode in MODES {
        for n in [3, BLOCKS + 3] {
            for end in [End::Closed, End::Killed] {
                let case = format!("{mode:?}, block {n}, {end:?}");
                let mut m = used(settings(mode));
                rot(&mut m, n);
                find(&mut m, n);
                let mut m = next(m, end, settings(mode));
                let lost = lost(&mut served(m.medium.clone(), settings(mode)));
                assert!(lost.contains(&n), "{case}: it stays damaged until it is written");
                // What is lost is written in its place, and in another one. Then it is there at once.
                for n in lost {
                    m.write(4096 * n, &content(n));
                    m.write(4096 * (500 + n), &content(n));
                    assert!(m.read(4096 * n, 4096) == content(n) && m.read(4096 * (500 + n), 4096) == content(n), "{case}: {n}");
                }
                // Other slots of a damaged carrier are right, but as long as something maps to them the carrier counts as damaged.
                (0..2 * BLOCKS).for_each(|n| m.write(4096 * n, &content(n)));
                m.flush();
                heals(m, &case, settings(mode));
            }
        }
    }
}

/// The content that was written anew is right at once, after a kill and after a close, and the check finds nothing.
fn heals(mut m: Machine, case: &str, settings: Settings) {
    for end in [End::Killed, End::Closed] {
        assert!((0..2 * BLOCKS).all(|n| m.read(4096 * n, 4096) == content(n)), "{case}, before it is {end:?}");
        m = next(m, end, settings.clone());
    }
    m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 1 << 24 }));
    m.pass_ms(LONG_MS);
    assert_eq!(m.engine.stats().scrub.damaged, 0, "{case}: a scrub of what was healed");
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{case}: {:?}", findings(&medium));
}

#[test]
fn what_a_read_found_damaged_heals_under_every_later_server() {
    each_case(|m, n| assert!(m.fails_to_read(n)));
}

#[test]
fn what_a_scrub_found_damaged_heals_under_every_later_server() {
    each_case(|m, _| {
        m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 1 << 24 }));
        m.pass_ms(LONG_MS);
        assert_eq!(m.engine.stats().scrub.damaged, 1);
    });
}

#[test]
fn what_a_write_of_a_part_found_damaged_heals_under_every_later_server() {
    each_case(|m, n| assert!(matches!(m.request_write(4096 * n + 512, &[7; 512]), Reply::Failed(_))));
}

/// Nobody has to ask for a flush: a client that has seen the failure can rely on that.
#[test]
fn a_read_fails_only_when_it_is_durable_that_its_block_is_damaged() {
    for mode in MODES {
        let mut m = used(settings(mode));
        rot(&mut m, 3);
        m.keeps_flushes = true;
        let (failing, other) = (m.begin(Op::Read, 4096 * 3, 4096, None, false), m.begin(Op::Read, 4096 * 4, 4096, None, false));
        assert!(m.is_answered(other) && !m.is_answered(failing), "{mode:?}");
        m.feed(Event::Close);
        assert!(!m.is_answered(failing) && m.closed.is_none(), "{mode:?}: the close waits for it");
        m.keeps_flushes = false;
        std::mem::take(&mut m.flushed).into_iter().for_each(|flushed| m.feed(flushed));
        assert!(matches!(m.answer(failing), Reply::Failed(_)), "{mode:?}");
        assert!(m.ends(), "{mode:?}");
        let mut m = served(m.medium.clone(), settings(mode));
        m.write(4096 * 3, &content(3));
        m.flush();
        assert!(m.read(4096 * 3, 4096) == content(3), "{mode:?}");
    }
}

/// A device that fails altogether keeps nobody waiting.
#[test]
fn a_read_of_a_damaged_block_fails_when_the_device_does() {
    for mode in MODES {
        let mut m = used(settings(mode));
        rot(&mut m, 3);
        m.flushes_fail = true;
        assert!(m.fails_to_read(3), "{mode:?}");
        assert!(m.fails_to_read(3) && m.read(4096 * 4, 4096) == content(4), "{mode:?}: it goes on reading");
    }
}

#[test]
fn a_volume_that_is_only_read_fails_at_once() {
    for mode in MODES {
        let mut m = used(settings(mode));
        rot(&mut m, 3);
        let mut m = served(m.close(), Settings { read_only: true, ..settings(mode) });
        assert!(m.fails_to_read(3) && m.fails_to_read(3), "{mode:?}");
        assert!(m.written.is_empty() && m.ends(), "{mode:?}");
    }
}

/// A block that the device cannot read is as bad as one that is wrong, and its neighbours are not: a failed read of many is read again one
/// by one.
#[test]
fn a_block_that_cannot_be_read_heals_under_every_later_server() {
    for mode in MODES {
        let mut m = used(settings(mode));
        m.keeps_reads_of = Some(Class::Data);
        let read = m.begin(Op::Read, 0, 4096 * 8, None, false);
        let fails = |event: Event| match event {
            Event::Read { io, buffer, digests, .. } => Event::Read { io, buffer, digests, result: Err(IoFailure) },
            other => other,
        };
        let all = std::mem::take(&mut m.kept_reads);
        assert_eq!(all.len(), 1, "{mode:?}: neighbours are read together");
        all.into_iter().for_each(|event| m.feed(fails(event)));
        let one_by_one = std::mem::take(&mut m.kept_reads);
        assert_eq!(one_by_one.len(), 8, "{mode:?}");
        for (n, event) in one_by_one.into_iter().enumerate() {
            m.feed(if n == 3 { fails(event) } else { event });
        }
        m.keeps_reads_of = None;
        assert!(matches!(m.answer(read), Reply::Failed(_)), "{mode:?}");
        assert_eq!(m.notices.iter().filter(|notice| is_damage(notice)).count(), 1, "{mode:?}: {:?}", m.notices);
        let mut m = served(m.medium.clone(), settings(mode));
        let stored = m.engine.ledger().new_blocks;
        (0..8).for_each(|n| m.write(4096 * n, &content(n)));
        assert_eq!(m.engine.ledger().new_blocks - stored, 1, "{mode:?}: that one is stored again, and no other");
        m.flush();
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

/// A volume on which content 0 lies twice, and the first copy has rotted. The index has found neither.
fn two_copies(mode: CommitMode, first: &[u8]) -> Machine {
    let without_index = settings(mode).with_knobs(|knobs| {
        (knobs.index_bytes_max, knobs.rebuild_reads_per_second, knobs.out_of_line_reads_per_second) = (0, 0, 0);
    });
    let mut m = Machine::open(blank(32 << 20, None), without_index);
    m.feed(Event::Tick);
    for lbn in [0, 1000] {
        m.write(4096 * lbn, first);
        m.flush();
        // So much other content that the smallest index has forgotten it, and no run leads back.
        (1..90).for_each(|n| m.write(4096 * (lbn + n), &pattern(1000 + 100 * lbn + n, 4096)));
        m.flush();
    }
    assert_eq!(m.engine.ledger().duplicates, 0, "{mode:?}");
    let on_demand = settings(mode).with_knobs(|knobs| {
        (knobs.index_bytes_max, knobs.rebuild_reads_per_second) = (0, 0);
        knobs.out_of_line_delay_ms = u64::MAX / 1_000_000_000;
    });
    served(m.close(), on_demand)
}

/// Nobody has read the copy that has rotted, when the work finds that another LBN has the same content.
#[test]
fn the_work_out_of_line_gives_up_no_copy_for_one_that_has_rotted() {
    for mode in MODES {
        for content in [pattern(0, 4096), soft(0, 1)] {
            for rots in [false, true] {
                let mut m = two_copies(mode, &content);
                if rots {
                    let at = m.medium.windows(600).position(|bytes| bytes == &content[..600]).expect("it is there");
                    m.medium[at + 100] ^= 1;
                }
                m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(u64::MAX) }));
                m.pass_ms(LONG_MS);
                assert_eq!(m.engine.stats().out_of_line.linked, u64::from(!rots), "{mode:?}, {rots}");
                assert_eq!(m.notices.iter().any(is_damage), rots, "{mode:?}: {:?}", m.notices);
                m.flush();
                assert!(m.read(4096 * 1000, 4096) == content, "{mode:?}, {rots}: the good copy stays");
                assert_eq!(m.fails_to_read(0), rots, "{mode:?}");
                // It is known from then on.
                let mut m = served(m.close(), settings(mode));
                m.write(0, &content);
                m.flush();
                assert!(m.read(0, 4096) == content && m.read(4096 * 1000, 4096) == content, "{mode:?}, {rots}");
                let medium = m.close();
                assert!(findings(&medium).is_empty(), "{mode:?}, {rots}: {:?}", findings(&medium));
            }
        }
    }
}

/// The content in memory says nothing of the device.
#[test]
fn the_work_out_of_line_reads_a_block_that_is_in_the_cache() {
    for mode in MODES {
        let content = soft(0, 1);
        let mut m = two_copies(mode, &content);
        assert!(m.read(0, 4096) == content);
        let at = m.medium.windows(600).position(|bytes| bytes == &content[..600]).expect("it is there");
        m.medium[at + 100] ^= 1;
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(u64::MAX) }));
        m.pass_ms(LONG_MS);
        assert_eq!(m.engine.stats().out_of_line.linked, 0, "{mode:?}");
    }
}

/// With `verify_duplicates`, content that the LBN is said to mean already is compared, too.
#[test]
fn an_unchanged_block_is_compared_where_duplicates_are() {
    for mode in MODES {
        for min_run in [1, 3] {
            for n in [3, BLOCKS + 3] {
                let compares = Settings { verify_duplicates: true, min_run, ..settings(mode) };
                let mut m = used(compares.clone());
                rot(&mut m, n);
                // The page of the map is in memory, so it is known what the LBN means.
                m.read(0, 4096);
                m.write(4096 * n, &content(n));
                m.flush();
                assert!(m.read(4096 * n, 4096) == content(n), "{mode:?}, {min_run}, block {n}");
                assert!(m.notices.iter().any(is_damage), "{mode:?}, {min_run}, block {n}: it is reported");
            }
        }
    }
}

/// A block that was found damaged is an ordinary one once it has other content.
#[test]
fn a_suspect_that_is_stored_anew_is_found_as_a_duplicate() {
    for mode in MODES {
        let mut m = used(settings(mode));
        let at = rot(&mut m, 3) / 4096 * 4096;
        let rotten = m.medium[at..at + 4096].to_vec();
        assert!(m.fails_to_read(3), "{mode:?}");
        m.request(Op::Discard, 0, 4096 * 2 * BLOCKS, None, false);
        m.flush();
        let blocks = m.engine.geometry().logical_blocks;
        // The volume is filled and overwritten until the block is used again.
        let mut round = 0;
        while m.medium[at..at + 4096] == rotten {
            round += 1;
            assert!(round < 8, "{mode:?}: the block is never used again");
            (0..blocks).for_each(|n| m.write(4096 * n, &pattern(round * blocks + n, 4096)));
            m.flush();
        }
        let stored = m.engine.ledger().new_blocks;
        (0..blocks).for_each(|n| m.write(4096 * n, &pattern(round * blocks + n, 4096)));
        assert_eq!(m.engine.ledger().new_blocks, stored, "{mode:?}");
        m.flush();
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}
