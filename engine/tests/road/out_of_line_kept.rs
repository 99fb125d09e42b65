//! The work out of line that is left outlives the server: the superblock has the regions.

use crate::machine::Machine;
use crate::media::{backwards, blank, chosen, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Deduplicate, Event};
use onefold_engine::settings::Settings;
use onefold_engine::stats::OutOfLineCounts;
use onefold_engine::units::Lbn;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const BLOCKS: u64 = 200;
const COPY: u64 = 1000;
const MINUTE_MS: u64 = 60_000;

/// The smallest index. The work begins a second after something was skipped, or when it is asked for.
fn soon(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }
        .with_knobs(|knobs| (knobs.index_bytes_max, knobs.rebuild_reads_per_second, knobs.out_of_line_delay_ms) = (0, 0, 1000))
}

/// The same, but the work begins only when it is asked for.
fn on_demand(commit_mode: CommitMode) -> Settings {
    soon(commit_mode).with_knobs(|knobs| knobs.out_of_line_delay_ms = u64::MAX / 1_000_000_000)
}

/// Two copies of the same blocks, most of which the index did not find. Returns the number of those.
fn two_copies(settings: Settings) -> (Machine, u64) {
    let mut m = served(blank(32 << 20, None), settings);
    (0..BLOCKS).for_each(|n| m.write(4096 * n, &pattern(n, 4096)));
    m.flush();
    backwards(BLOCKS).for_each(|n| m.write(4096 * (COPY + n), &pattern(n, 4096)));
    m.flush();
    let missed = m.engine.ledger().new_blocks - BLOCKS;
    assert!(missed > BLOCKS - 10, "the index finds few");
    (m, missed)
}

fn counts(m: &Machine) -> OutOfLineCounts {
    m.engine.stats().out_of_line
}

/// Opens a volume, and lets it serve.
fn served(medium: Vec<u8>, settings: Settings) -> Machine {
    let mut m = Machine::open(medium, settings);
    m.feed(Event::Tick);
    m
}

/// The number of regions that the medium has.
fn regions(medium: &[u8]) -> usize {
    let regions = chosen(medium).expect("it is a volume").to_compare.regions;
    (0..1024).filter(|&region| regions.has(region)).count()
}

fn is_right(m: &mut Machine) -> bool {
    (0..BLOCKS).all(|n| m.read(4096 * n, 4096) == pattern(n, 4096) && m.read(4096 * (COPY + n), 4096) == pattern(n, 4096))
}

#[test]
fn a_detach_forgets_nothing_that_was_skipped() {
    for mode in MODES {
        let (m, missed) = two_copies(on_demand(mode));
        let medium = m.close();
        assert!(regions(&medium) > 20, "{mode:?}: {}", regions(&medium));
        let mut m = served(medium, soon(mode));
        assert!(counts(&m).skipped.lbns_in_ranges >= BLOCKS, "{mode:?}: {:?}", counts(&m));
        m.pass_ms(20 * MINUTE_MS);
        assert_eq!(counts(&m).linked, missed, "{mode:?}");
        assert!(is_right(&mut m));
        let medium = m.close();
        assert_eq!(regions(&medium), 0, "{mode:?}: all has been compared");
    }
}

/// Links wait for a commit of what clients write. Without one they are durable a minute later.
#[test]
fn links_need_no_commit_of_their_own_where_clients_write() {
    for mode in MODES {
        for writes in [true, false] {
            let (mut m, missed) = two_copies(soon(mode));
            m.pass_ms(2000);
            let epochs = m.engine.ledger().epochs();
            assert_eq!(counts(&m).linked, missed, "{mode:?}");
            m.pass_ms(10_000);
            assert_eq!(m.engine.ledger().epochs(), epochs, "{mode:?}: no commit for them");
            if writes {
                m.write(4096 * 3000, &pattern(3000, 4096));
                m.flush();
            } else {
                m.pass_ms(MINUTE_MS);
            }
            assert_eq!(m.engine.ledger().epochs(), epochs + 1, "{mode:?}");
            let mut m = served(m.medium.clone(), on_demand(mode));
            assert!(is_right(&mut m));
            m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(u64::MAX) }));
            m.pass_ms(MINUTE_MS);
            assert_eq!(counts(&m).linked, 0, "{mode:?}: they were durable");
        }
    }
}

#[test]
fn a_crash_forgets_what_was_skipped_in_the_last_ten_minutes_and_no_more() {
    assert_eq!(Settings::default().knobs.skipped_save_ms, 10 * MINUTE_MS);
    for mode in MODES {
        let (mut m, missed) = two_copies(on_demand(mode));
        m.pass_ms(10 * MINUTE_MS - 2000);
        assert_eq!(regions(&m.medium), 0, "{mode:?}: nothing is written for it yet");
        m.pass_ms(4000);
        let medium = m.medium.clone();
        assert!(regions(&medium) > 20, "{mode:?}: {}", regions(&medium));
        let mut m = served(medium, soon(mode));
        m.pass_ms(20 * MINUTE_MS);
        assert_eq!(counts(&m).linked, missed, "{mode:?}");
        assert!(is_right(&mut m));
    }
}

/// The buffer is empty by then, and the superblock is written for another reason.
#[test]
fn what_is_being_compared_is_kept_until_it_has_been() {
    for mode in MODES {
        let (m, missed) = two_copies(on_demand(mode));
        let mut m = served(m.close(), soon(mode));
        m.keeps_reads_of = Some(Class::Map);
        m.pass_ms(MINUTE_MS / 2);
        let skipped = counts(&m).skipped;
        assert_eq!((skipped.named.used, skipped.lbns_in_ranges, counts(&m).linked), (0, 0, 0), "{mode:?}: {:?}", counts(&m));
        m.feed(Event::Deduplicate(Deduplicate::Resume));
        m.pass_ms(10);
        let mut m = served(m.medium.clone(), soon(mode));
        m.pass_ms(20 * MINUTE_MS);
        assert_eq!(counts(&m).linked, missed, "{mode:?}");
        assert!(is_right(&mut m));
    }
}

#[test]
fn what_the_superblock_has_already_costs_no_further_update() {
    for mode in MODES {
        let (mut m, _) = two_copies(on_demand(mode));
        m.pass_ms(20 * MINUTE_MS);
        let generation = chosen(&m.medium).expect("it is a volume").generation;
        (BLOCKS / 2..BLOCKS).for_each(|n| m.write(4096 * n, &pattern(5000 + n, 4096)));
        m.flush();
        m.pass_ms(20 * MINUTE_MS);
        assert_eq!(chosen(&m.medium).expect("it is a volume").generation, generation, "{mode:?}");
    }
}

#[test]
fn an_order_goes_on_after_a_crash_and_so_does_a_pause() {
    for mode in MODES {
        let (m, _) = two_copies(Settings { ..on_demand(mode) }.with_knobs(|knobs| knobs.out_of_line_reads_per_second = 0));
        let mut m = served(m.close(), on_demand(mode));
        m.keeps_reads = true;
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(COPY), end: Lbn(COPY + BLOCKS) }));
        m.feed(Event::Deduplicate(Deduplicate::Pause));
        m.keeps_reads = false;
        while !m.kept_reads.is_empty() {
            let kept = m.kept_reads.remove(0);
            m.feed(kept);
        }
        m.pass_ms(10);
        assert_eq!(counts(&m).linked, 0);
        let mut m = served(m.medium.clone(), on_demand(mode));
        m.pass_ms(MINUTE_MS);
        assert!(counts(&m).is_paused && counts(&m).asked_lbns >= BLOCKS && counts(&m).linked == 0, "{mode:?}: {:?}", counts(&m));
        m.feed(Event::Deduplicate(Deduplicate::Resume));
        m.pass_ms(MINUTE_MS);
        assert!(!counts(&m).is_paused && counts(&m).asked_lbns == 0, "{mode:?}: {:?}", counts(&m));
        assert!((BLOCKS - 10..=BLOCKS).contains(&counts(&m).linked), "{mode:?}: {:?}", counts(&m));
        assert!(is_right(&mut m));
        assert_eq!(regions(&m.close()), 0, "{mode:?}");
    }
}

/// Such a volume has no work out of line in this life, and may have some in the next one.
#[test]
fn a_life_without_the_work_keeps_what_it_found() {
    for mode in MODES {
        let (m, missed) = two_copies(on_demand(mode));
        let compares = || Settings { verify_duplicates: true, ..soon(mode) };
        let mut m = served(m.close(), compares());
        m.write(4096 * 3000, &pattern(3000, 4096));
        m.pass_ms(2 * MINUTE_MS);
        let mut m = served(m.close(), soon(mode));
        m.pass_ms(20 * MINUTE_MS);
        assert_eq!(counts(&m).linked, missed, "{mode:?}");
        assert!(is_right(&mut m));
    }
}

/// Content that is written before the index is rebuilt may be stored already; the rebuild shows that it is not.
#[test]
fn nothing_is_written_for_what_the_rebuild_clears() {
    for mode in MODES {
        let settings = || Settings { commit_mode: mode, ..Settings::default() };
        let mut m = Machine::open(blank(32 << 20, None), settings());
        (0..BLOCKS).for_each(|n| m.write(4096 * n, &pattern(n, 4096)));
        m.pass_ms(10);
        let generation = chosen(&m.medium).expect("it is a volume").generation;
        m.pass_ms(20 * MINUTE_MS);
        assert_eq!(chosen(&m.medium).expect("it is a volume").generation, generation, "{mode:?}");
    }
}

#[test]
fn an_order_that_was_carried_out_is_not_repeated_after_a_crash() {
    for mode in MODES {
        let (mut m, _) = two_copies(on_demand(mode));
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(u64::MAX) }));
        m.pass_ms(3 * MINUTE_MS);
        let saved = chosen(&m.medium).expect("it is a volume").to_compare;
        assert!(!saved.is_asked && saved.regions.is_empty(), "{mode:?}: {saved:?}");
    }
}
