//! The replays of the loads, with flash below: Figures 5, 7 and 8.
//!
//! 1. Each load runs on the bare flash, and on the defaults of a volume in both commit modes, with the same flash below
//!    (`replay/on_flash.rs`): pages, planes and latencies of the simulator that the paper uses, 15 % spare, greedy cleaning.
//! 2. The volume is as large as the load's working set. The flash begins full and in its steady state, or holds what the scheme's own
//!    device holds in the end.
//! 3. A load has no phases: the figures are those from the opening to the clean close, so that a log's last checkpoint is in them.

use crate::laboratory::flash::aging::{Past, aged, aged_holding};
use crate::laboratory::flash::{Flash, Shape};
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use crate::laboratory::replay::on_flash::{device_bytes, flash_bytes, replay};
use crate::laboratory::replay::plan::Plan;
use crate::laboratory::replay::report::Report;
use crate::laboratory::replay::scheme::Scheme;
use crate::laboratory::replay::timed::name_of;
use crate::laboratory::replay::working_set::WorkingSet;
use onefold_trace::source::{ReadOptions, Source};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The schemes: the bare flash, and the defaults of mode `ordered` and of mode `log`.
pub const SCHEMES: [Scheme; 3] = [Scheme::None, Scheme::OrderedAnticipate, Scheme::Packed];
/// The scheme that is judged: the default of a volume.
pub const OURS: Scheme = Scheme::Packed;

/// The pages of the flash that hold something when a load begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Begin {
    /// All of them.
    Full,
    /// Those that the scheme's own device holds in the end, as if all others had been trimmed once.
    Held,
}

/// The circumstances of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub mode: Mode,
    pub begin: Begin,
}

impl Case {
    /// All of them, those that are judged first.
    pub const ALL: [Self; 4] = [Self::WEAK, Self::STRONG, Self::HELD, Self { mode: Mode::Strong, begin: Begin::Held }];
    /// A volume with default settings on a full flash: the case of data written and of collections.
    pub const WEAK: Self = Self { mode: Mode::Weak, begin: Begin::Full };
    /// The case of response times: with a volume and without, a write is answered when it is in the flash.
    pub const STRONG: Self = Self { mode: Mode::Strong, begin: Begin::Full };
    /// A volume with default settings on a flash without other data.
    pub const HELD: Self = Self { mode: Mode::Weak, begin: Begin::Held };

    /// Returns the name for people.
    #[must_use]
    pub fn name(self) -> String {
        let begin = if self.begin == Begin::Full { "the flash begins full" } else { "the flash begins with what is held" };
        format!("{}, {begin}", self.mode.name())
    }
}

/// The result of one replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadRun {
    pub begin: Begin,
    pub flash_bytes: u64,
    #[serde(flatten)]
    pub report: Report,
}

impl LoadRun {
    fn is_of(&self, case: Case) -> bool {
        self.begin == case.begin && self.report.outstanding.is_some() == (case.mode != Mode::Weak)
    }
}

/// The replays of a load in one case, on every scheme.
struct Job {
    load: PathBuf,
    case: Case,
}

impl Job {
    fn name(&self) -> String {
        format!("{}, flash, {}", name_of(&self.load), self.case.name())
    }

    /// The size of the trace: only the order of jobs depends on it.
    fn cost(&self) -> u64 {
        self.load.metadata().map_or(0, |data| data.len()) * if self.case.begin == Begin::Held { 2 } else { 1 }
    }

    fn plan(&self, scheme: Scheme) -> Plan {
        let mode = self.case.mode;
        Plan { scheme, persistence: mode.persistence(), outstanding_max: mode.outstanding(), ..Plan::default() }
    }

    fn run(&self) -> Result<Vec<LoadRun>, String> {
        let set = WorkingSet::of(open(&self.load)?).map_err(|error| error.to_string())?;
        let blocks = set.blocks().max(1);
        let bytes = device_bytes(&SCHEMES, &self.plan(Scheme::None), blocks)?;
        let shape = Shape::new(flash_bytes(&Shape::new(bytes), bytes));
        let replayed = |plan: &Plan| replay(&name_of(&self.load), open(&self.load)?, Some(&set), blocks, plan);
        let run = |scheme| {
            let plan = self.plan(scheme);
            let flash = match self.case.begin {
                Begin::Full => aged(shape, &Past::default())?,
                Begin::Held => {
                    let empty = Arc::new(Flash::new(shape)?);
                    let (_, flash) = replayed(&Plan { flash: Some(empty), keeps_flash: true, ..plan.clone() })?;
                    aged_holding(shape, &flash.held_pages(), &Past::default())?
                }
            };
            let (report, _) = replayed(&Plan { flash: Some(Arc::new(flash)), ..plan })?;
            Ok(LoadRun { begin: self.case.begin, flash_bytes: shape.bytes, report })
        };
        SCHEMES.into_iter().map(run).collect()
    }
}

fn open(load: &Path) -> Result<Source, String> {
    Source::open(load, &ReadOptions::default()).map_err(|error| error.to_string())
}

/// Replays the loads at these paths on this number of threads.
#[must_use]
pub fn run(loads: &[PathBuf], threads: usize) -> (Vec<LoadRun>, Vec<Failure>) {
    let jobs: Vec<Job> = loads.iter().flat_map(|load| Case::ALL.map(|case| Job { load: load.clone(), case })).collect();
    let results = on_threads(&jobs, Job::cost, threads, |job| {
        let result = job.run().map_err(|error| Failure { replay: job.name(), error });
        eprintln!("papers: {}", job.name());
        result
    });
    let (runs, failures) = parted(results);
    (runs.into_iter().flatten().collect(), failures)
}

/// Lists the loads in a folder, in the order of their names.
///
/// # Errors
/// Fails if the folder cannot be read, or holds no load.
pub fn loads(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let complain = |error: &dyn std::fmt::Display| format!("{}: {error}; give the folder of the loads by --loads", folder.display());
    let entries = std::fs::read_dir(folder).map_err(|error| complain(&error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(|error| complain(&error))?;
    let mut loads: Vec<PathBuf> = paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
    loads.sort();
    if loads.is_empty() { Err(complain(&"no file there ends with .zst")) } else { Ok(loads) }
}

/// Lists the names of the loads that were replayed, in their order.
#[must_use]
pub fn names(runs: &[LoadRun]) -> Vec<&str> {
    let mut names: Vec<&str> = runs.iter().map(|run| run.report.trace.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the replay of a load.
#[must_use]
pub fn find<'a>(runs: &'a [LoadRun], load: &str, scheme: Scheme, case: Case) -> Option<&'a LoadRun> {
    runs.iter().find(|run| run.report.trace == load && run.report.scheme == scheme.name() && run.is_of(case))
}

/// Returns the share of a value that each load saves against the bare flash, negative where it needs more. A load for which the bare flash
/// needs nothing is left out.
#[must_use]
pub fn saved(runs: &[LoadRun], scheme: Scheme, case: Case, value: fn(&LoadRun) -> f64) -> Vec<(&str, f64)> {
    let of = |load: &str, scheme| find(runs, load, scheme, case).map(value);
    let share = |load| {
        let bare = of(load, Scheme::None).filter(|bare| *bare > 0.0)?;
        Some((load, 1.0 - of(load, scheme)? / bare))
    };
    names(runs).into_iter().filter_map(share).collect()
}

/// Returns the mean; none without values.
#[must_use]
#[allow(clippy::cast_precision_loss)] // a few loads
pub fn mean(values: &[(&str, f64)]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64)
}

/// Returns the units that reached the device.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
pub fn written(run: &LoadRun) -> f64 {
    run.report.measured.device_units_all as f64
}

/// Returns the collections of the flash.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
pub fn collections(run: &LoadRun) -> f64 {
    run.report.measured.flash.map_or(0.0, |flash| flash.counts.collections as f64)
}

/// Returns the mean response time in microseconds.
#[must_use]
pub fn response_us(run: &LoadRun) -> f64 {
    run.report.measured.flash.map_or(0.0, |flash| flash.response_us.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(load: &str, scheme: Scheme, outstanding: Option<usize>, units: u64) -> LoadRun {
        let mut report = Report { trace: load.to_owned(), scheme: scheme.name().to_owned(), outstanding, ..Report::default() };
        report.measured.device_units_all = units;
        LoadRun { begin: Begin::Full, flash_bytes: 0, report }
    }

    #[test]
    fn a_saving_is_against_the_bare_flash_in_the_same_case() {
        let runs = [
            run("mail", Scheme::None, None, 200),
            run("mail", Scheme::Packed, None, 50),
            run("mail", Scheme::Packed, Some(32), 400),
            run("chat", Scheme::None, None, 100),
            run("chat", Scheme::Packed, None, 125),
            run("logs", Scheme::None, None, 0),
            run("logs", Scheme::Packed, None, 1),
        ];
        let saved = saved(&runs, Scheme::Packed, Case::WEAK, written);
        assert_eq!(saved, [("chat", -0.25), ("mail", 0.75)], "in the order of names");
        assert_eq!((mean(&saved), mean(&[])), (Some(0.25), None));
        assert!(super::saved(&runs, Scheme::Packed, Case::STRONG, written).is_empty(), "there is no bare flash to compare with");
    }

    #[test]
    fn a_folder_without_loads_is_named() {
        let empty = tempfile::tempdir().expect("a temporary folder");
        assert!(loads(empty.path()).unwrap_err().contains("--loads"));
        assert!(loads(&empty.path().join("none")).unwrap_err().contains("none"));
    }
}
