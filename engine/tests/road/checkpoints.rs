//! Checkpoints: when they begin, and how much of them is under way at once.

use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Class, Notice, Op};
use onefold_engine::settings::Settings;

fn settings() -> Settings {
    Settings { commit_mode: CommitMode::Log, ..Settings::default() }
}

/// A checkpoint writes pages that hold the last epoch. No further unit confirms that epoch, so a superblock has to confirm it first.
#[test]
fn what_the_last_epoch_unlinked_is_freed_when_a_superblock_confirms_it() {
    let mut m = Machine::open(blank(32 << 20, None), settings().with_knobs(|knobs| knobs.checkpoint_beyond = 3));
    m.read(0, 512);
    m.keeps_flushes = true;
    for content in 0..4 {
        m.write(0, &pattern(content, 4096));
        let flush = m.begin(Op::Flush, 0, 0, None, false);
        let flushed = m.flushed.remove(0);
        m.feed(flushed);
        m.finish(flush);
    }
    let blocks = |m: &Machine| (m.engine.stats().kept_blocks, m.engine.stats().unique_blocks);
    assert_eq!(blocks(&m), (2, 2), "what the last unit unlinked, the next one would free");
    let superblock = m.flushed.remove(0);
    m.written.clear();
    m.feed(superblock);
    assert_eq!(blocks(&m), (3, 1));
    assert!(m.written.contains_key(&Class::Refs) && !m.written.contains_key(&Class::Superblock), "{:?}", m.written);
}

#[test]
fn a_log_scan_is_as_long_as_it_may_be_before_it_is_shortened() {
    for (settings, written) in [
        (settings().with_knobs(|knobs| knobs.checkpoint_beyond = 5), [Class::Superblock, Class::Map]),
        (settings().with_knobs(|knobs| knobs.compact_beyond = 5), [Class::Superblock, Class::Fingerprints]),
    ] {
        let mut m = Machine::open(blank(32 << 20, None), settings);
        m.read(0, 512);
        m.written.clear();
        for units in 1..=6 {
            m.write(0, &pattern(units, 4096));
            m.flush();
            let has_begun = written.map(|class| m.written.contains_key(&class));
            assert_eq!(has_begun, [units > 5; 2], "{units} units");
        }
    }
}

/// Sixty-four pages are few enough that reads and commits come in between, and enough that the device is always busy.
#[test]
fn a_checkpoint_has_sixty_four_pages_under_way() {
    const PAGES: u64 = 100;
    let mut m = Machine::open(blank(32 << 20, Some(800 * PAGES)), settings().with_knobs(|knobs| knobs.checkpoint_beyond = 0));
    m.read(0, 512);
    (0..PAGES).for_each(|page| m.write(800 * 4096 * page, &pattern(page, 4096)));
    m.keeps_writes_of = Some(Class::Map);
    m.flush();
    let under_way = |m: &Machine| m.kept_writes.len();
    assert_eq!(under_way(&m), 64);
    let first = m.kept_writes.remove(0);
    m.feed(first);
    assert_eq!(under_way(&m), 64, "another one goes out as one has arrived");
    m.keeps_writes_of = None;
    std::mem::take(&mut m.kept_writes).into_iter().for_each(|written| m.feed(written));
    assert_eq!(m.written[&Class::Map], PAGES);
    (0..PAGES).for_each(|page| assert_eq!(m.read(800 * 4096 * page, 4096), pattern(page, 4096)));
}

/// A superblock has to record the end of the recount, and nothing else may write one for a long time.
#[test]
fn a_recount_ends_with_a_checkpoint_though_the_log_holds_nothing() {
    let mut m = Machine::open(blank(32 << 20, None), Settings::default());
    m.write(0, &pattern(1, 4096 * 10));
    m.flush();
    let mut m = Machine::open(m.medium, settings());
    assert_eq!(m.read(0, 4096 * 10), pattern(1, 4096 * 10));
    m.wait(20);
    assert!(m.notices.iter().any(|notice| matches!(notice, Notice::Recounted { .. })), "{:?}", m.notices);
    assert!(!m.written.contains_key(&Class::Log), "{:?}", m.written);
    let superblock = chosen(&m.medium).expect("a volume");
    assert!(!superblock.clean && !superblock.garbage_possible);
}
