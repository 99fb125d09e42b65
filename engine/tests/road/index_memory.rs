//! The memory of the index can be changed while the volume serves.

use crate::carriers::soft;
use crate::checked::findings;
use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Event};
use onefold_engine::settings::Settings;
use onefold_engine::units::Bytes;

const MODES: [CommitMode; 2] = [CommitMode::Log, CommitMode::Ordered];
const BLOCKS: u64 = 200;
const COPY: u64 = 1000;
const SOON_MS: u64 = 60_000;

/// The index gets other memory while the volume serves, is rebuilt, and finds what it has room for.
#[test]
fn an_index_that_gets_more_memory_finds_what_it_missed() {
    for mode in MODES {
        let settings = || Settings { commit_mode: mode, ..Settings::default() }.with_knobs(|knobs| knobs.index_bytes_max = 0);
        let mut m = Machine::open(blank(32 << 20, None), settings());
        m.feed(Event::Tick);
        (0..BLOCKS).for_each(|n| m.write(4096 * n, &pattern(n, 4096)));
        m.flush();
        let capacity = m.engine.stats().index_capacity;
        m.feed(Event::IndexMemory(Bytes(1 << 20)));
        m.pass_ms(SOON_MS);
        let stats = m.engine.stats();
        assert!(stats.index_capacity > 100 * capacity && stats.index_entries >= BLOCKS, "{mode:?}: {stats:?}");
        let before = m.engine.ledger().duplicates;
        (0..BLOCKS).for_each(|n| m.write(4096 * (COPY + n), &pattern(n, 4096)));
        assert_eq!(m.engine.ledger().duplicates - before, BLOCKS, "{mode:?}");
        m.flush();
        m.feed(Event::IndexMemory(Bytes(0)));
        m.pass_ms(SOON_MS);
        assert_eq!(m.engine.stats().index_capacity, capacity, "{mode:?}");
        assert!((0..BLOCKS).all(|n| m.read(4096 * n, 4096) == m.read(4096 * (COPY + n), 4096)));
        assert!(findings(&m.close()).is_empty());
    }
}

/// It may be rebuilt once more before the rebuild of the opening is over, while that reads carriers.
#[test]
fn an_index_gets_other_memory_while_it_is_rebuilt() {
    let settings = || Settings { commit_mode: CommitMode::Log, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, None), settings());
    (0..BLOCKS).for_each(|n| {
        m.write(4096 * n, &soft(n, 1));
        m.flush();
    });
    let mut m = Machine::open(m.close(), settings());
    m.keeps_reads_of = Some(Class::Data);
    m.feed(Event::Tick);
    m.pass_ms(SOON_MS);
    assert!(!m.kept_reads.is_empty(), "it reads carriers");
    m.feed(Event::IndexMemory(Bytes(1 << 20)));
    m.keeps_reads_of = None;
    while !m.kept_reads.is_empty() {
        let kept = m.kept_reads.remove(0);
        m.feed(kept);
    }
    m.pass_ms(SOON_MS);
    assert_eq!(m.engine.stats().index_entries, BLOCKS);
    (0..BLOCKS).for_each(|n| m.write(4096 * (COPY + n), &soft(n, 1)));
    assert_eq!(m.engine.ledger().duplicates, BLOCKS);
}
