//! SmartDedup's part of the tables that Onefold is judged by: what is replayed, and what the policy lab shows. What is measured live is in
//! `live_rows.rs`.

use super::figures::{DEVICE, DUPLICATES_MIN, ratio, time_saved};
use super::live_rows;
use crate::laboratory::index::lab::{Found, share};
use crate::laboratory::index::naming::Naming;
use crate::laboratory::index::policy::Policy;
use crate::laboratory::papers::results::{Results, range};
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::smartdedup::rivals;
use crate::laboratory::papers::studies::smartdedup::study::{NO_RUN, Study};
use crate::laboratory::papers::verdict::{Judged, Row, RowResult, nothing};
use crate::laboratory::replay::scheme::Scheme;

const PAPER: &str = "SmartDedup (section 4)";
/// The goals: G-LRU's part of the I/O; time saved and points lost by adapting; extents and duplicates lost with runs of four.
const IO_MAX: f64 = 0.5;
const BY_DUPLICATION: (f64, f64) = (0.14, 8.0);
const BY_BATTERY_LOST: f64 = 19.0;
const RUNS: (f64, f64) = (1.06, 0.06);
const LONGEST: u64 = 4;
/// Figure 6: the part of the duplicates that is saved of the writes (70.9 of 75.8 %), and the least share of duplicates that says anything.
const REPLAYED: (f64, f64) = (0.709 / 0.758, 0.1);

/// Returns the rows.
#[must_use]
pub fn rows(results: &Results) -> Vec<Row> {
    let of = |published, goal, judged| Row::new(PAPER, published, goal, judged);
    let (studies, naming): (&[Study], &Naming) = (&results.studies, &results.naming);
    let mut rows = live_rows::rows(PAPER, results);
    rows.extend([
        of(
            "25 % duplicates, writes: +16.9 %, where Dmdedup loses 52.8 % and CAFTL gains 3.1 %",
            "faster than both on the same device",
            rivals::judged(&results.rivals),
        ),
        of(
            "Figure 6: replayed segments up to 51.1 % faster, up to 70.9 % fewer writes (of 75.8 % duplicates)",
            "faster, and 94 % of the duplicates saved, wherever a tenth or more are duplicates",
            replayed(results),
        ),
        of(
            "memory: 3.5 MB for everything, 32 bytes a fingerprint; 1.3 M fingerprints in 40 MB",
            "more duplicates in line than G-LRU, CAFTL, Dmdedup and AustereCache with the same memory",
            inline(studies),
        ),
        of("eviction: group eviction saves 87 % of the index I/O", "at most half of G-LRU's I/O", index_io(studies)),
        of(
            "adaptive: −14 % power for −8 % duplicates",
            "the same curve on every trace, processor time for names as the stand-in for power",
            adapting(studies, naming),
        ),
        of(
            "battery: 8 % → 0.3 % overhead from full to 20 % battery, duplicates 51 → 32 %",
            "at most 19 points lost on every trace",
            battery(studies, naming),
        ),
        of("fragmentation: 1.5 × → 1.06 × extents for −6 % duplicates", "the same or better on every trace", runs(studies)),
    ]);
    rows
}

/// Judges the replays on the model of a tablet's flash, weak, of a volume's default scheme.
fn replayed(results: &Results) -> Judged {
    let (mut all, mut slower, mut less) = (0, Vec::new(), Vec::new());
    let (mut fastest, mut fewest) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for trace in results.traces() {
        let packed = results.of(&trace, Scheme::Packed, Mode::Weak, DEVICE);
        let ratio = results.time_ratio(&trace, Scheme::Packed, Mode::Weak, DEVICE);
        let (Some(figures), Some(ratio)) = (packed.map(|timed| &timed.report.measured), ratio) else { continue };
        let (saved, duplicates, faster) = (1.0 - figures.write_ratio, 1.0 - figures.ideal, 1.0 / ratio - 1.0);
        (fastest, fewest) = (fastest.max(faster), fewest.max(saved));
        if duplicates < REPLAYED.1 {
            continue;
        }
        all += 1;
        if faster < 0.0 {
            slower.push(format!("{trace} {:+.1} %", faster * 100.0));
        }
        if saved < REPLAYED.0 * duplicates {
            less.push(format!("{trace} {:.0} %", 100.0 * saved / duplicates));
        }
    }
    if all == 0 {
        return nothing();
    }
    let list = |found: &[String]| if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    let measured = format!(
        "recorded traces and virtual time on the model {DEVICE} stand in; packed, the default of a volume: up to {:.1} % faster and \
         {:.1} % fewer writes; of {all} traces slower: {}; less of the duplicates saved: {}",
        fastest * 100.0,
        fewest * 100.0,
        list(&slower),
        list(&less)
    );
    (measured, RowResult::StandIn(slower.is_empty() && less.is_empty()))
}

/// A trace with a size of memory.
struct Case<'a> {
    name: String,
    /// Onefold's run, those of all policies, and the one with everything in memory.
    own: &'a Found,
    all: Vec<(&'a str, &'a Found)>,
    full: &'a Found,
}

/// Lists the cases of each trace.
fn by_size(studies: &[Study]) -> impl Iterator<Item = Case<'_>> {
    studies.iter().flat_map(|study| {
        let own = study.policies.iter().filter(|run| run.policy == Policy::Sweep.name());
        own.map(move |run| {
            let all = study.policies.iter().filter(|other| other.memory_mib == run.memory_mib);
            let all = all.map(|other| (other.policy.as_str(), &other.found)).collect();
            Case { name: format!("{}, {} MiB", study.trace, run.memory_mib), own: &run.found, all, full: &study.full }
        })
    })
}

fn inline(studies: &[Study]) -> Judged {
    let rivals = [Policy::GLru, Policy::Caftl, Policy::CaftlNoPreHash, Policy::BTree, Policy::Austere].map(Policy::name);
    let mut trivial = 0;
    let mut cases: Vec<(f64, String)> = by_size(studies)
        .filter_map(|Case { name, own, all, full }| {
            let best = all.into_iter().filter(|(policy, _)| rivals.contains(policy)).max_by_key(|(_, found)| found.inline)?;
            trivial += usize::from(own.inline == full.inline);
            Some((100.0 * (ratio(own, false) - ratio(best.1, false)), format!("{name}, against {}", best.0)))
        })
        .collect();
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((least, at)) = cases.first() else { return nothing() };
    let fewer = cases.iter().filter(|(points, _)| *points < 0.0).count();
    let measured = format!(
        "{trivial} of {} cases are trivial: everything that there is to find is found in line; of the other {}, fewer in {fewer}; the \
         least, in points of all writes: {least:+.2} ({at})",
        cases.len(),
        cases.len() - trivial
    );
    (measured, RowResult::of(fewer == 0))
}

fn index_io(studies: &[Study]) -> Judged {
    let parts: Vec<f64> = by_size(studies)
        .filter_map(|Case { own, all, .. }| {
            let groups = all.into_iter().find(|(policy, _)| *policy == Policy::GLru.name())?.1.io.total();
            (groups > 0).then(|| share(own.io.total(), groups))
        })
        .collect();
    let Some((least, most)) = range(parts.iter().copied()) else { return nothing() };
    let held = parts.iter().filter(|&&part| part <= IO_MAX).count();
    let measured = format!("{least:.3} to {most:.3} of G-LRU's; at most {IO_MAX} in {held} of {} cases, all of them reads", parts.len());
    (measured, RowResult::of(held == parts.len()))
}

/// The traces with enough duplicates, with the points that adapting loses and the time that it saves.
fn adapted(studies: &[Study], found: fn(&Study) -> &Found, naming: &Naming) -> Vec<(f64, f64)> {
    let with_some = studies.iter().filter(|study| study.full.inline >= DUPLICATES_MIN);
    with_some.map(|study| (100.0 * (ratio(&study.full, false) - ratio(found(study), false)), time_saved(found(study), naming))).collect()
}

/// Describes values by their mean and their worst.
#[allow(clippy::cast_precision_loss)] // a handful of traces
fn mean_and_worst(values: &[f64], worst: f64, show: impl Fn(f64) -> String) -> String {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    format!("{} in the mean, {} at worst", show(mean), show(worst))
}

/// The points lost and the time saved: mean and worst of each, and the worst of both as values.
fn curve(cases: &[(f64, f64)]) -> Option<(String, f64, f64)> {
    let (lost, saved): (Vec<f64>, Vec<f64>) = cases.iter().copied().unzip();
    let ((_, most), (least, _)) = (range(lost.iter().copied())?, range(saved.iter().copied())?);
    let text = format!(
        "{} traces: time for names saved {}; points lost {}",
        cases.len(),
        mean_and_worst(&saved, least, |value| format!("{:.0} %", value * 100.0)),
        mean_and_worst(&lost, most, |value| format!("{value:.1}"))
    );
    Some((text, most, least))
}

fn adapting(studies: &[Study], naming: &Naming) -> Judged {
    let cases = adapted(studies, |study| &study.by_duplication, naming);
    let Some((measured, lost, saved)) = curve(&cases) else { return nothing() };
    (measured, RowResult::of(saved >= BY_DUPLICATION.0 && lost <= BY_DUPLICATION.1))
}

fn battery(studies: &[Study], naming: &Naming) -> Judged {
    let cases = adapted(studies, |study| &study.by_battery, naming);
    let Some((measured, lost, _)) = curve(&cases) else { return nothing() };
    let measured = format!("{measured}; {:.0} % of the time while everything is deferred", naming.saved_by_deferring() * 100.0);
    (measured, RowResult::of(lost <= BY_BATTERY_LOST))
}

fn runs(studies: &[Study]) -> Judged {
    let cases: Vec<(f64, f64)> = studies
        .iter()
        .filter_map(|study| {
            let of = |min_run| study.filtered.iter().find(|filtered| filtered.min_run == min_run);
            let (all, longest, none) = (of(1)?, of(LONGEST)?, of(NO_RUN)?);
            let lost = 1.0 - share(longest.duplicates, all.duplicates);
            (all.duplicates >= DUPLICATES_MIN).then(|| (share(longest.extents, none.extents), lost))
        })
        .collect();
    let (extents, lost): (Vec<f64>, Vec<f64>) = cases.into_iter().unzip();
    let (Some((_, most)), Some((_, lost_most))) = (range(extents.iter().copied()), range(lost.iter().copied())) else {
        return nothing();
    };
    let measured = format!(
        "runs of four, {} recorded traces: extents {}; duplicates lost {}",
        extents.len(),
        mean_and_worst(&extents, most, |value| format!("{value:.2} ×")),
        mean_and_worst(&lost, lost_most, |value| format!("{:.0} %", value * 100.0))
    );
    (measured, RowResult::of(most <= RUNS.0 && lost_most <= RUNS.1))
}
