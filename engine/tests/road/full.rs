//! A full volume: writes that find no room wait for some, in the engine or with their sender; operations that may free room go on.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::{CommitMode, Region};
use onefold_engine::interface::{Allowance, Class, Event, Failure, Notice, Op, Reply, RequestId};
use onefold_engine::settings::Settings;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const WAIT_MS: u64 = 60_000;
/// The first bytes of the journal of ext4.
const JOURNAL: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// A thin volume that is full, whose block n has content n; and the number of blocks that were written.
fn full(settings: Settings) -> (Machine, u64) {
    full_with(settings, &[])
}

/// The same volume, on which these blocks, too, have their content.
fn full_with(settings: Settings, beyond: &[u64]) -> (Machine, u64) {
    let mut m = Machine::open(blank(16 << 20, Some(40_000)), Settings { full_wait_ms: 0, ..settings.clone() });
    beyond.iter().for_each(|&lbn| m.write(4096 * lbn, &pattern(lbn, 4096)));
    let mut written = 0;
    while matches!(m.request_write(4096 * written, &pattern(written, 4096)), Reply::Done) {
        written += 1;
    }
    m.flush();
    let mut m = Machine::open(m.close(), settings);
    m.patience = 100;
    m.wait(100);
    (m, written)
}

fn waiting(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, full_wait_ms: WAIT_MS, ..Settings::default() }
}

/// The notices about room that the owner got.
fn notices(m: &Machine) -> Vec<&Notice> {
    m.notices.iter().filter(|n| matches!(n, Notice::Full { .. } | Notice::NoSpace { .. } | Notice::RoomAgain)).collect()
}

fn begin(m: &mut Machine, lbn: u64) -> RequestId {
    m.begin_write(4096 * lbn, &pattern(lbn, 4096))
}

fn discard(m: &mut Machine, first: u64, blocks: u64) {
    let reply = m.request(Op::Discard, 4096 * first, 4096 * blocks, None, false);
    assert!(matches!(reply, Reply::Done), "{reply:?}");
}

fn fails(reply: &Reply, failure: Failure) -> bool {
    matches!(reply, Reply::Failed(why) if *why == failure)
}

#[test]
fn writes_wait_for_room_and_go_on_when_blocks_are_discarded() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let ids: Vec<_> = (written..written + 20).map(|lbn| begin(&mut m, lbn)).collect();
        m.pass_ms(WAIT_MS - 5_000);
        assert!(ids.iter().all(|&id| !m.is_answered(id)) && m.engine.stats().full, "{mode:?}");
        assert_eq!(m.read(4096 * (written - 1), 4096), pattern(written - 1, 4096));
        discard(&mut m, 0, 500);
        m.pass_ms(4_000);
        for (id, lbn) in ids.into_iter().zip(written..) {
            assert!(m.is_answered(id), "{mode:?}: {lbn}");
            m.finish(id);
            assert_eq!(m.read(4096 * lbn, 4096), pattern(lbn, 4096), "{mode:?}");
        }
        assert_eq!(notices(&m), [&Notice::Full { wait_ms: WAIT_MS, on_host: false }, &Notice::RoomAgain], "{mode:?}");
        assert!(!m.engine.stats().full);
        m.close();
    }
}

#[test]
fn after_the_wait_they_fail_until_there_is_room() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let id = begin(&mut m, written);
        m.pass_ms(WAIT_MS - 10);
        assert!(!m.is_answered(id), "{mode:?}");
        m.pass_ms(20);
        assert!(m.is_answered(id) && fails(&m.answer(id), Failure::NoSpace), "{mode:?}");
        let late = begin(&mut m, written);
        m.pass_ms(10);
        assert!(m.is_answered(late) && fails(&m.answer(late), Failure::NoSpace), "{mode:?}: it has been full for long enough");
        let (full, none) = (Notice::Full { wait_ms: WAIT_MS, on_host: false }, Notice::NoSpace { waited_ms: WAIT_MS, on_host: false });
        assert_eq!(notices(&m), [&full, &none], "{mode:?}");
        discard(&mut m, 0, 100);
        m.flush();
        (0..90).for_each(|i| m.write(4096 * (written + i), &pattern(written + i, 4096)));
        let ids: Vec<_> = (100..200).map(|i| begin(&mut m, written + i)).collect();
        m.pass_ms(WAIT_MS / 2);
        assert!(ids.iter().any(|&id| !m.is_answered(id)), "{mode:?}: it is full once more, and waits once more");
        assert_eq!(notices(&m), [&full, &none, &Notice::RoomAgain, &full], "{mode:?}");
    }
}

#[test]
fn a_volume_with_room_again_is_not_shown_as_full_before_a_write_comes() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let id = begin(&mut m, written);
        m.pass_ms(WAIT_MS + 10);
        assert!(m.is_answered(id) && m.engine.stats().full, "{mode:?}");
        discard(&mut m, 0, 3);
        m.flush();
        assert!(m.engine.stats().full, "{mode:?}: that little is no room");
        discard(&mut m, 0, 500);
        m.flush();
        assert!(!m.engine.stats().full, "{mode:?}");
        assert!(notices(&m).iter().all(|notice| !matches!(notice, Notice::RoomAgain)), "{mode:?}: no write has come");
        // The volume has room indeed.
        m.write(4096 * written, &pattern(written, 4096));
    }
}

/// Sends writes again whenever the engine asks for it, until none is sent back. Returns the failure of each, if it failed.
fn sent_again(m: &mut Machine, lbns: &[u64], ms: u64) -> Vec<Option<Failure>> {
    let mut ends = vec![None; lbns.len()];
    let mut open: Vec<usize> = (0..lbns.len()).collect();
    for _ in 0..ms / 10 {
        let asked = m.retries;
        m.pass_ms(10);
        if m.retries == asked {
            continue;
        }
        open.retain(|&i| {
            let id = begin(m, lbns[i]);
            match m.answer(id) {
                Reply::Failed(Failure::Full) => return true,
                Reply::Failed(why) => ends[i] = Some(why),
                _ => {}
            }
            false
        });
    }
    assert!(open.is_empty(), "each is answered in the end");
    ends
}

#[test]
fn writes_that_can_be_sent_again_are_sent_back_and_asked_for() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode).with_facts(|facts| facts.retries_when_full = true));
        let lbns: Vec<u64> = (written..written + 300).collect();
        for &lbn in &lbns {
            let id = begin(&mut m, lbn);
            assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        }
        assert_eq!(m.retries, 0, "{mode:?}: not at once");
        discard(&mut m, 0, 500);
        m.flush();
        assert_eq!(sent_again(&mut m, &lbns, 10_000), vec![None; 300], "{mode:?}");
        let ledger = m.engine.ledger();
        let counted = (ledger.client_writes, ledger.client_units, ledger.client_bytes);
        assert_eq!(counted, (300, 300, 300 * 4096), "{mode:?}: each counts once, however often it was sent");
        for lbn in lbns {
            assert_eq!(m.read(4096 * lbn, 4096), pattern(lbn, 4096), "{mode:?}");
        }
        let asked = m.retries;
        m.pass_ms(60_000);
        assert!(m.retries <= asked + 2, "{mode:?}: nothing is sent back any more, and nothing asked for");
    }
}

/// The first time may be before the sender has noted that it has to send the write again.
#[test]
fn what_is_sent_back_is_asked_for_twice_with_a_while_between() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode).with_facts(|facts| facts.retries_when_full = true));
        let id = begin(&mut m, written);
        assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        let asked = [1_900, 200, 1_700, 200, 30_000].map(|ms| {
            m.pass_ms(ms);
            m.retries
        });
        assert_eq!(asked, [0, 1, 1, 2, 2], "{mode:?}");
    }
}

/// The engine asks for the write only after it was sent back: before that, the sender has nothing to send again.
#[test]
fn what_is_sent_back_late_is_asked_for_after_that() {
    for mode in MODES {
        // This is the first LBN of a page of the map.
        let lbn = 20 * Region::Map.entries_per_page();
        let (mut m, _) = full_with(waiting(mode).with_facts(|facts| facts.retries_when_full = true), &[lbn]);
        let id = begin(&mut m, lbn - 2);
        assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        m.pass_ms(10_000);
        let asked = m.retries;
        m.keeps_reads_of = Some(Class::Map);
        // The write covers a part of the second block, and so waits for that block's map page.
        let id = m.begin_write(4096 * (lbn - 1), &pattern(90_000, 4096 + 2048));
        m.pass_ms(10_000);
        assert!(!m.is_answered(id) && m.retries == asked, "{mode:?}: asked {} times", m.retries - asked);
        m.keeps_reads_of = None;
        std::mem::take(&mut m.kept_reads).into_iter().for_each(|read| m.feed(read));
        assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        m.pass_ms(5_000);
        assert!(m.retries > asked, "{mode:?}: it is not asked for");
    }
}

#[test]
fn a_write_that_is_sent_again_for_too_long_fails() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode).with_facts(|facts| facts.retries_when_full = true));
        let id = begin(&mut m, written);
        assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        let ends = sent_again(&mut m, &[written], WAIT_MS + 3_000);
        assert_eq!(ends, [Some(Failure::NoSpace)], "{mode:?}");
        assert!(m.retries > 20, "{mode:?}: there may be no event when there is room: {}", m.retries);
    }
}

/// More writes wait for room than may wait for anything else (`Pages::waiting_max`).
#[test]
fn discards_and_overwrites_pass_by_writes_that_wait() {
    for mode in MODES {
        let (mut m, written) = full(Settings { memory_bytes: 2 << 20, ..waiting(mode) });
        let ids: Vec<_> = (written..written + 400).map(|lbn| begin(&mut m, lbn)).collect();
        for lbn in 0..100 {
            let over = m.begin_write(4096 * lbn, &pattern(50_000 + lbn, 4096));
            m.pass_ms(1_000 * u64::from(lbn % 8 == 0));
            m.finish(over);
        }
        assert!(ids.iter().all(|&id| !m.is_answered(id)), "{mode:?}");
        discard(&mut m, 100, 600);
        m.pass_ms(5_000);
        ids.into_iter().for_each(|id| m.finish(id));
        (0..100).for_each(|lbn| assert_eq!(m.read(4096 * lbn, 4096), pattern(50_000 + lbn, 4096), "{mode:?}"));
        (written..written + 400).for_each(|lbn| assert_eq!(m.read(4096 * lbn, 4096), pattern(lbn, 4096), "{mode:?}"));
    }
}

/// A file system frees nothing before its journal records it, and the journal's blocks may never have been written.
#[test]
fn a_journal_takes_its_first_blocks_from_the_reserve() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let reserve = m.engine.geometry().reserve_blocks;
        let id = begin(&mut m, written);
        let (journal, mut taken) = (written + 1_000, 0);
        m.write(4096 * journal, &[&JOURNAL, &pattern(1, 4092)[..]].concat());
        loop {
            let next = m.begin_write(4096 * (journal + 1 + taken), &pattern(90_000 + taken, 4096));
            m.pass_ms(100);
            if !m.is_answered(next) {
                break;
            }
            m.finish(next);
            taken += 1;
        }
        assert!((reserve / 2 - 12..reserve).contains(&taken), "{mode:?}: {taken} of {reserve}");
        assert!(!m.is_answered(id), "{mode:?}: no other write does");
        // What is overwritten still finds room.
        (0..50).for_each(|lbn| m.write(4096 * lbn, &pattern(70_000 + lbn, 4096)));
    }
}

#[test]
fn a_volume_that_closes_waits_for_no_room() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let id = begin(&mut m, written);
        m.feed(Event::Close);
        m.pass_ms(2_000);
        assert!(m.is_answered(id) && fails(&m.answer(id), Failure::NoSpace), "{mode:?}");
        assert_eq!(m.closed, Some(true), "{mode:?}");
    }
}

/// The flush of a device that is being detached waits for these writes.
#[test]
fn waiting_ends_when_the_volume_is_about_to_be_detached() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let id = begin(&mut m, written);
        m.pass_ms(3_000);
        assert!(!m.is_answered(id), "{mode:?}");
        m.feed(Event::EndWaiting);
        assert!(m.is_answered(id) && fails(&m.answer(id), Failure::NoSpace), "{mode:?}");
        let late = begin(&mut m, written);
        assert!(m.is_answered(late) && fails(&m.answer(late), Failure::NoSpace), "{mode:?}");
        assert!(
            matches!(notices(&m)[..], [Notice::Full { .. }, Notice::NoSpace { waited_ms: 1..=3_000, .. }]),
            "{mode:?}: {:?}",
            notices(&m)
        );
        m.close();

        let (mut m, written) = full(waiting(mode).with_facts(|facts| facts.retries_when_full = true));
        let id = begin(&mut m, written);
        assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        m.feed(Event::EndWaiting);
        assert_eq!(sent_again(&mut m, &[written], 500), [Some(Failure::NoSpace)], "{mode:?}");
    }
}

#[test]
fn waiting_ends_when_the_store_fails() {
    for mode in MODES {
        let (mut m, written) = full(waiting(mode));
        let id = begin(&mut m, written);
        assert!(!m.is_answered(id), "{mode:?}");
        m.feed(Event::StoreFailed);
        assert!(m.is_answered(id) && fails(&m.answer(id), Failure::ReadOnly), "{mode:?}");

        let (mut m, written) = full(waiting(mode).with_facts(|facts| facts.retries_when_full = true));
        let id = begin(&mut m, written);
        assert!(fails(&m.answer(id), Failure::Full), "{mode:?}");
        m.feed(Event::StoreFailed);
        assert_eq!(sent_again(&mut m, &[written], 500), [Some(Failure::ReadOnly)], "{mode:?}");
    }
}

/// The duplicates that the index did not find make room: nobody waits for more of them.
#[test]
fn a_full_volume_looks_for_duplicates_at_once() {
    for mode in MODES {
        let settings = waiting(mode).with_knobs(|knobs| (knobs.index_bytes_max, knobs.out_of_line_delay_ms) = (0, WAIT_MS * 1000));
        let mut m = Machine::open(blank(16 << 20, Some(40_000)), settings);
        m.patience = 100;
        m.feed(Event::Tick);
        let half = 1000;
        // Backwards, so that nothing leads from one duplicate to the next.
        let content = |lbn: u64| if lbn < half { lbn } else { 2 * half - 1 - lbn };
        (0..2 * half).for_each(|lbn| m.write(4096 * lbn, &pattern(content(lbn), 4096)));
        m.feed(Event::Allowance(Allowance { in_line: 100, out_of_line: 0 }));
        m.pass_ms(60_000);
        assert_eq!(m.engine.stats().out_of_line.linked, 0, "{mode:?}: nothing is spent on it before");
        let mut lbn = 2 * half;
        while m.engine.stats().out_of_line.linked == 0 && lbn < 6_000 {
            begin(&mut m, lbn);
            lbn += 1;
        }
        m.pass_ms(5_000);
        let late = begin(&mut m, lbn);
        assert!(m.is_answered(late) && matches!(m.answer(late), Reply::Done), "{mode:?}");
        assert!(!m.engine.stats().full && m.engine.stats().out_of_line.linked > half / 2, "{mode:?}");
        assert_eq!(notices(&m), [&Notice::Full { wait_ms: WAIT_MS, on_host: false }, &Notice::RoomAgain], "{mode:?}");
        assert!((0..2 * half).all(|lbn| m.read(4096 * lbn, 4096) == pattern(content(lbn), 4096)));
        m.close();
    }
}

#[test]
fn what_the_filter_would_store_again_is_linked_where_there_is_no_room() {
    for mode in MODES {
        let (mut m, written) = full(Settings { min_run: 4, ..waiting(mode) });
        // The index is rebuilt once it serves.
        m.read(0, 512);
        m.wait(200);
        let lone = m.begin_write(4096 * (written + 1), &pattern(7, 4096));
        m.pass_ms(1_000);
        assert!(m.is_answered(lone) && matches!(m.answer(lone), Reply::Done), "{mode:?}");
        assert_eq!((m.engine.ledger().duplicates, m.engine.ledger().filtered), (1, 0), "{mode:?}");
        m.close();
    }
}
