//! Large epochs with an acknowledgement journal: content that is packed is recorded by its place, so the room of the journal does not
//! limit what is packed.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::blank;
use crate::replay::{MODES, noise, settings};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Notice, Promised};
use onefold_engine::settings::Settings;
use onefold_engine::units::index;

/// A volume in mode `log` with room for this many contents in its journal.
fn served(journal_contents_max: u64) -> Machine {
    let mut m = Machine::open(
        blank(64 << 20, None),
        settings(CommitMode::Log).with_facts(|facts| facts.journal_contents_max = journal_contents_max),
    );
    assert_eq!(m.read(0, 512).len(), 512);
    m.written.clear();
    m
}

/// Writes content a block at a time, each of which is acknowledged before the next comes.
fn write_all(m: &mut Machine, first: u64, content: &[u8]) {
    content.chunks(4096).zip(first..).for_each(|(block, lbn)| m.write(4096 * lbn, block));
}

fn data_written(m: &Machine) -> u64 {
    m.written.get(&Class::Data).copied().unwrap_or(0)
}

fn contents(m: &Machine) -> usize {
    m.journal.iter().filter(|promise| matches!(promise.what, Promised::Content { .. })).count()
}

#[test]
fn a_journal_with_little_room_packs_as_well_as_none() {
    let content = soft(1, 600);
    let mut m = served(256);
    write_all(&mut m, 0, &content);
    assert!(contents(&m) <= 128, "{} of 128", contents(&m));
    m.flush();
    let mut without = Machine::open(blank(64 << 20, None), settings(CommitMode::Log).with_facts(|facts| facts.keeps_journal = false));
    assert_eq!(without.read(0, 512).len(), 512);
    without.written.clear();
    write_all(&mut without, 0, &content);
    without.flush();
    // Three fit a block, but at the end of a batch.
    assert!((200..=206).contains(&data_written(&without)), "{}", data_written(&without));
    assert!(data_written(&m) <= data_written(&without) + 6, "{} for {}", data_written(&m), data_written(&without));
    assert!(m.read(0, 600 * 4096) == content);
}

/// Each LBN that means a held block takes the room of a content in the journal: it fills while too few blocks for a batch are held back.
#[test]
fn a_journal_that_fills_with_what_is_repeated_packs_as_well_as_none() {
    let content = soft(1, 500);
    let written = |mut m: Machine| {
        m.read(0, 512);
        m.written.clear();
        write_all(&mut m, 0, &content[..4096 * 100]);
        let held = contents(&m);
        // One block gets all the LBNs for which there is room, and then others follow.
        let room = 128 - held as u64;
        (0..room).for_each(|i| m.write(4096 * (1000 + i), &content[4096 * 99..4096 * 100]));
        write_all(&mut m, 100, &content[4096 * 100..]);
        m.flush();
        assert!(m.read(0, 4096 * 500) == content && m.read(4096 * 1000, 4096) == content[4096 * 99..4096 * 100]);
        data_written(&m)
    };
    let without = written(Machine::open(blank(64 << 20, None), settings(CommitMode::Log).with_facts(|facts| facts.keeps_journal = false)));
    let with = written(served(256));
    // A batch is smaller with the journal.
    assert!(with * 20 <= without * 21, "{with} for {without}");
}

/// Packs whose epoch is not durable are found by the journal's entries, also by a server in the other mode, and after a further opening.
#[test]
fn what_was_packed_is_there_after_a_kill() {
    for mode in MODES {
        let content = soft(1, 300);
        let mut m = served(128);
        write_all(&mut m, 0, &content);
        // Some of it is overwritten, and some gets further LBNs.
        let over = noise(2, 7);
        write_all(&mut m, 90, &over);
        write_all(&mut m, 400, &content[..4096 * 50]);
        let named = m.journal.iter().filter(|promise| matches!(promise.what, Promised::Link { slot: 1.., .. })).count();
        assert!(named > 200, "{named} slots are in the journal");
        let right = |m: &mut Machine| {
            let all = [&content[..4096 * 90], &over[..], &content[4096 * 97..]].concat();
            assert!(m.read(0, 4096 * 300) == all && m.read(4096 * 400, 4096 * 50) == content[..4096 * 50], "{mode:?}");
        };
        let mut next = m.next(m.medium.clone(), settings(mode));
        right(&mut next);
        assert!(next.notices.iter().all(|notice| !matches!(notice, Notice::AcknowledgedLost { .. } | Notice::Damage { .. })));
        next.flush();
        right(&mut next);
        right(&mut Machine::open(next.close(), settings(CommitMode::Log)));
    }
}

/// A pack that is new again after a replay is a pack as any other: none of its content is stored anew.
#[test]
fn what_was_packed_stays_packed_after_a_kill() {
    let content = soft(1, 300);
    let mut m = served(128);
    write_all(&mut m, 0, &content);
    let of_old = data_written(&m);
    let mut next = m.next(m.medium.clone(), settings(CommitMode::Log));
    assert!(next.read(0, 4096 * 300) == content);
    next.flush();
    // The packs are written again, since nothing shows that they are durable, and so is what had not been packed.
    assert!(data_written(&next) <= of_old + 64, "{} for {of_old}", data_written(&next));
    next.written.clear();
    write_all(&mut next, 500, &content);
    next.flush();
    assert!(data_written(&next) <= 64, "{} blocks for duplicates of slots", data_written(&next));
}

#[test]
fn what_the_device_has_lost_of_packs_is_not_believed() {
    let mut m = served(128);
    write_all(&mut m, 0, &noise(7, 300));
    m.flush();
    let flushed = m.medium.clone();
    write_all(&mut m, 0, &soft(1, 300));
    let mut next = m.next(flushed, settings(CommitMode::Log));
    let found = next.read(0, 4096 * 300);
    let (old, new) = (noise(7, 300), soft(1, 300));
    let blocks = |i: usize| 4096 * i..4096 * (i + 1);
    assert!((0..300).all(|i| found[blocks(i)] == old[blocks(i)] || found[blocks(i)] == new[blocks(i)]));
    assert!(next.notices.iter().any(|notice| matches!(notice, Notice::AcknowledgedLost { .. })), "{:?}", next.notices);
    assert!(next.flush_fails() && !next.flush_fails());
}

/// Some of few blocks were packed and some were not: the epoch that replays both is small, except for the packs in it.
#[test]
fn what_was_packed_and_what_was_not_come_back_in_one_epoch() {
    let content = soft(1, 76);
    let mut m = served(128);
    write_all(&mut m, 0, &content);
    let named = m.journal.iter().filter(|promise| matches!(promise.what, Promised::Link { slot: 1.., .. })).count();
    assert!(named > 30 && contents(&m) > 5, "{named} slots, {} contents", contents(&m));
    let mut next = m.next(m.medium.clone(), settings(CommitMode::Log));
    next.flush();
    let mut after = Machine::open(next.medium, settings(CommitMode::Log));
    assert!(after.read(0, 4096 * 76) == content);
}

/// With a journal, a link that is removed within its epoch counts until that epoch is durable, and its block stays where it is.
#[test]
fn what_was_overwritten_while_it_was_held_back_is_counted_right() {
    let content = soft(1, 80);
    let mut m = served(256);
    // Nothing is packed before the epoch is large.
    write_all(&mut m, 0, &content[..4096 * 40]);
    write_all(&mut m, 200, &content[..4096 * 40]);
    write_all(&mut m, 10, &soft(2, 10));
    write_all(&mut m, 230, &noise(3, 5));
    write_all(&mut m, 40, &content[4096 * 40..]);
    m.flush();
    let right = |m: &mut Machine| {
        let first = [&content[..4096 * 10], &soft(2, 10), &content[4096 * 20..]].concat();
        assert!(m.read(0, 4096 * 80) == first);
        assert!(m.read(4096 * 200, 4096 * 40) == [&content[..4096 * 30], &noise(3, 5), &content[4096 * 35..4096 * 40]].concat());
    };
    right(&mut m);
    let mut next = m.next(m.medium.clone(), settings(CommitMode::Log));
    right(&mut next);
    let medium = next.close();
    assert!(findings(&medium).is_empty(), "{:?}", findings(&medium));
}

fn free(m: &Machine) -> u64 {
    m.engine.stats().free_blocks
}

/// An almost full volume, and the settings for the next server. The first LBNs have content that is held back, of seeds that are their
/// numbers; one more is written, at once, so that just enough blocks are left free for the contents in the journal. Flushes do not end.
fn with_a_free_block_for_each_content() -> (Machine, u64, Settings) {
    const FREE: u64 = 61;
    let settings = Settings { commit_period_ms: 3_600_000, ..settings(CommitMode::Log) };
    let mut m = Machine::open(blank(16 << 20, None), settings.clone());
    assert_eq!(m.read(0, 512).len(), 512);
    let mut filled = 0;
    while free(&m) > FREE {
        let blocks = (free(&m) - FREE).min(100);
        write_all(&mut m, filled, &noise(filled, index(blocks)));
        m.flush();
        filled += blocks;
    }
    m.keeps_flushes = true;
    let mut written = 0;
    while free(&m) > contents(&m) as u64 {
        let id = m.begin_write(4096 * written, &soft(written, 1));
        assert!(m.is_answered(id) && m.flushed.is_empty(), "{written}: {} blocks are free for {} contents", free(&m), contents(&m));
        written += 1;
    }
    assert_eq!((free(&m), contents(&m), data_written(&m)), (30, 30, filled + 1));
    (m, written, settings)
}

/// Asserts that the server after this one, which is killed, has the content of the first LBNs.
fn is_there_after_a_kill(m: &Machine, lbns: u64, settings: Settings) {
    let mut next = m.next(m.medium.clone(), settings);
    (0..lbns).for_each(|lbn| assert_eq!(next.read(4096 * lbn, 4096), soft(lbn, 1), "{lbn}"));
    assert!(next.notices.iter().all(|notice| !matches!(notice, Notice::AcknowledgedLost { .. })), "{:?}", next.notices);
}

/// The next server may need a free block for each content in the journal. If just enough are left, content is written at once instead of
/// held back, and the next write makes the epoch commit.
#[test]
fn each_content_in_the_journal_has_a_free_block() {
    let (mut m, written, settings) = with_a_free_block_for_each_content();
    let id = m.begin_write(4096 * written, &soft(written, 1));
    assert!(m.is_answered(id) && m.flushed.len() == 1, "the commit gives blocks back: what rides needs none of its own");
    is_there_after_a_kill(&m, written + 1, settings);
}

/// A duplicate of content that is held back takes no block here. But the next server may need one for it, and none is left.
#[test]
fn a_duplicate_that_the_journal_may_not_promise_waits_for_the_commit() {
    let (mut m, written, settings) = with_a_free_block_for_each_content();
    let id = m.begin_write(4096 * written, &soft(0, 1));
    m.pass_ms(100);
    assert!(!m.is_answered(id) && m.flushed.len() == 1, "it waits, and the epoch commits");
    is_there_after_a_kill(&m, written, settings);
    m.keeps_flushes = false;
    std::mem::take(&mut m.flushed).into_iter().for_each(|flushed| m.feed(flushed));
    m.finish(id);
    assert_eq!(m.read(4096 * written, 4096), soft(0, 1));
}
