//! A failure of each single device call (A5): after it the volume is read-only and says so, blocks read right or not at all, and what was
//! promised before is there after the next power cut.

use crate::cuts::{Cuts, state_name};
use crate::explore::Explorer;
use crate::machine::open_engine;
use crate::options::{Fault, Options};
use crate::record::{self, record};
use crate::states::Crash;
use crate::traffic::Situation;
use crate::violation::{Violation, violation};
use crate::world::{Setting, World};
use fastrand::Rng;
use onefold_engine::interface::Notice;
use std::rc::Rc;

/// Device calls of a life, at most.
const CALLS: u64 = 120;

/// Runs one life again and again, each time with another call failing.
///
/// # Errors
/// The first violation.
pub fn run(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    let seed = rng.u64(..);
    // Nearby calls in turn, so that every kind of call is met in every step over many runs.
    let from = rng.u64(0..CALLS - 24);
    for call in from..from + 24 {
        let before = record::mark();
        let mut options = options.clone();
        options.fault = Some(Fault { call });
        fail_one(explorer, options, seed)?;
        record::forget(before);
    }
    Ok(())
}

fn fail_one(explorer: &mut Explorer, options: Options, seed: u64) -> Result<(), Violation> {
    let mut rng = Rng::with_seed(seed);
    let prepared = explorer.prepared(options.shape);
    let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
    let setting = prepared.setting(Rc::new(options));
    record!("--- life with a failure of call {:?}", setting.options.fault);
    let machine = open_engine(&disk, &setting, &mut rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(setting.clone(), disk, oracle, machine, rng.fork());
    world.check_sets()?;
    world.run_until(true, |w| w.weather.errors || w.calls > CALLS + 4)?;
    let step = world.traffic.step();
    let mut more = rng.u32(0..40);
    world.run_until(true, |_| {
        more = more.saturating_sub(1);
        more == 0
    })?;
    let says_so = world.notices.iter().filter(|n| matches!(n, Notice::WentReadOnly { .. })).count();
    if says_so != usize::from(world.weather.failed) {
        return Err(violation!("A5: the device failed: {}; notices of it: {says_so}", world.weather.failed));
    }
    if rng.bool() {
        world.read_all()?;
        world.close()?;
        if world.weather.failed && world.closed() == Some(true) {
            return Err(violation!("A5: the volume was closed clean after the device had failed"));
        }
    }
    explorer.coverage.device_events += world.traffic.events;
    explorer.coverage.checked_events += world.traffic.events;
    let cuts = Cuts::of(&world.disk, &setting.volume);
    for choice in cuts.choices(&world.disk, 3, &mut rng) {
        let after = world.disk.cut(&choice);
        let name = state_name(&world.disk, &choice, &after, &setting.volume);
        let mut oracle = world.oracle.clone();
        oracle.reopen();
        let on = Situation::ALL.into_iter().filter(|&s| world.traffic.is_on(s));
        explorer.coverage.count(step, Crash::Failure, 0, on, name);
        let mut options = (*setting.options).clone();
        options.fault = None;
        let setting = Setting { options: Rc::new(options), ..setting.clone() };
        explorer.live_after_failure(setting, after, oracle, &mut rng)?;
    }
    Ok(())
}
