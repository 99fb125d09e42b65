//! The crash explorer: stop at any device event, take a state that a cut could leave, open it, compare, go on working, crash again.
//!
//! 1. A run is a function of its seed: what it found is replayed by the same seed.
//! 2. After each crash the clients read every block: what they find is held against the oracle, and is the floor from then on (P7).
//! 3. A life that is not cut off ends with a clean close; then the counts on the medium are the links exactly, or *garbage possible* is set.

use crate::cuts::{Cuts, state_name};
use crate::disk::SimDisk;
use crate::machine::open_engine;
use crate::options::{Options, Shape};
use crate::oracle::Oracle;
use crate::prepare::Prepared;
use crate::record::{self, record};
use crate::states::{Coverage, Crash, DEPTH_MAX};
use crate::traffic::{Situation, Step};
use crate::violation::{Violation, violation};
use crate::volume::Place;
use crate::world::{Setting, World};
use fastrand::Rng;
use std::rc::Rc;

/// The prepared volumes, and what has been covered with them.
pub struct Explorer {
    tiny: Prepared,
    spread: Prepared,
    wide: Prepared,
    pub coverage: Coverage,
}

/// One run's plan.
struct Plan {
    setting: Setting,
    /// States opened at one stop, at most about this many.
    states: u64,
    /// Stops in a life, about, by depth.
    stops: [u64; DEPTH_MAX + 1],
    /// Device events of a life, by depth.
    events: [u64; DEPTH_MAX + 1],
    check_sets: bool,
}

impl Plan {
    /// The device events of a life after which to crash.
    fn stops_of(&self, depth: usize, rng: &mut Rng) -> Vec<u64> {
        let events = self.events[depth];
        let mut stops: Vec<u64> = (0..self.stops[depth]).map(|_| rng.u64(1..=events)).collect();
        // Openings are short, and as worth a crash as anything.
        if self.stops[depth] > 0 && rng.u8(..) < 80 {
            stops.push(rng.u64(1..=10));
        }
        stops
    }
}

impl Explorer {
    /// Prepares the volumes.
    ///
    /// # Errors
    /// When the machine breaks a rule while they are filled.
    pub fn new() -> Result<Self, Violation> {
        let [tiny, spread, wide] = [Shape::Tiny, Shape::Spread, Shape::Wide].map(Prepared::new);
        Ok(Self { tiny: tiny?, spread: spread?, wide: wide?, coverage: Coverage::default() })
    }

    /// The volume of a shape.
    #[must_use]
    pub fn prepared(&self, shape: Shape) -> &Prepared {
        match shape {
            Shape::Tiny => &self.tiny,
            Shape::Spread => &self.spread,
            Shape::Wide => &self.wide,
        }
    }

    /// One run.
    ///
    /// # Errors
    /// The violation that it found.
    pub fn run(&mut self, seed: u64) -> Result<(), Violation> {
        let mut rng = Rng::with_seed(seed);
        let options = Options::draw(&mut rng);
        record!("options: {options}");
        self.coverage.runs += 1;
        match rng.u8(0..16) {
            0 => crate::formatting::run(self, options, &mut rng),
            1..=3 => crate::failing::run(self, options, &mut rng),
            4..=6 => self.run_long(options, &mut rng),
            _ => self.run_crashing(options, &mut rng),
        }
    }

    /// A long life under the set checker, with few crashes.
    fn run_long(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let plan = Plan {
            setting: self.prepared(options.shape).setting(Rc::new(options)),
            states: 4,
            stops: [10, 1, 0, 0],
            events: [rng.u64(2000..8000), 500, 1, 1],
            check_sets: true,
        };
        self.start(&plan, rng)
    }

    fn run_crashing(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let states = match rng.u8(..) {
            0 => 1 << 12,
            1..16 => 256,
            _ => 16,
        };
        let plan = Plan {
            setting: self.prepared(options.shape).setting(Rc::new(options)),
            states,
            stops: [rng.u64(4..16), 1, 1, 0],
            events: [rng.u64(20..400), rng.u64(10..80), rng.u64(10..60), rng.u64(1..40)],
            check_sets: rng.bool(),
        };
        self.start(&plan, rng)
    }

    /// A life on a volume that was just formatted, or was to be.
    ///
    /// # Errors
    /// The violation that it found.
    pub fn live_after_format(&mut self, setting: Setting, disk: SimDisk, oracle: Oracle, rng: &mut Rng) -> Result<(), Violation> {
        let plan = Plan { setting, states: 16, stops: [0, 1, 0, 0], events: [1, rng.u64(5..40), 10, 1], check_sets: true };
        self.live(&plan, disk, oracle, 1, rng)
    }

    /// A life after one that met a failure of the device.
    ///
    /// # Errors
    /// The violation that it found.
    pub fn live_after_failure(&mut self, setting: Setting, disk: SimDisk, oracle: Oracle, rng: &mut Rng) -> Result<(), Violation> {
        let plan = Plan { setting, states: 16, stops: [0, 1, 1, 0], events: [1, rng.u64(5..60), 30, 1], check_sets: rng.bool() };
        self.live(&plan, disk, oracle, 1, rng)
    }

    fn start(&mut self, plan: &Plan, rng: &mut Rng) -> Result<(), Violation> {
        let prepared = self.prepared(plan.setting.options.shape);
        let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
        self.live(plan, disk, oracle, 0, rng)
    }

    /// Opens the volume and lives on it; the `depth`th life in a row (from 0).
    fn live(&mut self, plan: &Plan, disk: SimDisk, oracle: Oracle, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        let before = record::mark();
        record!("--- life {depth}");
        let machine = open_engine(&disk, &plan.setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
        let mut world = World::new(plan.setting.clone(), disk, oracle, machine, rng.fork());
        world.traffic.recounting = depth > 0;
        if plan.check_sets {
            world.check_sets()?;
        }
        let result = self.live_in(plan, &mut world, depth, rng);
        self.coverage.device_events += world.traffic.events;
        if plan.check_sets {
            self.coverage.checked_events += world.traffic.events;
        }
        if result.is_ok() {
            record::forget(before);
        }
        result
    }

    fn live_in(&mut self, plan: &Plan, world: &mut World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        let stops = plan.stops_of(depth, rng);
        // Recovery may be cut off before anything is read.
        let reads_at = if depth == 0 || rng.bool() { 0 } else { rng.u64(0..12) };
        let mut has_read = false;
        let mut seen = 0;
        let mut idle = 0;
        while world.traffic.events < plan.events[depth] && idle < 300 {
            if !has_read && world.traffic.events >= reads_at {
                has_read = true;
                world.send_reads()?;
            }
            idle += 1;
            if !world.step(has_read)? && !world.pass_time()? {
                break;
            }
            let events = world.traffic.events;
            if events != seen {
                if stops.iter().any(|&at| seen < at && at <= events) {
                    self.crash(plan, world, depth, rng)?;
                }
                (seen, idle) = (events, 0);
            }
        }
        if !has_read || rng.u8(..) < 96 {
            world.settle()?;
            world.read_all()?;
        }
        if rng.u8(..) < 128 {
            self.close(plan, world, depth, rng)?;
        }
        Ok(())
    }

    /// Closes, crashing on the way, and looks at what a clean volume promises.
    fn close(&mut self, plan: &Plan, world: &mut World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        world.begin_close()?;
        let mut seen = world.traffic.events;
        while world.closed().is_none() {
            if !world.step(false)? {
                return Err(violation!("stuck: closing, and nothing is under way"));
            }
            if world.traffic.events != seen {
                seen = world.traffic.events;
                if depth < DEPTH_MAX && rng.u8(..) < 24 {
                    self.crash(plan, world, depth, rng)?;
                }
            }
        }
        if world.closed() != Some(true) {
            return Err(violation!("interface: closed, but not clean, and nothing had failed"));
        }
        // Content may be undecided: of blocks that are free, and were discarded or never linked.
        let metadata = |block: &&u64| !matches!(world.setting.volume.place(**block), Place::Data(_));
        if let Some(block) = world.disk.undecided().iter().find(metadata) {
            return Err(violation!("P1: closed and clean, but {:?} is not durable", world.setting.volume.place(*block)));
        }
        crate::audit::audit(&world.disk, &world.setting.volume, &world.oracle, rng)
    }

    /// Crashes here, in several ways, and lives on after each.
    fn crash(&mut self, plan: &Plan, world: &World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        if depth >= DEPTH_MAX {
            return Ok(());
        }
        let step = world.traffic.step();
        if rng.u8(..) < 72 {
            let after = world.disk.kill(rng);
            // The cache is part of the state, and is not named: a kill adds nothing to the distinct ones beyond its durable medium.
            let name = after.media() ^ 1;
            let death = Death { disk: after, crash: Crash::Kill, step, name, torn: None };
            return self.after(plan, world, death, depth, rng);
        }
        let cuts = Cuts::of(&world.disk, &world.setting.volume);
        let limit = plan.states >> (2 * depth);
        if cuts.states <= limit {
            self.coverage.enumerated += 1;
        }
        let choices = cuts.choices(&world.disk, limit.max(2), rng);
        for choice in choices {
            let after = world.disk.cut(&choice);
            let name = state_name(&world.disk, &choice, &after, &world.setting.volume);
            record!("--- power cut: {}", describe(world, &choice));
            let death = Death { disk: after, crash: Crash::Power, step, name, torn: torn(world, &choice) };
            self.after(plan, world, death, depth, rng)?;
        }
        Ok(())
    }

    fn after(&mut self, plan: &Plan, world: &World, death: Death, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        let before = record::mark();
        record!("--- {} in step {}", death.crash.name(), death.step.name());
        let mut oracle = world.oracle.clone();
        oracle.reopen();
        let on = Situation::ALL.into_iter().filter(|&s| match s {
            Situation::Recovery => death.step == Step::Opening && depth > 0,
            s if Some(s) == death.torn => true,
            _ => world.traffic.is_on(s),
        });
        self.coverage.count(death.step, death.crash, depth, on, death.name);
        let mut disk = death.disk;
        if rng.u8(..) < 12 {
            (disk, oracle) = look_only(plan, disk, oracle, rng)?;
        }
        self.live(plan, disk, oracle, depth + 1, rng)?;
        record::forget(before);
        Ok(())
    }
}

/// How a life ended.
struct Death {
    disk: SimDisk,
    crash: Crash,
    step: Step,
    /// The state's name.
    name: u64,
    torn: Option<Situation>,
}

/// What a cut has torn.
fn torn(world: &World, choice: &crate::disk::Choice) -> Option<Situation> {
    let is_torn = |sources: &[u8; 8]| sources.iter().any(|s| *s != sources[0]);
    let of =
        |place: fn(&Place) -> bool| choice.iter().any(|(block, sources)| place(&world.setting.volume.place(*block)) && is_torn(sources));
    if of(|p| *p == Place::Superblock) {
        return Some(Situation::TornSuperblock);
    }
    of(|p| matches!(p, Place::Page(_))).then_some(Situation::TornPage)
}

/// A second opening, to read only: it finds the same, and changes nothing.
fn look_only(plan: &Plan, disk: SimDisk, oracle: Oracle, rng: &mut Rng) -> Result<(SimDisk, Oracle), Violation> {
    record!("--- opened to read only");
    let mut options = (*plan.setting.options).clone();
    options.settings.read_only = true;
    let setting = Setting { options: Rc::new(options), ..plan.setting.clone() };
    let machine = open_engine(&disk, &setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(setting, disk, oracle, machine, rng.fork());
    world.read_all()?;
    world.close()?;
    if world.traffic.tally.units != [0; 6] || world.traffic.tally.discards != 0 {
        return Err(violation!("interface: a volume opened to read only was written: {:?}", world.traffic.tally));
    }
    let mut oracle = world.oracle;
    oracle.reopen();
    Ok((world.disk, oracle))
}

/// Which blocks a cut leaves how.
fn describe(world: &World, choice: &crate::disk::Choice) -> String {
    let one = |(block, sources): &(u64, [u8; 8])| format!("{:?} {sources:?}", world.setting.volume.place(*block));
    choice.iter().map(one).collect::<Vec<_>>().join("; ")
}
