//! Work out of line: duplicates that a small index did not find are found later, and nothing that clients wrote is lost by it.

use crate::checked::findings;
use crate::counters::changed;
use crate::machine::Machine;
use crate::media::{backwards, blank, pattern};
use onefold_engine::format::{COUNTER_STOP, CommitMode};
use onefold_engine::interface::{Class, Deduplicate, Event, Op, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::stats::OutOfLineCounts;
use onefold_engine::units::{Epoch, Lbn, index};

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
/// The blocks of each copy, and where the second one begins.
pub const BLOCKS: u64 = 200;
pub const COPY: u64 = 1000;
/// The time after which the work begins by itself, with some to spare for what it does.
pub const SOON_MS: u64 = 60_000;

/// The smallest index.
fn small_index(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }.with_knobs(|knobs| knobs.index_bytes_max = 0)
}

/// The same, for a volume whose work out of line begins only when it is asked for.
pub fn on_demand(commit_mode: CommitMode) -> Settings {
    small_index(commit_mode).with_knobs(|knobs| knobs.out_of_line_delay_ms = u64::MAX / 1_000_000_000)
}

pub fn write_content(m: &mut Machine, lbn: u64, content: u64) {
    m.write(4096 * lbn, &pattern(content, 4096));
}

pub fn discard(m: &mut Machine, lbn: u64) {
    m.request(Op::Discard, 4096 * lbn, 4096, None, false);
}

pub fn reads(m: &mut Machine, lbn: u64, content: u64) -> bool {
    m.read(4096 * lbn, 4096) == pattern(content, 4096)
}

/// The same, and nothing is noted for it either.
fn without_work(commit_mode: CommitMode) -> Settings {
    small_index(commit_mode).with_knobs(|knobs| knobs.out_of_line_reads_per_second = 0)
}

/// A volume with two copies of the same blocks, most of which the index did not find.
fn two_copies(settings: Settings) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.feed(Event::Tick);
    (0..BLOCKS).for_each(|n| write_content(&mut m, n, n));
    m.flush();
    backwards(BLOCKS).for_each(|n| write_content(&mut m, COPY + n, n));
    m.flush();
    assert!(m.engine.ledger().new_blocks > 2 * BLOCKS - 10, "the index finds few");
    m
}

pub fn counts(m: &Machine) -> OutOfLineCounts {
    m.engine.stats().out_of_line
}

pub fn ask(m: &mut Machine, first: u64, end: u64) {
    m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(first), end: Lbn(end) }));
    m.pass_ms(SOON_MS);
}

/// Both copies read back, in this life and in the next one, and a check finds nothing.
pub fn is_sound(mut m: Machine, settings: Settings) {
    let copies = |m: &mut Machine| (0..BLOCKS).all(|n| reads(m, n, n) && reads(m, COPY + n, n));
    assert!(copies(&mut m));
    let medium = m.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    assert!(copies(&mut Machine::open(medium, settings)));
}

#[test]
fn duplicates_that_the_index_did_not_find_are_linked_later() {
    for mode in MODES {
        let mut m = two_copies(small_index(mode));
        let missed = m.engine.ledger().new_blocks - BLOCKS;
        assert!(counts(&m).skipped.named.used >= missed);
        m.pass_ms(SOON_MS);
        m.flush();
        assert_eq!((counts(&m).linked, counts(&m).skipped.named.used), (missed, 0), "{mode:?}");
        // In mode `log` another epoch confirms what was unlinked.
        write_content(&mut m, 3000, 3000);
        m.flush();
        let stats = m.engine.stats();
        assert_eq!((stats.shared_blocks, stats.unique_blocks), (BLOCKS, 1), "{mode:?}: each content has one block");
        is_sound(m, small_index(mode));
    }
}

#[test]
fn a_whole_index_leaves_nothing_to_look_for() {
    for mode in MODES {
        let settings = Settings { commit_mode: mode, ..Settings::default() };
        let mut m = Machine::open(blank(32 << 20, None), settings);
        m.feed(Event::Tick);
        (0..BLOCKS).for_each(|n| write_content(&mut m, n, n));
        m.flush();
        assert_eq!(counts(&m).skipped.named.used, 0, "{mode:?}");
        // What is written before the index is rebuilt may be stored already, as the rebuild shows.
        let settings = || Settings { commit_mode: mode, ..Settings::default() };
        let mut m = Machine::open(m.close(), settings());
        write_content(&mut m, COPY, 5000);
        m.pass_ms(1000);
        assert_eq!(counts(&m).skipped.named.used, 0, "{mode:?}");
        let mut m = Machine::open(m.close(), settings());
        write_content(&mut m, COPY, 7);
        m.flush();
        assert_eq!((counts(&m).skipped.named.used, m.engine.ledger().new_blocks), (1, 1), "{mode:?}");
        m.pass_ms(20 * SOON_MS);
        assert_eq!(counts(&m).linked, 1, "{mode:?}");
    }
}

#[test]
fn only_the_range_that_was_asked_for_is_looked_up() {
    for mode in MODES {
        // What was skipped is looked up with it, so nothing is.
        let mut m = Machine::open(two_copies(without_work(mode)).close(), on_demand(mode));
        m.pass_ms(SOON_MS);
        assert_eq!(counts(&m).looked_up, 0);
        ask(&mut m, COPY + 10, COPY + 30);
        assert_eq!((counts(&m).looked_up, counts(&m).linked, counts(&m).asked_lbns), (20, 20, 0), "{mode:?}");
        ask(&mut m, 0, u64::MAX);
        assert_eq!(counts(&m).looked_up, 20 + 2 * BLOCKS, "{mode:?}: all that the volume has");
        is_sound(m, on_demand(mode));
    }
}

/// The comparison: what the LBN means when it is looked at counts, and not what it meant when it was skipped.
#[test]
fn a_later_write_is_never_undone() {
    for mode in MODES {
        let mut m = two_copies(on_demand(mode));
        for n in 0..BLOCKS {
            match n % 4 {
                0 => write_content(&mut m, COPY + n, 10_000 + n),
                1 => discard(&mut m, COPY + n),
                2 => m.write(4096 * (COPY + n) + 512, &[7; 512]),
                _ => {}
            }
        }
        // Half of this is durable when the work begins, and half is not.
        m.flush();
        (0..BLOCKS).step_by(8).for_each(|n| write_content(&mut m, COPY + n, 20_000 + n));
        let expected: Vec<_> = (0..BLOCKS).map(|n| m.read(4096 * (COPY + n), 4096)).collect();
        ask(&mut m, 0, u64::MAX);
        m.flush();
        assert!(counts(&m).linked > 0);
        let all = |m: &mut Machine| (0..BLOCKS).all(|n| reads(m, n, n) && m.read(4096 * (COPY + n), 4096) == expected[index(n)]);
        assert!(all(&mut m), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
        assert!(all(&mut Machine::open(medium, on_demand(mode))), "{mode:?}");
    }
}

/// The work waits for a page of the map, and clients write meanwhile.
#[test]
fn a_write_while_a_page_is_awaited_is_never_undone() {
    for mode in MODES {
        let m = two_copies(on_demand(mode));
        let mut m = Machine::open(m.close(), on_demand(mode).with_knobs(|knobs| knobs.rebuild_reads_per_second = 0));
        m.pass_ms(SOON_MS);
        m.keeps_reads_of = Some(Class::Map);
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(COPY), end: Lbn(COPY + BLOCKS) }));
        m.pass_ms(1000);
        assert!(!m.kept_reads.is_empty(), "{mode:?}: it waits");
        (0..BLOCKS).step_by(3).for_each(|n| {
            m.begin_write(4096 * (COPY + n), &pattern(5_000 + n, 4096));
        });
        m.keeps_reads_of = None;
        while !m.kept_reads.is_empty() {
            let kept = m.kept_reads.remove(0);
            m.feed(kept);
        }
        m.pass_ms(SOON_MS);
        m.flush();
        assert!(counts(&m).linked > BLOCKS / 2, "{mode:?}: {:?}", counts(&m));
        let wants = |n: u64| if n % 3 == 0 { 5_000 + n } else { n };
        assert!((0..BLOCKS).all(|n| reads(&mut m, n, n) && reads(&mut m, COPY + n, wants(n))), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    }
}

/// A kill at any time: the LBN means one of two blocks with the same content.
#[test]
fn a_kill_before_the_commit_loses_nothing() {
    for mode in MODES {
        let mut m = two_copies(on_demand(mode));
        m.keeps_flushes = true;
        ask(&mut m, 0, u64::MAX);
        assert!(counts(&m).linked > 0, "it is linked, and not committed");
        let medium = m.medium.clone();
        let mut m = Machine::open(medium, on_demand(mode));
        m.pass_ms(SOON_MS);
        is_sound(m, on_demand(mode));
    }
}

#[test]
fn blocks_are_linked_to_up_to_their_limit_and_then_to_another_one() {
    for mode in MODES {
        let settings = on_demand(mode).with_knobs(|knobs| (knobs.refs_limit, knobs.index_bytes_max) = (4, 1024));
        let mut m = Machine::open(blank(32 << 20, None), settings.clone());
        m.feed(Event::Tick);
        for copy in 0..7 {
            (0..20).for_each(|n| write_content(&mut m, 100 * copy + n, n));
            m.flush();
        }
        ask(&mut m, 0, u64::MAX);
        m.flush();
        m.pass_ms(SOON_MS);
        write_content(&mut m, 3000, 3000);
        m.flush();
        let stats = m.engine.stats();
        assert_eq!((stats.shared_blocks, stats.unique_blocks), (40, 21), "{mode:?}: three links, three links and one");
        assert!((0..7).all(|copy| (0..20).all(|n| reads(&mut m, 100 * copy + n, n))));
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    }
}

#[test]
fn it_can_be_paused_and_goes_on_where_it_was() {
    let mut m = two_copies(on_demand(CommitMode::Ordered));
    m.feed(Event::Deduplicate(Deduplicate::Pause));
    m.feed(Event::Deduplicate(Deduplicate::Resume));
    m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(COPY), end: Lbn(COPY + BLOCKS) }));
    m.feed(Event::Deduplicate(Deduplicate::Pause));
    let before = counts(&m);
    assert!(before.is_paused);
    m.pass_ms(SOON_MS);
    assert_eq!(counts(&m), before, "it rests");
    m.feed(Event::Deduplicate(Deduplicate::Resume));
    m.pass_ms(SOON_MS);
    let after = counts(&m);
    assert!(!after.is_paused && after.linked > BLOCKS - 10 && after.asked_lbns == 0, "{after:?}");
}

/// Such a volume believes no fingerprint alone, so only a write finds its duplicates.
#[test]
fn a_volume_that_compares_bytes_does_no_work_out_of_line() {
    let settings = Settings { verify_duplicates: true, ..small_index(CommitMode::Ordered) };
    let mut m = two_copies(settings);
    ask(&mut m, 0, u64::MAX);
    let counts = counts(&m);
    assert!(!counts.is_on && counts.linked == 0 && counts.asked_lbns == 0 && counts.skipped.named.room == 0, "{counts:?}");
}

/// Entries for which the buffer has no room but in ranges are looked up all the same.
#[test]
fn a_buffer_that_overflows_forgets_nothing() {
    for mode in MODES {
        let settings = small_index(mode).with_knobs(|knobs| knobs.skipped_bytes_max = 1024);
        let mut m = two_copies(settings.clone());
        let missed = m.engine.ledger().new_blocks - BLOCKS;
        m.pass_ms(20 * SOON_MS);
        m.flush();
        m.pass_ms(20 * SOON_MS);
        assert_eq!(counts(&m).linked, missed, "{mode:?}: {:?}", counts(&m));
        is_sound(m, settings);
    }
}

/// A block that no LBN means any more would only take the place of the one that is to be freed.
#[test]
fn no_lbn_is_mapped_to_a_block_that_its_fingerprint_keeps_alone() {
    for mode in MODES {
        let mut m = two_copies(on_demand(mode));
        (0..BLOCKS).for_each(|n| discard(&mut m, n));
        m.flush();
        write_content(&mut m, 3000, 3000);
        m.flush();
        ask(&mut m, 0, u64::MAX);
        assert_eq!(counts(&m).linked, 0, "{mode:?}");
        assert!((0..BLOCKS).all(|n| reads(&mut m, COPY + n, n)));
    }
}

/// The pages with the first copy's fingerprints are not in memory, so the sweep waits for each of them.
#[test]
fn a_sweep_that_waits_for_pages_leaves_none_out() {
    const MANY: u64 = 1500;
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), without_work(mode));
        let content = pattern(1, index(MANY * 4096));
        let reversed: Vec<u8> = content.chunks(4096).rev().flatten().copied().collect();
        [(0, &content), (MANY * 4096, &reversed)].into_iter().for_each(|(at, bytes)| m.write(at, bytes));
        m.flush();
        let mut m = Machine::open(m.close(), on_demand(mode));
        m.pass_ms(SOON_MS);
        let before = m.engine.ledger().read[Class::Fingerprints as usize].units;
        ask(&mut m, MANY, 2 * MANY);
        assert!(m.engine.ledger().read[Class::Fingerprints as usize].units > before, "{mode:?}: it waits");
        assert!(counts(&m).linked > MANY * 9 / 10, "{mode:?}: {:?}", counts(&m));
        assert!(m.read(0, MANY * 4096) == content && m.read(MANY * 4096, MANY * 4096) == reversed, "{mode:?}");
    }
}

/// A duplicate of a block that was not compared yet is linked to that block, and both go to the block that was there first.
#[test]
fn links_to_a_block_that_was_not_compared_yet_go_along() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), small_index(mode));
        m.feed(Event::Tick);
        (0..BLOCKS).for_each(|n| write_content(&mut m, n, n));
        m.flush();
        m.pass_ms(SOON_MS);
        (0..4).for_each(|n| write_content(&mut m, COPY + n, 7));
        m.flush();
        assert_eq!((m.engine.ledger().new_blocks, m.engine.ledger().duplicates), (BLOCKS + 1, 3), "{mode:?}");
        m.pass_ms(20 * SOON_MS);
        assert_eq!(counts(&m).linked, 4, "{mode:?}");
        // From now on the index has the first block, which is certain.
        (4..8).for_each(|n| write_content(&mut m, COPY + n, 7));
        assert_eq!((m.engine.ledger().duplicates, counts(&m).skipped.named.used), (7, 0), "{mode:?}");
        m.flush();
        let stats = m.engine.stats();
        assert_eq!((stats.shared_blocks, stats.unique_blocks), (1, BLOCKS - 1), "{mode:?}");
    }
}

/// A counter comes to its end while the volume serves, and no epoch may be filled any more.
#[test]
fn a_volume_that_takes_no_writes_any_more_is_left_alone() {
    for mode in MODES {
        let mut medium = two_copies(on_demand(mode)).close();
        changed(&mut medium, |superblock| superblock.last_epoch = Epoch(COUNTER_STOP - 4));
        let mut m = Machine::open(medium, on_demand(mode));
        while matches!(m.request_write(4096 * 3000, &pattern(m.flushes, 4096)), Reply::Done) {
            m.flush();
        }
        ask(&mut m, 0, u64::MAX);
        assert_eq!((counts(&m).linked, counts(&m).looked_up), (0, 0), "{mode:?}");
        assert!((0..BLOCKS).all(|n| reads(&mut m, n, n) && reads(&mut m, COPY + n, n)), "{mode:?}");
    }
}

/// A thin volume is full, and its duplicates make room.
#[test]
fn a_full_volume_has_room_again_once_duplicates_are_found() {
    // In another order each time, so that no copy is followed.
    let content = |n: u64| n * [1, 101, 303, 507, 709, 911][index(n / 1000 % 6)] % 1000;
    for mode in MODES {
        let mut m = Machine::open(blank(16 << 20, Some(40_000)), on_demand(mode));
        // The work reads the blocks that it links to, at its rate.
        m.patience = 10_000;
        m.feed(Event::Tick);
        let mut written = 0;
        while matches!(m.request_write(4096 * written, &pattern(content(written), 4096)), Reply::Done) {
            written += 1;
            (written % 100 == 0).then(|| m.flush());
        }
        m.flush();
        assert!(written > 3000, "{mode:?}: {written}");
        ask(&mut m, 0, written);
        m.flush();
        assert!(counts(&m).linked > 1000, "{mode:?}: {:?}", counts(&m));
        (0..1000).for_each(|n| write_content(&mut m, 20_000 + n, 20_000 + n));
        m.flush();
        assert!((0..written).all(|n| reads(&mut m, n, content(n))), "{mode:?}");
        assert!((0..1000).all(|n| reads(&mut m, 20_000 + n, 20_000 + n)), "{mode:?}");
        let medium = m.close();
        assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
    }
}

/// With the least memory a read brings five pages or seven. It counts as two, of the 8,192 a second that an order is entitled to.
#[test]
fn a_sweep_reads_neighbouring_pages_at_once_and_no_faster_than_it_may() {
    const CONTENTS: u64 = 30_000;
    const COPIED: u64 = 100;
    for mode in MODES {
        let settings = Settings { memory_bytes: 2 << 20, ..on_demand(mode) };
        let mut m = Machine::open(blank(128 << 20, None), settings.clone());
        m.feed(Event::Tick);
        (0..CONTENTS).for_each(|n| write_content(&mut m, n, n));
        (0..COPIED).for_each(|n| write_content(&mut m, CONTENTS + n, n * (CONTENTS / COPIED)));
        m.flush();
        let (missed, mut ms) = (m.engine.ledger().new_blocks - CONTENTS, 0);
        let mut m = Machine::open(m.close(), settings.with_knobs(|knobs| knobs.rebuild_reads_per_second = 0));
        m.pass_ms(SOON_MS);
        let before = m.engine.ledger().read[Class::Fingerprints as usize];
        m.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(CONTENTS), end: Lbn(CONTENTS + COPIED) }));
        while ms < 1000 && (counts(&m).linked < missed || counts(&m).candidates > 0) {
            m.pass_ms(1);
            ms += 1;
        }
        let after = m.engine.ledger().read[Class::Fingerprints as usize];
        let (reads, pages) = (after.commands - before.commands, after.units - before.units);
        assert!(pages > 140 && reads * 3 < pages, "{mode:?}: {reads} reads of {pages} pages");
        assert!((pages / 4 * 1000 / 8192..20).contains(&ms), "{mode:?}: {ms} ms");
    }
}
