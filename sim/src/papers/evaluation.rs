//! Measured results compared with published ones: a row for every row of the tables that Onefold is to be judged by, even if nothing was
//! measured for it.
//!
//! These are the goals of the whole project. A row that is missed is marked so; it fails the command only if it is a target (`targets.rs`).

use crate::index_lab::naming::Naming;
use crate::papers::results::{Mode, Results, range};
use crate::papers::workloads::Workload;
use crate::papers::{smartdedup, space};
use crate::replay::scheme::Scheme;
use serde::Serialize;

/// The result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RowResult {
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "missed")]
    Missed,
    /// Measured on something other than in the paper; the row says what the measurement means for the goal.
    #[serde(rename = "stand-in")]
    StandIn,
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl RowResult {
    /// Returns the name on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Missed => "missed",
            Self::StandIn => "stand-in",
            Self::NotMeasured => "not measured",
        }
    }

    const fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Missed }
    }
}

/// A row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub paper: &'static str,
    pub published: &'static str,
    pub goal: &'static str,
    pub measured: String,
    pub verdict: RowResult,
}

/// The largest distance of a write ratio from the ideal (weak, strong), and the largest excess of space over its ideal.
const GAPS: (f64, f64) = (0.02, 0.03);
const SPACE_GAP: f64 = 0.01;
/// The largest increase of the run time, weak and strong.
const LATENCIES: (f64, f64) = (0.03, 0.10);
const BEST: Scheme = Scheme::OrderedAnticipate;

const fn not_measured(paper: &'static str, published: &'static str, goal: &'static str, why: String) -> Row {
    Row { paper, published, goal, measured: why, verdict: RowResult::NotMeasured }
}

/// Returns all rows.
#[must_use]
pub fn rows(results: &Results, naming: &Naming) -> Vec<Row> {
    let mut rows = order_merge_dedup(results);
    rows.extend(smartdedup::rows::rows(results, naming));
    rows.extend(others());
    rows.extend(rivals());
    rows
}

fn order_merge_dedup(results: &Results) -> Vec<Row> {
    const PAPER: &str = "OrderMergeDedup (4.2 to 4.4)";
    let of = |published, goal, (measured, verdict): (String, RowResult)| Row { paper: PAPER, published, goal, measured, verdict };
    vec![
        of(
            "weak: write ratio down by 18 to 63 % where duplication is 23 to 73 % (efficiency about 78 to 86 %); Dmdedup −33 to +7 %",
            "within 2 points of the ideal on every workload",
            near_ideal(results, Mode::Weak, GAPS.0),
        ),
        of(
            "strong: down by 15 to 51 %; ordering alone +41 to +71 % on two workloads; Dmdedup 5 to 12 ×",
            "within 3 points of the ideal",
            near_ideal(results, Mode::Strong, GAPS.1),
        ),
        of(
            "latency: within 5 %; package installation 11 to 15 % (weak) and 37 to 42 % (strong) more",
            "within 3 %, 10 %",
            latency(results),
        ),
        of("space: 22 to 56 % saved", "the ideal less 1 %", saved(results)),
    ]
}

fn listed(values: &[(&Workload, f64)], show: impl Fn(f64) -> String) -> String {
    values.iter().map(|(w, v)| format!("{} {}", w.number(), show(*v))).collect::<Vec<_>>().join(", ")
}

/// Returns the value of each workload, in the order of workloads.
fn each(results: &Results, value: impl Fn(&Workload) -> Option<f64>) -> Vec<(&'static Workload, f64)> {
    results.workloads().into_iter().filter_map(|w| Some((w, value(w)?))).collect()
}

const fn nothing() -> (String, RowResult) {
    (String::new(), RowResult::NotMeasured)
}

fn near_ideal(results: &Results, mode: Mode, most: f64) -> (String, RowResult) {
    let figures = |w: &Workload, scheme| results.figures(w, scheme, mode);
    let gaps = each(results, |w| figures(w, BEST).map(|f| f.write_ratio - f.ideal));
    let of_paper =
        |scheme| range(results.workloads().into_iter().filter(|w| w.paper.is_some()).filter_map(|w| Some(figures(w, scheme)?.write_ratio)));
    let (Some((best_least, best_most)), Some((shadow_least, shadow_most))) = (of_paper(BEST), of_paper(Scheme::Shadow)) else {
        return nothing();
    };
    let far: Vec<_> = gaps.iter().copied().filter(|&(_, gap)| gap > most).collect();
    let tail = if far.is_empty() {
        "all of them".to_owned()
    } else {
        format!("all but these, which lie above it by points: {}", listed(&far, |gap| format!("{:.1}", gap * 100.0)))
    };
    let measured = format!(
        "write ratio of the paper's workloads: {} {best_least:.3} to {best_most:.3}, shadow {shadow_least:.2} to {shadow_most:.2}; within \
         {:.0} points of the ideal, of {} workloads: {tail}",
        BEST.name(),
        most * 100.0,
        gaps.len()
    );
    (measured, RowResult::of(far.is_empty()))
}

fn latency(results: &Results) -> (String, RowResult) {
    let longer = |mode| each(results, |w| results.time_ratio(w.trace, BEST, mode, w.device).map(|ratio| ratio - 1.0));
    let values: Vec<String> = [(Mode::Weak, LATENCIES.0), (Mode::Strong, LATENCIES.1)]
        .into_iter()
        .map(|(mode, most)| {
            let far: Vec<_> = longer(mode).into_iter().filter(|&(_, l)| l > most).collect();
            let tail =
                if far.is_empty() { "all".to_owned() } else { format!("all but {}", listed(&far, |l| format!("{:+.0} %", l * 100.0))) };
            format!("{}: within {:.0} %: {tail}", mode.name(), most * 100.0)
        })
        .collect();
    if longer(Mode::Weak).is_empty() {
        nothing()
    } else {
        (format!("virtual run time on the model of the paper's device; {}", values.join("; ")), RowResult::StandIn)
    }
}

fn saved(results: &Results) -> (String, RowResult) {
    let space = |w: &Workload| results.of(w.trace, BEST, Mode::Weak, w.device).map(|t| t.report.space);
    let gaps = each(results, |w| space(w).and_then(|s| Some(s.ratio? - space::ideal(&s)?)));
    let Some((least, most)) = range(results.workloads().into_iter().filter(|w| w.paper.is_some()).filter_map(|w| space(w)?.ratio)) else {
        return nothing();
    };
    let far: Vec<_> = gaps.iter().copied().filter(|&(_, gap)| gap > SPACE_GAP).collect();
    let tail = if far.is_empty() {
        "all".to_owned()
    } else {
        format!("all but, by points, {}", listed(&far, |gap| format!("{:.1}", gap * 100.0)))
    };
    let measured = format!(
        "the paper's workloads: {:.0} to {:.0} % saved (setup included); within 1 % of the client's blocks of the ideal: {tail}",
        (1.0 - most) * 100.0,
        (1.0 - least) * 100.0
    );
    (measured, RowResult::of(far.is_empty()))
}

fn others() -> Vec<Row> {
    vec![
        not_measured(
            "Hints (sections 5 and 6)",
            "NODEDUP 2.2 to 5.3 ×, PREFETCH 1.2 to 1.8 ×; metadata NODEDUP +1 to +10 %",
            "measured the same way",
            "hints travel with requests and do not act yet".to_owned(),
        ),
        not_measured(
            "APP-Dedupe",
            "45.2 % fewer writes, 41.5 % fewer flash GCs, ≤ 2.5 % memory, sequential read −30 %",
            "the same; sequential read within 5 %",
            "neither partitions by application nor a flash model are built; its traces are not available".to_owned(),
        ),
    ]
}

/// Returns the rows of existing products, measured separately, by hand: their counts are the bar.
fn rivals() -> Vec<Row> {
    const VDO: &str = "dm-vdo (measured apart)";
    const WHY: &str = "not a replay: such jobs are counted by ./dev bench random-unique, random-flushes, half-duplicates and sequential";
    let row = |paper, published, goal| not_measured(paper, published, goal, WHY.to_owned());
    vec![
        row(
            VDO,
            "fsync after each write: 1.007 metadata units and 3.0 device flushes a client flush; \
             write ratio 2.01 / 1.51 at 0 / 50 % duplicates",
            "fewer",
        ),
        row(VDO, "fsync every 32, depth 32 (1): 2.6 (5.4 to 6.7) and 6 (12 to 14) a client flush; 1.08 / 0.58 (1.17 / 0.71)", "fewer"),
        row(VDO, "no fsync, 1 GiB, depth 32: 0.04 a client unit, 15,000 to 17,000 flushes for the job; 1.04 / 0.54", "fewer"),
        row(VDO, "sequential 128 KiB: 0.02 a client unit, 20 flushes for 1000 units; 1.02 / 0.52", "fewer"),
        row(
            VDO,
            "content that compresses to 40 %, compression on, all unique, \
             fsync each / every 4 / every 32 / none: 2.01 / 1.49 / 0.99 / 0.53",
            "fewer",
        ),
        row("ZFS dedup (measured apart)", "no fsync: 0.17 metadata units a client unit, 36 flushes for the job; 1.17 / 0.67", "fewer"),
    ]
}
