//! Pages in memory: those that leave it, and the requests that wait for pages.

use crate::machine::Machine;
use crate::media::{blank, chosen, pattern};
use onefold_engine::format::{CommitMode, PageId, Region};
use onefold_engine::interface::{Class, Event, Failure, IoFailure, Notice, Reply, RequestId};
use onefold_engine::settings::Settings;
use onefold_engine::units::index;

/// The number of pages of the map, far more than memory holds.
const PAGES: u64 = 400;

fn of_page(page: u64) -> u64 {
    800 * 4096 * page
}

/// A volume with one block in each page of its map, in little memory; its free blocks have been counted.
fn volume() -> Machine {
    let settings = || Settings { memory_bytes: 2 << 20, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, Some(800 * PAGES)), settings());
    (0..PAGES).for_each(|page| m.write(of_page(page), &pattern(page, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings());
    m.read(0, 512);
    m.wait(100);
    assert!(m.engine.stats().free_complete);
    m
}

#[test]
fn pages_that_are_used_again_and_again_stay_in_memory() {
    const OFTEN: u64 = 10;
    let mut m = volume();
    let read = |m: &Machine| m.engine.ledger().read[Class::Map as usize].units;
    let before = read(&m);
    for i in OFTEN..PAGES {
        for page in (0..OFTEN).chain([i]) {
            assert_eq!(m.read(of_page(page), 4096), pattern(page, 4096));
        }
    }
    assert_eq!(read(&m) - before, PAGES, "each is read once");
}

/// Blocks are free, but the page that lists them is still being read: there is nothing to do until it is there.
#[test]
fn a_write_that_waits_for_the_page_of_free_blocks_lets_the_engine_rest() {
    let mut m = volume();
    // The map has more pages than memory holds, so the pages of free blocks leave it.
    (0..PAGES).for_each(|page| assert_eq!(m.read(of_page(page), 4096), pattern(page, 4096)));
    m.keeps_reads = true;
    let write = m.begin_write(of_page(PAGES - 1), &pattern(PAGES, 4096));
    assert!(!m.is_answered(write) && m.kept_reads.len() == 1, "it waits for a page");
    m.keeps_reads = false;
    std::mem::take(&mut m.kept_reads).into_iter().for_each(|read| m.feed(read));
    m.finish(write);
    assert_eq!(m.read(of_page(PAGES - 1), 4096), pattern(PAGES, 4096));
}

/// Begins a write of a part of LBN 0. It has read the rest of the block, but the map page leaves memory before the digest is there.
fn lies_over_what_left(m: &mut Machine) -> RequestId {
    m.keeps_digests = true;
    let write = m.begin_write(of_page(0) + 512, &[7; 512]);
    (1..PAGES).for_each(|page| assert_eq!(m.read(of_page(page), 4096), pattern(page, 4096)));
    write
}

#[test]
fn a_write_of_a_part_fails_when_nobody_can_tell_any_more_what_it_lies_over() {
    let mut m = volume();
    let write = lies_over_what_left(&mut m);
    m.keeps_reads = true;
    let digested = m.digests.pop().expect("it has read its block");
    m.feed(digested);
    assert!(!m.is_answered(write) && m.kept_reads.len() == 1, "the page comes back");
    while let Some(mut page) = m.kept_reads.pop() {
        let Event::Read { result, .. } = &mut page else { panic!("{page:?}") };
        *result = Err(IoFailure);
        m.feed(page);
    }
    assert!(m.is_answered(write) && matches!(m.answer(write), Reply::Failed(Failure::Io)));
}

/// The content that the write has read may not be what its LBN means (P6).
#[test]
fn a_write_of_a_part_fails_when_its_entry_of_the_map_is_damaged_meanwhile() {
    let mut m = volume();
    let write = lies_over_what_left(&mut m);
    let page = m.engine.geometry().page_at(PageId { region: Region::Map, index: 0 });
    m.medium[index(page.0)] ^= 1;
    let digested = m.digests.pop().expect("it has read its block");
    m.feed(digested);
    assert!(m.is_answered(write) && matches!(m.answer(write), Reply::Failed(Failure::Io)));
    assert!(m.fails_to_read(0));
}

/// Pages that a recount reads ahead displace those that clients wait for, so it reads only few ahead.
#[test]
fn a_recount_asks_for_no_more_than_a_sixteenth_of_the_pages_in_memory_ahead() {
    let mut m = volume();
    m.write(0, &pattern(PAGES, 4096));
    m.flush();
    for (memory_bytes, ahead) in [(2 << 20, 7), (64 << 20, 16)] {
        let mut m = Machine::open(m.medium.clone(), Settings { memory_bytes, ..Settings::default() });
        m.keeps_reads = true;
        m.feed(Event::Tick);
        let of_map = |m: &Machine| m.engine.ledger().read[Class::Map as usize].units;
        while of_map(&m) == 0 {
            let read = m.kept_reads.remove(0);
            m.feed(read);
        }
        assert_eq!(of_map(&m), ahead, "{memory_bytes} bytes of memory");
    }
}

/// A volume whose recount has begun to read the first pages of the map, by one read, which is kept back.
fn reads_ahead(medium: Vec<u8>) -> Machine {
    let mut m = Machine::open(medium, Settings { memory_bytes: 2 << 20, ..Settings::default() });
    m.keeps_reads_of = Some(Class::Map);
    m.feed(Event::Tick);
    assert_eq!((m.kept_reads.len(), blocks_of(&m.kept_reads[0])), (1, AHEAD));
    m
}

/// The pages that it reads ahead.
const AHEAD: usize = 7;

fn blocks_of(read: &Event) -> usize {
    let Event::Read { buffer, .. } = read else { panic!("{read:?}") };
    buffer.blocks()
}

/// Feeds a read that failed.
fn fail(m: &mut Machine, mut read: Event) {
    let Event::Read { result, .. } = &mut read else { panic!("{read:?}") };
    *result = Err(IoFailure);
    m.feed(read);
}

/// A volume after a crash, whose map has pages that were all written.
fn crashed() -> Vec<u8> {
    let mut m = volume();
    m.write(0, &pattern(PAGES, 4096));
    m.flush();
    m.medium
}

fn damages(m: &Machine) -> usize {
    m.notices.iter().filter(|notice| matches!(notice, Notice::Damage { what, .. } if what.contains("metadata page"))).count()
}

#[test]
fn a_read_of_many_pages_that_fails_makes_only_the_page_unreadable_that_cannot_be_read_alone() {
    for bad in [0, 3, AHEAD - 1] {
        let mut m = reads_ahead(crashed());
        let all = m.kept_reads.remove(0);
        fail(&mut m, all);
        assert_eq!(m.kept_reads.iter().map(blocks_of).collect::<Vec<_>>(), [1; AHEAD], "each is read alone");
        let mut singles = std::mem::take(&mut m.kept_reads);
        let mut bad_read = singles.remove(bad);
        fail(&mut m, bad_read);
        bad_read = m.kept_reads.pop().expect("it is tried again");
        fail(&mut m, bad_read);
        m.keeps_reads_of = None;
        singles.into_iter().for_each(|read| m.feed(read));
        assert_eq!(damages(&m), 1);
        for page in 0..AHEAD as u64 {
            if page == bad as u64 {
                assert!(m.fails_to_read(800 * page), "{bad}");
            } else {
                assert_eq!(m.read(of_page(page), 4096), pattern(if page == 0 { PAGES } else { page }, 4096), "{bad}, {page}");
            }
        }
    }
}

#[test]
fn a_damaged_page_among_others_of_one_read_damages_only_itself() {
    let mut medium = crashed();
    let geometry = chosen(&medium).expect("a volume").geometry;
    let at = index(geometry.page_at(PageId { region: Region::Map, index: 3 }).0);
    medium[at] ^= 1;
    let mut m = reads_ahead(medium);
    m.keeps_reads_of = None;
    std::mem::take(&mut m.kept_reads).into_iter().for_each(|read| m.feed(read));
    assert_eq!(damages(&m), 1);
    for page in 1..AHEAD as u64 {
        if page == 3 {
            assert!(m.fails_to_read(800 * page));
        } else {
            assert_eq!(m.read(of_page(page), 4096), pattern(page, 4096), "{page}");
        }
    }
}

/// The fingerprint is nowhere else: without it rot would be served as data (P6).
#[test]
fn a_page_whose_write_failed_stays_in_memory() {
    let settings = || Settings { memory_bytes: 2 << 20, commit_mode: CommitMode::Ordered, noncritical_delay_ms: 0, ..Settings::default() };
    let mut m = Machine::open(blank(32 << 20, Some(800 * PAGES)), settings());
    (0..PAGES).for_each(|page| m.write(of_page(page), &pattern(page, 4096)));
    m.flush();
    let mut m = Machine::open(m.close(), settings());
    let before = m.medium.clone();
    m.keeps_writes_of = Some(Class::Fingerprints);
    let block = pattern(PAGES, 4096);
    m.write(0, &block);
    m.flush();
    m.wait(10);
    let [Event::Written { io, .. }] = m.kept_writes[..] else { panic!("its fingerprint is written: {:?}", m.kept_writes) };
    m.feed(Event::Written { io, result: Err(IoFailure) });
    let fingerprints = m.engine.geometry().page_at(PageId { region: Region::Fingerprints, index: 0 });
    let fingerprints = index(fingerprints.get())..index(m.engine.geometry().page_at(PageId { region: Region::Map, index: 0 }).get());
    m.medium[fingerprints.clone()].copy_from_slice(&before[fingerprints]);
    // More pages of the map and more blocks than memory holds, with fingerprints on other pages.
    let read_others = |m: &mut Machine| (1..PAGES / 2).for_each(|page| assert_eq!(m.read(of_page(page), 4096), pattern(page, 4096)));
    read_others(&mut m);
    assert_eq!(m.read(0, 4096), block);
    // The newest blocks are in the read cache.
    read_others(&mut m);
    let at = m.medium.chunks(4096).position(|content| content == block).expect("its content was written");
    m.medium[at * 4096] ^= 1;
    assert!(m.fails_to_read(0));
}
