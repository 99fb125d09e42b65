//! The runs of each kind: the lengths of their lives, and the places where these crash.

use super::explore::Explorer;
use super::kind::Kind;
use super::life::LifeEnd;
use super::options::Options;
use super::plan::Plan;
use super::{formatting, growing, offline, rot, scrubbing, spoil};
use crate::ground::record::record;
use crate::ground::violation::Violation;
use fastrand::Rng;
use std::rc::Rc;

impl Explorer {
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
        self.coverage.begin_run();
        match kind {
            Kind::Formatting => formatting::run(self, options, &mut rng),
            Kind::Spoiling => spoil::run(self, options, &mut rng),
            Kind::SpoilingLargeEpochs => spoil::run_with_large_epochs(self, options, &mut rng),
            Kind::Rotting => rot::run(self, &options, &mut rng),
            Kind::Filling => self.run_filling(options, &mut rng),
            Kind::Failing => self.run_failing(options, &mut rng),
            Kind::LargeEpochs => self.run_with_large_epochs(options, &mut rng),
            Kind::Long => self.run_long(options, &mut rng),
            Kind::TurningPagesOut => self.run_turning_pages_out(options, &mut rng),
            Kind::InLittleMemory => self.run_in_little_memory(options, &mut rng),
            Kind::OutOfLine => self.run_out_of_line(options, &mut rng),
            Kind::Growing => growing::run(self, options, &mut rng),
            Kind::Scrubbing => scrubbing::run(self, options, &mut rng),
            Kind::Offline => offline::run(self, options, &mut rng),
            Kind::Crashing => self.run_crashing(options, &mut rng),
        }
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
