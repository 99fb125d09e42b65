//! All replays of a run, with look-ups.

use crate::laboratory::index::naming::Naming;
use crate::laboratory::papers::studies::app_dedupe::access::AccessRun;
use crate::laboratory::papers::studies::app_dedupe::live::LoadCosts;
use crate::laboratory::papers::studies::app_dedupe::parts::PartsStudy;
use crate::laboratory::papers::studies::app_dedupe::runs::LoadRun;
use crate::laboratory::papers::studies::contents::Contents;
use crate::laboratory::papers::studies::hints::live::HintsLive;
use crate::laboratory::papers::studies::hints::runs::HintRun;
use crate::laboratory::papers::studies::live_figures::LiveFigures;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::recorded::RecordedFigures;
use crate::laboratory::papers::studies::smartdedup::live::Live;
use crate::laboratory::papers::studies::smartdedup::rivals::RivalRun;
use crate::laboratory::papers::studies::smartdedup::study::Study;
use crate::laboratory::papers::studies::workloads::{WORKLOADS, Workload};
use crate::laboratory::replay::figures::Figures;
use crate::laboratory::replay::scheme::Scheme;
use crate::laboratory::replay::timed::Timed;
use serde::{Deserialize, Serialize};

/// Everything that was measured: all that the pages are made of.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    pub made: RunFacts,
    pub failures: Vec<Failure>,
    /// The contents that the traces write.
    pub contents: Vec<Contents>,
    /// The project's recorded figures.
    pub recorded: RecordedFigures,
    /// The replays with hints and without, and what was measured live about them.
    #[serde(default)]
    pub hints: Vec<HintRun>,
    #[serde(default)]
    pub hints_live: HintsLive,
    /// The replays of the loads of applications with flash below, those by access pattern, the index in parts, and what the loads cost
    /// live.
    #[serde(default)]
    pub loads: Vec<LoadRun>,
    #[serde(default)]
    pub access: Vec<AccessRun>,
    #[serde(default)]
    pub parts: PartsStudy,
    #[serde(default)]
    pub load_costs: LoadCosts,
    /// OrderMergeDedup's run times and processor, as measured live.
    #[serde(default)]
    pub live_figures: LiveFigures,
    /// SmartDedup's rivals with the load of its Figure 3.
    #[serde(default)]
    pub rivals: Vec<RivalRun>,
    /// The figures that were measured live.
    pub live: Live,
    pub naming: Naming,
    /// The traces in the policy lab.
    pub studies: Vec<Study>,
    pub runs: Vec<Timed>,
}

/// The conditions and costs of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFacts {
    pub threads: usize,
    /// The seconds of all commands that replayed, and the processor seconds of all replays.
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    /// The largest memory of a process; none if the system does not report it.
    pub peak_resident_bytes: Option<u64>,
    /// Whether all traces of the set were replayed, on all schemes.
    pub complete: bool,
    /// The number of commands that replayed, and the revisions that they called their own.
    pub commands: u32,
    pub revisions: Vec<String>,
}

impl RunFacts {
    /// Adds the facts of an earlier command, whose results are part of these.
    pub fn add(&mut self, earlier: &Self) {
        self.wall_seconds += earlier.wall_seconds;
        self.peak_resident_bytes = self.peak_resident_bytes.max(earlier.peak_resident_bytes);
        self.commands += earlier.commands;
        let known = std::mem::replace(&mut self.revisions, earlier.revisions.clone());
        self.revisions.extend(known.into_iter().filter(|revision| !earlier.revisions.contains(revision)));
    }
}

impl Results {
    /// Returns the replay of a trace.
    #[must_use]
    pub fn of(&self, trace: &str, scheme: Scheme, mode: Mode, model: &str) -> Option<&Timed> {
        let is_it = |t: &&Timed| {
            let r = &t.report;
            r.trace == trace && r.scheme == scheme.name() && r.device_model == model && mode.is_of(t)
        };
        self.runs.iter().find(is_it)
    }

    /// Returns the figures of a workload, on its own device model.
    #[must_use]
    pub fn figures(&self, workload: &Workload, scheme: Scheme, mode: Mode) -> Option<&Figures> {
        self.of(workload.trace, scheme, mode, workload.device).map(|t| &t.report.measured)
    }

    /// Puts everything into the order of the traces: those of the set, then those that were recorded here or made.
    pub fn sort(&mut self) {
        let of_set = |trace: &str| WORKLOADS.iter().position(|w| w.trace == trace).unwrap_or(WORKLOADS.len());
        let number = |trace: &str| (of_set(trace), trace.to_owned());
        self.contents.sort_by_key(|contents| number(&contents.trace));
        self.studies.sort_by_key(|study| (study.is_made, number(&study.trace)));
        self.runs.sort_by_key(|timed| number(&timed.report.trace));
    }

    /// Returns the virtual run time divided by that of no deduplication on the same device.
    #[must_use]
    pub fn time_ratio(&self, trace: &str, scheme: Scheme, mode: Mode, model: &str) -> Option<f64> {
        let seconds = |scheme| self.of(trace, scheme, mode, model).map(|t| t.report.measured.virtual_seconds);
        seconds(scheme).zip(seconds(Scheme::None)).filter(|&(_, none)| none > 0.0).map(|(with, none)| with / none)
    }

    /// Lists the traces that were replayed, in the order of the run.
    #[must_use]
    pub fn traces(&self) -> Vec<String> {
        let mut traces: Vec<String> = Vec::new();
        for timed in &self.runs {
            if !traces.contains(&timed.report.trace) {
                traces.push(timed.report.trace.clone());
            }
        }
        traces
    }

    /// Returns what a trace writes.
    #[must_use]
    pub fn contents_of(&self, trace: &str) -> Option<&Contents> {
        self.contents.iter().find(|contents| contents.trace == trace)
    }

    /// Returns what stands beside a figure of a trace's duplication, or a dash.
    #[must_use]
    pub fn parts_of(&self, trace: &str) -> String {
        self.contents_of(trace).map_or_else(|| "–".to_owned(), Contents::parts)
    }

    /// Lists the workloads that were replayed.
    #[must_use]
    pub fn workloads(&self) -> Vec<&'static Workload> {
        WORKLOADS.iter().filter(|w| self.runs.iter().any(|t| t.report.trace == w.trace)).collect()
    }
}

/// Returns the smallest and the largest value.
#[must_use]
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((f64::min(least, value), f64::max(most, value))),
    })
}
