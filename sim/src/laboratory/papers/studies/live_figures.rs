//! Figures 2 (B) and 3 (B) and section 4.5, measured live: `./dev bench live-figures` replays the workloads' traces on a store slowed to
//! the paper's device, over FUSE and a loop device, and leaves a file, from which the report takes them. Fingerprints are computed there.

use crate::laboratory::papers::drawing::html::{Table, change, number};
use crate::laboratory::papers::studies::workloads::{Workload, of_trace};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The bare store with no volume, with which volumes are compared.
const PASSTHROUGH: &str = "passthrough";
/// The volumes with all of the paper's optimizations, weak and strong.
pub const WEAK: &str = "ordered weak";
pub const STRONG: &str = "ordered strong";

/// One run of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveRun {
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Those of the server's processes, until everything was flushed.
    pub server_cpu_seconds: f64,
    /// Those of the processors' packages, where the machine counts them.
    pub joules: Option<f64>,
    pub client_units: u64,
    pub units: u64,
    /// The blocks that were linked to others; none for the bare store.
    pub linked: Option<u64>,
    /// By how much the commands of the store took longer than its model says, in per cent.
    pub late_percent: f64,
}

/// The runs of a trace on a scheme.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveCase {
    pub trace: String,
    pub model: String,
    pub scheme: String,
    pub runs: Vec<LiveRun>,
}

/// Everything that was measured live.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveFigures {
    pub cores: u64,
    pub cases: Vec<LiveCase>,
}

/// A mean with its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub mean: f64,
    pub deviation: f64,
}

impl Mean {
    #[allow(clippy::cast_precision_loss)] // a handful of runs
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (count > 0.0).then(|| Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() })
    }

    fn shown(self, digits: usize) -> String {
        format!("{:.digits$} ± {:.digits$}", self.mean, self.deviation)
    }
}

impl LiveCase {
    fn mean(&self, value: impl Fn(&LiveRun) -> f64) -> Option<Mean> {
        Mean::of(&self.runs.iter().map(value).collect::<Vec<_>>())
    }
}

impl LiveFigures {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if it is not there, or is no such file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}; ./dev bench live-figures makes such a file", path.display()))
    }

    fn case(&self, trace: &str, scheme: &str) -> Option<&LiveCase> {
        self.cases.iter().find(|case| (case.trace.as_str(), case.scheme.as_str()) == (trace, scheme))
    }

    /// Returns the change of the mean run time of a workload against passthrough.
    #[must_use]
    pub fn longer(&self, workload: &Workload, scheme: &str) -> Option<f64> {
        let seconds = |scheme| self.case(workload.trace, scheme)?.mean(|run| run.seconds);
        Some(seconds(scheme)?.mean / seconds(PASSTHROUGH)?.mean - 1.0)
    }

    /// Returns the processor seconds of the server beyond passthrough's, for each second of the run.
    #[must_use]
    pub fn processor(&self, workload: &Workload, scheme: &str) -> Option<f64> {
        let cpu = |scheme| self.case(workload.trace, scheme)?.mean(|run| run.server_cpu_seconds);
        let seconds = self.case(workload.trace, PASSTHROUGH)?.mean(|run| run.seconds)?;
        Some((cpu(scheme)?.mean - cpu(PASSTHROUGH)?.mean) / seconds.mean)
    }

    /// Returns the workloads that were measured, in the order of workloads.
    #[must_use]
    pub fn workloads(&self) -> Vec<&'static Workload> {
        let mut found: Vec<&Workload> = Vec::new();
        for workload in self.cases.iter().filter_map(|case| of_trace(&case.trace)) {
            if !found.contains(&workload) {
                found.push(workload);
            }
        }
        found
    }

    /// Says whether energy was counted.
    #[must_use]
    pub fn energy(&self) -> &'static str {
        let is_counted = self.cases.iter().flat_map(|case| &case.runs).any(|run| run.joules.is_some());
        if is_counted { "joules of the processors' packages are in the table" } else { "this machine has no counter of energy (RAPL)" }
    }

    /// Formats everything as a table.
    #[must_use]
    pub fn table(&self) -> String {
        if self.cases.is_empty() {
            return "<p>Live: not measured in this run: <code>./dev bench live-figures</code> measures it, and the next report shows \
                    it.</p>\n"
                .to_owned();
        }
        let heads = [
            "workload, scheme",
            "device model",
            "runs",
            "seconds",
            "against passthrough",
            "server's processor seconds",
            "joules",
            "units written",
            "linked",
            "slower than the model",
        ];
        let mut table = Table::new(
            format!(
                "Figures 2 (B) and 3 (B) live: replays on a store slowed to the paper's device, mean ± deviation, {} cores",
                self.cores
            ),
            heads,
        );
        for case in &self.cases {
            let Some(workload) = of_trace(&case.trace) else { continue };
            let mean = |value: fn(&LiveRun) -> f64, digits| case.mean(value).map_or_else(|| "–".to_owned(), |mean| mean.shown(digits));
            let joules: Option<Vec<f64>> = case.runs.iter().map(|run| run.joules).collect();
            let linked: Option<Vec<u64>> = case.runs.iter().map(|run| run.linked).collect();
            #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
            table.row([
                format!("{}, {}", workload.short(), case.scheme),
                case.model.clone(),
                case.runs.len().to_string(),
                mean(|run| run.seconds, 2),
                change(self.longer(workload, &case.scheme).filter(|_| case.scheme != PASSTHROUGH)),
                mean(|run| run.server_cpu_seconds, 2),
                joules.and_then(|joules| Mean::of(&joules)).map_or_else(|| "–".to_owned(), |mean| mean.shown(1)),
                number(case.mean(|run| run.units as f64).map(|mean| mean.mean), 0),
                linked.and_then(|linked| linked.iter().max().copied()).map_or_else(|| "–".to_owned(), |linked| linked.to_string()),
                mean(|run| run.late_percent, 1) + " %",
            ]);
        }
        table.html()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Makes a measurement of a trace with these seconds, and processor seconds that are a tenth of them.
    #[must_use]
    pub fn case(trace: &str, scheme: &str, seconds: &[f64]) -> LiveCase {
        let run = |&seconds: &f64| LiveRun {
            seconds,
            server_cpu_seconds: seconds / 10.0,
            joules: None,
            client_units: 100,
            units: 80,
            linked: (scheme != PASSTHROUGH).then_some(20),
            late_percent: 1.0,
        };
        LiveCase { trace: trace.to_owned(), model: "tablet".to_owned(), scheme: scheme.to_owned(), runs: seconds.iter().map(run).collect() }
    }

    #[test]
    fn means_are_compared_and_deviations_stand_beside_them() {
        let trace = "01_apt_update";
        let cases = vec![case(trace, PASSTHROUGH, &[9.0, 10.0, 11.0]), case(trace, WEAK, &[11.0, 11.0, 11.0])];
        let live = LiveFigures { cores: 2, cases };
        let workload = of_trace(trace).expect("it is one");
        assert!((live.longer(workload, WEAK).expect("both ran") - 0.1).abs() < 1e-9);
        assert!((live.processor(workload, WEAK).expect("both ran") - 0.01).abs() < 1e-9);
        assert_eq!((live.longer(workload, STRONG), live.workloads()), (None, vec![workload]));
        let html = live.table();
        assert!(html.contains("10.00 ± 1.00") && html.contains("11.00 ± 0.00") && html.contains("+10.0 %"), "{html}");
        assert!(live.energy().contains("no counter"));
        assert!(LiveFigures::default().table().contains("not measured"));
    }
}
