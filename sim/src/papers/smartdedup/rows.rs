//! SmartDedup's part of the tables that Onefold is judged by.

use super::figures::{DUPLICATES_MIN, ratio, time_saved};
use super::published::Statement;
use super::study::{NO_RUN, Study};
use crate::index_lab::Policy;
use crate::index_lab::lab::{Found, share};
use crate::index_lab::naming::Naming;
use crate::papers::evaluation::{Row, RowResult};
use crate::papers::html::Table;
use crate::papers::results::{Mode, Results, range};
use crate::papers::workloads::of_trace;
use crate::replay::scheme::Scheme;

const PAPER: &str = "SmartDedup (section 4)";
/// The goals: G-LRU's part of the I/O; points lost and time saved by adapting; extents and duplicates lost with runs of four.
const IO_MAX: f64 = 0.5;
const BY_DUPLICATION: (f64, f64) = (0.14, 8.0);
const BY_BATTERY_LOST: f64 = 19.0;
const RUNS: (f64, f64) = (1.06, 0.06);
const LONGEST: u64 = 4;

/// Formats published statements as a table.
#[must_use]
pub fn statements(all: &[Statement]) -> String {
    let mut table = Table::new("Published", ["figure", "statement"]);
    all.iter().for_each(|statement| table.row([statement.figure, statement.says]));
    table.html()
}

/// Returns the rows.
#[must_use]
pub fn rows(results: &Results, naming: &Naming) -> Vec<Row> {
    let of = |published, goal, (measured, verdict): (String, RowResult)| Row { paper: PAPER, published, goal, measured, verdict };
    let live = |text: &str| (text.to_owned(), RowResult::NotMeasured);
    let studies: &[Study] = &results.studies;
    vec![
        of("no duplicates: −3.8 % throughput; +9 % of EXT4's metadata writes", "≤ −2 %; ≤ 1 % of all units", no_duplicates(results)),
        of(
            "25 % duplicates: +16.9 % write, +38.2 % read throughput (13.4 × at the highest duplication)",
            "more, on both",
            live("measured live: ./dev bench smartdedup-fio, little-live-throughput"),
        ),
        of(
            "memory: 3.5 MB for everything, 32 bytes a fingerprint; 1.3 M fingerprints in 40 MB",
            "more duplicates in line than G-LRU, CAFTL, Dmdedup and AustereCache with the same memory",
            inline(studies),
        ),
        of("eviction: group eviction saves 87 % of the index I/O", "at most half of G-LRU's I/O", index_io(studies)),
        of(
            "adaptive: −14 % power for −8 % duplicates",
            "the same curve, processor time for names as the stand-in for power",
            adapting(studies, naming),
        ),
        of(
            "battery: 8 % → 0.3 % overhead from full to 20 % battery, duplicates 51 → 32 %",
            "at most 19 points lost",
            battery(studies, naming),
        ),
        of("fragmentation: 1.5 × → 1.06 × extents for −6 % duplicates", "the same or better", runs(studies)),
    ]
}

fn nothing() -> (String, RowResult) {
    ("the traces that show it were not replayed".to_owned(), RowResult::NotMeasured)
}

fn no_duplicates(results: &Results) -> (String, RowResult) {
    let unique = of_trace("16_fio_dup0").and_then(|w| results.figures(w, Scheme::OrderedAnticipate, Mode::Weak));
    let Some(overhead) = unique.map(|figures| figures.metadata_per_unit.values().sum::<f64>()) else { return nothing() };
    let measured = format!(
        "units, 16_fio_dup0 (fio, not the paper's): {:.2} % of all units are metadata, wanted at most 1 %; throughput is measured live: \
         ./dev bench smartdedup-fio, little-live-time",
        overhead * 100.0
    );
    (measured, RowResult::StandIn)
}

const fn judged(holds: bool) -> RowResult {
    if holds { RowResult::Holds } else { RowResult::Missed }
}

/// Lists, for each trace and size, Onefold's run and those of the others.
fn by_size(studies: &[Study]) -> impl Iterator<Item = (String, &Found, Vec<(&'static str, &Found)>)> {
    studies.iter().flat_map(|study| {
        let own = study.policies.iter().filter(|run| run.policy == Policy::Sweep.name());
        own.map(move |run| {
            let others = study.policies.iter().filter(|other| other.memory_mib == run.memory_mib).map(|other| (other.policy, &other.found));
            (format!("{}, {} MiB", study.trace, run.memory_mib), &run.found, others.collect())
        })
    })
}

fn inline(studies: &[Study]) -> (String, RowResult) {
    let rivals = [Policy::GLru, Policy::Caftl, Policy::CaftlNoPreHash, Policy::BTree, Policy::Austere].map(Policy::name);
    let mut cases: Vec<(f64, String)> = by_size(studies)
        .filter_map(|(name, own, others)| {
            let best = others.into_iter().filter(|(policy, _)| rivals.contains(policy)).max_by_key(|(_, found)| found.inline)?;
            Some((100.0 * (ratio(own, false) - ratio(best.1, false)), format!("{name}, against {}", best.0)))
        })
        .collect();
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((least, at)) = cases.first() else { return nothing() };
    let fewer = cases.iter().filter(|(points, _)| *points < 0.0).count();
    let measured = format!("fewer in {fewer} of {} cases; the least, in points of all writes: {least:+.2} ({at})", cases.len());
    (measured, judged(fewer == 0))
}

fn index_io(studies: &[Study]) -> (String, RowResult) {
    let parts: Vec<f64> = by_size(studies)
        .filter_map(|(_, own, others)| {
            let groups = others.into_iter().find(|(policy, _)| *policy == Policy::GLru.name())?.1.io.total();
            (groups > 0).then(|| share(own.io.total(), groups))
        })
        .collect();
    let Some((least, most)) = range(parts.iter().copied()) else { return nothing() };
    let held = parts.iter().filter(|&&part| part <= IO_MAX).count();
    let measured = format!("{least:.3} to {most:.3} of G-LRU's; at most {IO_MAX} in {held} of {} cases, all of them reads", parts.len());
    (measured, judged(held == parts.len()))
}

/// The traces with enough duplicates, with the points that adapting loses and the time that it saves.
fn adapted(studies: &[Study], found: fn(&Study) -> &Found, naming: &Naming) -> Vec<(f64, f64)> {
    let with_some = studies.iter().filter(|study| study.full.inline >= DUPLICATES_MIN);
    with_some.map(|study| (100.0 * (ratio(&study.full, false) - ratio(found(study), false)), time_saved(found(study), naming))).collect()
}

#[allow(clippy::cast_precision_loss)] // a handful of traces
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count().max(1) as f64
}

fn adapting(studies: &[Study], naming: &Naming) -> (String, RowResult) {
    let cases = adapted(studies, |study| &study.by_duplication, naming);
    let Some((_, most)) = range(cases.iter().map(|case| case.0)) else { return nothing() };
    let saved = mean(cases.iter().map(|case| case.1));
    let measured = format!("{:.0} % of the time saved in the mean of {} traces, at most {most:.1} points lost", saved * 100.0, cases.len());
    (measured, judged(saved >= BY_DUPLICATION.0 && most <= BY_DUPLICATION.1))
}

fn battery(studies: &[Study], naming: &Naming) -> (String, RowResult) {
    let cases = adapted(studies, |study| &study.by_battery, naming);
    let Some((_, most)) = range(cases.iter().map(|case| case.0)) else { return nothing() };
    let measured = format!(
        "{:.0} % of the time saved in the mean of {} traces, at most {most:.1} points lost; {:.0} % while everything is deferred",
        mean(cases.iter().map(|case| case.1)) * 100.0,
        cases.len(),
        naming.saved_by_deferring() * 100.0
    );
    (measured, judged(most <= BY_BATTERY_LOST))
}

fn runs(studies: &[Study]) -> (String, RowResult) {
    let cases: Vec<(f64, f64)> = studies
        .iter()
        .filter_map(|study| {
            let of = |min_run| study.filtered.iter().find(|filtered| filtered.min_run == min_run);
            let (all, longest, none) = (of(1)?, of(LONGEST)?, of(NO_RUN)?);
            let lost = 1.0 - share(longest.duplicates, all.duplicates);
            (all.duplicates >= DUPLICATES_MIN).then(|| (share(longest.extents, none.extents), lost))
        })
        .collect();
    let (Some((_, extents)), Some((_, lost))) = (range(cases.iter().map(|case| case.0)), range(cases.iter().map(|case| case.1))) else {
        return nothing();
    };
    let measured = format!(
        "runs of four, recorded traces: at most {extents:.2} × the extents, {:.0} % of the duplicates lost at most, {:.0} % in the mean",
        lost * 100.0,
        mean(cases.iter().map(|case| case.1)) * 100.0
    );
    (measured, judged(extents <= RUNS.0 && lost <= RUNS.1))
}
