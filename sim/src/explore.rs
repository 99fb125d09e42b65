//! The crash explorer: stop at any device event, take a state that a cut could leave, open it, compare, go on working, crash again.
//!
//! 1. A run is a function of its seed: what it found is replayed by the same seed.
//! 2. After each crash the clients read every block: what they find is held against the oracle, and is the floor from then on (P7).
//! 3. A life that is not cut off ends with a clean close: then everything acknowledged is durable, and the counts on the medium are the links
//!    exactly, or *garbage possible* is set.

use crate::kind::Kind;
use crate::life::Left;
use crate::options::{Modes, Options, Shape};
use crate::plan::Plan;
use crate::prepare::Prepared;
use crate::record::record;
use crate::states::Coverage;
use crate::violation::{Violation, violation};
use crate::world::{Setting, World};
use fastrand::Rng;
use std::rc::Rc;
use std::time::Instant;

/// The prepared volumes, and what has been covered with them.
pub struct Explorer {
    tiny: Prepared,
    spread: Prepared,
    wide: Prepared,
    linked: Prepared,
    roomy: Prepared,
    pub coverage: Coverage,
    /// What makes epochs durable.
    pub modes: Modes,
    /// When a run is to end at once: what it would find with fewer crashes than it drew, it would not find again.
    pub deadline: Option<Instant>,
}

impl Explorer {
    /// Prepares the volumes.
    ///
    /// # Errors
    /// When the machine breaks a rule while they are filled.
    pub fn new(modes: Modes) -> Result<Self, Violation> {
        let shapes = [Shape::Tiny, Shape::Spread, Shape::Wide, Shape::Linked, Shape::Roomy];
        let [tiny, spread, wide, linked, roomy] = shapes.map(|shape| Prepared::new(shape, modes.log()));
        Ok(Self {
            tiny: tiny?,
            spread: spread?,
            wide: wide?,
            linked: linked?,
            roomy: roomy?,
            coverage: Coverage::default(),
            modes,
            deadline: None,
        })
    }

    /// Whether the time is up.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() > end)
    }

    /// The volume of a shape.
    #[must_use]
    pub fn prepared(&self, shape: Shape) -> &Prepared {
        match shape {
            Shape::Tiny => &self.tiny,
            Shape::Spread => &self.spread,
            Shape::Wide => &self.wide,
            Shape::Linked => &self.linked,
            Shape::Roomy => &self.roomy,
        }
    }

    /// One run.
    ///
    /// # Errors
    /// The violation that it found.
    pub fn run(&mut self, seed: u64) -> Result<(), Violation> {
        let mut rng = Rng::with_seed(seed);
        let (kind, options) = Kind::draw(self.modes, &mut rng);
        record!("options: {options}");
        self.coverage.runs += 1;
        match kind {
            Kind::Formatting => crate::formatting::run(self, options, &mut rng),
            Kind::Spoiling => crate::spoil::run(self, options, &mut rng),
            Kind::SpoilingLargeEpochs => crate::spoil::run_with_large_epochs(self, options, &mut rng),
            Kind::Filling => self.run_filling(options, &mut rng),
            Kind::Failing => self.run_failing(options, &mut rng),
            Kind::LargeEpochs => self.run_with_large_epochs(options, &mut rng),
            Kind::Long => self.run_long(options, &mut rng),
            Kind::TurningPagesOut => self.run_turning_pages_out(options, &mut rng),
            Kind::InLittleMemory => self.run_in_little_memory(options, &mut rng),
            Kind::Crashing => self.run_crashing(options, &mut rng),
        }
    }

    /// What each attach may be told anew: how many live records memory is meant for and, where modes change, the mode.
    pub(crate) fn draw_attach(&self, options: &mut Options, rng: &mut Rng) {
        options.settings.live_records_max = Options::live_records_max(rng);
        if self.modes == Modes::Any {
            options.settings.commit_mode = self.modes.draw(rng);
            record!("--- in mode {:?}", options.settings.commit_mode);
        }
    }

    /// What another life after this one is made of.
    pub(crate) fn in_another_life(&self, setting: &Setting, rng: &mut Rng) -> Setting {
        let mut options = (*setting.options).clone();
        self.draw_attach(&mut options, rng);
        Setting { options: Rc::new(options), ..setting.clone() }
    }

    /// Where all lives have a log, no crash leaves anything to recount. Spoilt superblocks may lead back to another mode's.
    ///
    /// # Errors
    /// When the volume recounts.
    pub(crate) fn no_recount(&self, world: &World) -> Result<(), Violation> {
        if !self.modes.ordered() && world.traffic.serving && world.traffic.recounting && !world.weather.errors {
            return Err(violation!("log: a recount is due, and there were only crashes in mode `log`"));
        }
        Ok(())
    }

    fn plan(&self, options: Options) -> Plan {
        Plan::new(self.prepared(options.shape).setting(Rc::new(options)))
    }

    /// A long life under the set checker, with few crashes.
    fn run_long(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [8, 1, 0];
        plan.events = [rng.u64(2000..8000), 400, 100, 1];
        plan.check_sets = true;
        self.start(&plan, rng)
    }

    /// Long lives after a crash, in so little memory that pages leave it and come back: the recount has pages read that nobody changes then.
    fn run_in_little_memory(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [4, 1, 0];
        plan.events = [rng.u64(20..200), rng.u64(1000..4000), 400, 1];
        plan.check_sets = true;
        self.start(&plan, rng)
    }

    /// Epochs of few writes among many reads, which need hundreds of steps to turn a page out.
    fn run_turning_pages_out(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [4, 1, 0];
        plan.events = [rng.u64(200..800), rng.u64(20..100), 40, 1];
        plan.idle_steps = 2000;
        plan.check_sets = true;
        self.start(&plan, rng)
    }

    /// Short lives with many crashes.
    fn run_crashing(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        (plan.states, plan.stops) = match rng.u8(..) {
            0 => (1 << 16, [1, 0, 0]),
            1..6 => (1 << 12, [1, 0, 0]),
            6..20 => (256, [3, 1, 0]),
            _ => (16, [rng.u64(8..24), 1, 1]),
        };
        plan.events = [rng.u64(20..400), rng.u64(10..120), rng.u64(10..60), rng.u64(1..40)];
        plan.check_sets = rng.bool();
        if plan.states > 256 {
            // Every state of one stop: each is opened, compared and closed, and no more.
            (plan.events[1], plan.check_sets) = (1, false);
        }
        self.start(&plan, rng)
    }

    /// A life that is long enough to fill the volume; most of its crashes come when it is full.
    fn run_filling(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        (plan.states, plan.stops) = (16, [4, 1, 1]);
        // The next life has to come as far as writing again.
        plan.events = [rng.u64(400..1200), rng.u64(60..400), rng.u64(10..60), rng.u64(1..40)];
        plan.check_sets = rng.bool();
        self.start(&plan, rng)
    }

    /// Epochs of hundreds of blocks: crashes among their units.
    fn run_with_large_epochs(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        (plan.states, plan.stops) = (16, [2, 1, 1]);
        // Epochs are few, and what is wrong with them shows while they commit.
        plan.odds_of_units = 800;
        plan.events = [rng.u64(60..300), rng.u64(60..200), rng.u64(10..100), rng.u64(1..40)];
        if plan.setting.options.coincide {
            // What is sought shows while the first life goes on, and parts of blocks are written for long without a device event.
            (plan.states, plan.stops, plan.odds_of_units) = (4, [1, 1, 0], 40);
            (plan.events[0], plan.idle_steps) = (rng.u64(200..600), 1500);
        }
        self.start(&plan, rng)
    }

    /// One life again and again, each time with another device call failing (A5).
    fn run_failing(&mut self, mut options: Options, rng: &mut Rng) -> Result<(), Violation> {
        // Verified, what a failed device holds in place of an uncommitted block would never come as far as the client.
        options.settings.verify_reads &= rng.bool();
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [0, 1, 1];
        plan.events = [rng.u64(40..300), rng.u64(10..80), rng.u64(10..40), rng.u64(1..20)];
        plan.check_sets = true;
        // Neighbouring calls in turn: over many runs every kind of call is met in every step.
        let (seed, from) = (rng.u64(..), if rng.u8(..) < 80 { 0 } else { rng.u64(0..plan.events[0]) });
        for call in from..from + 24 {
            let mut rng = Rng::with_seed(seed);
            let prepared = self.prepared(plan.setting.options.shape);
            let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
            self.fail(&plan, Left::new(disk, oracle), 0, call, &mut rng)?;
        }
        Ok(())
    }

    fn start(&mut self, plan: &Plan, rng: &mut Rng) -> Result<(), Violation> {
        let prepared = self.prepared(plan.setting.options.shape);
        let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
        self.live(plan, Left::new(disk, oracle), 0, rng)
    }
}
