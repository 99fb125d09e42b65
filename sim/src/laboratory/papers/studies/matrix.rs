//! The list of replays, and their execution.
//!
//! 1. Every scheme is replayed, weak and strong with 32 outstanding, on every model; strong with 1 outstanding on the model of the
//!    workload's figures. The paper's workloads are replayed in requests of one block on that model, too, with the schemes of Figure 3, and
//!    with the paper's anticipation alone. Traces that were recorded here are replayed on every model, with the schemes that the log is
//!    compared with.
//! 2. The longest replays begin first, so that at the end no thread waits long for another.
//! 3. The results are in the order of the matrix, whatever the order of execution.

use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::parallel::{on_threads, parted};
use crate::laboratory::papers::studies::workloads::{MODELS, of_trace};
use crate::laboratory::replay::run::Plan;
use crate::laboratory::replay::scheme::Scheme;
use crate::laboratory::replay::timed::{Timed, name_of, replay_file};
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::model::Model;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The schemes of the paper's Figure 3, with its anticipation and with all of ours. Dmdedup commits each block alone anyway.
pub const GRANULAR: [Scheme; 5] = [Scheme::None, Scheme::OrderedOnly, Scheme::Ordered, Scheme::OrderedPeriod, Scheme::OrderedAnticipate];

/// The assumed size of a trace that was recorded here: only the order of jobs depends on it.
const RECORDED_UNITS: u64 = 100_000;
/// The interval between reports of progress.
const TELL: Duration = Duration::from_secs(30);

/// One replay.
#[derive(Clone, Debug)]
pub struct ReplayJob {
    pub trace: PathBuf,
    pub plan: Plan,
    /// The estimated duration compared with other replays.
    cost: u64,
}

impl ReplayJob {
    /// Returns whether a replay is the result of this job.
    #[must_use]
    pub fn is_of(&self, timed: &Timed) -> bool {
        let (report, plan) = (&timed.report, &self.plan);
        let outstanding = (plan.persistence != Mode::Weak.persistence()).then_some(plan.outstanding_max);
        report.scheme == plan.scheme.name()
            && report.request_blocks_max == plan.request_blocks_max()
            && report.device_model == plan.model.name
            && report.outstanding == outstanding
            && report.trace == name_of(&self.trace)
    }

    fn name(&self) -> String {
        let strong = if self.plan.persistence == Mode::Weak.persistence() {
            "weak".to_owned()
        } else {
            let of_blocks = if self.plan.request_blocks_max().is_some() { "requests of 4 KiB, " } else { "" };
            format!("{of_blocks}strong {}", self.plan.outstanding_max)
        };
        format!("{}, {}, {strong}, {}", name_of(&self.trace), self.plan.scheme.name(), self.plan.model.name)
    }
}

/// Lists all replays of each trace.
///
/// # Errors
/// Fails if a model has no such name.
pub fn jobs(traces: &[PathBuf]) -> Result<Vec<ReplayJob>, String> {
    let mut jobs = Vec::new();
    for trace in traces {
        let units = units_of(trace);
        let workload = of_trace(&name_of(trace));
        let device = workload.map_or(MODELS[0], |w| w.device);
        let job = |scheme, mode: Mode, model| ReplayJob {
            trace: trace.clone(),
            plan: plan_of(scheme, mode, model),
            cost: units * weight(scheme, mode),
        };
        for model in MODELS {
            let model = Model::named(model)?;
            for mode in Mode::ALL.into_iter().filter(|&mode| mode != Mode::Alone || model.name == device) {
                jobs.extend(Scheme::ALL.map(|scheme| job(scheme, mode, model)));
            }
        }
        if workload.is_some_and(|w| w.paper.is_some()) {
            let model = Model::named(device)?;
            let period = |mode| job(Scheme::OrderedPeriod, mode, model);
            jobs.extend([Mode::Weak, Mode::Strong].map(period));
            jobs.extend(Mode::OF_BLOCKS.into_iter().flat_map(|mode| GRANULAR.map(|scheme| job(scheme, mode, model))));
        }
    }
    Ok(jobs)
}

fn plan_of(scheme: Scheme, mode: Mode, model: Model) -> Plan {
    let request_bytes_max = mode.request_blocks_max().map_or(u64::MAX, |blocks| blocks * BLOCK_BYTES);
    Plan { scheme, persistence: mode.persistence(), outstanding_max: mode.outstanding(), request_bytes_max, model, ..Plan::default() }
}

/// Lists the replays of each trace that was recorded here.
///
/// # Errors
/// Fails if a model has no such name.
pub fn jobs_of_recorded(traces: &[PathBuf]) -> Result<Vec<ReplayJob>, String> {
    let mut jobs = Vec::new();
    for trace in traces {
        for model in MODELS {
            let model = Model::named(model)?;
            for mode in [Mode::Weak, Mode::Strong] {
                for scheme in [Scheme::None, Scheme::Ordered].into_iter().chain(Scheme::LOGS) {
                    let plan = plan_of(scheme, mode, model);
                    jobs.push(ReplayJob { trace: trace.clone(), plan, cost: RECORDED_UNITS * weight(scheme, mode) });
                }
            }
        }
    }
    Ok(jobs)
}

/// Returns the approximate microseconds a unit: only the order of jobs depends on it.
const fn weight(scheme: Scheme, mode: Mode) -> u64 {
    match (scheme, mode) {
        (Scheme::None, _) => 1,
        (Scheme::Shadow, Mode::Weak) => 8,
        (Scheme::Shadow, _) => 60,
        _ => 3,
    }
}

/// Returns the units of a trace from the file that its recorder left beside it, or its bytes: only the order of jobs depends on it.
fn units_of(trace: &Path) -> u64 {
    let beside = trace.with_file_name(format!("{}.json", name_of(trace)));
    let facts = std::fs::read_to_string(beside).ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let values = facts.and_then(|facts| facts["total_written_4k"].as_u64());
    values.unwrap_or_else(|| trace.metadata().map_or(0, |m| m.len()))
}

/// Runs the jobs on this number of threads.
#[must_use]
pub fn run(jobs: &[ReplayJob], threads: usize) -> (Vec<Timed>, Vec<Failure>) {
    let all = jobs.iter().map(|job| job.cost).sum();
    let progress = Mutex::new(Progress { began: Instant::now(), values: Instant::now(), done: 0, cost: 0, all });
    let results = on_threads(
        jobs,
        |job| job.cost,
        threads,
        |job| {
            let result = replay_file(&job.trace, &job.plan).map_err(|error| Failure { replay: job.name(), error });
            progress.lock().expect("nobody panics with it").finished(job, jobs.len());
            result
        },
    );
    parted(results)
}

struct Progress {
    began: Instant,
    values: Instant,
    done: usize,
    cost: u64,
    all: u64,
}

impl Progress {
    fn finished(&mut self, job: &ReplayJob, jobs: usize) {
        self.done += 1;
        self.cost += job.cost;
        if self.values.elapsed() >= TELL {
            self.values = Instant::now();
            let percent = self.cost * 100 / self.all.max(1);
            let minutes = self.began.elapsed().as_secs_f64() / 60.0;
            eprintln!(
                "papers: {} of {jobs} replays, about {percent} % of the work, {minutes:.1} minutes; the last: {}",
                self.done,
                job.name()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replay_is_listed_once() {
        let jobs = jobs(&[PathBuf::from("a.tsv"), PathBuf::from("b.tsv")]).expect("the models exist");
        let mut names: Vec<String> = jobs.iter().map(ReplayJob::name).collect();
        assert_eq!(names.len(), 2 * 9 * (3 + 3 + 1));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 2 * 9 * (3 + 3 + 1));
    }

    #[test]
    fn the_papers_workloads_are_replayed_in_blocks_too() {
        let jobs = jobs(&[PathBuf::from("06b_hadoop_local.tsv.zst")]).expect("the models exist");
        let of_blocks = jobs.iter().filter(|job| job.name().contains("requests of 4 KiB")).count();
        assert_eq!((jobs.len(), of_blocks), (9 * (3 + 3 + 1) + 2 + 3 * 5, 3 * 5));
    }

    #[test]
    fn a_failed_replay_is_reported_and_the_others_continue() {
        let missing = jobs(&[PathBuf::from("no/such/trace.tsv")]).expect("the models exist");
        let (runs, failures) = run(&missing[..3], 2);
        assert!(runs.is_empty());
        assert_eq!(failures.len(), 3);
        assert!(failures[0].error.contains("no/such/trace.tsv"), "{}", failures[0].error);
    }
}
