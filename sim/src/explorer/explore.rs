//! The crash explorer: stop at any device event, take a state that a power loss could leave, open it, compare it, go on working, crash
//! again.
//!
//! 1. A run is a function of its seed: what it found is replayed by the same seed.
//! 2. After each crash the clients read every block: what they read is compared with the oracle, and is the floor from then on (P7).
//! 3. A life that does not crash ends with a clean close: then everything acknowledged is durable, and the counts on the medium equal the
//!    links exactly, or *garbage possible* is set.

use crate::explorer::kind::Kind;
use crate::explorer::options::{Modes, Options, Shape};
use crate::explorer::prepare::Prepared;
use crate::explorer::setting::Setting;
use crate::explorer::states::Coverage;
use crate::explorer::world::World;
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
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
}
