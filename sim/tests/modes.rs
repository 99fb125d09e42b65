//! Faults of a change from one commit mode to the other, and of a log with little room: each as a small scene that shows it (docs/log.md).

use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::{CommitMode, Geometry, Superblock, Wish};
use onefold_engine::interface::{Class, Event, Failure, Notice, Op, Reply, Segment};
use onefold_engine::settings::{Compression, Persistence, Settings};
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use onefold_sim::laboratory::counts::device::Device;
use onefold_sim::laboratory::counts::names::name_of;
use onefold_sim::laboratory::counts::scene::{Hold, Order, Scene};
use std::cell::Cell;

fn settings(commit_mode: CommitMode) -> Settings {
    let persistence = Persistence::Weak;
    Settings { commit_mode, persistence, anticipation_ms: 0, commit_period_ms: 3_600_000, memory_bytes: 2 << 20, ..Settings::default() }
}

fn nothing() -> Hold {
    Box::new(|_, _| false)
}

fn new(commit_mode: CommitMode) -> Scene {
    Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings(commit_mode))
}

/// Opens the volume on a device in its present state: all writes have arrived, and nothing was closed.
fn open(device: &Device, settings: Settings, hold: Hold) -> Scene {
    Scene::open(device.clone(), device.superblock(), Order::FirstFirst, settings, hold)
}

/// Reads a block's content.
fn read(scene: &mut Scene, lbn: u64) -> u64 {
    scene.ask(Op::Read, lbn, 1, None);
    scene.rest();
    match scene.answers.last() {
        Some(Reply::Data(segments)) => match &segments[..] {
            [Segment::Data { slice, .. }] => name_of(slice.block(0)),
            other => panic!("LBN {lbn}: {other:?}"),
        },
        other => panic!("LBN {lbn}: {other:?}"),
    }
}

fn is_over(scene: &Scene) -> bool {
    scene.notices.iter().any(|notice| matches!(notice, Notice::Recounted { .. }))
}

/// After a crash in `ordered` a page that no live record changes has lost its bit: a log also writes it once more, and it is not blank
/// afterwards.
#[test]
fn a_page_whose_bit_a_crash_took_is_not_blank_after_a_recount_with_a_log() {
    let mut scene = new(CommitMode::Ordered);
    scene.write(3, 100);
    scene.flush();
    let scene = open(&scene.device, settings(CommitMode::Log), nothing());
    assert!(is_over(&scene), "{:?}", scene.notices);
    let device = scene.close();
    let mut scene = open(&device, settings(CommitMode::Ordered), nothing());
    assert_eq!(read(&mut scene, 3), 100);
    assert_eq!(scene.findings(), []);
}

/// Counts that a recount lowered under a log are not durable yet: after a crash garbage has to be possible, because a crash in this mode
/// does not set it.
#[test]
fn garbage_stays_possible_until_what_a_recount_lowered_is_durable() {
    let mut scene = new(CommitMode::Ordered);
    scene.write(3, 100);
    // The block is counted, but never linked.
    scene.hold = Box::new(|event, _| matches!(event, Event::Flushed { .. }));
    scene.flush();
    let is_refs: fn(&Event, (Class, _)) -> bool = |event, (class, _)| matches!(event, Event::Written { .. }) && class == Class::Refs;
    let mut scene = open(&scene.device, settings(CommitMode::Log), Box::new(is_refs));
    assert!(scene.notices.contains(&Notice::Recounted { blocks: 2 }), "{:?}", scene.notices);
    assert!(scene.held() > 0, "the lowered page is being written");
    assert!(scene.device.superblock().garbage_possible);
    scene.release();
    scene.rest();
    assert!(!scene.device.superblock().garbage_possible && scene.device.superblock().is_log_live());
}

/// A clean close had interrupted a recount; garbage of a later crash may precede that place.
#[test]
fn a_crash_in_mode_ordered_has_the_recount_begin_again_under_a_log() {
    let mut scene = new(CommitMode::Ordered);
    scene.write(3, 100);
    scene.flush();
    let mut superblock = scene.device.superblock();
    superblock.recount_position.0 = 200;
    superblock.generation += 1;
    let hold: Hold = Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Map);
    let scene = Scene::open(scene.device.clone(), superblock, Order::FirstFirst, settings(CommitMode::Log), hold);
    let superblock = scene.device.superblock();
    assert_eq!((superblock.garbage_possible, superblock.recount_position.0), (true, 0));
}

/// Pages of a log hold what is committed, so a recount can compare them at any moment: it neither waits for a commit nor begins
/// checkpoints.
#[test]
fn a_recount_goes_on_while_an_epoch_commits_in_the_log() {
    let mut scene = new(CommitMode::Ordered);
    scene.write(3, 100);
    scene.flush();
    let hold: Hold = Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Map);
    let mut scene = open(&scene.device, settings(CommitMode::Log), hold);
    assert!(!is_over(&scene), "{:?}", scene.notices);
    // The unit never arrives.
    scene.hold = Box::new(|event, (class, _)| matches!(event, Event::Written { .. }) && class == Class::Log);
    scene.ask(Op::Discard, 3, 1, None);
    scene.ask(Op::Flush, 0, 0, None);
    scene.rest();
    assert!(is_over(&scene) && scene.held() == 1, "{:?}", scene.notices);
}

/// Makes a volume whose live log is emptied by an opening in `ordered`, in which commands fail.
fn emptied_failing(fails: Hold) -> Scene {
    let mut scene = new(CommitMode::Log);
    scene.write(3, 100);
    scene.flush();
    let superblock = scene.device.superblock();
    assert!(superblock.is_log_live());
    let scene = Scene::open_failing(scene.device, superblock, Order::FirstFirst, settings(CommitMode::Ordered), nothing(), fails);
    assert!(scene.notices.iter().any(|notice| matches!(notice, Notice::WentReadOnly { .. })), "{:?}", scene.notices);
    scene
}

/// The device fails while the log is emptied: the volume becomes read-only, and answers reads.
#[test]
fn an_opening_that_empties_a_log_serves_reads_where_a_write_fails() {
    let mut scene = emptied_failing(Box::new(|event, (class, _)| matches!(event, Event::Written { .. }) && class == Class::Map));
    assert_eq!(read(&mut scene, 3), 100);
}

#[test]
fn an_opening_that_empties_a_log_serves_reads_where_a_flush_fails() {
    let pages_are_sent = Cell::new(false);
    let mut scene = emptied_failing(Box::new(move |event, (class, _)| {
        pages_are_sent.set(pages_are_sent.get() || class == Class::Map);
        matches!(event, Event::Flushed { .. }) && pages_are_sent.get()
    }));
    assert_eq!(read(&mut scene, 3), 100);
}

/// A page that a record of the log changes cannot be read: the volume becomes read-only, and other places are answered.
#[test]
fn an_opening_that_empties_a_log_does_not_wait_for_a_page_that_cannot_be_read() {
    let place = Cell::new(None);
    let is_it = move |at| place.replace(place.get().or(Some(at))).is_none_or(|first| first == at);
    let mut scene =
        emptied_failing(Box::new(move |event, (class, at)| matches!(event, Event::Read { .. }) && class == Class::Map && is_it(at)));
    scene.ask(Op::Read, 3, 1, None);
    scene.rest();
    assert!(matches!(scene.answers[..], [Reply::Failed(Failure::Io)]), "{:?}", scene.answers);
    scene.ask(Op::Read, 3000, 1, None);
    scene.rest();
    assert!(matches!(scene.answers.last(), Some(Reply::Data(_))), "{:?}", scene.answers);
}

/// All free blocks are counted by an epoch that a crash in `ordered` interrupted: a log finds no place, and the volume serves without one.
#[test]
fn a_volume_without_a_free_block_opens_without_a_log() {
    let wish = Wish { logical_blocks: Some(20_000), reserve_blocks: None, guard: false, notes_blocks: 0 };
    let mut scene = Scene::new(16 << 20, &wish, Order::FirstFirst, settings(CommitMode::Ordered));
    let is_full = |scene: &Scene| matches!(scene.answers.last(), Some(Reply::Failed(_)));
    let blocks = (0..).find(|&i| {
        scene.write(i, 1_000_000 + i);
        is_full(&scene)
    });
    let blocks = blocks.expect("it fills");
    scene.flush();
    scene.hold = Box::new(|event, _| matches!(event, Event::Flushed { .. }));
    let overwritten = (0..blocks).find(|&i| !scene.write(i, 2_000_000 + i).contains(&"answer".to_owned()));
    let overwritten = overwritten.expect("one waits for space");
    assert!(scene.held() > 0 && overwritten > 0, "its commit waits for a flush");
    let mut scene = open(&scene.device, settings(CommitMode::Log), nothing());
    assert!(scene.notices.contains(&Notice::NoRoomForLog), "{:?}", scene.notices);
    assert!(!scene.device.superblock().is_log_live());
    assert_eq!(read(&mut scene, 0), 1_000_000);
    // The recount has freed the blocks, so the next time there is room.
    let device = scene.close();
    let scene = open(&device, settings(CommitMode::Log), nothing());
    assert!(!scene.notices.contains(&Notice::NoRoomForLog) && scene.device.superblock().is_log_live());
}

/// Makes a tiny thin volume, filled until only the reserve is left.
fn filled(reserve_blocks: u64) -> Device {
    let wish = Wish { logical_blocks: Some(2500), reserve_blocks: Some(reserve_blocks), guard: false, notes_blocks: 0 };
    let geometry = Geometry::plan_tiny(Bytes(62 * BLOCK_BYTES), &wish).expect("the device is large enough");
    let settings = settings(CommitMode::Ordered);
    let (device, superblock) = Device::formatted(&Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &settings));
    let mut scene = Scene::open(device, superblock, Order::FirstFirst, settings, nothing());
    let full = (0..2500).find(|&i| {
        scene.write(i, 1000 + i);
        matches!(scene.answers.last(), Some(Reply::Failed(Failure::NoSpace)))
    });
    assert_eq!(full, Some(scene.engine.geometry().data_blocks - reserve_blocks));
    scene.close()
}

/// There are two free blocks; only fingerprints refer to all others. A log of two places has no room for the records that remove those.
#[test]
fn a_volume_with_two_free_blocks_is_not_full_while_fingerprints_keep_the_others() {
    let device = filled(2);
    let mut scene = open(&device, settings(CommitMode::Ordered), nothing());
    scene.ask(Op::Discard, 0, 2500, None);
    scene.flush();
    let mut scene = open(&scene.device, settings(CommitMode::Log), nothing());
    assert!(is_over(&scene), "{:?}", scene.notices);
    (0..20).for_each(|i| drop(scene.write(i, 2000 + i)));
    assert!(scene.answers.iter().all(|answer| matches!(answer, Reply::Done)), "{:?}", scene.answers);
}

/// No block is free except the log's own, and one opening after another is interrupted: each takes a place for its closing unit, until none
/// is named. What is committed after that is found.
#[test]
fn a_log_that_is_closed_again_and_again_without_a_free_block_goes_on() {
    let device = filled(3);
    let mut scene = open(&device, settings(CommitMode::Log), nothing());
    scene.write(0, 1001);
    scene.flush();
    let mut device = scene.device;
    for _ in 0..4 {
        let is_page: Hold = Box::new(|event, (class, _)| matches!(event, Event::Written { .. }) && class == Class::Map);
        let scene = open(&device, settings(CommitMode::Log), is_page);
        device = scene.device;
        assert!(device.superblock().is_log_live());
    }
    let mut scene = open(&device, settings(CommitMode::Log), nothing());
    assert!(scene.notices.contains(&Notice::Serving) && scene.device.superblock().is_log_live(), "{:?}", scene.notices);
    scene.write(2, 1001);
    scene.flush();
    let mut scene = open(&scene.device, settings(CommitMode::Log), nothing());
    assert_eq!([0, 2, 3].map(|lbn| read(&mut scene, lbn)), [1001, 1001, 1003]);
}

/// A write of some sectors has read the rest of its block, and the whole is compared with a stored block, in a unit; meanwhile its LBN is
/// overwritten twice. The block that it referred to must not be given to the last of these writes, because the first write would take that
/// content for what it has read.
#[test]
fn what_lies_under_a_write_of_sectors_is_kept_while_the_whole_is_compared() {
    let settings = Settings { compression: Compression::Carriers, ..settings(CommitMode::Log) };
    let under = 3;
    for overwritten in 0..4 {
        let mut scene = open(&filled(40), settings.clone(), nothing());
        scene.ask(Op::Discard, 0, 2500, None);
        scene.flush();
        // This is the content to compare with, in a unit.
        scene.write(20, 7);
        scene.write_sectors(20, 0..2, 8);
        scene.flush();
        // After another opening it is known, but not in memory.
        let mut scene = open(&scene.device, settings.clone(), nothing());
        scene.rest();
        let before = scene.answers.len();
        scene.write(under, 7);
        scene.write_sectors(under, 0..1, 8);
        // A stored block is read as content.
        scene.hold = Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Data);
        scene.write_sectors(under, 1..2, 8);
        assert_eq!((scene.held(), scene.answers.len()), (1, before + 2), "it is being compared");
        for i in 0..=overwritten {
            scene.flush();
            scene.write(under, 100 + i);
        }
        scene.release();
        scene.rest();
        let (found, stored) = (read(&mut scene, under), read(&mut scene, 20));
        assert!(found != stored, "overwritten {overwritten} times, and all is gone");
    }
}
