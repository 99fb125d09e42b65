//! A store that refuses writes for want of room: they are sent again until they are done, and the volume is full meanwhile.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Event, Failure, Notice, Op, Reply, RequestId, StoreRoom};
use onefold_engine::settings::{Compression, Settings};

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const WAIT_MS: u64 = 60_000;
const BLOCKS: usize = 100;
const REFUSES: StoreRoom = StoreRoom { is_short: true, blocks: 0, refuses: true };
const TRIES: StoreRoom = StoreRoom { is_short: true, blocks: 10, refuses: true };

/// A volume with content that is synced, and a write and a flush whose content the store refuses.
fn refused(commit_mode: CommitMode, full_wait_ms: u64) -> (Machine, RequestId) {
    let settings = Settings { commit_mode, full_wait_ms, compression: Compression::Off, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.patience = 100;
    m.write(16 << 20, &pattern(7, 4096));
    m.flush();
    m.keeps_writes_of = Some(Class::Data);
    m.write(0, &pattern(1, 4096 * BLOCKS));
    let flush = m.begin(Op::Flush, 0, 0, None, false);
    m.feed(Event::StoreRoom(REFUSES));
    assert!(!m.kept_writes.is_empty(), "{commit_mode:?}: the content is under way");
    (m, flush)
}

/// The store has done what it refused.
fn takes_all(m: &mut Machine) {
    m.keeps_writes_of = None;
    std::mem::take(&mut m.kept_writes).into_iter().for_each(|event| m.feed(event));
}

fn notices(m: &Machine) -> Vec<&Notice> {
    m.notices.iter().filter(|n| matches!(n, Notice::Full { .. } | Notice::NoSpace { .. } | Notice::RoomAgain)).collect()
}

fn is_failed(m: &mut Machine, id: RequestId, failure: Failure) -> bool {
    m.is_answered(id) && matches!(m.answer(id), Reply::Failed(why) if why == failure)
}

const FULL: Notice = Notice::Full { wait_ms: WAIT_MS, on_host: true };

#[test]
fn a_flush_waits_for_what_the_store_refuses_and_ends_when_it_is_done() {
    for mode in MODES {
        let (mut m, flush) = refused(mode, WAIT_MS);
        assert_eq!((m.engine.stats().full_on_host, notices(&m)), (true, vec![&FULL]), "{mode:?}: before another write comes");
        let write = m.begin_write(8 << 20, &pattern(2, 4096));
        for _ in 0..5 {
            m.pass_ms(10_000);
            m.feed(Event::StoreRoom(REFUSES));
        }
        let stats = m.engine.stats();
        assert!(stats.full && stats.full_on_host && !stats.failed && m.engine.waits_for_room(), "{mode:?}");
        assert!(!m.is_answered(flush) && !m.is_answered(write), "{mode:?}");
        assert_eq!(m.read(16 << 20, 4096), pattern(7, 4096), "{mode:?}");
        takes_all(&mut m);
        m.feed(Event::StoreRoom(TRIES));
        m.pass_ms(100);
        [flush, write].into_iter().for_each(|id| m.finish(id));
        assert_eq!(notices(&m), [&FULL], "{mode:?}: the room may end again at once");
        m.feed(Event::StoreRoom(StoreRoom::default()));
        assert!(!m.engine.stats().full, "{mode:?}");
        assert_eq!(notices(&m), [&FULL, &Notice::RoomAgain], "{mode:?}");
        m.flush();
        let mut next = Machine::open(m.close(), Settings::default());
        assert!(next.read(0, 4096 * 100) == pattern(1, 4096 * BLOCKS), "{mode:?}");
    }
}

#[test]
fn after_the_wait_flushes_fail_and_nothing_is_lost() {
    for (mode, wait_ms) in MODES.into_iter().flat_map(|mode| [(mode, WAIT_MS), (mode, 0)]) {
        let (mut m, flush) = refused(mode, wait_ms);
        m.pass_ms(wait_ms.saturating_sub(10));
        assert_eq!(m.is_answered(flush), wait_ms == 0, "{mode:?}");
        m.pass_ms(20);
        assert!(is_failed(&mut m, flush, Failure::NoSpace), "{mode:?}");
        let late = m.begin(Op::Flush, 0, 0, None, false);
        assert!(is_failed(&mut m, late, Failure::NoSpace), "{mode:?}: it has waited for long enough");
        let write = m.begin_write(8 << 20, &pattern(2, 4096));
        assert!(is_failed(&mut m, write, Failure::NoSpace), "{mode:?}");
        assert!(m.engine.waits_for_room(), "{mode:?}: what was answered is not given up");
        takes_all(&mut m);
        m.feed(Event::StoreRoom(StoreRoom::default()));
        m.flush();
        assert!(m.read(0, 4096 * 100) == pattern(1, 4096 * BLOCKS), "{mode:?}");
        assert!(!m.engine.stats().failed && !m.engine.stats().full, "{mode:?}");
        m.close();
    }
}

/// A write to a volume with a journal is answered when its content is on the store.
#[test]
fn after_the_wait_writes_fail_whose_content_the_store_refuses() {
    for mode in MODES {
        let settings = Settings { commit_mode: mode, full_wait_ms: WAIT_MS, compression: Compression::Off, ..Settings::default() };
        let mut m = Machine::open(blank(32 << 20, None), settings.with_facts(|facts| facts.keeps_journal = true));
        m.patience = 100;
        m.write(16 << 20, &pattern(7, 4096));
        m.flush();
        m.keeps_writes_of = Some(Class::Data);
        let write = m.begin_write(0, &pattern(1, 4096 * BLOCKS));
        m.feed(Event::StoreRoom(REFUSES));
        m.pass_ms(WAIT_MS - 10);
        assert!(!m.kept_writes.is_empty() && !m.is_answered(write), "{mode:?}");
        m.pass_ms(20);
        assert!(is_failed(&mut m, write, Failure::NoSpace), "{mode:?}");
        takes_all(&mut m);
        m.feed(Event::StoreRoom(StoreRoom::default()));
        m.write(0, &pattern(1, 4096 * BLOCKS));
        m.flush();
        assert!(m.read(0, 4096 * BLOCKS as u64) == pattern(1, 4096 * BLOCKS), "{mode:?}");
        m.close();
    }
}

/// Reads wait no longer than writes do; that the block is damaged is kept when there is room again.
#[test]
fn after_the_wait_reads_of_damaged_blocks_fail() {
    for mode in MODES {
        let settings = Settings { commit_mode: mode, full_wait_ms: WAIT_MS, compression: Compression::Off, ..Settings::default() };
        let (mut m, content) = (Machine::open(blank(32 << 20, None), settings.clone()), pattern(7, 4096));
        m.write(16 << 20, &content);
        let mut medium = m.close();
        let rotten = medium.windows(4096).position(|bytes| bytes == content).expect("it is stored");
        medium[rotten] ^= 1;
        let mut m = Machine::open(medium, settings.clone());
        m.patience = 100;
        m.pass_ms(1_000);
        m.keeps_writes_of = Some(Class::Fingerprints);
        let read = m.begin(Op::Read, 16 << 20, 4096, None, false);
        m.feed(Event::StoreRoom(REFUSES));
        m.pass_ms(WAIT_MS - 10);
        assert!(!m.kept_writes.is_empty() && !m.is_answered(read), "{mode:?}: that it is damaged is not kept");
        m.pass_ms(20);
        assert!(is_failed(&mut m, read, Failure::Io), "{mode:?}");
        assert!(m.fails_to_read((16 << 20) / 4096), "{mode:?}: at once");
        takes_all(&mut m);
        m.feed(Event::StoreRoom(StoreRoom::default()));
        m.pass_ms(10_000);
        let mut next = Machine::open(m.medium, settings);
        next.write(8 << 20, &content);
        assert_eq!((next.engine.ledger().new_blocks, next.engine.ledger().duplicates), (1, 0), "{mode:?}: it is known after a kill");
    }
}

#[test]
fn nobody_waits_for_the_store_when_the_volume_is_about_to_be_detached() {
    for mode in MODES {
        let (mut m, flush) = refused(mode, WAIT_MS);
        m.feed(Event::EndWaiting);
        assert!(is_failed(&mut m, flush, Failure::NoSpace) && !m.engine.waits_for_room(), "{mode:?}");
    }
}
