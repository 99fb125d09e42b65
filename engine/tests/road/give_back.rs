//! Unused blocks are given back to a store that is short of room, or after a time.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Event, Op, StoreRoom};
use onefold_engine::settings::Settings;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const BLOCKS: usize = 600;
const SHORT: StoreRoom = StoreRoom { is_short: true, blocks: 1000, refuses: false };
const OUT: StoreRoom = StoreRoom { is_short: true, blocks: 0, refuses: false };

/// A volume with blocks that were written, synced, and discarded: their fingerprints keep them.
fn kept(settings: Settings) -> Machine {
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.write(0, &pattern(1, 4096 * BLOCKS));
    m.write(16 << 20, &pattern(2, 4096 * 10));
    m.flush();
    m.request(Op::Discard, 0, 4096 * 600, None, false);
    m.flush();
    // In mode `log` removed links count until something confirms their epoch, as the next one does.
    m.write(20 << 20, &pattern(3, 4096));
    m.flush();
    m.pass_ms(2_000);
    assert_eq!((m.engine.stats().kept_blocks, m.engine.ledger().device_discarded_bytes), (600, 0));
    m
}

fn given_back(m: &Machine) -> bool {
    m.engine.stats().kept_blocks == 0 && m.engine.ledger().device_discarded_bytes >= 4096 * 590
}

#[test]
fn kept_blocks_go_back_to_a_store_that_is_short() {
    for commit_mode in MODES {
        let mut m = kept(Settings { commit_mode, ..Settings::default() });
        m.pass_ms(3_600_000);
        assert_eq!(m.engine.stats().kept_blocks, 600, "{commit_mode:?}: the room is not needed");
        m.feed(Event::StoreRoom(SHORT));
        m.pass_ms(5_000);
        let (stats, ledger) = (m.engine.stats(), m.engine.ledger());
        assert!(given_back(&m), "{commit_mode:?}: {} kept, {} bytes given back", stats.kept_blocks, ledger.device_discarded_bytes);
        assert_eq!(m.read(16 << 20, 40960), pattern(2, 40960), "{commit_mode:?}");
        m.pass_ms(60_000);
        assert!(m.wake <= m.now, "{commit_mode:?}: there is nothing more to look for");
        m.close();
    }
}

#[test]
fn blocks_are_kept_for_as_long_as_was_asked_for() {
    for commit_mode in MODES {
        let mut m = kept(Settings { commit_mode, keep_ms: 60_000, ..Settings::default() });
        m.pass_ms(50_000);
        assert_eq!(m.engine.stats().kept_blocks, 600, "{commit_mode:?}");
        m.pass_ms(20_000);
        assert_eq!(m.engine.stats().kept_blocks, 0, "{commit_mode:?}");
    }
}

/// A sparse file, as fstrim leaves it: the store has all the room that there is, and the volume as well.
#[test]
fn what_clients_trim_goes_back_to_a_sparse_store_within_a_minute() {
    for commit_mode in MODES {
        let sparse = Settings { commit_mode, ..Settings::default() }.with_facts(|facts| facts.trim_rest_ms = 20_000);
        let mut m = kept(sparse.clone());
        m.pass_ms(15_000);
        assert_eq!(m.engine.stats().kept_blocks, 600, "{commit_mode:?}: it rests first, since the same content may come again");
        m.pass_ms(43_000);
        let given_back = m.engine.ledger().device_discarded_bytes;
        assert!(given_back >= 4096 * 500, "{commit_mode:?}: {} kept, {given_back} bytes given back", m.engine.stats().kept_blocks);
        assert_eq!(m.read(16 << 20, 40960), pattern(2, 40960), "{commit_mode:?}");
        m.pass_ms(60_000);
        assert!(m.wake <= m.now, "{commit_mode:?}: there is nothing more to look for");
        // Content that was overwritten is kept: nobody has said that it is not needed. Neither has a small trim.
        let before = m.engine.stats().kept_blocks;
        m.write(24 << 20, &pattern(4, 4096 * 600));
        m.flush();
        m.write(24 << 20, &pattern(5, 4096 * 600));
        m.request(Op::Discard, 4 << 20, 4096 * 200, None, false);
        m.flush();
        m.write(20 << 20, &pattern(6, 4096));
        m.flush();
        m.pass_ms(120_000);
        assert!(m.engine.stats().kept_blocks >= before + 600, "{commit_mode:?}: {:?}", m.engine.stats());
        m.close();
        // Where the store is no sparse file, it has nothing to gain.
        let mut m = kept(Settings { commit_mode, ..Settings::default() });
        m.pass_ms(3_600_000);
        assert_eq!(m.engine.stats().kept_blocks, 600, "{commit_mode:?}");
    }
}

/// Most of what was deleted is not trimmed again by the next `fstrim`, which starts from the whole free space after each mount.
#[test]
fn a_trim_of_what_was_trimmed_before_gives_back_what_a_restart_has_left() {
    for commit_mode in MODES {
        let sparse = Settings { commit_mode, ..Settings::default() }.with_facts(|facts| facts.trim_rest_ms = 20_000);
        let mut m = Machine::open(kept(sparse.clone()).close(), sparse);
        assert_eq!(m.read(16 << 20, 40960), pattern(2, 40960), "{commit_mode:?}");
        m.pass_ms(120_000);
        assert_eq!((m.engine.stats().kept_blocks, m.engine.ledger().device_discarded_bytes), (600, 0), "{commit_mode:?}");
        m.request(Op::Discard, 0, 4096 * 600, None, false);
        m.pass_ms(58_000);
        let given_back = m.engine.ledger().device_discarded_bytes;
        assert!(given_back >= 4096 * 500, "{commit_mode:?}: {given_back} bytes given back");
        m.close();
    }
}

#[test]
fn a_store_that_is_out_of_room_gets_no_new_blocks() {
    for commit_mode in MODES {
        let mut m = kept(Settings { commit_mode, full_wait_ms: 60_000, ..Settings::default() });
        m.patience = 100;
        m.feed(Event::StoreRoom(OUT));
        let ids = [m.begin_write(0, &pattern(30, 4096)), m.begin_write(16 << 20, &pattern(40, 4096))];
        m.pass_ms(20_000);
        assert!(ids.iter().all(|&id| !m.is_answered(id)), "{commit_mode:?}");
        assert!(m.engine.stats().full, "{commit_mode:?}: {:?}", m.engine.stats());
        assert!(given_back(&m), "{commit_mode:?}: unused blocks are given back meanwhile");
        m.feed(Event::StoreRoom(SHORT));
        m.pass_ms(1_000);
        ids.into_iter().for_each(|id| m.finish(id));
        assert!(!m.engine.stats().full, "{commit_mode:?}");
        m.close();
    }
}

/// Nothing else is written after the discard.
#[test]
fn what_the_last_epoch_has_freed_goes_back_at_once_where_the_store_is_short() {
    for commit_mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, ..Settings::default() });
        m.feed(Event::StoreRoom(SHORT));
        m.write(0, &pattern(1, 4096 * BLOCKS));
        m.flush();
        m.request(Op::Discard, 0, 4096 * 600, None, false);
        m.flush();
        m.pass_ms(3_000);
        let (stats, ledger) = (m.engine.stats(), m.engine.ledger());
        assert!(given_back(&m), "{commit_mode:?}: {} kept, {} bytes given back", stats.kept_blocks, ledger.device_discarded_bytes);
        m.close();
    }
}

/// A client that is faster than the next report of the store's room waits for it, and the volume does not count as full.
#[test]
fn no_more_is_written_than_the_store_was_reported_to_have_room_for() {
    for commit_mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, full_wait_ms: 0, ..Settings::default() });
        assert_eq!(m.read(0, 512).len(), 512);
        m.patience = 100;
        m.feed(Event::StoreRoom(StoreRoom { is_short: false, blocks: 100, refuses: false }));
        let id = m.begin_write(0, &pattern(1, 4096 * 150));
        m.pass_ms(500);
        assert!(!m.is_answered(id) && !m.engine.stats().full, "{commit_mode:?}");
        assert_eq!(m.engine.ledger().new_blocks, 100, "{commit_mode:?}");
        m.feed(Event::StoreRoom(SHORT));
        m.finish(id);
        m.flush();
        assert!(m.read(0, 4096 * 150) == pattern(1, 4096 * 150), "{commit_mode:?}");
        m.close();
    }
}
