//! The targets of the report. A missed target makes the command fail.

use super::log;
use super::target::{COUNTED_ON, Source, Target};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::published::{EFFICIENCY, SHADOW_STRONG, SHADOW_WEAK};
use crate::laboratory::papers::studies::workloads::{WORKLOADS, Workload};
use crate::laboratory::replay::figures::Figures;
use crate::laboratory::replay::scheme::Scheme;

/// Write ratios of `ordered`, weak, phase `run`, by our own model: computed from the same traces with eager reclaim. They are in no paper,
/// and half of the traces are in none.
pub const OWN_MODEL: [(&str, f64); 10] = [
    ("01_apt_update", 0.867),
    ("03_apt_upgrade_release", 0.936),
    ("04_browse_firefox", 0.704),
    ("05_vehicle", 0.850),
    ("06_hadoop_grep", 0.492),
    ("08_ycsb_wiredtiger", 0.785),
    ("10_phone_mix", 1.132),
    ("11_sqlite_modes", 1.743),
    ("13_pkg_trees", 0.680),
    ("15_build", 0.729),
];
/// The largest factor by which a write ratio may exceed that of our own model.
pub const ABOVE: f64 = 1.03;
/// The largest duration of a whole run on two cores.
const MINUTES_MAX: f64 = 40.0;
/// The scheme that has all of the paper's optimizations.
const WHOLE: Scheme = Scheme::OrderedAnticipate;

/// Judges everything that was replayed: `ordered-anticipate` and `shadow` by the paper, on its six workloads; `ordered` by these write
/// ratios; the log by its allowances.
#[must_use]
pub fn judge(results: &Results, own_model: &[(&str, f64)]) -> Vec<Target> {
    let of_paper = || WORKLOADS.iter().filter(|w| w.is_judged());
    let mut targets: Vec<Target> = of_paper().filter_map(|w| efficiency(results, w)).collect();
    for (name, mode, range) in [("weak", Mode::Weak, SHADOW_WEAK), ("strong", Mode::Strong, SHADOW_STRONG)] {
        targets.extend(of_paper().filter_map(|w| shadow(results, w, name, mode, range)));
    }
    targets.extend(own_model.iter().filter_map(|&(trace, target)| ordered(results, trace, target)));
    targets.extend(log::targets(results));
    targets.push(failures(results));
    if results.made.complete && results.made.commands == 1 {
        targets.push(minutes(results));
    }
    targets
}

/// Judges the part of the ideal saving that is reached on a workload of the paper.
fn efficiency(results: &Results, workload: &Workload) -> Option<Target> {
    let f = &results.of(workload.trace, WHOLE, Mode::Weak, COUNTED_ON)?.report.measured;
    let value = f.efficiency?;
    Some(Target {
        name: format!("efficiency-weak-{}", workload.trace),
        source: Source::Paper,
        value,
        unit: "of the ideal",
        target: format!(">= {:.4} (the paper's least of {:.0} to {:.0} %)", EFFICIENCY.0, EFFICIENCY.0 * 100.0, EFFICIENCY.1 * 100.0),
        holds: value >= EFFICIENCY.0,
        because: format!("{}: a write ratio of {:.4}; {}", WHOLE.name(), f.write_ratio, counts(f)),
    })
}

fn ordered(results: &Results, trace: &str, target: f64) -> Option<Target> {
    let f = &results.of(trace, Scheme::Ordered, Mode::Weak, COUNTED_ON)?.report.measured;
    let most = target * ABOVE;
    Some(Target {
        name: format!("ordered-weak-{trace}"),
        source: Source::Ours,
        value: f.write_ratio,
        unit: "units/unit",
        target: format!("<= {most:.4} ({target} by our own model, and 3 %)"),
        holds: f.write_ratio <= most,
        because: counts(f),
    })
}

fn shadow(results: &Results, workload: &Workload, name: &str, mode: Mode, (least, most): (f64, f64)) -> Option<Target> {
    let f = &results.of(workload.trace, Scheme::Shadow, mode, COUNTED_ON)?.report.measured;
    Some(Target {
        name: format!("shadow-{name}-{}", workload.trace),
        source: Source::Paper,
        value: f.write_ratio,
        unit: "units/unit",
        target: format!("{least} to {most}, as published for Dmdedup"),
        holds: (least..=most).contains(&f.write_ratio),
        because: counts(f),
    })
}

/// Describes the parts of a write ratio.
fn counts(f: &Figures) -> String {
    let class = |name: &str| f.device_units.get(name).copied().unwrap_or(0);
    let epochs = f.epochs_all.unwrap_or(0);
    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    let per_epoch = |units: u64| if epochs == 0 { 0.0 } else { units as f64 / epochs as f64 };
    format!(
        "{} client units in {epochs} epochs ({:.1} each), {:.1} % of them duplicates or zeros, so that the ideal is {:.3}; \
         an epoch writes {:.2} pages of map, {:.2} of fingerprints, {:.2} of counts and space maps, {:.2} of superblock and roots",
        f.client_units,
        per_epoch(f.client_units),
        (1.0 - f.ideal) * 100.0,
        f.ideal,
        per_epoch(class("map")),
        per_epoch(class("fingerprints")),
        per_epoch(class("refs")),
        per_epoch(class("superblock") + class("written")),
    )
}

fn failures(results: &Results) -> Target {
    #[allow(clippy::cast_precision_loss)] // a thousand at most
    let value = results.failures.len() as f64;
    let because = results.failures.iter().map(|f| format!("{}: {}", f.replay, f.error)).collect::<Vec<_>>().join("; ");
    Target {
        name: "replays-that-failed".to_owned(),
        source: Source::Ours,
        value,
        unit: "replays",
        target: format!(
            "== 0 of {}: each ends with every read right and the ledger equal to the device's count",
            results.runs.len() + results.failures.len()
        ),
        holds: results.failures.is_empty(),
        because,
    }
}

fn minutes(results: &Results) -> Target {
    let value = results.made.wall_seconds / 60.0;
    Target {
        name: "minutes".to_owned(),
        source: Source::Ours,
        value,
        unit: "minutes",
        target: format!("<= {MINUTES_MAX} on 2 cores"),
        holds: value <= MINUTES_MAX,
        because: format!("{} threads used {:.0} s of processor time", results.made.threads, results.made.cpu_seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::papers::studies::parallel::Failure;
    use crate::laboratory::papers::studies::published::PUBLISHED;
    use crate::laboratory::papers::studies::workloads::of_paper;
    use crate::laboratory::replay::timed::Timed;

    #[test]
    fn a_replay_that_failed_is_a_missed_target_with_its_reason() {
        let failure = Failure { replay: "05, ordered".to_owned(), error: "Refs written: the device counts 3".to_owned() };
        let results = Results { failures: vec![failure], ..Results::default() };
        let targets = judge(&results, &OWN_MODEL);
        assert_eq!(targets.len(), 1, "nothing else was replayed");
        assert!(!targets[0].holds && targets[0].to_string().contains("Refs written"), "{}", targets[0]);
    }

    /// Every trace on every scheme, weak and strong, with this part of the ideal reached.
    fn everything(efficiency: f64) -> Results {
        let mut results = Results::default();
        for workload in &WORKLOADS {
            for (scheme, outstanding) in Scheme::ALL.into_iter().flat_map(|scheme| [(scheme, None), (scheme, Some(32))]) {
                let mut timed = Timed::default();
                let report = &mut timed.report;
                (report.trace, report.scheme, report.outstanding) = (workload.trace.to_owned(), scheme.name().to_owned(), outstanding);
                report.device_model = COUNTED_ON.to_owned();
                report.measured.efficiency = Some(efficiency);
                results.runs.push(timed);
            }
        }
        results
    }

    #[test]
    fn targets_that_are_called_the_papers_are_in_the_paper_and_all_its_workloads_are_judged() {
        let targets = judge(&everything(0.79), &OWN_MODEL);
        let of_paper: Vec<&Target> = targets.iter().filter(|target| target.source == Source::Paper).collect();
        let traces = PUBLISHED.map(|p| of_paper_trace(p.name));
        for kind in ["efficiency-weak", "shadow-weak", "shadow-strong"] {
            let judged: Vec<&str> = of_paper.iter().filter_map(|target| target.name.strip_prefix(kind)?.strip_prefix('-')).collect();
            assert_eq!(judged, traces, "{kind}: the six workloads of the paper, and no other");
        }
        assert_eq!(of_paper.len(), 3 * PUBLISHED.len(), "nothing else is called the paper's");
        assert!(targets.iter().any(|target| target.source == Source::Ours && target.name == "ordered-weak-10_phone_mix"));
    }

    fn of_paper_trace(name: &str) -> &'static str {
        of_paper(name).expect("every workload of the paper has a trace").trace
    }

    #[test]
    fn the_papers_least_efficiency_decides() {
        let holds = |efficiency| {
            let judged = judge(&everything(efficiency), &[]);
            let of: Vec<bool> = judged.iter().filter(|t| t.name.starts_with("efficiency-")).map(|t| t.holds).collect();
            assert_eq!(of.len(), 6);
            of.into_iter().all(|holds| holds)
        };
        assert!(holds(0.79) && !holds(0.78), "18 % fewer writes of 23 % duplicates are 78.3 %");
    }
}
