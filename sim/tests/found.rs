//! Faults of the engine that the explorer found, each as a small scene that shows it (docs/decisions/0010-the-engine.md).

use onefold_engine::format::{PageId, Region, Wish};
use onefold_engine::interface::{Class, Event, Failure, Op, Reply, Segment};
use onefold_engine::memory::Part;
use onefold_engine::settings::{Persistence, Settings};
use onefold_engine::units::{BLOCK_BYTES, Pbn};
use onefold_sim::laboratory::counts::device::Device;
use onefold_sim::laboratory::counts::names::name_of;
use onefold_sim::laboratory::counts::scene::{Order, Scene};

fn settings(persistence: Persistence) -> Settings {
    Settings { persistence, noncritical_delay_ms: 0, anticipation_ms: 0, memory_bytes: 2 << 20, ..Settings::default() }
}

fn open(device: &Device, settings: Settings) -> Scene {
    Scene::open(device.clone(), device.superblock(), Order::FirstFirst, settings, Box::new(|_, _| false))
}

/// Point 13. A large discard takes many commits, so that nothing waits long for one of them, and what they unlink fits the memory.
#[test]
fn a_large_discard_is_many_commits() {
    let mut scene = Scene::new(128 << 20, &Wish::default(), Order::FirstFirst, settings(Persistence::Weak));
    let blocks = scene.engine.geometry().logical_blocks;
    (0..blocks).for_each(|i| drop(scene.write(i, 1_000_000 + i)));
    scene.flush();
    let limit = scene.accountant.limit(Part::Dirty);
    let pages = blocks.div_ceil(Region::Map.entries_per_page());
    scene.ask(Op::Discard, 0, blocks, None);
    let flushes = scene.flush().iter().filter(|operations| *operations == "flush").count() as u64;
    assert!(flushes >= pages / 5, "{pages} map pages, {flushes} flushes");
    assert!(scene.accountant.peak(Part::Dirty) <= 2 * limit, "{} of {limit} bytes", scene.accountant.peak(Part::Dirty));
}

/// Point 14. The part of a discard that one commit leaves lies on pages that it writes anyway: then nothing is deferred, and no flush waits
/// for a commit that has nothing to do.
#[test]
fn a_flush_is_answered_where_the_rest_of_a_discard_is_composed_anyway() {
    let settings = Settings { commit_period_ms: 3_600_000, ..settings(Persistence::Weak) };
    let mut scene = Scene::new(128 << 20, &Wish::default(), Order::FirstFirst, settings);
    let per_page = Region::Map.entries_per_page();
    for pages in 1..12 {
        (0..pages).for_each(|page| drop(scene.write(page * per_page, 1_000_000 + page)));
        scene.flush();
        scene.ask(Op::Discard, 0, pages * per_page, None);
        scene.write((pages - 1) * per_page, 2_000_000);
        assert!(scene.flush().contains(&"answer".to_owned()), "a discard in {pages} pages");
    }
}

/// Point 10. A reclaim is chosen, and its pages arrive at some moment while the volume closes: nothing remains after the clean flag.
#[test]
fn a_reclaim_whose_pages_come_while_the_volume_closes_leaves_nothing_behind() {
    const MIB: u64 = 1 << 20;
    let wish = Wish { logical_blocks: None, reserve_blocks: Some(128 * MIB / BLOCK_BYTES / 16), guard: false, notes_blocks: 0 };
    let mut scene = Scene::new(128 * MIB, &wish, Order::FirstFirst, settings(Persistence::Weak));
    let blocks = scene.engine.geometry().logical_blocks;
    (0..blocks).for_each(|i| drop(scene.write(i, 1_000_000 + i)));
    // The index rebuild, which begins with the newest, has freed the pages of these granules long before it ends.
    let from = blocks / 10 * 8;
    scene.ask(Op::Discard, from, 400, None);
    let device = scene.close();
    let mut late = 0;
    for things in 0..60 {
        let mut scene = open(&device, settings(Persistence::Strong));
        scene.write(from, 2_000_000);
        scene.hold = Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Fingerprints);
        let writes = (1..400).find(|&i| {
            scene.write(from + i, 2_000_000 + i);
            scene.held() > 0
        });
        assert!(writes.is_some(), "nothing is reclaimed");
        scene.feed(Event::Close);
        scene.go_on(things);
        late += u64::from(!scene.closed && scene.engine.phase() == "closing");
        scene.release();
        scene.rest();
        assert!(scene.closed && scene.device.superblock().clean, "{}", scene.engine.phase());
        assert_eq!(scene.findings(), [], "the pages came after {things} completions");
    }
    assert!(late > 3, "the pages came while it closed, in {late} of 60");
}

/// Point 11. The only free blocks are being discarded: a writer waits for that, and does not get the error that the volume is full.
#[test]
fn a_writer_waits_for_free_blocks_that_are_being_discarded() {
    let settings = settings(Persistence::Strong).with_knobs(|knobs| knobs.discard_batch_blocks = 1);
    let mut scene = Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings);
    let (blocks, reserve) = (scene.engine.geometry().logical_blocks, scene.engine.geometry().reserve_blocks);
    (0..blocks).for_each(|i| drop(scene.write(i, 1_000_000 + i)));
    scene.ask(Op::Discard, 0, 2 * reserve, None);
    scene.rest();
    scene.hold = Box::new(|event, _| matches!(event, Event::Discarded { .. }));
    let waits = (0..2 * reserve).find(|i| !scene.write(*i, 2_000_000 + i).contains(&"answer".to_owned()));
    assert!(waits.is_some() && scene.held() > 0, "every write found a block");
    scene.release();
    scene.rest();
    assert!(scene.answers.iter().all(|reply| matches!(reply, Reply::Done)), "{:?}", scene.answers.last());
}

/// Point 12. A refs page is written early with an open epoch's increment, is evicted, and is read again before the commit: the commit
/// flushes before it writes the link.
#[test]
fn a_commit_relies_on_a_refs_page_that_left_and_came_back() {
    let mut scene = Scene::new(512 << 20, &Wish::default(), Order::FirstFirst, settings(Persistence::Weak));
    let (first, per_page) = (1_000_000, Region::Refs.entries_per_page());
    let written = 2 * per_page + 8;
    let apart = scene.engine.geometry().logical_blocks / written;
    assert!(apart > 1, "there is no LBN between");
    (0..written).for_each(|i| drop(scene.write(i * apart, first + i)));
    let device = scene.close();

    // Without reads for fingerprints, the index rebuild does not wait for counts.
    let weak = settings(Persistence::Weak).with_knobs(|knobs| knobs.rebuild_reads_per_second = 0);
    let delayed = Settings { noncritical_delay_ms: 10, commit_period_ms: 3_600_000, ..weak };
    let geometry = device.superblock().geometry;
    let newest = geometry.page_at(PageId { region: Region::Refs, index: 2 });
    // The scan begins with the newest page and continues to the oldest when that page allows it.
    let hold = Box::new(move |event: &Event, (_, at)| matches!(event, Event::Read { .. }) && at == newest);
    let mut scene = Scene::open(device.clone(), device.superblock(), Order::FirstFirst, delayed, hold);
    assert_eq!(scene.held(), 1, "the scan waits");
    let operations = scene.write(1, first);
    assert_eq!(operations, ["answer", "refs P0: 3"], "written early, with no flush after it");
    let reads = scene.device.tally.read[Class::Refs as usize].commands;
    for i in (1..written).step_by(16) {
        scene.ask(Op::Read, i * apart, 1, None);
        scene.rest();
    }
    scene.release();
    scene.rest();
    assert_eq!(
        scene.device.tally.read[Class::Refs as usize].commands,
        reads + 2,
        "the scan reads both other pages, the first for a second time"
    );
    assert_eq!(scene.flush(), ["flush", "map L1: P0", "flush", "answer"]);
}

/// Point 16. A write is overtaken by zeroes with FUA before its content has arrived: when it is acknowledged, an entry of the
/// acknowledgement journal gives its block, although the zeroes are not acknowledged yet.
#[test]
fn a_write_that_zeroes_have_overtaken_is_acknowledged_with_a_promise() {
    let settings = Settings { commit_period_ms: 3_600_000, ..settings(Persistence::Weak) }.with_facts(|facts| facts.keeps_journal = true);
    let mut scene = Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings);
    scene.hold = Box::new(|event, (class, _)| matches!(event, Event::Written { .. }) && class == Class::Data);
    scene.write(3, 100);
    assert_eq!(scene.held(), 1, "the content is being written");
    scene.ask_fua(Op::WriteZeroes, 3, 1, None, true);
    assert!(!scene.operations.contains(&"answer".to_owned()), "neither is answered: {:?}", scene.operations);
    scene.release();
    scene.rest();
    let at = |what: &str| {
        scene
            .operations
            .iter()
            .position(|operations| operations.starts_with(what))
            .unwrap_or_else(|| panic!("{what}: {:?}", scene.operations))
    };
    assert!(at("ring Unmap") < at("answer"), "{:?}", scene.operations);
}

/// Point 18. On a full volume, more writes than are admitted at once wait until a read has ended: all are answered in the end.
#[test]
fn writes_behind_those_that_find_no_space_are_answered() {
    let wish = Wish { logical_blocks: Some(20_000), reserve_blocks: None, guard: false, notes_blocks: 0 };
    let mut scene = Scene::new(16 << 20, &wish, Order::FirstFirst, settings(Persistence::Weak));
    let full = (0..).find(|i| {
        scene.write(*i, 1_000_000 + i);
        matches!(scene.answers.last(), Some(Reply::Failed(Failure::NoSpace)))
    });
    scene.flush();
    scene.hold = Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Data);
    scene.ask(Op::Read, 0, 1, None);
    let first = full.expect("it fills") + 1;
    let (held, answers) = (scene.held(), scene.answers.len());
    (0..100).for_each(|i| drop(scene.write(first + i, 2_000_000 + i)));
    assert!(held == 1 && scene.answers.len() == answers, "they wait for the read");
    scene.release();
    scene.rest();
    assert_eq!(scene.answers.len(), answers + 101);
}

/// Point 19. A content that a block holds already is written again and again without a flush: nothing is promised that no commit would make
/// durable, so the acknowledgement journal does not fill forever.
#[test]
fn what_changes_nothing_does_not_fill_the_journal() {
    let settings = settings(Persistence::Weak).with_facts(|facts| {
        facts.keeps_journal = true;
        facts.journal_records_max = 16;
    });
    let mut scene = Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings);
    scene.write(3, 100);
    scene.flush();
    for times in 1..=40 {
        let operations = scene.write(3, 100);
        assert_eq!(operations, ["answer"], "the {times}th time");
    }
    // The same holds while the epoch with the content commits and its last flush is delayed.
    scene.write(4, 200);
    scene.hold = Box::new(|event, _| matches!(event, Event::Flushed { .. }));
    scene.flush();
    (0..40).for_each(|_| drop(scene.write(4, 200)));
    scene.release();
    scene.rest();
    assert_eq!(scene.answers.len(), 40 + 40 + 4, "all are answered");
    assert!(scene.write(5, 300).contains(&"answer".to_owned()), "and a write that changes something");
}

/// Point 20. A large discard is acknowledged, and its commit defers a part of it: that part is promised for the next epoch before the
/// promises of this one are dropped, so a kill between the two commits brings nothing back.
#[test]
fn what_is_put_off_of_a_discard_is_promised_again() {
    let settings = Settings { memory_bytes: 2 << 20, ..settings(Persistence::Weak) }.with_facts(|facts| facts.keeps_journal = true);
    let wish = Wish { logical_blocks: Some(200 * 800), reserve_blocks: None, guard: false, notes_blocks: 0 };
    let mut scene = Scene::new(32 << 20, &wish, Order::FirstFirst, settings);
    (0..200).for_each(|page| drop(scene.write(page * 800, 100)));
    scene.flush();
    scene.operations.clear();
    scene.ask(Op::Discard, 0, 200 * 800, None);
    scene.rest();
    let last_map = scene.operations.iter().rposition(|operations| operations.starts_with("map")).expect("it is committed");
    // Each commit flushes once: nothing is linked.
    let commits = 1 + scene.operations[..last_map].iter().filter(|operations| *operations == "flush").count();
    let promised = scene.operations.iter().filter(|operations| operations.starts_with("ring Unmap")).count();
    assert!(commits > 1 && promised == commits, "{promised} promises, {commits} commits: {:?}", scene.operations);
}

/// Point 21. A block has rotted on the device, and is overwritten while it is being read, so its expected content is unknown. The result is
/// not returned unverified: the read begins again, and finds the LBN's present content.
#[test]
fn a_read_of_a_block_that_is_overwritten_meanwhile_is_verified() {
    let settings = Settings { commit_period_ms: 3_600_000, ..settings(Persistence::Weak) };
    let mut scene = Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings);
    let operations = scene.write(3, 100);
    let pbn = operations.iter().find_map(|operations| operations.strip_prefix("content P")).expect("it is new").parse().expect("a number");
    scene.rot(Pbn(pbn), 200);
    scene.hold = Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Data);
    scene.ask(Op::Read, 3, 1, None);
    assert_eq!(scene.held(), 1, "it comes from the device");
    scene.write(3, 300);
    scene.release();
    scene.rest();
    let Some(Reply::Data(segments)) = scene.answers.last() else { panic!("{:?}", scene.answers) };
    let [Segment::Data { slice, .. }] = &segments[..] else { panic!("{segments:?}") };
    assert_eq!(name_of(slice.block(0)), 300);
}
