//! The crash explorer: stop at any device event, take a state that a power loss could leave, open it, compare it, go on working, crash
//! again.
//!
//! 1. A run is a function of its seed: what it found is replayed by the same seed.
//! 2. After each crash the clients read every block: what they read is compared with the oracle, and is the floor from then on (P7).
//! 3. A life that does not crash ends with a clean close: then everything acknowledged is durable, and the counts on the medium equal the
//!    links exactly, or *garbage possible* is set.

use crate::kind::Kind;
use crate::life::LifeEnd;
use crate::options::{Modes, Options, Shape};
use crate::plan::Plan;
use crate::prepare::Prepared;
use crate::record::{self, record};
use crate::states::Coverage;
use crate::violation::{Violation, violation};
use crate::world::{Setting, World};
use fastrand::Rng;
use std::rc::Rc;
use std::time::Instant;

/// The prepared volumes, and the coverage reached with them.
pub struct Explorer {
    tiny: Prepared,
    spread: Prepared,
    wide: Prepared,
    linked: Prepared,
    roomy: Prepared,
    pub coverage: Coverage,
    /// The commit modes of the lives.
    pub modes: Modes,
    /// The only kind of runs that are made.
    pub kind: Option<Kind>,
    /// The time when a run has to end at once: what it would find with fewer crashes than it drew could not be found again.
    pub deadline: Option<Instant>,
}

impl Explorer {
    /// Prepares the volumes.
    ///
    /// # Errors
    /// Fails if the machine breaks a rule while they are filled.
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
            kind: None,
            deadline: None,
        })
    }

    /// Returns whether the time is up.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() > end)
    }

    /// Returns the volume of a shape.
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

    /// Runs one run.
    ///
    /// # Errors
    /// Returns the violation that it found.
    pub fn run(&mut self, seed: u64) -> Result<(), Violation> {
        let mut rng = Rng::with_seed(seed);
        let (kind, options) = Kind::draw(self.modes, &mut rng);
        if self.kind.is_some_and(|wanted| wanted != kind) {
            return Ok(());
        }
        record!("options: {options}");
        self.coverage.runs += 1;
        match kind {
            Kind::Formatting => crate::formatting::run(self, options, &mut rng),
            Kind::Spoiling => crate::spoil::run(self, options, &mut rng),
            Kind::SpoilingLargeEpochs => crate::spoil::run_with_large_epochs(self, options, &mut rng),
            Kind::Rotting => crate::rot::run(self, &options, &mut rng),
            Kind::Filling => self.run_filling(options, &mut rng),
            Kind::Failing => self.run_failing(options, &mut rng),
            Kind::LargeEpochs => self.run_with_large_epochs(options, &mut rng),
            Kind::Long => self.run_long(options, &mut rng),
            Kind::TurningPagesOut => self.run_turning_pages_out(options, &mut rng),
            Kind::InLittleMemory => self.run_in_little_memory(options, &mut rng),
            Kind::OutOfLine => self.run_out_of_line(options, &mut rng),
            Kind::Growing => crate::growing::run(self, options, &mut rng),
            Kind::Scrubbing => crate::scrubbing::run(self, options, &mut rng),
            Kind::Offline => crate::offline::run(self, options, &mut rng),
            Kind::Crashing => self.run_crashing(options, &mut rng),
        }
    }

    /// Tries something with this many volumes, or as many as there is time for. Each has options of its own, the first one these.
    pub(crate) fn with_volumes(
        &mut self,
        volumes: usize,
        mut options: Options,
        rng: &mut Rng,
        mut try_one: impl FnMut(&mut Self, Options, &mut Rng) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let mark = record::mark();
        for _ in 0..volumes {
            try_one(self, options, rng)?;
            record::forget(mark);
            if self.is_late() {
                break;
            }
            options = Options::draw_in(self.modes, rng);
            record!("options: {options}");
        }
        Ok(())
    }

    /// Draws the settings that may change at each attach: the number of live records that memory is meant for and, if modes change, the
    /// mode.
    pub(crate) fn draw_attach(&self, options: &mut Options, rng: &mut Rng) {
        options.settings.knobs.live_records_max = Options::live_records_max(rng);
        if self.modes == Modes::Any {
            options.settings.commit_mode = self.modes.draw(rng);
            record!("--- in mode {:?}", options.settings.commit_mode);
        }
    }

    /// Makes the setting of another life after this one.
    pub(crate) fn in_another_life(&self, setting: &Setting, rng: &mut Rng) -> Setting {
        let mut options = (*setting.options).clone();
        self.draw_attach(&mut options, rng);
        Setting { options: Rc::new(options), ..setting.clone() }
    }

    /// Checks that the volume does not recount if all lives have a log, because then no crash leaves anything to recount. Damaged
    /// superblocks may lead back to one of another mode.
    ///
    /// # Errors
    /// Fails if the volume recounts.
    pub(crate) fn no_recount(&self, world: &World) -> Result<(), Violation> {
        if !self.modes.ordered() && world.traffic.serving && world.traffic.recounting && !world.faults.errors {
            return Err(violation!("log: a recount is due, and there were only crashes in mode `log`"));
        }
        Ok(())
    }

    fn plan(&self, options: Options) -> Plan {
        Plan::new(self.prepared(options.shape).setting(Rc::new(options)))
    }

    /// Runs a long life under the set checker, with few crashes.
    fn run_long(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [8, 1, 0];
        plan.events = [rng.u64(2000..8000), 400, 100, 1];
        plan.check_sets = true;
        self.start(&plan, rng)
    }

    /// Runs long lives after a crash, in so little memory that pages are evicted and read again: the recount then reads pages that nothing
    /// changes.
    fn run_in_little_memory(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [4, 1, 0];
        plan.events = [rng.u64(20..200), rng.u64(1000..4000), 400, 1];
        plan.check_sets = true;
        self.start(&plan, rng)
    }

    /// Runs lives that are long enough for the work out of line: what it looks up was written and made durable before.
    fn run_out_of_line(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        (plan.states, plan.stops) = (16, [rng.u64(4..12), 1, 1]);
        plan.events = [rng.u64(100..500), rng.u64(40..300), rng.u64(20..200), rng.u64(1..40)];
        plan.check_sets = rng.bool();
        self.start(&plan, rng)
    }

    /// Runs epochs of few writes among many reads, which need hundreds of steps to evict a page.
    fn run_turning_pages_out(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [4, 1, 0];
        plan.events = [rng.u64(200..800), rng.u64(20..100), 40, 1];
        plan.idle_steps = 2000;
        plan.check_sets = true;
        self.start(&plan, rng)
    }

    /// Runs short lives with many crashes.
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
            // Each state of one stop is only opened, compared and closed.
            (plan.events[1], plan.check_sets) = (1, false);
        }
        self.start(&plan, rng)
    }

    /// Runs a life that is long enough to fill the volume; most of its crashes come when it is full.
    fn run_filling(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        (plan.states, plan.stops) = (16, [4, 1, 1]);
        // The next life has to get as far as writing again.
        plan.events = [rng.u64(400..1200), rng.u64(60..400), rng.u64(10..60), rng.u64(1..40)];
        plan.check_sets = rng.bool();
        self.start(&plan, rng)
    }

    /// Runs epochs of hundreds of blocks: crashes among their units.
    fn run_with_large_epochs(&mut self, options: Options, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = self.plan(options);
        (plan.states, plan.stops) = (16, [2, 1, 1]);
        // Epochs are few, and errors in them show while they commit.
        plan.odds_of_units = 800;
        plan.events = [rng.u64(60..300), rng.u64(60..200), rng.u64(10..100), rng.u64(1..40)];
        if plan.setting.options.coincide {
            // What is sought shows during the first life, and parts of blocks are written for a long time without a device event.
            (plan.states, plan.stops, plan.odds_of_units) = (4, [1, 1, 0], 40);
            (plan.events[0], plan.idle_steps) = (rng.u64(200..600), 1500);
        }
        self.start(&plan, rng)
    }

    /// Runs one life again and again, each time with another device call failing (A5).
    fn run_failing(&mut self, mut options: Options, rng: &mut Rng) -> Result<(), Violation> {
        // With verification, the content of an uncommitted block on a failed device would never reach the client.
        options.settings.verify_reads &= rng.bool();
        let mut plan = self.plan(options);
        plan.states = 4;
        plan.stops = [0, 1, 1];
        plan.events = [rng.u64(40..300), rng.u64(10..80), rng.u64(10..40), rng.u64(1..20)];
        plan.check_sets = true;
        // Neighbouring calls fail in turn: over many runs every kind of call fails in every step.
        let (seed, from) = (rng.u64(..), if rng.u8(..) < 120 { 0 } else { rng.u64(0..plan.events[0]) });
        for call in from..from + 24 {
            let mut rng = Rng::with_seed(seed);
            let prepared = self.prepared(plan.setting.options.shape);
            let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
            self.fail(&plan, LifeEnd::new(disk, oracle), 0, call, &mut rng)?;
        }
        Ok(())
    }

    fn start(&mut self, plan: &Plan, rng: &mut Rng) -> Result<(), Violation> {
        let prepared = self.prepared(plan.setting.options.shape);
        let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
        self.live(plan, LifeEnd::new(disk, oracle), 0, rng)
    }
}
