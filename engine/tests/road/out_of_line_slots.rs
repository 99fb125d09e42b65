//! Work out of line on content that lies compressed in slots: it is found there, and nothing but the carriers that may have it is read.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Deduplicate, Event, Op};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::stats::OutOfLineCounts;
use onefold_engine::units::Lbn;

/// The blocks of each copy; where the second one begins, and where it ends.
const BLOCKS: u64 = 120;
const COPY: u64 = 1000;
const COPY_END: u64 = COPY + 9 * BLOCKS;
const SOON_MS: u64 = 60_000;

/// The smallest index. The work begins when it is asked for.
fn on_demand(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }.with_knobs(|knobs| {
        (knobs.index_bytes_max, knobs.rebuild_reads_per_second) = (0, 0);
        knobs.out_of_line_delay_ms = u64::MAX / 1_000_000_000;
    })
}

/// The same, and nothing is noted for it.
fn without_work() -> Settings {
    on_demand(CommitMode::Log).with_knobs(|knobs| knobs.out_of_line_reads_per_second = 0)
}

/// The LBN that gets a block in the second copy: so far from the others that no run of duplicates leads there.
fn copy_of(n: u64) -> u64 {
    COPY + 9 * n
}

/// Writes a copy, of which this number of blocks at a time is synced and shares a carrier.
fn write_copy(m: &mut Machine, place: impl Fn(u64) -> u64, at_a_time: u64) {
    for n in 0..BLOCKS {
        m.write(4096 * place(n), &soft(n, 1));
        if n % at_a_time == at_a_time - 1 {
            m.flush();
        }
    }
    m.flush();
}

/// A volume with two copies in carriers of three slots and of two.
fn two_copies(settings: Settings) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.feed(Event::Tick);
    write_copy(&mut m, |n| n, 3);
    write_copy(&mut m, copy_of, 2);
    assert!(missed(&m) > BLOCKS - 10, "the index finds few");
    assert_eq!(m.engine.stats().carriers, Some(BLOCKS / 3 + BLOCKS / 2));
    m
}

/// The number of duplicates that the index did not find.
fn missed(m: &Machine) -> u64 {
    m.engine.ledger().new_blocks - BLOCKS
}

fn counts(m: &Machine) -> OutOfLineCounts {
    m.engine.stats().out_of_line
}

fn ask(m: &mut Machine, first: u64, end: u64) {
    m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(first), end: Lbn(end) }));
    m.pass_ms(SOON_MS);
}

/// The number of clients' blocks that were read.
fn blocks_read(m: &Machine) -> u64 {
    m.engine.ledger().read[Class::Data as usize].units
}

fn is_right(m: &mut Machine, n: u64) -> bool {
    m.read(4096 * n, 4096) == soft(n, 1) && m.read(4096 * copy_of(n), 4096) == soft(n, 1)
}

fn is_sound(mut m: Machine, mode: CommitMode) {
    assert!((0..BLOCKS).all(|n| is_right(&mut m, n)));
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    let mut m = Machine::open(medium, on_demand(mode));
    assert!((0..BLOCKS).all(|n| is_right(&mut m, n)));
}

#[test]
fn content_in_slots_is_found_in_other_carriers() {
    for mode in [CommitMode::Log, CommitMode::Ordered] {
        let m = two_copies(without_work());
        let missed = missed(&m);
        let mut m = Machine::open(m.close(), on_demand(mode));
        ask(&mut m, 0, u64::MAX);
        m.flush();
        m.pass_ms(SOON_MS);
        m.write(4096 * 3000, &pattern(3000, 4096));
        m.flush();
        let stats = m.engine.stats();
        assert_eq!((counts(&m).linked, counts(&m).looked_up), (missed, 2 * BLOCKS), "{mode:?}");
        // A carrier of the second copy may have come before one of the first.
        assert!((BLOCKS / 3..BLOCKS / 3 + 4).contains(&stats.shared_blocks), "{mode:?}: {stats:?}");
        assert_eq!(stats.shared_blocks + stats.kept_blocks, BLOCKS / 3 + BLOCKS / 2, "{mode:?}");
        is_sound(m, mode);
    }
}

/// Nothing is linked to a carrier that only its fingerprints keep, so each of its candidates stays open. To compare all of them would need
/// more carriers at once than are remembered.
#[test]
fn content_that_nothing_means_any_more_holds_up_none_of_its_copies() {
    const COPIES: u64 = 8;
    let place = |n: u64, copy: u64| copy_of(n) + copy;
    for mode in [CommitMode::Log, CommitMode::Ordered] {
        let mut m = Machine::open(blank(64 << 20, None), without_work());
        m.feed(Event::Tick);
        write_copy(&mut m, |n| n, 3);
        m.request(Op::Discard, 0, 4096 * BLOCKS, None, false);
        m.flush();
        (0..COPIES).for_each(|copy| write_copy(&mut m, |n| place(n, copy), 2));
        assert!(m.engine.stats().kept_blocks > BLOCKS / 6, "{:?}", m.engine.stats());
        let mut m = Machine::open(m.close(), on_demand(mode));
        ask(&mut m, 0, u64::MAX);
        m.flush();
        m.pass_ms(SOON_MS);
        let counts = counts(&m);
        assert_eq!((counts.asked_lbns, counts.candidates), (0, 0), "{mode:?}: {counts:?}");
        assert!(counts.linked > (COPIES - 2) * BLOCKS, "{mode:?}: {counts:?}");
        for copy in 0..COPIES {
            assert!((0..BLOCKS).all(|n| m.read(4096 * place(n, copy), 4096) == soft(n, 1)), "{mode:?}, copy {copy}");
        }
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{mode:?}: {:?}", findings(&medium));
    }
}

#[test]
fn content_in_slots_and_in_whole_blocks_is_found_both_ways() {
    for whole_first in [false, true] {
        let plain = || Settings { compression: Compression::Off, ..on_demand(CommitMode::Log) };
        let settings = |is_first| if is_first == whole_first { plain() } else { on_demand(CommitMode::Log) };
        let mut m = Machine::open(blank(32 << 20, None), settings(true));
        write_copy(&mut m, |n| n, 3);
        let mut m = Machine::open(m.close(), settings(false));
        write_copy(&mut m, copy_of, 3);
        assert!(m.engine.ledger().new_blocks > BLOCKS / 4);
        ask(&mut m, 0, u64::MAX);
        m.flush();
        assert_eq!(counts(&m).linked, m.engine.ledger().new_blocks, "whole blocks first: {whole_first}");
        m.pass_ms(SOON_MS);
        is_sound(m, CommitMode::Log);
    }
}

/// Written content has its fingerprint in the skipped buffer, so nothing has to be read before the sweep.
#[test]
fn what_was_just_skipped_is_found_in_slots() {
    let mut m = two_copies(on_demand(CommitMode::Log));
    ask(&mut m, 5000, 5001);
    m.flush();
    assert!(counts(&m).linked > BLOCKS - 10, "{:?}", counts(&m));
    is_sound(m, CommitMode::Log);
}

#[test]
fn carriers_without_content_that_is_looked_for_are_not_read() {
    let mut m = Machine::open(two_copies(without_work()).close(), on_demand(CommitMode::Log));
    m.write(4096 * 3000, &pattern(3000, 4096 * 20));
    m.flush();
    let before = blocks_read(&m);
    ask(&mut m, 3000, 3020);
    assert_eq!((counts(&m).looked_up, blocks_read(&m) - before), (20, 0));
    // Three blocks of one carrier, which is read, and the two of the other copy that have their content.
    ask(&mut m, 0, 3);
    assert_eq!((counts(&m).looked_up, blocks_read(&m) - before), (23, 1), "what comes first is what is kept");
    ask(&mut m, copy_of(0), copy_of(1) + 1);
    assert_eq!((counts(&m).looked_up, counts(&m).linked, blocks_read(&m) - before), (25, 2, 3));
}

/// Some byte of a carrier has changed, and its table of slots is as it was.
#[test]
fn no_lbn_is_mapped_to_a_slot_of_a_damaged_carrier() {
    let mut medium = two_copies(without_work()).close();
    let noise = &soft(7, 1)[100..116];
    let at = medium.windows(16).position(|bytes| bytes == noise).expect("it is stored");
    medium[at] ^= 1;
    let mut m = Machine::open(medium, on_demand(CommitMode::Log));
    ask(&mut m, COPY, COPY_END);
    m.flush();
    assert!((BLOCKS - 15..BLOCKS - 3).contains(&counts(&m).linked), "the carrier of 6, 7 and 8: {:?}", counts(&m));
    assert!((0..BLOCKS).all(|n| m.read(4096 * copy_of(n), 4096) == soft(n, 1)));
}

/// The work waits for carriers, and clients write meanwhile.
#[test]
fn a_write_while_a_carrier_is_read_is_never_undone() {
    let mut m = Machine::open(two_copies(without_work()).close(), on_demand(CommitMode::Log));
    m.feed(Event::Tick);
    m.keeps_reads_of = Some(Class::Data);
    ask(&mut m, COPY, COPY_END);
    let mut rounds = 0;
    while !m.kept_reads.is_empty() {
        let n = 3 * rounds;
        if n < BLOCKS {
            m.begin_write(4096 * copy_of(n), &soft(5000 + n, 1));
            m.begin_write(4096 * n, &soft(7000 + n, 1));
        }
        rounds += 1;
        let kept = m.kept_reads.remove(0);
        m.feed(kept);
        m.pass_ms(1000);
    }
    m.keeps_reads_of = None;
    m.pass_ms(SOON_MS);
    m.flush();
    assert!(rounds > BLOCKS / 3 && counts(&m).linked > BLOCKS / 2, "{rounds} reads, {:?}", counts(&m));
    let wanted = |base: u64, n: u64| if n % 3 == 0 { soft(base + n, 1) } else { soft(n, 1) };
    let all = |m: &mut Machine| {
        (0..BLOCKS).all(|n| m.read(4096 * copy_of(n), 4096) == wanted(5000, n) && m.read(4096 * n, 4096) == wanted(7000, n))
    };
    assert!(all(&mut m));
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    assert!(all(&mut Machine::open(medium, on_demand(CommitMode::Log))));
}
