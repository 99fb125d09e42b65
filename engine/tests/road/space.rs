//! Free blocks: those that are discarded on the device, those that stay in reserve, and the reports of how few are left.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::{CommitMode, PageId, Region};
use onefold_engine::interface::{Class, Event, Failure, IoFailure, Notice, Op, Reply};
use onefold_engine::settings::{Compression, Settings};

/// Writes runs of blocks with one between them, and discards the runs before anything is committed, so that they are free at once.
/// Returns the number of blocks that were discarded on the device, and the number of commands.
fn discarded(runs: u64, blocks: u64) -> (u64, u64) {
    let settings = Settings { discard_freed: true, ..Settings::default() }.with_knobs(|knobs| knobs.discard_batch_blocks = 1024);
    let mut m = Machine::open(blank(32 << 20, None), settings);
    m.write(0, &pattern(1, 4096 * usize::try_from(runs * (blocks + 1)).expect("it fits")));
    for run in 0..runs {
        let reply = m.request(Op::Discard, 4096 * run * (blocks + 1), 4096 * blocks, None, false);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    m.flush();
    m.wait(10);
    let ledger = m.engine.ledger();
    (ledger.device_discarded_bytes / 4096, ledger.device_discards)
}

#[test]
fn a_run_of_free_blocks_is_worth_a_command_from_eight_on() {
    assert_eq!(discarded(140, 8), (64 * 8, 64), "a batch has 64 commands");
    assert_eq!(discarded(150, 7), (0, 0));
}

#[test]
fn the_index_names_nothing_that_was_reclaimed() {
    for commit_mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut m = Machine::open(blank(16 << 20, Some(2000)), Settings { commit_mode, ..Settings::default() });
        for round in 0..5 {
            (0..20).for_each(|i| m.write(4096 * 100 * i, &pattern(100 * round + i, 4096 * 100)));
            m.flush();
        }
        m.wait(100);
        let (stats, ledger) = (m.engine.stats(), m.engine.ledger());
        assert!(ledger.reclaimed_blocks > 1000, "{commit_mode:?}");
        // There are fewer where buckets were full.
        let named = ledger.new_blocks - ledger.reclaimed_blocks;
        assert!(stats.index_entries <= named, "{commit_mode:?}: {} entries for {named} blocks", stats.index_entries);
    }
}

/// The percentages in use that were reported to the owner.
fn filling(m: &Machine) -> Vec<u64> {
    m.notices.iter().filter_map(|notice| if let Notice::Filling { percent, .. } = notice { Some(*percent) } else { None }).collect()
}

#[test]
fn a_thin_volume_says_how_full_it_is_and_another_has_room_for_all() {
    for commit_mode in [CommitMode::Ordered, CommitMode::Log] {
        for (logical, reported) in [(None, &[][..]), (Some(20_000), &[80, 85, 90, 80, 85, 90])] {
            let mut m = Machine::open(blank(16 << 20, logical), Settings { commit_mode, ..Settings::default() });
            let hundredth = m.engine.geometry().data_blocks / 100;
            let fill = |m: &mut Machine, hundredths: std::ops::Range<u64>| {
                for i in hundredths {
                    m.write(4096 * hundredth * i, &pattern(i, 4096 * usize::try_from(hundredth).expect("few")));
                    m.flush();
                }
            };
            fill(&mut m, 0..91);
            // Half of it is free again, and it fills once more.
            m.request(Op::Discard, 0, 4096 * hundredth * 50, None, false);
            m.flush();
            m.flush();
            fill(&mut m, 0..50);
            assert_eq!(filling(&m), reported, "{commit_mode:?}");
        }
    }
}

/// A volume whose blocks have not been counted yet would report too high a percentage, so it reports none.
#[test]
fn a_thin_volume_does_not_say_how_full_it_is_before_it_knows() {
    let mut m = Machine::open(blank(16 << 20, Some(20_000)), Settings::default());
    m.write(0, &pattern(1, 4096 * 10));
    let mut m = Machine::open(m.close(), Settings::default());
    let at = usize::try_from(m.engine.geometry().page_at(PageId { region: Region::Refs, index: 0 }).0).expect("it fits");
    let refs = m.medium[at..at + 4096].to_vec();
    m.keeps_reads = true;
    let waits = |event: &Event| matches!(event, Event::Read { buffer, .. } if buffer.block(0)[..] == refs[..]);
    let requests = [m.begin(Op::Discard, 0, 4096, None, false), m.begin(Op::Flush, 0, 0, None, false)];
    while let Some(next) = m.kept_reads.iter().position(|event| !waits(event)) {
        let read = m.kept_reads.remove(next);
        m.feed(read);
    }
    assert!(requests.iter().all(|&request| m.is_answered(request)) && m.kept_reads.len() == 1 && !m.engine.stats().free_complete);
    assert_eq!(filling(&m), []);
}

/// The worst records of the pages of one epoch have room in the log's places and half of the free blocks: the other half is for clients
/// that write meanwhile.
#[test]
fn an_epoch_unmaps_no_more_pages_than_half_of_the_free_blocks_have_room_for() {
    const PAGES: u64 = 60;
    let settings = Settings { commit_mode: CommitMode::Log, ..Settings::default() };
    let mut m = Machine::open(blank(16 << 20, Some(800 * PAGES)), settings);
    (0..PAGES).for_each(|page| m.write(4096 * 800 * page, &pattern(page, 4096)));
    m.flush();
    let free = |m: &Machine| m.engine.stats().free_blocks;
    let mut filler = 0;
    while free(&m) > 130 {
        let blocks = (free(&m) - 130).min(100);
        m.write(4096 * (1 + filler), &pattern(1000 + filler, 4096 * usize::try_from(blocks).expect("few")));
        m.flush();
        filler += blocks;
    }
    assert_eq!((free(&m), m.engine.stats().log.map(|log| log.places)), (130, Some(4)));
    let before = m.engine.ledger().epochs();
    m.request(Op::Discard, 4096 * 800 * 20, 4096 * 800 * 40, None, false);
    m.flush();
    // Six units a page, and two places stay: (4 + 65 - 2) / 6 pages at once.
    assert_eq!(m.engine.ledger().epochs() - before, 40u64.div_ceil(11));
}

/// The links that a range removes take a record each until the next commit.
#[test]
fn an_epoch_unmaps_no_more_pages_than_memory_has_room_for() {
    for (commit_mode, most) in [(CommitMode::Ordered, 5), (CommitMode::Log, 4)] {
        let pages = 2 * most + 1;
        let settings = Settings { commit_mode, memory_bytes: 2 << 20, ..Settings::default() };
        let mut m = Machine::open(blank(32 << 20, Some(800 * pages)), settings);
        (0..pages).for_each(|page| m.write(4096 * 800 * page, &pattern(page, 4096)));
        m.flush();
        let before = m.engine.ledger().epochs();
        m.request(Op::Discard, 0, 4096 * 800 * pages, None, false);
        m.flush();
        assert_eq!(m.engine.ledger().epochs() - before, 3, "{commit_mode:?}");
    }
}

#[test]
fn the_last_blocks_of_a_thin_volume_are_for_what_is_overwritten() {
    for commit_mode in [CommitMode::Ordered, CommitMode::Log] {
        let mut m = Machine::open(blank(16 << 20, Some(20_000)), Settings { commit_mode, ..Settings::default() });
        m.patience = 100;
        let reserve = m.engine.geometry().reserve_blocks;
        let mut written = 0;
        while matches!(m.request_write(4096 * written, &pattern(written, 4096)), Reply::Done) {
            written += 1;
        }
        let stats = m.engine.stats();
        let of_log = stats.log.map_or(0, |log| log.plain + log.places);
        assert!((reserve..reserve + 8).contains(&(stats.free_blocks + of_log)), "{commit_mode:?}: {} and {of_log}", stats.free_blocks);
        for round in 1..200 {
            m.write(4096 * round, &pattern(10_000 * round, 4096));
            assert!(matches!(m.request_write(4096 * written, &pattern(written, 4096)), Reply::Failed(Failure::NoSpace)), "{commit_mode:?}");
        }
        assert_eq!(m.read(4096 * 199, 4096), pattern(1_990_000, 4096));
    }
}

/// Blocks whose counts cannot be read are in nobody's sum.
#[test]
fn nobody_says_how_much_there_is_where_a_page_of_counts_cannot_be_read() {
    for commit_mode in [CommitMode::Log, CommitMode::Ordered] {
        let settings = || Settings { commit_mode, compression: Compression::Off, ..Settings::default() };
        let mut m = Machine::open(blank(32 << 20, None), settings());
        m.write(0, &pattern(1, 8 * 4096));
        m.flush();
        let medium = m.close();
        for is_readable in [true, false] {
            let mut m = Machine::open(medium.clone(), settings());
            m.keeps_reads_of = Some(Class::Refs);
            m.feed(Event::Tick);
            while let Some(mut read) = m.kept_reads.pop() {
                let Event::Read { result, .. } = &mut read else { panic!("{read:?}") };
                if !is_readable {
                    *result = Err(IoFailure);
                }
                m.feed(read);
            }
            m.wait(100);
            let stats = m.engine.stats();
            assert!(stats.free_complete);
            assert_eq!((stats.map_links.is_some(), stats.unpacked.is_some()), (is_readable, is_readable), "{commit_mode:?}");
        }
    }
}
