//! The promises of mode `log`, and how the next server keeps them, as small scenes (docs/ordering.md,
//! docs/decisions/0076-promises-with-content.md).

use onefold_engine::buffer::{BufferMut, Slice};
use onefold_engine::format::{CommitMode, Wish};
use onefold_engine::interface::{Class, Event, Failure, Legacy, Notice, Op, Promised, Reply, Segment};
use onefold_engine::settings::{Compression, Settings};
use onefold_engine::units::Lbn;
use onefold_sim::laboratory::counts::device::Device;
use onefold_sim::laboratory::counts::names::{name_of, write_name};
use onefold_sim::laboratory::counts::scene::{self, Order, Scene};

fn settings(journal_contents_max: u64) -> Settings {
    let settings = Settings { commit_mode: CommitMode::Log, ..Settings::default() }.with_facts(|facts| {
        facts.keeps_journal = true;
        facts.journal_contents_max = journal_contents_max;
    });
    Settings { anticipation_ms: 0, commit_period_ms: 3_600_000, memory_bytes: 2 << 20, ..settings }
}

fn scene(journal_contents_max: u64) -> Scene {
    Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings(journal_contents_max))
}

/// Opens the next server after a kill of this one: it replays the acknowledgement journal.
fn next(scene: &Scene, fails: scene::Hold) -> Scene {
    replaying(scene.device.clone(), settings(16), fails, scene.journal.iter().map(|promise| promise.what.clone()).collect())
}

fn replaying(device: Device, settings: Settings, fails: scene::Hold, promises: Vec<Promised>) -> Scene {
    let superblock = device.superblock();
    let mut next = Scene::before_opening(device, superblock, Order::FirstFirst, settings);
    next.fails = fails;
    next.engine.replay(Legacy { promises, traces: [None; 2] });
    next.begin()
}

fn read(scene: &mut Scene, lbn: u64) -> Option<u64> {
    scene.ask(Op::Read, lbn, 1, None);
    scene.rest();
    match scene.answers.last() {
        Some(Reply::Data(segments)) => match &segments[..] {
            [Segment::Data { slice, .. }] => Some(name_of(slice.block(0))),
            _ => Some(0),
        },
        _ => None,
    }
}

fn kinds(operations: &[String]) -> Vec<&str> {
    operations
        .iter()
        .map(|what| what.split([' ', '{']).take(if what.starts_with("ring") { 2 } else { 1 }).last().expect("a word"))
        .collect()
}

fn none() -> scene::Hold {
    Box::new(|_, _| false)
}

#[test]
fn what_is_held_back_is_acknowledged_before_anything_is_written() {
    let mut scene = scene(16);
    assert_eq!(kinds(&scene.write(3, 103)), ["Content", "answer"]);
    // Its duplicate does too: the block that it refers to is not written yet.
    assert_eq!(kinds(&scene.write(4, 103)), ["Content", "answer"]);
    let mut after = next(&scene, none());
    assert_eq!((read(&mut after, 3), read(&mut after, 4)), (Some(103), Some(103)));
    assert!(after.findings().is_empty());
}

#[test]
fn a_slot_is_named_once_its_carrier_is_durable() {
    let mut scene = scene(16);
    scene.write(3, 103);
    scene.hold = Box::new(|event, _| matches!(event, Event::Flushed { .. }));
    scene.flush();
    // Its carrier is written, but may still be lost.
    assert_eq!(kinds(&scene.write(4, 103)), ["Content", "answer"]);
    scene.release();
    scene.rest();
    let operations = scene.write(5, 103);
    assert_eq!(kinds(&operations), ["Link", "answer"]);
    assert!(!operations[0].contains("slot: 0"), "{operations:?}");
    let mut after = next(&scene, none());
    assert_eq!([3, 4, 5].map(|lbn| read(&mut after, lbn)), [Some(103); 3]);
    assert!(after.findings().is_empty());
}

#[test]
fn content_that_finds_no_room_in_the_ring_is_acknowledged_when_it_is_on_the_device_or_durable() {
    let mut scene = scene(4);
    assert_eq!(kinds(&scene.write(3, 103)), ["Content", "answer"]);
    assert_eq!(kinds(&scene.write(4, 104)), ["Content", "answer"]);
    // New content is written to its own block.
    assert_eq!(kinds(&scene.write(5, 105)), ["content", "Link", "answer"]);
    // Deferred content has no block to name: its epoch is committed.
    let operations = scene.write(6, 103);
    assert_eq!(kinds(&operations), ["log", "flush", "answer"]);
    assert_eq!(kinds(&scene.write(7, 107)), ["Content", "answer"], "the ring has room again");
}

#[test]
fn what_dies_in_its_epoch_is_not_written_though_it_was_promised() {
    let mut scene = scene(16);
    scene.write(3, 103);
    scene.write(3, 104);
    assert_eq!(scene.engine.stats().ledger.new_blocks, 2);
    assert_eq!(kinds(&scene.flush()), ["log", "flush", "answer"], "nothing but the carrier");
    let mut after = next(&scene, none());
    assert_eq!(read(&mut after, 3), Some(104));
    assert!(after.findings().is_empty());
}

/// An epoch is durable, but its server did not live to report it: what it promised is where its LBNs point to.
#[test]
fn what_is_durable_already_is_not_written_again() {
    let mut scene = scene(16);
    scene.write(3, 103);
    scene.write(4, 104);
    let in_force = scene.journal.clone();
    scene.flush();
    scene.journal = in_force;
    let mut after = next(&scene, none());
    assert_eq!(after.engine.stats().ledger.new_blocks, 0);
    assert_eq!((read(&mut after, 3), read(&mut after, 4)), (Some(103), Some(104)));
}

/// Decision 0076, point 5. The device fails while the promises are committed: nothing that the next opening might contradict is answered.
#[test]
fn a_server_that_cannot_commit_what_it_recalls_answers_nothing() {
    let mut scene = scene(16);
    scene.write(3, 103);
    // The closing unit is the first write of the log, the replayed promises are the second.
    let writes = std::cell::Cell::new(0);
    let fails: scene::Hold = Box::new(move |event, (class, _)| {
        let is_of_log = class == Class::Log && matches!(event, Event::Written { .. });
        writes.set(writes.get() + u32::from(is_of_log));
        is_of_log && writes.get() == 2
    });
    let mut after = next(&scene, fails);
    assert_eq!(read(&mut after, 3), None);
    // Its promises are still in force: the next server finds them.
    scene.device = after.device.clone();
    let mut third = next(&scene, none());
    assert_eq!(read(&mut third, 3), Some(103));
}

#[test]
fn of_two_promises_for_a_block_the_later_counts() {
    let mut scene = scene(16);
    scene.write(3, 103);
    scene.ask(Op::WriteZeroes, 3, 1, None);
    scene.rest();
    scene.write(4, 104);
    scene.write(3, 105);
    scene.ask(Op::Discard, 4, 1, None);
    scene.rest();
    let promised = |what: &Promised| matches!(what, Promised::Content { .. });
    assert_eq!(scene.journal.iter().filter(|promise| promised(&promise.what)).count(), 3);
    let mut after = next(&scene, none());
    assert_eq!((read(&mut after, 3), read(&mut after, 4)), (Some(105), Some(0)));
}

/// On a full volume, a replayed promise may need a block that only deduplication keeps. Freeing it is work that no client waits for; that
/// work waited for the first request, which waited for the replay (`crash --commit-mode log --seed 411`, run 93).
#[test]
fn what_is_replayed_finds_a_block_on_a_full_volume() {
    let settings = Settings { compression: Compression::Off, ..settings(16) };
    let mut scene = thin(settings.clone());
    fill(&mut scene, 5000);
    scene.ask(Op::Discard, 0, 40, None);
    scene.rest();
    assert_overwrites_are_replayed(scene.close(), settings);
}

/// The same after a crash of a server in mode `ordered` that left garbage, when only the recount frees blocks (`crash --commit-mode any
/// --seed 511`, run 316).
#[test]
fn what_is_replayed_finds_a_block_that_the_recount_gives_back() {
    let log = Settings { compression: Compression::Off, ..settings(16) };
    let ordered = Settings { commit_mode: CommitMode::Ordered, ..log.clone() }.with_facts(|facts| facts.keeps_journal = false);
    let blocks = fill(&mut thin(ordered.clone()), 5000);
    let mut scene = thin(ordered);
    fill(&mut scene, blocks - 60);
    scene.flush();
    // The counts of these blocks reach the device, but their links do not.
    (0..60).for_each(|lbn| drop(scene.write(5500 + lbn, 30_000 + lbn)));
    scene.hold = Box::new(|event, _| matches!(event, Event::Flushed { .. }));
    scene.flush();
    assert_overwrites_are_replayed(scene.device, log);
}

/// The write was admitted when there was room beyond the reserve; a later overwrite, which is on the medium, has taken that room since
/// (`crash --seed 7033 --commit-mode log`, run 1845).
#[test]
fn what_is_replayed_may_take_a_block_of_the_reserve() {
    let settings = Settings { compression: Compression::Off, ..settings(16) };
    let mut scene = thin(settings.clone());
    fill(&mut scene, 5000);
    let promises = vec![Promised::Content { lbn: Lbn(5500), content: content(20_000) }];
    let mut next = replaying(scene.close(), settings, none(), promises);
    assert_eq!(read(&mut next, 5500), Some(20_000));
    assert!(next.notices.iter().all(|notice| !matches!(notice, Notice::Damage { .. })), "{:?}", next.notices);
}

/// The next server knows no duplicates: each content of the acknowledgement journal may need a block (`crash --commit-mode log --seed
/// 8901`, run 378: one of them was named by a later promise, too, and nothing else was left).
#[test]
fn contents_are_promised_as_long_as_each_has_a_block() {
    let mut full = thin(Settings { compression: Compression::Off, ..settings(16) });
    fill(&mut full, 5000);
    let device = full.close();
    let superblock = device.superblock();
    let mut scene = Scene::open(device, superblock, Order::FirstFirst, settings(1024), none());
    let mut promised_most = 0;
    // Repeats of deferred content take no block here, and content that finds no room in the journal only takes blocks.
    for (content, repeats) in [(20_000, 8), (30_000, 3)] {
        scene.flush();
        for lbn in 40..120 {
            scene.write(lbn, content + lbn / repeats);
            let promised = scene.journal.iter().filter(|promise| matches!(promise.what, Promised::Content { .. })).count() as u64;
            let free = scene.engine.stats().free_blocks;
            assert!(promised <= free, "{promised} contents, {free} free blocks");
            promised_most = promised_most.max(promised);
        }
    }
    assert!(promised_most > 10, "{promised_most}");
    let mut after = next(&scene, none());
    for lbn in 40..120 {
        assert_eq!((read(&mut after, lbn), read(&mut after, 5000 + lbn)), (Some(30_000 + lbn / 3), Some(10_000 + lbn)));
    }
    assert!(after.findings().is_empty());
}

fn thin(settings: Settings) -> Scene {
    let wish = Wish { logical_blocks: Some(6000), reserve_blocks: Some(64), guard: false, notes_blocks: 0 };
    Scene::new(16 << 20, &wish, Order::FirstFirst, settings)
}

fn content(content: u64) -> Slice {
    let mut buffer = BufferMut::zeroed(1);
    write_name(content, buffer.block_mut(0));
    buffer.freeze().slice(0, 1)
}

/// Writes up to `most` LBNs of a thin volume, until it is full, and returns the number written. Other LBNs share the contents of LBNs 40 to
/// 119: overwriting those frees nothing.
fn fill(scene: &mut Scene, most: u64) -> u64 {
    (40..120).for_each(|lbn| drop(scene.write(5000 + lbn, 10_000 + lbn)));
    let is_full = |lbn: &u64| {
        scene.write(*lbn, 10_000 + lbn);
        matches!(scene.answers.last(), Some(Reply::Failed(Failure::NoSpace)))
    };
    (0..most).find(is_full).unwrap_or(most)
}

/// Makes the next server replay overwrites of those LBNs, and checks that it finds room for them.
fn assert_overwrites_are_replayed(device: Device, settings: Settings) {
    let promises = (40..120).map(|lbn| Promised::Content { lbn: Lbn(lbn), content: content(20_000 + lbn) }).collect();
    let mut next = replaying(device, settings, none(), promises);
    for lbn in 40..120 {
        assert_eq!((read(&mut next, lbn), read(&mut next, 5000 + lbn)), (Some(20_000 + lbn), Some(10_000 + lbn)));
    }
}
