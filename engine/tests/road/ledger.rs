//! The lifetime ledger, and what reports leave out of the counts of links.

use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Op, Reply};
use onefold_engine::settings::Settings;
use onefold_engine::stats::RemovedLinks;

const MODES: [CommitMode; 2] = [CommitMode::Ordered, CommitMode::Log];

/// A crash loses what clients wrote since the last superblock: at most `ledger_units_max` units, and the epoch after them.
#[test]
fn a_superblock_is_written_after_some_units_for_its_ledger() {
    for commit_mode in MODES {
        let settings = Settings { commit_mode, ..Settings::default() }.with_knobs(|knobs| knobs.ledger_units_max = 16);
        let units = |medium: &[u8]| chosen(medium).expect("a volume").lifetime.client_write_units;
        let mut m = Machine::open(blank(32 << 20, None), settings.clone());
        let mut before = 0;
        for life in 0..3 {
            m.read(0, 512);
            m.written.clear();
            for n in 1..=100 {
                m.write(4096 * n, &pattern(1000 * life + n, 4096));
                m.flush();
                let (lived, lasting) = (before + n, units(&m.medium));
                assert_eq!(m.engine.stats().lifetime.client_write_units, lived, "{commit_mode:?}");
                assert!((lived.saturating_sub(16)..=lived).contains(&lasting), "{commit_mode:?}, {life}: {lasting} of {lived}");
            }
            assert_eq!(m.written.get(&Class::Superblock), Some(&12), "{commit_mode:?}: two copies each time");
            let medium = m.medium.clone();
            before = units(&medium);
            m = Machine::open(medium, settings.clone());
        }
        // An orderly end loses nothing.
        m.read(0, 512);
        m.write(0, &pattern(1, 4096));
        assert_eq!(units(&m.close()), before + 1, "{commit_mode:?}");
    }
}

/// A crash forgets no more of what clients wrote than 64 MiB and an epoch.
#[test]
fn the_ledger_comes_with_a_superblock_after_64_mib() {
    const UNITS: u64 = (64 << 20) / 4096;
    for commit_mode in MODES {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, ..Settings::default() });
        m.read(0, 512);
        m.written.clear();
        let mut write = |units: u64| {
            (0..units / 1024).for_each(|_| m.write(0, &vec![0; 4096 * 1024]));
            (0..units % 1024).for_each(|_| m.write(0, &[0; 4096]));
            m.flush();
            m.written.get(&Class::Superblock).copied()
        };
        assert_eq!((write(UNITS - 1), write(1)), (None, Some(2)), "{commit_mode:?}: two copies");
    }
}

/// In mode `log` removed links count until a later commit. Reports leave them out, whether their blocks have other links or not.
#[test]
fn what_is_gone_is_distinguished_from_what_still_counts() {
    for (commit_mode, gone) in [(CommitMode::Ordered, RemovedLinks::default()), (CommitMode::Log, RemovedLinks { links: 150, blocks: 50 })]
    {
        let mut m = Machine::open(blank(32 << 20, None), Settings { commit_mode, ..Settings::default() });
        let (single, doubled) = (pattern(1, 4096 * 50), pattern(2, 4096 * 100));
        m.write(0, &single);
        [100, 300, 500].into_iter().for_each(|at| m.write(4096 * at, &doubled));
        m.flush();
        m.wait(10);
        assert_eq!((m.engine.stats().map_links, m.engine.stats().gone), (Some(350), RemovedLinks::default()));
        // The single ones, and one link of three of the others.
        for (at, blocks) in [(0, 50), (300, 100)] {
            let reply = m.request(Op::Discard, 4096 * at, 4096 * blocks, None, false);
            assert!(matches!(reply, Reply::Done), "{reply:?}");
        }
        m.flush();
        let stats = m.engine.stats();
        assert_eq!(stats.gone, gone, "{commit_mode:?}");
        assert_eq!(stats.map_links.map(|links| links - stats.gone.links), Some(200), "{commit_mode:?}");
        assert_eq!(stats.unique_blocks + stats.shared_blocks - stats.gone.blocks, 100, "{commit_mode:?}");
        // The next commit frees them.
        m.write(4096 * 2000, &single);
        m.flush();
        let stats = m.engine.stats();
        assert_eq!((stats.gone, stats.map_links), (RemovedLinks::default(), Some(250)), "{commit_mode:?}");
    }
}
