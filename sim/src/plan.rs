//! How the lives of a run go: how long they are, and where they crash.

use crate::states::DEPTH_MAX;
use crate::traffic::{Situation, Step, Traffic};
use crate::world::Setting;
use fastrand::Rng;
use onefold_engine::format::CommitMode;
use std::cell::Cell;

/// Lives of one run, at most about this many: stops beyond them are passed over, so that no run takes for ever.
const LIVES: u64 = 1200;
/// Of them for crashes of the first life alone, whose closing would else find none left.
const LIVES_OF_THE_FIRST: u64 = 60;
/// Steps without a device event after which most lives are thought to have nothing more to show.
const IDLE_STEPS: u32 = 300;

/// How the lives of a run go.
pub struct Plan {
    pub setting: Setting,
    /// States opened at one stop, at most about this many; a quarter of it at each further depth.
    pub states: u64,
    /// Stops in a life, about, by depth.
    pub stops: [u64; DEPTH_MAX],
    /// Device events of a life, by depth.
    pub events: [u64; DEPTH_MAX + 1],
    pub check_sets: bool,
    /// Steps without a device event after which a life ends before its time.
    pub idle_steps: u32,
    /// In 4096: a crash where an epoch's units are on their way, or their flush is, beyond the others.
    pub odds_of_units: u32,
    lives: Cell<u64>,
}

impl Plan {
    /// A plan with no crash in it.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let (stops, events) = ([0; DEPTH_MAX], [100; DEPTH_MAX + 1]);
        Self { setting, states: 4, stops, events, check_sets: true, idle_steps: IDLE_STEPS, odds_of_units: 0, lives: Cell::new(LIVES) }
    }

    /// The device events of a life after which to crash.
    pub(crate) fn stops_of(&self, depth: usize, rng: &mut Rng) -> Vec<u64> {
        let Some(&number) = self.stops.get(depth) else { return Vec::new() };
        let mut stops: Vec<u64> = (0..number).map(|_| rng.u64(1..=self.events[depth])).collect();
        // Openings are short, and as worth a crash as anything.
        if number > 0 && rng.u8(..) < 60 {
            stops.push(rng.u64(1..=10));
        }
        stops
    }

    pub(crate) fn odds_at(&self, step: Step) -> u32 {
        if matches!(step, Step::Links | Step::Flush2) { self.odds_of_units } else { 0 }
    }

    /// One life fewer is left.
    pub(crate) fn another_life(&self) {
        self.lives.set(self.lives.get().saturating_sub(1));
    }

    pub(crate) fn may_crash(&self, depth: usize) -> bool {
        depth < DEPTH_MAX && self.lives.get() > if depth == 0 { 0 } else { LIVES_OF_THE_FIRST }
    }
}

/// How likely a crash is here beyond the planned ones, in 4096: more where the engine seldom is.
pub(crate) fn odds(traffic: &Traffic, mode: CommitMode, depth: usize) -> u32 {
    let step = match traffic.step() {
        // Only the checkpoints of a log are there.
        Step::Refs | Step::Flush1 | Step::NonCritical if mode == CommitMode::Log => 1000,
        Step::Reclaim => 420,
        _ if mode == CommitMode::Log && traffic.beside() == Some(Step::Reclaim) => 60,
        Step::Recount | Step::Content | Step::Flush1 | Step::Flush2 => 40,
        Step::NonCritical | Step::Idle => 60,
        _ => 0,
    };
    let situation = |situation, odds| if traffic.is_on(situation) { odds } else { 0 };
    step + situation(Situation::NoSpace, if depth == 0 { 1200 } else { 3600 })
        + situation(Situation::DeviceDiscard, 60)
        + situation(Situation::Reuse, 20)
}
