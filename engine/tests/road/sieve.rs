//! The sieve of large volumes: candidates are set aside on free blocks, and one pass over the fingerprint table serves many of them. Here
//! each volume has it.

use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{backwards, blank, pattern};
use crate::out_of_line::{BLOCKS, COPY, SOON_MS, ask, counts, discard, is_sound, on_demand, reads, write_content};
use onefold_engine::format::CommitMode;
use onefold_engine::format::sieve_page::{HEADER_BYTES, MAGIC};
use onefold_engine::interface::{Class, Deduplicate, Event, Notice, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::units::Lbn;

/// The bytes of a volume whose fingerprint table has 164 pages: a pass is for 109 candidates.
const LARGE: u64 = 128 << 20;
/// The bytes of one with 656 pages: candidates of more than a page of the sieve.
const LARGER: u64 = 512 << 20;
const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];

fn sieving(commit_mode: CommitMode) -> Settings {
    on_demand(commit_mode).with_knobs(|knobs| knobs.always_sieves = true)
}

/// The same, and what is skipped is set aside at once.
fn at_once(commit_mode: CommitMode) -> Settings {
    sieving(commit_mode).with_knobs(|knobs| knobs.out_of_line_delay_ms = 0)
}

/// A volume of this size with two copies of the same blocks, of which the index did not find the second one.
fn two_copies(bytes: u64, settings: Settings) -> Machine {
    let mut m = Machine::open(blank(bytes, None), settings);
    m.feed(Event::Tick);
    (0..BLOCKS).for_each(|n| write_content(&mut m, n, n));
    m.flush();
    backwards(BLOCKS).for_each(|n| write_content(&mut m, COPY + n, n));
    m.flush();
    assert!(m.engine.ledger().new_blocks > 2 * BLOCKS - 10, "the index finds few");
    m
}

fn pages_written(m: &Machine) -> usize {
    m.medium.chunks(4096).filter(|block| block.starts_with(&MAGIC)).count()
}

#[test]
fn what_was_set_aside_is_found_and_its_blocks_are_free_again() {
    for mode in MODES {
        let mut m = two_copies(32 << 20, sieving(mode));
        let missed = m.engine.ledger().new_blocks - BLOCKS;
        ask(&mut m, 0, u64::MAX);
        m.flush();
        let found = counts(&m);
        assert_eq!((found.linked, found.aside_lbns, found.aside_blocks, found.candidates), (missed, 0, 0, 0), "{mode:?}: {found:?}");
        write_content(&mut m, 3000, 3000);
        m.flush();
        let stats = m.engine.stats();
        assert_eq!((stats.shared_blocks, stats.unique_blocks), (BLOCKS, 1), "{mode:?}: each content has one block");
        is_sound(m, sieving(mode));
    }
}

#[test]
fn what_was_set_aside_lies_on_free_blocks_and_costs_few_reads() {
    for mode in MODES {
        let mut m = two_copies(LARGE, sieving(mode));
        let (pages, before) = (counts(&m).pages, m.engine.ledger().read[Class::Fingerprints as usize].units);
        assert!(pages > 100, "{pages}");
        ask(&mut m, 0, COPY + BLOCKS);
        m.flush();
        let found = counts(&m);
        assert!(found.linked >= BLOCKS - 10 && found.looked_up >= 2 * BLOCKS - 10, "{mode:?}: {found:?}");
        assert!(pages_written(&m) > 0, "{mode:?}: they lay on free blocks");
        // Pages that were never written are not read.
        let read = m.engine.ledger().read[Class::Fingerprints as usize].units - before;
        assert!(read < 20, "{mode:?}: {read} pages were read");
        is_sound(m, sieving(mode));
    }
}

#[test]
fn candidates_wait_until_a_pass_over_the_table_is_worth_it() {
    for mode in MODES {
        let mut m = two_copies(LARGER, at_once(mode));
        m.pass_ms(20 * SOON_MS);
        let waiting = counts(&m);
        assert_eq!((waiting.linked, waiting.skipped.named.used), (0, 0), "{mode:?}: {waiting:?}");
        assert!(waiting.aside_lbns > BLOCKS && waiting.aside_blocks > 0, "{mode:?}: {waiting:?}");
        let wanted = waiting.pages * 2 / 3;
        (0..wanted).for_each(|n| write_content(&mut m, 5000 + n, 5000 + n));
        m.flush();
        m.pass_ms(20 * SOON_MS);
        let found = counts(&m);
        assert!(found.linked >= BLOCKS - 10 && found.aside_lbns < wanted, "{mode:?}: {found:?}");
        is_sound(m, at_once(mode));
    }
}

/// LBNs that are skipped during a pass are set aside for the next one, and are not compared by this one.
#[test]
fn what_comes_while_a_pass_is_under_way_is_for_the_next_one() {
    for mode in MODES {
        let settings = || sieving(mode).with_knobs(|knobs| (knobs.out_of_line_delay_ms, knobs.skipped_bytes_max) = (0, 4096));
        let mut m = two_copies(LARGE, settings());
        m.keeps_reads_of = Some(Class::Data);
        ask(&mut m, 0, u64::MAX);
        assert!(counts(&m).candidates > 0 && !m.kept_reads.is_empty(), "{mode:?}: a pass is under way");
        (0..BLOCKS).for_each(|n| write_content(&mut m, 5000 + n, n));
        let later = counts(&m);
        assert!(later.aside_lbns > BLOCKS / 2, "{mode:?}: {later:?}");
        m.keeps_reads_of = None;
        while !m.kept_reads.is_empty() {
            let kept = m.kept_reads.remove(0);
            m.feed(kept);
        }
        m.pass_ms(SOON_MS);
        ask(&mut m, 3000, 3001);
        m.flush();
        assert!(counts(&m).linked >= 2 * BLOCKS - 40 && counts(&m).aside_lbns == 0, "{mode:?}: {:?}", counts(&m));
        assert!((0..BLOCKS).all(|n| reads(&mut m, 5000 + n, n)), "{mode:?}");
        is_sound(m, settings());
    }
}

/// Fast writes, of far more than the buffer holds, keep their fingerprints: none has to be looked up by its LBN.
#[test]
fn what_fast_writes_skip_is_set_aside_before_anything_is_durable() {
    for mode in MODES {
        let settings = || sieving(mode).with_knobs(|knobs| knobs.skipped_bytes_max = 1024);
        let mut m = Machine::open(blank(LARGE, None), settings());
        m.feed(Event::Tick);
        (0..BLOCKS).for_each(|n| write_content(&mut m, n, n));
        backwards(BLOCKS).for_each(|n| write_content(&mut m, COPY + n, n));
        let fast = counts(&m);
        let without = [fast.skipped, fast.taken].map(|counts| counts.unnamed.used + counts.lbns_in_ranges);
        assert!(fast.aside_lbns + fast.candidates > BLOCKS && without == [0; 2], "{mode:?}: {fast:?}");
        ask(&mut m, 3000, 3001);
        assert!(counts(&m).linked >= BLOCKS - 10 && counts(&m).asked_lbns == 0, "{mode:?}: {:?}", counts(&m));
        is_sound(m, settings());
    }
}

/// Candidates for more than one pass are compared by as many, and an order waits for all of them.
#[test]
fn more_than_a_pass_is_compared_by_the_next_ones() {
    for mode in MODES {
        let settings = || at_once(mode).with_knobs(|knobs| knobs.skipped_bytes_max = 1024);
        let mut m = Machine::open(blank(LARGE, None), settings());
        m.feed(Event::Tick);
        m.feed(Event::Deduplicate(Deduplicate::Pause));
        (0..BLOCKS).for_each(|n| write_content(&mut m, n, n));
        // The filter has room for 22 pages of candidates.
        (0..22 * 340 + 50 - 2 * BLOCKS).for_each(|n| write_content(&mut m, 5000 + n, 5000 + n));
        backwards(BLOCKS).for_each(|n| write_content(&mut m, COPY + n, n));
        m.flush();
        let missed = m.engine.ledger().new_blocks - (22 * 340 + 50 - BLOCKS);
        let aside = counts(&m);
        assert!(aside.aside_lbns >= 22 * 340 - 50 && pages_written(&m) > 0, "{mode:?}: {aside:?}");
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(3000), end: Lbn(3001) }));
        m.feed(Event::Deduplicate(Deduplicate::Resume));
        m.pass_ms(100 * SOON_MS);
        m.flush();
        let found = counts(&m);
        assert!(found.linked == missed && found.asked_lbns + found.aside_lbns + found.aside_blocks == 0, "{mode:?}: {found:?}");
        is_sound(m, settings());
    }
}

/// An order for LBNs without content is over: the next opening does not go on with it.
#[test]
fn an_order_for_nothing_ends() {
    for mode in MODES {
        let mut m = Machine::open(blank(LARGE, None), sieving(mode));
        m.feed(Event::Tick);
        write_content(&mut m, 0, 0);
        m.flush();
        ask(&mut m, 3000, 3001);
        let m = Machine::open(m.close(), sieving(mode));
        assert_eq!(counts(&m).asked_lbns, 0, "{mode:?}");
    }
}

/// Without an order it reads no more than twice what clients write.
#[test]
fn what_an_earlier_opening_left_is_compared_at_the_rate_of_writes() {
    for mode in MODES {
        let medium = two_copies(LARGE, on_demand(mode).with_knobs(|knobs| knobs.skipped_save_ms = 0)).close();
        let mut m = Machine::open(medium, at_once(mode));
        m.feed(Event::Tick);
        m.pass_ms(100 * SOON_MS);
        let waiting = counts(&m);
        assert!(waiting.read_units == 0 && waiting.skipped.lbns_in_ranges + waiting.taken.lbns_in_ranges > 0, "{mode:?}: {waiting:?}");
        (0..BLOCKS).for_each(|n| write_content(&mut m, 5000 + n, 5000 + n));
        m.flush();
        m.pass_ms(100 * SOON_MS);
        assert!((1..=2 * BLOCKS).contains(&counts(&m).read_units), "{mode:?}: {:?}", counts(&m));
        is_sound(m, at_once(mode));
    }
}

#[test]
fn a_later_write_is_never_undone() {
    for mode in MODES {
        let mut m = two_copies(32 << 20, at_once(mode));
        m.pass_ms(SOON_MS);
        for n in 0..BLOCKS {
            match n % 4 {
                0 => write_content(&mut m, COPY + n, 10_000 + n),
                1 => discard(&mut m, COPY + n),
                _ => {}
            }
        }
        m.flush();
        (0..BLOCKS).step_by(8).for_each(|n| write_content(&mut m, COPY + n, 20_000 + n));
        let expected: Vec<_> = (0..BLOCKS).map(|n| m.read(4096 * (COPY + n), 4096)).collect();
        ask(&mut m, 0, u64::MAX);
        m.flush();
        assert!(counts(&m).linked > 0);
        assert!((0..BLOCKS).zip(&expected).all(|(n, expected)| reads(&mut m, n, n) && m.read(4096 * (COPY + n), 4096) == *expected));
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    }
}

/// A kill at each read of a pass: nothing on the medium refers to a page of the sieve.
#[test]
fn a_kill_at_any_step_loses_nothing() {
    for mode in MODES {
        let mut m = two_copies(LARGER, sieving(mode));
        m.keeps_reads_of = Some(Class::Data);
        ask(&mut m, 0, u64::MAX);
        let mut kills = 0;
        while !m.kept_reads.is_empty() {
            let kept = m.kept_reads.remove(0);
            m.feed(kept);
            m.pass_ms(SOON_MS);
            kills += 1;
            if kills % 4 == 0 {
                is_sound(Machine::open(m.medium.clone(), sieving(mode)), sieving(mode));
            }
        }
        m.keeps_reads_of = None;
        assert!(kills >= 8 && counts(&m).linked >= BLOCKS - 10, "{mode:?}: {kills}, {:?}", counts(&m));
        is_sound(m, sieving(mode));
    }
}

/// Pages that have rotted, or that are of another time, are as good as none.
#[test]
fn pages_that_cannot_be_read_cost_duplicates_and_nothing_else() {
    for mode in MODES {
        for rot in [of_another_time, with_other_entries, with_lbns_that_are_not_there] {
            let mut m = two_copies(LARGER, at_once(mode));
            m.pass_ms(SOON_MS);
            m.medium.chunks_mut(4096).filter(|block| block.starts_with(&MAGIC)).for_each(rot);
            ask(&mut m, 3000, 3001);
            assert!(counts(&m).linked < BLOCKS / 2, "{mode:?}: {:?}", counts(&m));
            assert!(!m.notices.iter().any(|notice| matches!(notice, Notice::Damage { .. })), "{mode:?}: {:?}", m.notices);
            is_sound(m, at_once(mode));
        }
    }
}

fn of_another_time(page: &mut [u8]) {
    page[MAGIC.len()] ^= 0xff;
}

fn with_other_entries(page: &mut [u8]) {
    page[HEADER_BYTES..].iter_mut().for_each(|byte| *byte ^= 0xff);
}

/// The tags are right.
fn with_lbns_that_are_not_there(page: &mut [u8]) {
    for candidate in page[HEADER_BYTES..].chunks_exact_mut(12) {
        let lbn: &mut [u8; 8] = candidate.first_chunk_mut().expect("it has eight bytes and more");
        let bits = u64::BITS - (LARGER / 4096).leading_zeros() - 1;
        *lbn = (u64::from_le_bytes(*lbn) | ((1 << bits) - 2)).to_le_bytes();
    }
}

/// A full volume gets the blocks back, and what lay on them is looked for all the same.
#[test]
fn a_full_volume_gets_the_blocks_back() {
    for mode in MODES {
        let settings = || Settings { full_wait_ms: 0, ..at_once(mode) };
        let mut m = Machine::open(blank(32 << 20, Some(40_000)), settings());
        m.feed(Event::Tick);
        (0..2 * BLOCKS).for_each(|n| write_content(&mut m, 7 * n, n % BLOCKS));
        m.flush();
        m.pass_ms(SOON_MS);
        let mut most = 0;
        for n in 0.. {
            most = most.max(counts(&m).aside_blocks);
            let is_full = fails(&m.request_write(4096 * (10_000 + n), &pattern(5000 + n, 4096)));
            m.pass_ms(1);
            if is_full {
                break;
            }
        }
        assert!(most > 0 && counts(&m).aside_blocks == 0, "{mode:?}: {most}, {:?}", counts(&m));
        m.pass_ms(100 * SOON_MS);
        assert!(counts(&m).linked > 0, "{mode:?}: {:?}", counts(&m));
        assert!((0..2 * BLOCKS).all(|n| reads(&mut m, 7 * n, n % BLOCKS)), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    }
}

/// No block is given to anybody else while a page of the sieve is being written to it (R7).
#[test]
fn a_full_volume_waits_for_the_writes_of_pages() {
    for mode in MODES {
        let settings = || Settings { full_wait_ms: 0, ..at_once(mode).with_knobs(|knobs| knobs.skipped_bytes_max = 1024) };
        let mut m = Machine::open(blank(LARGE, Some(100_000)), settings());
        m.feed(Event::Tick);
        m.feed(Event::Deduplicate(Deduplicate::Pause));
        m.keeps_sieve_pages = true;
        (0..3 * BLOCKS).for_each(|n| write_content(&mut m, 7 * n, n % BLOCKS));
        m.flush();
        assert!(!m.kept_writes.is_empty(), "{mode:?}: a page is being written, {:?}", counts(&m));
        m.keeps_sieve_pages = false;
        let at: Vec<usize> = (0..m.medium.len() / 4096).filter(|&n| m.medium[4096 * n..].starts_with(&MAGIC)).collect();
        assert!(at.len() >= m.kept_writes.len());
        let is_full = (0..90_000).any(|n| fails(&m.request_write(4096 * (10_000 + n), &pattern(5000 + n, 4096))));
        m.pass_ms(1);
        assert!(is_full && counts(&m).aside_blocks > 0, "{mode:?}: {:?}", counts(&m));
        assert!(at.iter().all(|&n| m.medium[4096 * n..].starts_with(&MAGIC)), "{mode:?}: something else was written there");
        for written in std::mem::take(&mut m.kept_writes) {
            m.feed(written);
        }
        m.pass_ms(1);
        assert_eq!(counts(&m).aside_blocks, 0, "{mode:?}");
        assert!((0..3 * BLOCKS).all(|n| reads(&mut m, 7 * n, n % BLOCKS)), "{mode:?}");
    }
}

/// Also where the work is paused, and what was set aside is gathered again when it goes on.
#[test]
fn a_full_volume_gets_the_blocks_back_from_work_that_is_paused() {
    for mode in MODES {
        let settings = || Settings { full_wait_ms: 0, ..at_once(mode) };
        let mut m = Machine::open(blank(LARGE, Some(100_000)), settings());
        m.feed(Event::Tick);
        (0..40).for_each(|n| write_content(&mut m, 7 * n, n % 20));
        // Zeros are no candidates, and let it read.
        (0..100).for_each(|n| m.write(4096 * (1000 + n), &[0; 4096]));
        m.flush();
        m.pass_ms(SOON_MS);
        let aside = counts(&m);
        assert!(aside.aside_blocks > 0 && aside.aside_lbns > 20 && aside.linked == 0, "{mode:?}: {aside:?}");
        m.feed(Event::Deduplicate(Deduplicate::Pause));
        let is_full = (0..100_000 - 10_000).any(|n| fails(&m.request_write(4096 * (10_000 + n), &pattern(5000 + n, 4096))));
        m.pass_ms(1);
        assert!(is_full && counts(&m).aside_blocks == 0, "{mode:?}: {:?}", counts(&m));
        m.feed(Event::Deduplicate(Deduplicate::Resume));
        m.pass_ms(100 * SOON_MS);
        assert!(counts(&m).linked >= 19, "{mode:?}: {:?}", counts(&m));
        assert!((0..40).all(|n| reads(&mut m, 7 * n, n % 20)), "{mode:?}");
    }
}

fn fails(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed(_))
}
