//! Figures 2 and 3: write ratios and run times by workload and scheme, weak and strong.

use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group, figure};
use crate::laboratory::papers::drawing::html::{Table, number, percent};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::workloads::{MODELS, Workload};
use crate::laboratory::replay::figures::Figures;
use crate::laboratory::replay::scheme::Scheme;

/// The end of an axis of write ratios: Dmdedup, strong, is cut off there, and all others fit.
const RATIO_TOP: f64 = 2.0;
const TIME_TOP: f64 = 2.0;

/// Returns the names of schemes as series of a chart.
#[must_use]
pub fn names() -> Vec<&'static str> {
    Scheme::ALL.map(Scheme::name).to_vec()
}

/// Divides the workloads into those of the paper and all others, with a chart for each half.
#[must_use]
pub fn halves(results: &Results) -> [(&'static str, &'static str, Vec<&'static Workload>); 2] {
    let (paper, others) = results.workloads().into_iter().partition(|w| w.paper.is_some());
    [("paper", "the paper's workloads", paper), ("others", "the other traces", others)]
}

fn grouped(
    results: &Results,
    workloads: &[&'static Workload],
    value: impl Fn(&Workload, Scheme) -> Option<f64>,
    mode: Option<Mode>,
) -> Vec<Group> {
    let group = |w: &&'static Workload| {
        let of_none = mode.and_then(|mode| results.figures(w, Scheme::None, mode));
        Group {
            label: w.short(),
            bars: Scheme::ALL.iter().enumerate().map(|(i, &s)| Bar { label: String::new(), parts: vec![(i, value(w, s))] }).collect(),
            marks: of_none.map_or_else(Vec::new, |f| vec![(0, f.ideal), (1, f.bound)]),
        }
    };
    workloads.iter().map(group).collect()
}

/// Formats figure 2 (A) or 3 (A), with its tables.
#[must_use]
pub fn write_ratios(results: &Results, name: &str, mode: Mode) -> String {
    let mut out = String::new();
    for (id, which, workloads) in halves(results).iter().filter(|(_, _, workloads)| !workloads.is_empty()) {
        let chart = Chart {
            id: &format!("ratio-{}-{id}", mode.id()),
            title: format!("{name}: write ratio, {}, {which}", mode.name()),
            axis: "units written to the device ÷ units the client wrote",
            series: &names(),
            marks: &["ideal: deduplication with free metadata", "bound: what a block device could do at best"],
            top: RATIO_TOP,
            bar_width: if *id == "paper" { 18 } else { 13 },
            groups: grouped(results, workloads, |w, s| Some(results.figures(w, s, mode)?.write_ratio), Some(mode)),
        };
        out += &figure(&chart);
    }
    out += &ratio_table(results, mode).html();
    if mode == Mode::Strong {
        out += &ratio_table(results, Mode::Alone).html();
        out += &by_model(results).html();
    }
    out
}

fn ratio_table(results: &Results, mode: Mode) -> Table {
    let mut heads = vec!["workload", "device", "duplication, zeros included", "of it", "epochs of the client"];
    heads.extend(names());
    heads.extend(["ideal", "bound", "efficiency of ordered-anticipate"]);
    let mut table = Table::new(format!("Write ratio, {}", mode.name()), heads);
    for w in results.workloads() {
        let of = |scheme| results.figures(w, scheme, mode);
        let none: Option<&Figures> = of(Scheme::None);
        let mut row = vec![
            w.short(),
            w.device.to_owned(),
            percent(none.map(|f| 1.0 - f.ideal)),
            results.parts_of(w.trace),
            none.map_or_else(String::new, |f| f.bound_epochs.to_string()),
        ];
        row.extend(Scheme::ALL.map(|scheme| number(of(scheme).map(|f| f.write_ratio), 3)));
        row.extend([number(none.map(|f| f.ideal), 3), number(none.map(|f| f.bound), 3)]);
        row.push(percent(of(Scheme::OrderedAnticipate).and_then(|f| f.efficiency)));
        table.row(row);
    }
    table
}

/// Formats the write ratios by device model: under strong persistence the device decides how many writes share one epoch.
fn by_model(results: &Results) -> Table {
    let schemes = [Scheme::OrderedOnly, Scheme::Ordered, Scheme::OrderedAnticipate];
    let mut heads = vec!["workload".to_owned()];
    for model in MODELS {
        heads.extend(schemes.map(|s| format!("{}, {model}", s.name())));
    }
    let mut table =
        Table::new("Write ratio, strong, 32 outstanding, by device model: the slower the device, the more writes share one epoch", heads);
    for w in results.workloads() {
        let mut row = vec![w.short()];
        for model in MODELS {
            row.extend(schemes.map(|s| number(results.of(w.trace, s, Mode::Strong, model).map(|t| t.report.measured.write_ratio), 3)));
        }
        table.row(row);
    }
    table
}

/// Formats figure 2 (B) or 3 (B), with its tables.
#[must_use]
pub fn run_times(results: &Results, name: &str, mode: Mode) -> String {
    let mut out = String::new();
    for (id, which, workloads) in halves(results).iter().filter(|(_, _, workloads)| !workloads.is_empty()) {
        let chart = Chart {
            id: &format!("time-{}-{id}", mode.id()),
            title: format!("{name}: run time against no deduplication, {}, {which}", mode.name()),
            axis: "virtual run time ÷ that with no deduplication, on the same device model",
            series: &names(),
            marks: &[],
            top: TIME_TOP,
            bar_width: if *id == "paper" { 18 } else { 13 },
            groups: grouped(results, workloads, |w, s| results.time_ratio(w.trace, s, mode, w.device), None),
        };
        out += &figure(&chart);
    }
    out += &time_table(results, mode).html();
    out + &latency_table(results, mode).html()
}

fn time_table(results: &Results, mode: Mode) -> Table {
    let mut heads = vec!["workload", "device", "seconds, none"];
    heads.extend(&names()[1..]);
    let mut table =
        Table::new(format!("Virtual run time of the phase, {}: seconds without deduplication, then ratios to that", mode.name()), heads);
    for w in results.workloads() {
        for model in &MODELS[1..] {
            let seconds = results.of(w.trace, Scheme::None, mode, model).map(|t| t.report.measured.virtual_seconds);
            let mut row = vec![w.short(), (*model).to_owned(), number(seconds, 1)];
            row.extend(Scheme::ALL[1..].iter().map(|&s| number(results.time_ratio(w.trace, s, mode, model), 3)));
            table.row(row);
        }
    }
    table
}

/// Formats the latencies of the client's requests.
fn latency_table(results: &Results, mode: Mode) -> Table {
    let shown = [Scheme::None, Scheme::Shadow, Scheme::Ordered, Scheme::OrderedAnticipate];
    let kinds = ["write", "flush", "fua"];
    let mut heads = vec!["workload".to_owned(), "device".to_owned()];
    for kind in kinds {
        heads.extend(shown.map(|s| format!("{kind}, {}", s.name())));
    }
    let mut table = Table::new(format!("Milliseconds from request to answer, {}: mean / 99th percentile", mode.name()), heads);
    for w in results.workloads() {
        let mut row = vec![w.short(), w.device.to_owned()];
        for kind in kinds {
            row.extend(shown.map(|scheme| {
                let latency = results.figures(w, scheme, mode).and_then(|f| f.latency_us.get(kind).copied()).filter(|l| l.count > 0);
                latency.map_or_else(|| "–".to_owned(), |l| format!("{:.1} / {:.1}", l.mean / 1000.0, l.p99 / 1000.0))
            }));
        }
        table.row(row);
    }
    table
}
