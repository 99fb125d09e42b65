//! The coverage of a crash run: distinct states, and the table of steps, events and depths.

use crate::device::traffic::{Situation, Step};
use crate::explorer::options::Modes;
use crate::explorer::world::World;
use onefold_engine::format::CommitMode;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The way in which a life of the server ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crash {
    /// The power is lost.
    Power,
    /// The server is killed; the device and its cache survive.
    Kill,
    /// A device call fails (A5), and some time later the power is lost.
    Failure,
}

impl Crash {
    /// All ways, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Power, Self::Kill, Self::Failure];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Power => "power cut",
            Self::Kill => "kill",
            Self::Failure => "I/O error",
        }
    }
}

/// The place where the engine was when a life ended; for an I/O error, where the failing call was sent.
#[derive(Clone, Copy)]
pub struct CrashPoint {
    pub step: Step,
    /// The step of a checkpoint of the log at that time.
    pub beside: Option<Step>,
}

impl CrashPoint {
    /// Returns the present place.
    #[must_use]
    pub fn of(world: &World) -> Self {
        let is_log = world.setting.options.settings.commit_mode == CommitMode::Log;
        Self { step: world.traffic.step(), beside: world.traffic.beside().filter(|_| is_log) }
    }
}

/// Situations that only a life with a log has.
const OF_THE_LOG: [Situation; 2] = [Situation::Compaction, Situation::SingleFua];

/// The deepest repeated crash that the table distinguishes.
pub const DEPTH_MAX: usize = 3;

/// Counts of one run or of many.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pub runs: u64,
    /// The states that were opened and compared.
    pub opened: u64,
    pub device_events: u64,
    /// The device events after which the set checker ran.
    pub checked_events: u64,
    /// The lives with damage, and those that detected it.
    pub spoilt: u64,
    pub spoilt_found: u64,
    /// The number of scrubs that confirmed a volume, and of killed volumes that were changed while nobody served them.
    pub scrubbed: u64,
    pub offline: u64,
    /// The containers that were opened for streams.
    pub containers: u64,
    /// The stops at which every metadata state was tried.
    pub enumerated: u64,
    steps: BTreeMap<(Step, Crash, usize), u64>,
    situations: BTreeMap<(Situation, usize), u64>,
    names: FxHashSet<u64>,
}

impl Coverage {
    /// Counts a state that is about to be opened, after a crash at this place, the `depth`th in a row (from 0).
    pub fn count(&mut self, at: CrashPoint, crash: Crash, depth: usize, on: impl Iterator<Item = Situation>, name: u64) {
        let depth = depth.min(DEPTH_MAX - 1);
        self.opened += 1;
        for step in std::iter::once(at.step).chain(at.beside) {
            *self.steps.entry((step, crash, depth)).or_default() += 1;
        }
        on.for_each(|s| *self.situations.entry((s, depth)).or_default() += 1);
        self.names.insert(name);
    }

    /// Counts a run that begins.
    pub fn begin_run(&mut self) {
        self.runs += 1;
    }

    /// Counts the device events of a life, those after which a set checker ran, and the containers that it opened.
    pub fn count_life(&mut self, events: u64, checked: u64, containers: u64) {
        self.device_events += events;
        self.checked_events += checked;
        self.containers += containers;
    }

    /// Counts a stop at which every metadata state is tried.
    pub fn count_enumerated(&mut self) {
        self.enumerated += 1;
    }

    /// Counts a life with damage.
    pub fn count_spoilt(&mut self, is_found: bool) {
        self.spoilt += 1;
        self.spoilt_found += u64::from(is_found);
    }

    /// Counts a scrub that confirmed a volume.
    pub fn count_scrubbed(&mut self) {
        self.scrubbed += 1;
    }

    /// Counts a killed volume that is changed while nobody serves it.
    pub fn count_offline(&mut self) {
        self.offline += 1;
    }

    /// Adds the coverage of another run.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.opened += other.opened;
        self.device_events += other.device_events;
        self.checked_events += other.checked_events;
        self.enumerated += other.enumerated;
        self.spoilt += other.spoilt;
        self.spoilt_found += other.spoilt_found;
        self.scrubbed += other.scrubbed;
        self.offline += other.offline;
        self.containers += other.containers;
        other.steps.into_iter().for_each(|(k, n)| *self.steps.entry(k).or_default() += n);
        other.situations.into_iter().for_each(|(k, n)| *self.situations.entry(k).or_default() += n);
        self.names.extend(other.names);
    }

    /// Returns the number of distinct states so far.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.names.len() as u64
    }

    /// Describes the cells below `least`. Cells that are impossible in these modes are left out.
    #[must_use]
    pub fn thin(&self, least: u64, modes: Modes) -> Vec<String> {
        let mut thin = Vec::new();
        for (step, crash, depth) in cells() {
            let n = self.steps.get(&(step, crash, depth)).copied().unwrap_or(0);
            if n < least && possible(step, crash, depth, modes) {
                thin.push(format!("{} × {} × depth {depth}: {n}", step.name(), crash.name()));
            }
        }
        for situation in Situation::ALL {
            for depth in 0..DEPTH_MAX {
                let n = self.situations.get(&(situation, depth)).copied().unwrap_or(0);
                if n < least && situation_possible(situation, depth, modes) {
                    thin.push(format!("{} × depth {depth}: {n}", situation.name()));
                }
            }
        }
        thin
    }

    /// Formats the tables.
    #[must_use]
    pub fn table(&self, modes: Modes) -> String {
        let mut text = String::new();
        let _ = write!(text, "{:<14}", "step");
        for crash in Crash::ALL {
            for depth in 0..DEPTH_MAX {
                let _ = write!(text, "{:>13}", format!("{} {depth}", crash.name()));
            }
        }
        text.push('\n');
        for step in Step::ALL {
            let _ = write!(text, "{:<14}", step.name());
            for crash in Crash::ALL {
                for depth in 0..DEPTH_MAX {
                    let cell = match self.steps.get(&(step, crash, depth)) {
                        None if !possible(step, crash, depth, modes) => "-".to_owned(),
                        n => n.copied().unwrap_or(0).to_string(),
                    };
                    let _ = write!(text, "{cell:>13}");
                }
            }
            text.push('\n');
        }
        let _ = writeln!(text, "\n{:<36}{:>13}{:>13}{:>13}", "situation", "depth 0", "depth 1", "depth 2");
        for situation in Situation::ALL {
            let _ = write!(text, "{:<36}", situation.name());
            for depth in 0..DEPTH_MAX {
                let cell = match self.situations.get(&(situation, depth)) {
                    None if !situation_possible(situation, depth, modes) => "-".to_owned(),
                    n => n.copied().unwrap_or(0).to_string(),
                };
                let _ = write!(text, "{cell:>13}");
            }
            text.push('\n');
        }
        text
    }
}

fn cells() -> impl Iterator<Item = (Step, Crash, usize)> {
    Step::ALL.into_iter().flat_map(|s| Crash::ALL.into_iter().flat_map(move |c| (0..DEPTH_MAX).map(move |d| (s, c, d))))
}

/// Returns whether a cell is possible. A recount has something to do only after a crash, and not after one in mode `log`; formatting
/// and growing are separate, and are interrupted and repeated by other means.
fn possible(step: Step, crash: Crash, depth: usize, modes: Modes) -> bool {
    match step {
        Step::Recount => depth > 0 && modes.ordered(),
        // Kills of a growth are tried, too; what a power loss leaves is what has to be seen.
        Step::Format | Step::Grow => crash == Crash::Power && depth == 0,
        _ => true,
    }
}

fn situation_possible(situation: Situation, depth: usize, modes: Modes) -> bool {
    match situation {
        Situation::Recovery => depth > 0,
        Situation::Recount => depth > 0 && modes.ordered(),
        Situation::LogBeyondMemory => depth > 0 && modes.log(),
        of_the_log if OF_THE_LOG.contains(&of_the_log) => modes.log(),
        Situation::Format => depth == 0,
        _ => true,
    }
}
