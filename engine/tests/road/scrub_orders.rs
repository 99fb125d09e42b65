//! Orders of a scrub: what was ordered holds, also after a restart.

use crate::media::{chosen, pattern};
use crate::scrub::{LONG_MS, MODES, block_with, counts, is_right, rot, scrubbed, served, settings, used};
use onefold_engine::format::CommitMode;
use onefold_engine::format::superblock::ScrubPart;
use onefold_engine::interface::{Event, ScrubOrder};
use onefold_engine::settings::Settings;
use onefold_engine::units::Pbn;

#[test]
fn an_order_counts_as_kept_when_it_is_durable() {
    let orders = [ScrubOrder::Begin { kib_per_second: 64 }, ScrubOrder::Pause, ScrubOrder::Resume, ScrubOrder::Cancel];
    for mode in MODES {
        let mut m = used(mode);
        assert!(counts(&m).is_order_kept, "{mode:?}: there is none");
        for order in orders {
            m.keeps_flushes = true;
            m.feed(Event::Scrub(order));
            assert!(!counts(&m).is_order_kept, "{mode:?}, {order:?}: no flush has ended");
            m.keeps_flushes = false;
            while !counts(&m).is_order_kept {
                let flushed = std::mem::take(&mut m.flushed);
                assert!(!flushed.is_empty(), "{mode:?}, {order:?}");
                flushed.into_iter().for_each(|event| m.feed(event));
            }
            let next = counts(&served(m.medium.clone(), settings(mode)));
            let (is_there, is_paused) = (order != ScrubOrder::Cancel, order == ScrubOrder::Pause);
            assert_eq!((next.is_under_way, next.is_paused), (is_there, is_paused), "{mode:?}, {order:?}: after a kill");
        }
        let read_only = Settings { read_only: true, ..settings(mode) };
        let mut m = served(m.close(), read_only);
        m.feed(Event::Scrub(orders[0]));
        assert!(counts(&m).is_order_kept, "{mode:?}: it can be kept nowhere");
    }
}

#[test]
fn after_a_kill_it_goes_on_where_it_was_and_keeps_its_count() {
    for mode in MODES {
        let mut m = used(mode);
        let whole = scrubbed(&mut m);
        let first = block_with(&m, |block| *block == pattern(0, 4096));
        let at = m.engine.geometry().block_at(Pbn(first));
        rot(&mut m, at);
        m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 64 }));
        m.pass_ms(whole.read_units * 4096 / (64 << 10) * 1000 * 3 / 4);
        assert!(counts(&m).is_under_way && counts(&m).damaged == 1, "{mode:?}: {:?}", counts(&m));
        let saved = chosen(&m.medium).and_then(|superblock| superblock.scrub).expect("its progress");
        assert_eq!((saved.part, saved.found.damaged, saved.kib_per_second), (ScrubPart::Data, 1, 64), "{mode:?}");
        let mut m = served(m.medium, settings(mode));
        m.pass_ms(LONG_MS);
        let found = counts(&m);
        assert!(!found.is_under_way && found.read_units < whole.read_units / 2, "{mode:?}: {found:?}");
        assert_eq!(found.damaged, 1, "{mode:?}");
    }
}

#[test]
fn a_pause_outlives_the_server_and_who_cancels_forgets() {
    for mode in MODES {
        let mut m = used(mode);
        m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 64 }));
        m.pass_ms(2000);
        m.feed(Event::Scrub(ScrubOrder::Pause));
        m.pass_ms(1000);
        let read = counts(&m).read_units;
        m.pass_ms(LONG_MS);
        assert_eq!(counts(&m).read_units, read, "{mode:?}");
        let mut m = served(m.close(), settings(mode));
        m.pass_ms(LONG_MS);
        assert!(counts(&m).is_paused && counts(&m).read_units == 0, "{mode:?}: {:?}", counts(&m));
        m.feed(Event::Scrub(ScrubOrder::Resume));
        m.pass_ms(1000);
        assert!(counts(&m).read_units > 0, "{mode:?}");
        m.feed(Event::Scrub(ScrubOrder::Cancel));
        m.pass_ms(1000);
        assert!(!counts(&m).is_under_way, "{mode:?}");
        assert_eq!(chosen(&m.medium).expect("a volume").scrub, None, "{mode:?}");
        assert!(is_right(&mut m) && m.ends());
    }
}

/// It reads no faster than was asked for.
#[test]
fn it_keeps_to_its_rate() {
    let mut m = used(CommitMode::Log);
    m.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 400 }));
    m.pass_ms(1000);
    let read = counts(&m).read_units * 4;
    assert!((300..=400 + 64).contains(&read), "{read} KiB in a second");
}
