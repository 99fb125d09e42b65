//! Synced writes of content that compresses: each takes one unit and one flush.

use crate::machine::Machine;
use crate::media::{blank, pattern};
use onefold_engine::format::{CommitMode, PageId, Region};
use onefold_engine::interface::{Class, Event, Failure, Notice, Op, Reply};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::stats::Stats;
use std::collections::BTreeMap;

pub fn settings() -> Settings {
    Settings { commit_mode: CommitMode::Log, ..Settings::default() }
}

/// Returns this many blocks, each with some noise and otherwise the same byte.
pub fn soft(seed: u64, blocks: usize) -> Vec<u8> {
    let block = |i: u64| [pattern(seed * 1000 + i, 1000), vec![b'a'; 3096]].concat();
    (0..blocks as u64).flat_map(block).collect()
}

/// A volume that serves, after its opening.
pub fn served(medium: Vec<u8>) -> Machine {
    let mut m = Machine::open(medium, settings());
    assert_eq!(m.read(0, 512).len(), 512);
    (m.flushes, m.written) = (0, BTreeMap::new());
    m
}

pub fn written(m: &mut Machine) -> (u64, u64, u64) {
    let written = std::mem::take(&mut m.written);
    let of = |class| written.get(&class).copied().unwrap_or(0);
    assert_eq!(written.values().sum::<u64>(), of(Class::Data) + of(Class::Log), "no page is written");
    (of(Class::Data), of(Class::Log), std::mem::take(&mut m.flushes))
}

#[test]
fn a_synced_write_costs_one_unit_and_one_flush() {
    let mut m = served(blank(32 << 20, None));
    m.write(4096, &soft(1, 1));
    assert_eq!(m.read(4096, 4096), soft(1, 1), "while it is held back");
    m.flush();
    assert_eq!(written(&mut m), (0, 1, 1));
    assert_eq!(m.read(4096, 4096), soft(1, 1));
    // Three blocks in one unit.
    m.write(0, &soft(2, 3));
    m.flush();
    assert_eq!(written(&mut m), (0, 1, 1));
    assert_eq!(m.read(0, 3 * 4096), soft(2, 3));
    // What does not compress goes to its own block.
    m.write(4096 * 9, &[soft(3, 1), pattern(4, 4096), soft(5, 1)].concat());
    m.flush();
    assert_eq!(written(&mut m), (1, 1, 1));
    m.write(4096 * 20, &pattern(6, 4096));
    m.flush();
    assert_eq!(written(&mut m), (1, 1, 1));
    assert_eq!(m.read(4096 * 9, 3 * 4096), [soft(3, 1), pattern(4, 4096), soft(5, 1)].concat());
}

/// It takes room for what it compresses to, besides itself.
#[test]
fn content_that_is_held_back_is_charged() {
    let mut m = served(blank(32 << 20, None));
    let used = |m: &Machine| m.engine.stats().memory.iter().find(|part| part.0 == "requests").expect("a part").1;
    let before = used(&m);
    m.write(0, &soft(1, 30));
    assert!(used(&m) >= before + 30 * 4096, "{}", used(&m));
    m.flush();
    assert_eq!(used(&m), before);
}

/// The device has the content when the epoch is sealed, so the flush waits for the unit alone.
#[test]
fn what_does_not_compress_goes_out_as_soon_as_nothing_is_being_compressed() {
    let mut m = served(blank(32 << 20, None));
    m.codec_keeps = 1;
    m.write(0, &[soft(1, 1), pattern(2, 4096)].concat());
    assert_eq!(written(&mut m), (0, 0, 0), "the first block is being compressed");
    m.write(4096 * 9, &soft(3, 1));
    m.codec_keeps = 0;
    m.pass_ms(1);
    m.feed(Event::Tick);
    assert_eq!(written(&mut m), (1, 0, 0));
    m.flush();
    assert_eq!(written(&mut m), (0, 1, 1));
    assert_eq!(m.read(0, 2 * 4096), [soft(1, 1), pattern(2, 4096)].concat());
}

#[test]
fn the_own_blocks_of_what_rides_are_free_again() {
    let mut m = served(blank(32 << 20, None));
    m.wait(10);
    let before = m.engine.stats();
    assert!(before.free_complete);
    m.write(0, &soft(1, 3));
    assert_eq!(m.engine.stats().free_blocks, before.free_blocks - 3);
    m.flush();
    let after = m.engine.stats();
    assert_eq!((after.kept_blocks, after.unique_blocks, after.shared_blocks), (0, 0, 1), "the carrier has three links");
    let places = |stats: &Stats| stats.log.map_or(0, |log| log.places);
    assert_eq!(after.free_blocks + places(&after), before.free_blocks + places(&before) - 1);
}

/// The number of reads of clients' blocks.
fn read(m: &Machine) -> u64 {
    m.engine.ledger().read[Class::Data as usize].commands
}

#[test]
fn a_duplicate_of_a_slot_does_not_read_its_carrier_each_time() {
    let mut m = served(blank(32 << 20, None));
    m.write(4096, &soft(1, 3));
    m.flush();
    let before = read(&m);
    m.write(4096 * 9, &soft(1, 3));
    m.flush();
    assert_eq!((read(&m) - before, m.engine.ledger().duplicates), (0, 3), "it was just written");
    let mut m = served(std::mem::take(&mut m.medium));
    let before = read(&m);
    m.write(4096 * 20, &soft(1, 2));
    assert_eq!((read(&m) - before, m.engine.ledger().duplicates), (1, 2), "it is not in memory, and one read is enough for both");
    m.write(4096 * 30, &soft(1, 3));
    m.flush();
    assert_eq!((read(&m) - before, m.engine.ledger().duplicates), (1, 5), "it was read already");
    assert_eq!(m.read(4096 * 30, 3 * 4096), soft(1, 3));
}

#[test]
fn without_compression_every_unit_is_plain() {
    let mut m = Machine::open(blank(32 << 20, None), Settings { compression: Compression::Off, ..settings() });
    m.read(0, 512);
    (m.flushes, m.written) = (0, BTreeMap::new());
    m.write(0, &soft(1, 2));
    m.flush();
    assert_eq!(written(&mut m), (2, 1, 1));
}

#[test]
fn a_duplicate_of_a_slot_links_to_the_slot() {
    let mut m = served(blank(32 << 20, None));
    m.write(0, &soft(1, 2));
    // This is a duplicate of content that is still held back.
    m.write(4096 * 10, &soft(1, 2)[4096..]);
    m.flush();
    assert_eq!(written(&mut m), (0, 1, 1));
    m.write(4096 * 20, &soft(1, 2));
    m.flush();
    assert_eq!(written(&mut m), (0, 1, 1), "a plain unit for its records");
    assert_eq!((m.engine.ledger().new_blocks, m.engine.ledger().duplicates), (2, 3));
    // The first LBNs of the content are overwritten; the carrier stays.
    m.write(0, &pattern(7, 8192));
    m.request(Op::Discard, 4096 * 20, 4096, None, false);
    m.flush();
    assert_eq!(m.read(4096 * 21, 4096), soft(1, 2)[4096..]);
    assert_eq!(m.read(4096 * 10, 4096), soft(1, 2)[4096..]);
    m.write(4096 * 30, &soft(1, 1));
    assert_eq!(m.engine.ledger().duplicates, 4, "a slot that nobody links to is there too");
    m.flush();
    assert_eq!(m.read(4096 * 30, 4096), soft(1, 1));
}

#[test]
fn slots_are_read_after_a_crash_a_close_and_in_the_other_mode() {
    let mut m = served(blank(32 << 20, None));
    m.write(0, &soft(1, 4));
    m.flush();
    m.write(4096, &soft(2, 1));
    m.flush();
    m.write(512 * 3, &pattern(3, 1024));
    m.flush();
    let mut all = [soft(1, 1), soft(2, 1), soft(1, 4)[2 * 4096..].to_vec()].concat();
    all[1536..2560].copy_from_slice(&pattern(3, 1024));
    // The server is gone, as after a power loss.
    let mut m = served(std::mem::take(&mut m.medium));
    assert_eq!(m.read(0, 4 * 4096), all);
    let mut m = served(m.close());
    assert_eq!(m.read(0, 4 * 4096), all);
    m.write(4096 * 2, &soft(4, 1));
    m.flush();
    all[4096 * 2..4096 * 3].copy_from_slice(&soft(4, 1));
    let mut m = Machine::open(std::mem::take(&mut m.medium), Settings::default());
    assert_eq!(m.read(0, 4 * 4096), all);
    m.write(4096 * 3, &soft(5, 1));
    all[4096 * 3..].copy_from_slice(&soft(5, 1));
    let mut m = served(m.close());
    assert_eq!(m.read(0, 4 * 4096), all);
    assert!(m.notices.iter().all(|n| !matches!(n, Notice::Damage { .. })), "{:?}", m.notices);
}

#[test]
fn a_full_volume_is_overwritten_in_synced_writes() {
    let mut m = served(blank(16 << 20, None));
    let blocks = m.engine.geometry().logical_blocks;
    let content = |round: u64, b: u64| if (round + b) % 3 == 0 { pattern(round * blocks + b, 4096) } else { soft(round * blocks + b, 1) };
    for round in 0..4 {
        for b in 0..blocks {
            m.write(b * 4096, &content(round, b));
            if b % (round * round + 1) == 0 {
                m.flush();
            }
        }
    }
    m.flush();
    for b in 0..blocks {
        assert_eq!(m.read(b * 4096, 4096), content(3, b), "block {b}");
    }
    assert!(m.notices.iter().all(|n| !matches!(n, Notice::Damage { .. })), "{:?}", m.notices);
    m.close();
}

#[test]
fn stats_report_carriers_and_what_they_would_take_unpacked() {
    let mut m = served(blank(32 << 20, None));
    let stats = |m: &Machine| {
        let stats = m.engine.stats();
        (stats.carriers, stats.unpacked.map(|blocks| (blocks.least, blocks.most)))
    };
    m.write(0, &pattern(1, 2 * 4096));
    m.flush();
    assert_eq!(stats(&m), (Some(0), Some((2, 2))));
    m.write(4096 * 2, &soft(1, 3));
    m.flush();
    m.write(4096 * 5, &soft(2, 1));
    m.flush();
    let units = m.engine.ledger().units;
    assert_eq!((units.plain, units.carriers, units.packed_blocks), (1, 2, 4));
    assert!(units.packed_bytes > 4 * 1000 && units.packed_bytes < 4 * 1200, "{units:?}");
    assert!(units.padding_bytes < 3 * 4096 - units.packed_bytes, "{units:?}");
    // Six blocks of content in four: two carriers, and two that do not compress.
    assert_eq!(stats(&m), (Some(2), Some((4, 6))));
    m.write(4096 * 10, &soft(1, 3));
    m.flush();
    assert_eq!(stats(&m), (Some(2), Some((4, 9))), "which slots are linked to twice is not known");
    let mut m = served(m.close());
    m.wait(3);
    assert_eq!(stats(&m), (Some(2), Some((4, 9))));
    m.write(4096 * 20, &soft(3, 2));
    m.flush();
    assert_eq!(stats(&m), (Some(3), Some((5, 11))));
}

/// A closed volume with this many carriers, each with one block.
fn carriers(blocks: u64) -> Vec<u8> {
    let mut m = served(blank(32 << 20, None));
    for b in 0..blocks {
        m.write(b * 4096, &soft(b, 1));
        m.flush();
    }
    m.close()
}

fn duplicates(m: &Machine) -> (u64, u64) {
    (m.engine.ledger().new_blocks, m.engine.ledger().duplicates)
}

#[test]
fn the_rebuild_reads_carriers_a_few_at_a_time() {
    let medium = carriers(20);
    for commit_mode in [CommitMode::Log, CommitMode::Ordered] {
        let mut m = Machine::open(medium.clone(), Settings { commit_mode, ..settings() });
        let read = |m: &Machine| m.engine.ledger().read[Class::Data as usize].units;
        let rebuilt = |m: &Machine| m.notices.contains(&Notice::IndexRebuilt { entries: 20, named: 0, unnamed: 0, goes_on: false });
        m.feed(Event::Tick);
        assert_eq!((read(&m), rebuilt(&m)), (8, false), "{commit_mode:?}");
        m.wait(1);
        assert_eq!((read(&m), rebuilt(&m)), (16, false), "{commit_mode:?}");
        m.wait(5);
        assert_eq!((read(&m), rebuilt(&m)), (20, true), "{commit_mode:?}: {:?}", m.notices);
        (0..20).for_each(|b| m.write((100 + b) * 4096, &soft(b, 1)));
        assert_eq!(duplicates(&m), (0, 20), "{commit_mode:?}");
        m.flush();
        (0..20).for_each(|b| assert_eq!(m.read((100 + b) * 4096, 4096), soft(b, 1)));
    }
}

/// The second pass after a crash in mode `ordered` looks for blocks without a fingerprint, and finds the slots in the index.
#[test]
fn a_rebuild_after_a_recount_does_not_read_the_carriers_again() {
    let ordered = || Settings { commit_mode: CommitMode::Ordered, ..Settings::default() };
    let mut m = Machine::open(carriers(20), ordered());
    m.read(0, 512);
    let mut m = Machine::open(m.medium, ordered());
    m.feed(Event::Tick);
    m.wait(200);
    let rebuilt = |goes_on| Notice::IndexRebuilt { entries: 20, named: 0, unnamed: 0, goes_on };
    let passes: Vec<_> = m.notices.iter().filter(|notice| matches!(notice, Notice::IndexRebuilt { .. })).collect();
    assert_eq!(passes, [&rebuilt(true), &rebuilt(false)]);
    assert_eq!(m.engine.ledger().read[Class::Data as usize].units, 20);
}

#[test]
fn a_carrier_that_is_read_is_known_by_its_slots() {
    let mut m = served(blank(32 << 20, None));
    m.write(0, &soft(1, 3));
    m.flush();
    let medium = m.close();
    let unfilled = || Machine::open(medium.clone(), settings().with_knobs(|knobs| knobs.rebuild_reads_per_second = 0));
    let mut m = unfilled();
    m.write(4096 * 10, &soft(1, 3));
    assert_eq!(duplicates(&m), (3, 0), "nobody has read it");
    let mut m = unfilled();
    assert_eq!(m.read(4096, 4096), soft(1, 3)[4096..8192]);
    m.write(4096 * 10, &soft(1, 3));
    assert_eq!(duplicates(&m), (0, 3));
    m.flush();
    assert_eq!(m.read(4096 * 10, 3 * 4096), soft(1, 3));
    // Part of a block is written over what lies in a slot.
    let mut m = unfilled();
    m.write(512, &pattern(9, 512));
    m.write(4096 * 10, &soft(1, 3));
    assert_eq!(duplicates(&m), (1, 3));
}

#[test]
fn one_slot_of_a_damaged_carrier_says_nothing_of_the_others() {
    let mut m = served(blank(32 << 20, None));
    m.write(0, &soft(1, 2));
    m.flush();
    let mut medium = m.close();
    // The noise of a block stands in its slot as it is; the first slot's lies last.
    let noise = &soft(1, 2)[100..116];
    let at = medium.windows(16).position(|bytes| bytes == noise).expect("it is stored once");
    medium[at] ^= 1;
    let mut m = Machine::open(medium, settings());
    m.feed(Event::Tick);
    assert_eq!(m.read(4096, 4096), soft(1, 2)[4096..]);
    assert!(m.notices.iter().any(|n| matches!(n, Notice::Damage { .. })));
    assert!(matches!(m.request(Op::Read, 0, 4096, None, false), Reply::Failed(Failure::Io)), "not what lies in memory either");
    m.write(4096 * 10, &soft(1, 2));
    assert_eq!(duplicates(&m), (2, 0), "nobody links to it any more");
    m.flush();
    assert_eq!(m.read(4096 * 10, 2 * 4096), soft(1, 2));
}

#[test]
fn nobody_links_to_a_carrier_whose_name_is_going() {
    let mut m = served(blank(16 << 20, None));
    let blocks = m.engine.geometry().logical_blocks;
    m.write(0, &soft(1, 1));
    m.flush();
    m.write(0, &pattern(2, 4096));
    m.flush();
    // It is the only block that only its fingerprint keeps, so a full volume takes it first.
    let goes = (1..blocks - 1).find(|&b| {
        m.write(b * 4096, &pattern(100 + b, 4096));
        m.engine.ledger().reclaimed_blocks > 0
    });
    assert!(goes.is_some());
    assert_eq!(m.engine.stats().carriers, Some(0));
    let before = duplicates(&m).1;
    m.write((blocks - 1) * 4096, &soft(1, 1));
    assert_eq!(duplicates(&m).1, before);
    m.flush();
    assert_eq!(m.read((blocks - 1) * 4096, 4096), soft(1, 1));
}

#[test]
fn packs_are_counted_and_known_again_as_carriers_are() {
    let all = Settings { compression: Compression::All, ..settings() };
    let mut m = Machine::open(blank(32 << 20, None), all.clone());
    m.write(0, &soft(1, 120));
    m.flush();
    let units = m.engine.ledger().units;
    assert!(units.packs > 0 && units.carriers == 0 && units.packed_blocks > 2 * units.packs, "{units:?}");
    assert_eq!(m.engine.stats().carriers, Some(units.packs));
    let in_use = 120 - units.packed_blocks + units.packs;
    assert_eq!(m.engine.stats().unpacked.map(|blocks| (blocks.least, blocks.most)), Some((in_use, 120)));
    let mut m = Machine::open(m.close(), all);
    m.feed(Event::Tick);
    m.wait(20);
    assert!(m.notices.contains(&Notice::IndexRebuilt { entries: 120, named: 0, unnamed: 0, goes_on: false }), "{:?}", m.notices);
    assert_eq!(m.engine.stats().carriers, Some(units.packs));
    m.write(4096 * 1000, &soft(1, 120));
    assert_eq!(duplicates(&m), (0, 120));
}

#[test]
fn nobody_says_how_many_carriers_there_are_where_a_name_cannot_be_read() {
    let mut m = served(blank(32 << 20, None));
    m.write(0, &soft(1, 3));
    m.flush();
    let (medium, at) = {
        let at = m.engine.geometry().page_at(PageId { region: Region::Fingerprints, index: 0 });
        (m.close(), usize::try_from(at.0).expect("it fits"))
    };
    for (damaged, carriers) in [(false, Some(1)), (true, None)] {
        let mut medium = medium.clone();
        // This is the last sector; the entry of the carrier is in the first.
        medium[at + 4000] ^= u8::from(damaged);
        let mut m = served(medium);
        m.wait(20);
        assert!(m.notices.iter().any(|notice| matches!(notice, Notice::IndexRebuilt { .. })), "{:?}", m.notices);
        let stats = m.engine.stats();
        assert_eq!((stats.carriers, stats.unpacked.is_some()), (carriers, !damaged));
    }
}
