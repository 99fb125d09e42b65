//! The acknowledged operations that a server left to the next one: each is replayed if the medium proves it, and kept if possible.

use crate::machine::{Done, Machine};
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Event, IoFailure, Notice, Op, Promise, Promised};
use onefold_engine::settings::{Persistence, Settings};

pub const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];

pub fn settings(commit_mode: CommitMode) -> Settings {
    Settings { commit_mode, ..Settings::default() }.with_facts(|facts| facts.keeps_journal = true)
}

/// Returns noise of this seed.
pub fn noise(seed: u64, blocks: usize) -> Vec<u8> {
    pattern(seed, 4096 * blocks)
}

/// A server that has flushed its first blocks (noise of seed 1), and then written as many from LBN `at` on (of seed 2), which no flush has
/// covered; and the medium as the flush left it.
pub fn written_over(mode: CommitMode, blocks: usize, at: u64) -> (Machine, Vec<u8>) {
    let mut m = Machine::open(blank(32 << 20, None), settings(mode));
    m.write(0, &noise(1, blocks));
    m.flush();
    let flushed = m.medium.clone();
    m.write(4096 * at, &noise(2, blocks));
    (m, flushed)
}

/// A hundred blocks are flushed, then overwritten without a flush; the device fails, and is as its last flush left it (A1, A5).
#[test]
fn flushed_blocks_are_there_when_the_device_has_lost_what_overwrote_them() {
    for mode in MODES {
        let (m, flushed) = written_over(mode, 100, 0);
        assert!(m.journal.len() >= 100, "they are in the journal");
        let mut next = m.next(flushed, settings(mode));
        assert!(next.read(0, 4096 * 100) == noise(1, 100), "{mode:?}");
        assert!(next.notices.contains(&Notice::AcknowledgedLost { writes: 100 }), "{:?}", next.notices);
        assert!(next.flush_fails() && !next.flush_fails(), "the first flush reports it");
    }
}

/// The same holds where some of the new content has reached the device.
#[test]
fn what_the_device_proves_comes_back_and_nothing_else() {
    for mode in MODES {
        let (old, new) = (noise(1, 40), noise(2, 40));
        let (m, mut medium) = written_over(mode, 40, 0);
        // Every other block of the new content is on the device.
        for (i, (now, then)) in m.medium.chunks_exact(4096).zip(medium.chunks_exact_mut(4096)).enumerate() {
            if i % 2 == 0 && new.chunks_exact(4096).any(|block| block == now) {
                then.copy_from_slice(now);
            }
        }
        let mut next = m.next(medium, settings(mode));
        for lbn in 0..40 {
            let at = lbn * 4096;
            let found = next.read(at as u64, 4096);
            assert!(found == old[at..at + 4096] || found == new[at..at + 4096], "{mode:?}, {lbn}");
        }
        let (read, lost) = (next.read(0, 4096 * 40), Notice::AcknowledgedLost { writes: 20 });
        assert_eq!(read.chunks(4096).zip(new.chunks(4096)).filter(|(a, b)| a == b).count(), 20);
        assert!(next.notices.contains(&lost), "{:?}", next.notices);
        next.flush_fails();
        next.close();
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    for mode in MODES {
        let (old, new) = (noise(1, 100), noise(2, 100));
        let (m, _) = written_over(mode, 100, 50);
        let mut next = m.next(m.medium.clone(), settings(mode));
        assert!(next.read(0, 4096 * 50) == old[..4096 * 50] && next.read(4096 * 50, 4096 * 100) == new, "{mode:?}");
        next.flush();
        next.close();
    }
}

/// A device may return a write that was lost, and return something else the next time (it was asked to discard the block before). So
/// recovery writes the content that it believes once more.
#[test]
fn what_was_read_once_is_there_the_next_time() {
    for mode in MODES {
        let (old, new) = (noise(1, 40), noise(2, 40));
        let (m, mut medium) = written_over(mode, 40, 20);
        let next = m.next(m.medium.clone(), settings(mode));
        for done in &next.history {
            if let Done::Write { first, blocks, .. } = *done {
                let at = first * 4096..(first + blocks) * 4096;
                medium[at.clone()].copy_from_slice(&next.medium[at]);
            }
        }
        let mut last = Machine::open(medium, settings(mode));
        assert!(last.read(0, 4096 * 20) == old[..4096 * 20] && last.read(4096 * 20, 4096 * 40) == new, "{mode:?}");
        // It was durable before anything referred to it.
        let is_of = |wanted: Class, done: &&Done| matches!(**done, Done::Write { class, .. } if class == wanted);
        let content = next.history.iter().rposition(|done| is_of(Class::Data, &done)).expect("content was written again");
        let after = next.history[content..].iter().take_while(|done| **done != Done::Flush);
        assert!(
            after.clone().all(|done| !is_of(Class::Map, &done) && !is_of(Class::Log, &done)),
            "{mode:?}: {:?}",
            after.collect::<Vec<_>>()
        );
    }
}

/// The device fails before anything is replayed: acknowledged content is not there, and the next opening may have it (P7).
#[test]
fn a_server_whose_opening_fails_answers_nothing_while_promises_stand() {
    for mode in MODES {
        let (m, _) = written_over(mode, 4, 0);
        let mut next = m.left(m.medium.clone(), settings(mode));
        next.keeps_flushes = true;
        next.feed(Event::Tick);
        let first = next.flushed.remove(0);
        next.feed(first);
        let Some(&Event::Flushed { io, .. }) = next.flushed.first() else { panic!("the superblock is flushed") };
        next.feed(Event::Flushed { io, result: Err(IoFailure) });
        assert!(next.fails_to_read(0), "{mode:?}");
        assert!(m.next(next.medium.clone(), settings(mode)).read(0, 4096 * 4) == noise(2, 4), "{mode:?}");
    }
}

/// There are two kills: the second server is killed while it commits what it has replayed, perhaps in another mode, or without a journal of
/// its own.
#[test]
fn the_store_is_the_one_that_was_left_after_a_second_kill() {
    let strong = |mode| Settings { persistence: Persistence::Strong, ..settings(mode) }.with_facts(|facts| facts.keeps_journal = false);
    for first in MODES {
        for second in [settings(CommitMode::Log), settings(CommitMode::Ordered), strong(CommitMode::Log), strong(CommitMode::Ordered)] {
            let mode = second.commit_mode;
            let mut m = Machine::open(blank(32 << 20, None), settings(first));
            m.write(0, &noise(1, 4));
            m.flush();
            let copy = m.medium.clone();
            m.write(4096, &noise(2, 4));
            m.flush();
            m.write(4096 * 2, &noise(3, 4));
            let mut next = m.left(m.medium.clone(), second);
            next.journal = m.journal.clone();
            next.keeps_flushes = true;
            next.feed(Event::Tick);
            // The second server is killed at each flush of what it has replayed.
            while !next.flushed.is_empty() {
                let mut last = next.next(next.medium.clone(), settings(mode));
                assert!(!last.notices.contains(&Notice::SetBack), "{first:?}, {mode:?}");
                assert!(last.read(4096 * 2, 4096 * 4) == noise(3, 4), "{first:?}, {mode:?}");
                let flushed = next.flushed.remove(0);
                next.feed(flushed);
            }
            // Before any of that is durable, a store that was set back is recognized as before.
            let mut set_back = m.left(copy, settings(mode));
            set_back.feed(Event::Tick);
            assert!(set_back.notices.contains(&Notice::SetBack), "{first:?}, {mode:?}");
        }
    }
}

/// A commit removes the links of a few pages of the map, and puts off the rest of a discard to the next. The journal that has the discard
/// goes from server to server, so nothing is added to it, and nothing that it has is needed twice.
#[test]
fn what_a_replay_puts_off_is_not_promised_before_it_has_ended() {
    const LINKS_A_PAGE: u64 = 800;
    for mode in MODES {
        let settings = || Settings { memory_bytes: 2 << 20, commit_period_ms: 3_600_000, ..settings(mode) };
        let mut m = Machine::open(blank(256 << 20, None), settings());
        (0..60).for_each(|page| m.write(page * LINKS_A_PAGE * 4096, &noise(page + 1, 1)));
        m.flush();
        m.request(Op::Discard, 0, 60 * LINKS_A_PAGE * 4096, None, false);
        assert!(m.journal.iter().any(|promise| matches!(promise.what, Promised::Unmap { .. })), "{mode:?}: {:?}", m.journal);
        let mut next = m.next(m.medium.clone(), settings());
        (0..60).for_each(|page| assert!(next.read(page * LINKS_A_PAGE * 4096, 4096) == [0; 4096], "{mode:?}, {page}"));
        assert!(!next.flush_fails());
    }
}

/// A strong server leaves a trace with each of its epochs: the first time for what it replayed, then for what clients write. In mode
/// `ordered` it is killed just before it writes the next trace.
#[test]
fn a_strong_server_keeps_the_traces_of_each_of_its_epochs() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), settings(mode));
        m.write(0, &noise(1, 4));
        m.flush();
        m.write(4096 * 2, &noise(2, 4));
        let strong = Settings { persistence: Persistence::Strong, ..settings(mode) }.with_facts(|facts| facts.keeps_journal = false);
        let mut next = m.next(m.medium.clone(), strong);
        next.write(4096 * 8, &noise(3, 4));
        next.dies_at = Some(Class::Map);
        let written = next.begin_write(4096 * 12, &noise(4, 4));
        next.wait(3);
        assert_eq!(next.is_answered(written), mode == CommitMode::Log);
        assert_eq!(next.is_dead, mode == CommitMode::Ordered);
        let mut last = next.next(next.medium.clone(), settings(mode));
        assert!(!last.notices.contains(&Notice::SetBack) && !last.flush_fails(), "{mode:?}: {:?}", last.notices);
    }
}

/// There is nothing to replay, and the sector that identifies the store is not in memory yet.
#[test]
fn a_server_with_nothing_to_replay_looks_at_its_store_before_it_serves() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), settings(mode));
        m.write(0, &noise(1, 4));
        m.flush();
        let copy = m.medium.clone();
        m.write(0, &noise(2, 4));
        m.flush();
        assert!(m.journal.is_empty());
        let mut next = m.next(copy, settings(mode));
        assert!(next.notices.contains(&Notice::SetBack) && next.flush_fails(), "{mode:?}: {:?}", next.notices);
        assert!(!m.next(m.medium.clone(), settings(mode)).notices.contains(&Notice::SetBack), "{mode:?}");
    }
}

/// A store that was found to be set back is the store from then on: what is acknowledged on it counts.
#[test]
fn what_is_promised_on_a_store_that_was_set_back_is_kept() {
    for mode in MODES {
        let (m, _) = written_over(mode, 4, 0);
        let copy = blank(32 << 20, None);
        let mut set_back = m.next(Machine::open(copy, settings(mode)).medium, settings(mode));
        assert!(set_back.notices.contains(&Notice::SetBack) && set_back.flush_fails(), "{mode:?}");
        set_back.write(4096 * 8, &noise(3, 4));
        let mut last = set_back.next(set_back.medium.clone(), settings(mode));
        assert!(!last.notices.contains(&Notice::SetBack) && last.read(4096 * 8, 4096 * 4) == noise(3, 4), "{mode:?}");
    }
}

/// Feeds the oldest read that has not ended. Returns false if there is none.
pub fn bring_one(m: &mut Machine) -> bool {
    let is_any = !m.kept_reads.is_empty();
    m.kept_reads.drain(..usize::from(is_any)).collect::<Vec<_>>().into_iter().for_each(|read| m.feed(read));
    is_any
}

/// Reads that are under way when the device fails arrive later, and have no effect.
#[test]
fn reads_of_proofs_may_end_after_the_device_has_failed() {
    for mode in MODES {
        let (m, _) = written_over(mode, 100, 0);
        let mut had_several = false;
        for before in 0..16 {
            let mut next = m.left(m.medium.clone(), settings(mode));
            next.keeps_reads = true;
            next.feed(Event::Tick);
            for _ in 0..before {
                bring_one(&mut next);
            }
            had_several |= next.kept_reads.len() >= 4;
            next.feed(Event::StoreFailed);
            while bring_one(&mut next) {}
            next.journal = m.journal.clone();
            assert!(next.next(next.medium.clone(), settings(mode)).read(0, 4096 * 100) == noise(2, 100), "{mode:?}, {before}");
        }
        assert!(had_several, "{mode:?}: reads of several runs were under way");
    }
}

/// Content that the tables show to be durable is not written again.
#[test]
fn a_promise_of_content_that_is_durable_costs_no_write_of_content() {
    for mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), settings(mode));
        m.write(0, &noise(1, 40));
        m.flush();
        let mut m = Machine::open(m.close(), settings(mode));
        m.read(0, 4096);
        m.wait(200);
        m.write(4096 * 100, &noise(1, 40));
        assert!(m.journal.iter().all(|promise| matches!(promise.what, Promised::Link { .. })) && m.journal.len() == 40);
        let mut next = m.next(m.medium.clone(), settings(mode));
        assert!(next.read(4096 * 100, 4096 * 40) == noise(1, 40) && !next.written.contains_key(&Class::Data), "{mode:?}");
    }
}

/// The store was set back to a copy of this very incarnation: journal entries that follow what it has lost are not replayed.
#[test]
fn a_store_that_was_set_back_is_distinguished_from_the_one_that_was_left() {
    for mode in MODES {
        for passes in 0..3 {
            let mut m = Machine::open(blank(32 << 20, None), settings(mode));
            m.write(0, &noise(1, 8));
            m.flush();
            let copy = m.medium.clone();
            // These writes change the same sector of the map, or another one.
            (0..=passes).for_each(|pass| {
                m.write(4096 * 900 * pass, &noise(10 + pass, 8));
                m.flush();
            });
            m.write(4096 * 20, &noise(3, 8));
            m.write(4096 * 30, &[b'x'; 4096]);
            let mut right = m.next(m.medium.clone(), settings(mode));
            assert!(right.read(4096 * 20, 4096 * 8) == noise(3, 8) && !right.notices.contains(&Notice::SetBack), "{mode:?}");
            let mut next = m.next(copy, settings(mode));
            assert!(next.notices.contains(&Notice::SetBack), "{mode:?}: {:?}", next.notices);
            assert!(next.read(0, 4096 * 8) == noise(1, 8) && next.read(4096 * 20, 4096 * 16) == [0; 4096 * 16], "{mode:?}");
            assert!(next.flush_fails() && !next.flush_fails());
        }
    }
}

/// While the next epoch's links are under way, the sector that was the trace may have its old or its new content.
#[test]
fn a_commit_that_is_under_way_leaves_the_store_the_one_that_was_left() {
    for dies_at in [Class::Map, Class::Refs] {
        let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Ordered));
        m.write(0, &noise(1, 8));
        m.flush();
        let before = m.medium.clone();
        m.write(4096, &noise(2, 8));
        m.dies_at = Some(dies_at);
        m.begin(Op::Flush, 0, 0, None, false);
        m.wait(3);
        assert!(m.is_dead);
        let mut next = m.next(m.medium.clone(), settings(CommitMode::Ordered));
        assert!(next.read(4096, 4096 * 8) == noise(2, 8), "{dies_at:?}");
        if dies_at == Class::Refs {
            continue;
        }
        // The write that died may have reached the medium as well.
        let mut whole = Machine::open(before, settings(CommitMode::Ordered));
        whole.write(4096, &noise(2, 8));
        whole.flush();
        (whole.journal, whole.traces) = (m.journal.clone(), m.traces);
        let mut next = whole.next(whole.medium.clone(), settings(CommitMode::Ordered));
        assert!(next.read(4096, 4096 * 8) == noise(2, 8) && !next.notices.contains(&Notice::SetBack), "{dies_at:?}");
    }
}

/// A server that was killed between the write of counts and the write of links, and the settings for the next one. A content (noise of seed
/// 5) is near its limit of links: LBNs 300 and 301 are the last that it takes.
pub fn at_the_limit(refs_limit: u8) -> (Machine, impl Fn() -> Settings) {
    let settings = move || settings(CommitMode::Ordered).with_knobs(|knobs| knobs.refs_limit = refs_limit);
    let mut m = Machine::open(blank(32 << 20, None), settings());
    let content = noise(5, 1);
    for lbn in 0..u64::from(refs_limit) - 3 {
        m.write(4096 * lbn, &content);
    }
    m.flush();
    (300..302).for_each(|lbn| m.write(4096 * lbn, &content));
    m.dies_at = Some(Class::Map);
    m.begin(Op::Flush, 0, 0, None, false);
    m.wait(3);
    assert!(m.is_dead, "the links were under way");
    (m, settings)
}

#[test]
fn acknowledged_links_are_kept_where_the_counts_are_at_their_limit() {
    for limit in [254, 4] {
        let ((m, settings), content) = (at_the_limit(limit), noise(5, 1));
        let mut next = m.next(m.medium.clone(), settings());
        for lbn in 300..302 {
            assert!(next.read(4096 * lbn, 4096) == content, "limit {limit}: LBN {lbn} is lost by a kill");
        }
        let read = next.engine.ledger().read[Class::Data as usize];
        assert_eq!(read.units, read.commands, "limit {limit}: each reads one block");
        next.flush();
        next.close();
    }
}

#[test]
fn a_promise_of_a_slot_is_proved_by_its_carrier() {
    let soft = |n: u64| crate::carriers::soft(n, 1);
    let mut m = Machine::open(blank(32 << 20, None), settings(CommitMode::Log));
    m.read(0, 512);
    m.write(0, &soft(1));
    m.flush();
    // The carrier is ordinary data now, and its slots are found again.
    let mut m = Machine::open(m.close(), settings(CommitMode::Log));
    m.read(0, 512);
    m.wait(200);
    m.write(4096 * 5, &soft(1));
    assert!(matches!(m.journal[..], [Promise { what: Promised::Link { slot: 1.., .. }, .. }]), "{:?}", m.journal);
    let mut next = m.next(m.medium.clone(), settings(CommitMode::Log));
    assert!(next.read(4096 * 5, 4096) == soft(1));
    // A flipped bit of the carrier, as it lies on the medium.
    let mut medium = m.medium.clone();
    let tail = &pattern(1000, 1000)[500..600];
    let at = medium.windows(tail.len()).position(|w| w == tail).expect("it lies there, packed");
    medium[at] ^= 1;
    let mut next = m.next(medium, settings(CommitMode::Log));
    assert!(next.notices.contains(&Notice::AcknowledgedLost { writes: 1 }), "{:?}", next.notices);
    assert!(next.fails_to_read(0) && next.read(4096 * 5, 4096) == [0; 4096]);
}
