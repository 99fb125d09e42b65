//! Single FUA writes beside the other operations of the log, as small scenes (docs/decisions/0075-a-single-fua-write.md).

use onefold_engine::format::{CommitMode, Wish};
use onefold_engine::interface::{Event, Op};
use onefold_engine::settings::Settings;
use onefold_sim::laboratory::counts::scene::{Order, Scene};
use std::cell::Cell;

fn scene(compact_beyond: u64) -> Scene {
    let settings = Settings { commit_mode: CommitMode::Log, ..Settings::default() }.with_facts(|facts| facts.device_takes_fua = true);
    let settings = Settings { anticipation_ms: 0, commit_period_ms: 3_600_000, memory_bytes: 2 << 20, ..settings }
        .with_knobs(|knobs| knobs.compact_beyond = compact_beyond);
    Scene::new(16 << 20, &Wish::default(), Order::FirstFirst, settings)
}

/// Writes and syncs other content.
fn synced(scene: &mut Scene, lbn: u64) -> Vec<String> {
    scene.write(lbn, 1000 + lbn);
    scene.flush()
}

#[test]
fn a_client_is_answered_when_the_write_has_completed_and_not_before() {
    let mut scene = scene(2048);
    assert_eq!(synced(&mut scene, 1), ["log with FUA", "answer"]);
    scene.write(2, 1002);
    scene.hold = Box::new(|event, _| matches!(event, Event::Written { .. }));
    assert_eq!(scene.flush(), ["log with FUA"]);
    // Writes that arrive meanwhile belong to the next epoch, which has its own FUA write.
    scene.write(3, 1003);
    scene.operations.clear();
    scene.ask(Op::Flush, 0, 0, None);
    scene.rest();
    assert!(scene.operations.is_empty(), "{:?}", scene.operations);
    scene.release();
    scene.rest();
    assert_eq!(scene.operations, ["answer", "log with FUA", "answer"]);
}

/// A FUA write flushes nothing else: pages whose first write waits for a flush, to get their *written* bits, would wait for a checkpoint.
#[test]
fn pages_that_wait_for_a_flush_get_the_next_commits() {
    let mut scene = scene(8);
    // The compaction's own flush does not complete after that of the superblock that confirms what it writes.
    let flushes = Cell::new(0);
    scene.hold = Box::new(move |event, _| {
        flushes.set(flushes.get() + u32::from(matches!(event, Event::Flushed { .. })));
        matches!(event, Event::Flushed { .. }) && flushes.get() > 1
    });
    let wrote_names = |operations: &Vec<String>| operations.iter().any(|what| what.starts_with("fingerprints"));
    let operations = (0..100).map(|lbn| synced(&mut scene, lbn)).find(wrote_names).expect("a compaction begins");
    assert_eq!(operations.last().map(String::as_str), Some("flush"), "{operations:?}");
    assert_eq!(synced(&mut scene, 100), ["log", "flush"]);
    scene.release();
    scene.rest();
    assert_eq!(synced(&mut scene, 101), ["log with FUA", "answer"]);
    assert!(scene.close().superblock().clean);
}
