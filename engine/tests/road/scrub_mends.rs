//! A scrub says that something is mended, or that it has ended, when that is durable; and its results outlive the server.

use crate::machine::{Done, Machine};
use crate::media::{chosen, pattern};
use crate::scrub::{AT_ONCE, LONG_MS, MODES, PAGES, block_with, counts, is_right, page, piece, rot, scrubbed, served, settings, used};
use onefold_engine::format::page::Region;
use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::format::{CommitMode, copies};
use onefold_engine::interface::{Class, Event, Notice, ScrubOrder};
use onefold_engine::units::{BLOCK_SIZE, Bytes, Pbn, index};

/// Lets little time pass, again and again, until that is so.
fn until(m: &mut Machine, is_so: impl Fn(&Machine) -> bool) {
    for _ in 0..20_000 {
        if is_so(m) {
            return;
        }
        m.pass_ms(1);
    }
    panic!("it never comes: {:?}", counts(m));
}

/// Lets one flush after the other come back, until that is so: what came too early is seen before the flush that it should have awaited.
fn until_by_flushes(m: &mut Machine, is_so: impl Fn(&Machine) -> bool) {
    m.keeps_flushes = true;
    for _ in 0..20_000 {
        if is_so(m) {
            return;
        }
        if m.flushed.is_empty() {
            m.pass_ms(1);
        } else {
            let flushed = m.flushed.remove(0);
            m.feed(flushed);
        }
    }
    panic!("it never comes: {:?}", counts(m));
}

fn let_flushes_end(m: &mut Machine) {
    m.keeps_flushes = false;
    std::mem::take(&mut m.flushed).into_iter().for_each(|flushed| m.feed(flushed));
}

fn has_ended(m: &Machine) -> bool {
    !counts(m).is_under_way
}

/// Whether the block was written since the history had this length, and a flush that was sent after that has come back.
fn is_flushed(m: &Machine, since: usize, at: Bytes) -> bool {
    let (block, history) = (index(at.0) / BLOCK_SIZE, &m.history[since..]);
    let is_it = |done: &Done| matches!(done, Done::Write { first, blocks, .. } if (*first..first + blocks).contains(&block));
    let flushes = |from: usize| history[from..].iter().filter(|done| **done == Done::Flush).count();
    history.iter().position(is_it).is_some_and(|written| flushes(written) > m.flushed.len())
}

fn is_damage(notice: &Notice) -> bool {
    matches!(notice, Notice::Damage { .. } | Notice::Mended { .. })
}

#[test]
fn a_page_is_mended_when_it_is_written_and_flushed() {
    for mode in MODES {
        for (part, region) in PAGES {
            let mut m = used(mode);
            assert!(is_right(&mut m), "all pages are in memory");
            let at = page(&m, region, 0);
            rot(&mut m, at);
            let before = m.history.len();
            m.feed(Event::Scrub(AT_ONCE));
            until_by_flushes(&mut m, |m| counts(m).mended > 0 || has_ended(m));
            assert_eq!(counts(&m).listed, [piece(part, 0, true)], "{mode:?}, {region:?}: {:?}", m.notices);
            assert!(is_flushed(&m, before, at), "{mode:?}, {region:?}: it is said to be mended");
            let_flushes_end(&mut m);
            until(&mut m, has_ended);
            // The server is killed, and the next one finds nothing.
            let mut m = served(m.medium, settings(mode));
            assert!(is_right(&mut m) && scrubbed(&mut m).listed.is_empty(), "{mode:?}, {region:?}");
            assert!(!m.notices.iter().any(is_damage), "{mode:?}, {region:?}: {:?}", m.notices);
        }
    }
}

/// A crash would lose the order, and what was found with it.
#[test]
fn it_has_ended_when_its_results_are_durable() {
    for mode in MODES {
        let mut m = used(mode);
        let first = block_with(&m, |block| *block == pattern(0, 4096));
        let at = m.engine.geometry().block_at(Pbn(first));
        rot(&mut m, at);
        m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 1 << 12 }));
        until(&mut m, |m| counts(m).damaged == 1);
        m.keeps_flushes = true;
        m.pass_ms(LONG_MS);
        let ended = |m: &Machine| m.notices.iter().any(|notice| matches!(notice, Notice::Scrubbed { .. }));
        assert!(!has_ended(&m) && !ended(&m) && counts(&m).ended == 0, "{mode:?}: no flush has come back: {:?}", counts(&m));
        let are_written = |m: &Machine| chosen(&m.medium).is_some_and(|superblock| superblock.ended_scrubs.number == 1);
        until_by_flushes(&mut m, are_written);
        m.pass_ms(LONG_MS);
        assert!(!has_ended(&m) && !ended(&m), "{mode:?}: its results are written, and not flushed");
        let_flushes_end(&mut m);
        until(&mut m, has_ended);
        assert!(ended(&m), "{mode:?}");
        let saved = chosen(&m.medium).expect("a volume");
        assert_eq!((saved.scrub, saved.ended_scrubs.number, saved.ended_scrubs.last.damaged), (None, 1, 1), "{mode:?}");
    }
}

#[test]
fn its_results_outlive_the_server() {
    for mode in MODES {
        let mut m = used(mode);
        let first = block_with(&m, |block| *block == pattern(0, 4096));
        let at = m.engine.geometry().block_at(Pbn(first));
        rot(&mut m, at);
        rot(&mut m, copies(Bytes(32 << 20))[3]);
        let found = scrubbed(&mut m);
        let results = (found.damaged, found.mended, found.lost, found.ended);
        assert!(results.0 == 1 && results.3 == 1, "{mode:?}: {found:?}");
        for is_killed in [true, false] {
            let medium = if is_killed { m.medium.clone() } else { m.close() };
            m = served(medium, settings(mode));
            let kept = counts(&m);
            assert!(!kept.is_under_way && kept.listed.is_empty(), "{mode:?}: {kept:?}");
            assert_eq!((kept.damaged, kept.mended, kept.lost, kept.ended), results, "{mode:?}, killed: {is_killed}");
        }
    }
}

/// The place in the superblock lies before a piece that is not durably whole, so that the next server comes to it again.
#[test]
fn a_kill_before_a_page_is_mended_has_the_next_server_look_at_it() {
    for mode in MODES {
        let mut m = used(mode);
        assert!(is_right(&mut m), "all pages are in memory");
        let at = page(&m, Region::Refs, 0);
        let whole = m.medium[index(at.0)..][..BLOCK_SIZE].to_vec();
        rot(&mut m, at);
        let rotten = m.medium[index(at.0)..][..BLOCK_SIZE].to_vec();
        m.feed(Event::Scrub(AT_ONCE));
        until(&mut m, |m| m.medium[index(at.0)..][..BLOCK_SIZE] == whole);
        // The write was lost with the device's cache.
        let mut medium = m.medium.clone();
        medium[index(at.0)..][..BLOCK_SIZE].copy_from_slice(&rotten);
        let mut m = served(medium, settings(mode));
        m.pass_ms(LONG_MS);
        assert!(has_ended(&m), "{mode:?}");
        let found = counts(&m);
        assert_eq!(found.damaged + found.mended, 1, "{mode:?}: {found:?}, {:?}", m.notices);
    }
}

/// A device that does not keep what is written is no place where something is mended.
#[test]
fn what_rots_again_at_once_is_damaged() {
    for mode in MODES {
        let mut m = used(mode);
        assert!(is_right(&mut m), "all pages are in memory");
        m.keeps_reads_of = Some(Class::Refs);
        m.feed(Event::Scrub(AT_ONCE));
        let mut rounds = 0..1000;
        while !has_ended(&m) {
            assert!(rounds.next().is_some(), "{:?}", counts(&m));
            for mut event in std::mem::take(&mut m.kept_reads) {
                if let Event::Read { buffer, .. } = &mut event {
                    buffer.block_mut(0)[77] ^= 4;
                }
                m.feed(event);
            }
            m.pass_ms(100);
        }
        let found = counts(&m);
        let refs = m.engine.geometry().pages(Region::Refs);
        assert_eq!((found.damaged, found.mended), (refs, 0), "{mode:?}: {found:?}");
        assert!(m.notices.iter().any(|notice| matches!(notice, Notice::Damage { .. })), "{mode:?}");
    }
}

#[test]
fn a_unit_of_the_log_is_mended_when_no_opening_needs_it() {
    let mut m = used(CommitMode::Log);
    for lbn in [900, 901] {
        m.write(4096 * lbn, &pattern(lbn, 4096));
        m.flush();
    }
    let tail = chosen(&m.medium).and_then(|superblock| superblock.log_tail).expect("a log tail");
    let first = tail.places[0].first;
    let at = m.engine.geometry().block_at(first);
    rot(&mut m, at);
    m.feed(Event::Scrub(AT_ONCE));
    until_by_flushes(&mut m, |m| counts(m).mended > 0 || has_ended(m));
    assert_eq!(counts(&m).listed, [piece(ScrubPart::Log, first.0, true)], "{:?}", m.notices);
    // The server is killed at this moment.
    let mut m = served(m.medium, settings(CommitMode::Log));
    assert!(!m.notices.iter().any(is_damage), "{:?}", m.notices);
    assert!(is_right(&mut m) && [900, 901].into_iter().all(|lbn| m.read(4096 * lbn, 4096) == pattern(lbn, 4096)));
}

/// A page that was read as sound may be in the device's cache alone: a power loss would bring back what was there before.
#[test]
fn the_superblock_has_no_place_behind_what_is_not_durable() {
    let mut m = used(CommitMode::Ordered);
    m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 64 }));
    let saved = |m: &Machine| chosen(&m.medium).and_then(|superblock| superblock.scrub).expect("its place");
    until(&mut m, |m| saved(m).part >= ScrubPart::Refs);
    m.keeps_flushes = true;
    let before = saved(&m);
    m.pass_ms(LONG_MS / 60);
    assert!(saved(&m).part <= ScrubPart::Data && saved(&m).part >= before.part);
    // One update was under way at most: its flush has not come back.
    assert!(m.flushed.len() <= 1, "{}", m.flushed.len());
}
