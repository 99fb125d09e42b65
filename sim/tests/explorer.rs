//! The explorer finds nothing in a few runs, replays exactly, and does notice a device that forgets what it acknowledged.

use fastrand::Rng;
use onefold_engine::format::CommitMode;
use onefold_sim::device::faulty_device::ForgetfulDevice;
use onefold_sim::explorer::explore::Explorer;
use onefold_sim::explorer::opening::open_engine;
use onefold_sim::explorer::options::{Modes, Shape};
use onefold_sim::explorer::prepare::{Prepared, quiet_options};
use onefold_sim::explorer::world::World;
use std::rc::Rc;

/// The number of runs: enough to meet each kind of run.
const RUNS: u64 = 12;

#[test]
fn a_few_runs_find_nothing_and_replay() {
    find_nothing_and_replay(Modes::One(CommitMode::Ordered));
}

#[test]
fn a_few_runs_in_the_logs_mode_find_nothing_and_replay() {
    find_nothing_and_replay(Modes::One(CommitMode::Log));
}

#[test]
fn a_few_runs_across_modes_find_nothing_and_replay() {
    find_nothing_and_replay(Modes::Any);
}

fn find_nothing_and_replay(modes: Modes) {
    let mut first = Explorer::new(modes).expect("the volumes can be prepared");
    for seed in 0..RUNS {
        first.run(seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    let mut second = Explorer::new(modes).expect("the volumes can be prepared");
    (0..RUNS).for_each(|seed| second.run(seed).expect("as before"));
    let counts = |e: &Explorer| (e.coverage.opened, e.coverage.distinct(), e.coverage.device_events);
    assert_eq!(counts(&first), counts(&second));
    assert!(first.coverage.distinct() > 100, "only {} distinct states", first.coverage.distinct());
}

#[test]
fn a_forgetful_device_shows_as_lost_writes() {
    a_forgetful_device_is_noticed(CommitMode::Ordered);
}

#[test]
fn a_forgetful_device_shows_as_lost_writes_in_the_logs_mode() {
    a_forgetful_device_is_noticed(CommitMode::Log);
}

fn a_forgetful_device_is_noticed(mode: CommitMode) {
    let prepared = Prepared::new(Shape::Tiny, mode == CommitMode::Log).expect("a prepared volume");
    let mut options = quiet_options(Shape::Tiny);
    options.settings.commit_mode = mode;
    let setting = prepared.setting(Rc::new(options));
    let mut rng = Rng::with_seed(3);
    let machine = open_engine(&prepared.disk, &setting, &mut rng).expect("a volume");
    let mut world = World::new(setting.clone(), prepared.disk.clone(), prepared.oracle.clone(), machine, rng.fork());
    world.device_fault = Some(Box::new(ForgetfulDevice));
    let first = setting.stretches[0].0;
    let write = world.client.write(first, &[onefold_sim::ground::content::pattern("kept")], false, &mut world.oracle);
    world.send(write).expect("a write");
    world.settle().expect("an answer");
    let flush = world.client.flush(&world.oracle);
    world.send(flush).expect("a flush");
    world.settle().expect("an answer");

    let (disk, mut oracle) = (world.disk.cut(&Vec::new()), world.oracle);
    oracle.reopen();
    let machine = open_engine(&disk, &setting, &mut rng).expect("the volume as it was before");
    let mut world = World::new(setting, disk, oracle, machine, rng);
    let violation = world.read_all().expect_err("the write is gone, although a flush was acknowledged");
    assert!(violation.0.contains("reads zero"), "{violation}");
}
