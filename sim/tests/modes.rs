//! Faults where a volume goes from one commit mode to the other, and where a log has little room: each as a small scene that shows it
//! (docs/log.md).

mod scene;

use onefold_engine::format::{CommitMode, Wish};
use onefold_engine::interface::{Class, Event, Failure, Notice, Op, Reply, Segment};
use onefold_engine::settings::{Persistence, Settings};
use onefold_sim::counts::device::Device;
use onefold_sim::counts::names::name_of;
use scene::{Hold, Order, Scene};
use std::cell::Cell;
use std::collections::BTreeSet;

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

/// The volume on a device as it is: all that was sent has arrived, and nothing was closed.
fn open(device: &Device, settings: Settings, hold: Hold) -> Scene {
    Scene::open(device.clone(), device.superblock(), Order::FirstFirst, settings, hold)
}

/// A block's content.
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

/// A crash in `ordered` takes the bit of a page that no live record touches: under a log too it is written once more, and not blank afterwards.
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

/// What a recount lowered under a log is not durable yet: a crash has to find that garbage is possible, for none sets it in this mode.
#[test]
fn garbage_stays_possible_until_what_a_recount_lowered_is_durable() {
    let mut scene = new(CommitMode::Ordered);
    scene.write(3, 100);
    // Counted, and never linked.
    scene.hold = Box::new(|event, _| matches!(event, Event::Flushed { .. }));
    scene.flush();
    let is_refs: fn(&Event, (Class, _)) -> bool = |event, (class, _)| matches!(event, Event::Written { .. }) && class == Class::Refs;
    let mut scene = open(&scene.device, settings(CommitMode::Log), Box::new(is_refs));
    assert!(scene.notices.contains(&Notice::Recounted { blocks: 2 }), "{:?}", scene.notices);
    assert!(scene.held() > 0, "the lowered page is on its way");
    assert!(scene.device.superblock().garbage_possible);
    scene.let_go();
    scene.rest();
    assert!(!scene.device.superblock().garbage_possible && scene.device.superblock().is_log_live());
}

/// A clean close had interrupted a recount; garbage of a crash since then may lie before that place.
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

/// Pages of a log hold what is committed, so a recount compares them at any moment: it neither waits for a commit nor begins checkpoints.
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

/// A volume whose log is live and is emptied by an opening in `ordered`, in which commands fail.
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

/// The device fails while the log is emptied: the volume is read-only, and answers reads.
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

/// A page cannot be read that a record of the log changes: it is read-only, and what lies elsewhere is answered.
#[test]
fn an_opening_that_empties_a_log_does_not_wait_for_a_page_that_cannot_be_read() {
    let mut scene = emptied_failing(Box::new(|event, (class, _)| matches!(event, Event::Read { .. }) && class == Class::Map));
    scene.ask(Op::Read, 3, 1, None);
    scene.rest();
    assert!(matches!(scene.answers[..], [Reply::Failed(Failure::Io)]), "{:?}", scene.answers);
    scene.ask(Op::Read, 3000, 1, None);
    scene.rest();
    assert!(matches!(scene.answers.last(), Some(Reply::Data(_))), "{:?}", scene.answers);
}

/// Both pairs of superblock copies have forgotten the log before a block of it is anybody else's, or is discarded.
#[test]
fn blocks_of_a_log_that_is_left_are_kept_until_both_pairs_have_forgotten_it() {
    let mut scene = new(CommitMode::Log);
    (0..4).for_each(|i| {
        scene.write(i, 100 + i);
        scene.flush();
    });
    let settings = Settings { discard_batch_blocks: 1, ..settings(CommitMode::Ordered) };
    let mut scene = open(&scene.device, settings, Box::new(|_, _| true));
    scene.let_go();
    let mut without = BTreeSet::new();
    while !scene.notices.contains(&Notice::Serving) {
        scene.go_on(1);
        let superblock = scene.device.superblock();
        without.extend((!superblock.is_log_live()).then_some(superblock.generation));
        assert!(scene.device.tally.discards == 0 || without.len() == 2, "{without:?}");
    }
    assert_eq!(without.len(), 2, "{without:?}");
}

/// All free blocks are counted by an epoch that a crash in `ordered` cut off: a log finds no place, and the volume serves without one.
#[test]
fn a_volume_without_a_free_block_opens_without_a_log() {
    let wish = Wish { logical_blocks: Some(20_000), reserve_blocks: None };
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
    // The recount has given the blocks back, so the next time there is room.
    let device = scene.close();
    let scene = open(&device, settings(CommitMode::Log), nothing());
    assert!(!scene.notices.contains(&Notice::NoRoomForLog) && scene.device.superblock().is_log_live());
}
