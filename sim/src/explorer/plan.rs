//! The plan of a run's lives: how long they are, and where they crash.

use crate::device::traffic::{Situation, Step, Traffic};
use crate::explorer::setting::Setting;
use crate::explorer::states::DEPTH_MAX;
use fastrand::Rng;
use onefold_engine::format::CommitMode;
use std::cell::Cell;

/// The approximate maximum of lives of one run: further stops are skipped, so that no run takes forever.
const LIVES: u64 = 1200;
/// The number of these lives that is reserved for crashes of the first life; otherwise none would be left for its closing.
const LIVES_OF_THE_FIRST: u64 = 60;
/// The number of steps without a device event after which most lives are assumed to show nothing more.
const IDLE_STEPS: u32 = 300;

/// The plan of a run's lives.
pub struct Plan {
    pub setting: Setting,
    /// The approximate maximum of states opened at one stop; a quarter of it at each further depth.
    pub states: u64,
    /// The approximate number of stops in a life, by depth.
    pub stops: [u64; DEPTH_MAX],
    /// The number of device events of a life, by depth.
    pub events: [u64; DEPTH_MAX + 1],
    pub check_sets: bool,
    /// The number of steps without a device event after which a life ends early.
    pub idle_steps: u32,
    /// The additional odds, in 4096, of a crash while an epoch's units or their flush are under way.
    pub odds_of_units: u32,
    lives: Cell<u64>,
}

impl Plan {
    /// Makes a plan without crashes.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let (stops, events) = ([0; DEPTH_MAX], [100; DEPTH_MAX + 1]);
        Self { setting, states: 4, stops, events, check_sets: true, idle_steps: IDLE_STEPS, odds_of_units: 0, lives: Cell::new(LIVES) }
    }

    /// Draws the device events of a life after which to crash.
    pub(crate) fn stops_of(&self, depth: usize, rng: &mut Rng) -> Vec<u64> {
        let Some(&number) = self.stops.get(depth) else { return Vec::new() };
        let mut stops: Vec<u64> = (0..number).map(|_| rng.u64(1..=self.events[depth])).collect();
        // Openings are short, and deserve crashes as much as anything else.
        if number > 0 && rng.u8(..) < 60 {
            stops.push(rng.u64(1..=10));
        }
        stops
    }

    pub(crate) fn odds_at(&self, step: Step) -> u32 {
        if matches!(step, Step::Links | Step::Flush2) { self.odds_of_units } else { 0 }
    }

    /// Notes that another life has begun.
    pub(crate) fn another_life(&self) {
        self.lives.set(self.lives.get().saturating_sub(1));
    }

    pub(crate) fn may_crash(&self, depth: usize) -> bool {
        depth < DEPTH_MAX && self.lives.get() > if depth == 0 { 0 } else { LIVES_OF_THE_FIRST }
    }
}

/// Returns the additional odds of a crash here, in 4096: they are higher where the engine rarely is.
pub(crate) fn odds(traffic: &Traffic, mode: CommitMode, depth: usize) -> u32 {
    let step = match traffic.step() {
        // These are only the checkpoints of a log.
        Step::Refs | Step::Flush1 | Step::NonCritical if mode == CommitMode::Log => 1000,
        Step::Reclaim => 420,
        _ if mode == CommitMode::Log && traffic.beside() == Some(Step::Reclaim) => 60,
        Step::Recount => 50,
        Step::Flush1 | Step::Flush2 => 40,
        Step::Content | Step::NonCritical => 60,
        Step::Idle => 90,
        _ => 0,
    };
    let situation = |situation, odds| if traffic.is_on(situation) { odds } else { 0 };
    step + situation(Situation::NoSpace, if depth == 0 { 1800 } else { 3600 })
        + situation(Situation::DeviceDiscard, 60)
        + situation(Situation::Reuse, 20)
        + situation(Situation::OutOfLine, 300)
}
