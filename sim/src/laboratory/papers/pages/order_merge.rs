//! OrderMergeDedup's part of the tables that Onefold is judged by.

use crate::laboratory::papers::pages::granular;
use crate::laboratory::papers::pages::space;
use crate::laboratory::papers::results::{Results, range};
use crate::laboratory::papers::studies::live_figures::{LiveFigures, STRONG, WEAK};
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::published::{EFFICIENCY, PUBLISHED};
use crate::laboratory::papers::studies::workloads::{Workload, of_paper};
use crate::laboratory::papers::verdict::{Judged, Row, RowResult, nothing};
use crate::laboratory::replay::scheme::Scheme;

const PAPER: &str = "OrderMergeDedup (4.2 to 4.5)";
/// The largest distance of a write ratio from the ideal (weak, strong), and the largest excess of space over its ideal.
const GAPS: (f64, f64) = (0.02, 0.03);
const SPACE_GAP: f64 = 0.01;
/// The largest distance of the duplicates from those of the paper, in points.
const DUPLICATION_GAP: f64 = 5.0;
/// The largest increase of the run time, weak and strong.
const LATENCIES: (f64, f64) = (0.03, 0.10);
/// The scheme with all of the paper's optimizations: the default of a volume in mode `ordered`.
const BEST: Scheme = Scheme::OrderedAnticipate;

/// Returns the rows.
#[must_use]
pub fn rows(results: &Results) -> Vec<Row> {
    let of = |published, goal, judged| Row::new(PAPER, published, goal, judged);
    vec![
        of(
            "duplicates in the writes of the six workloads: 23, 30, 73, 27, 55 and 24 %",
            "within 5 points on each of the six",
            reproduced(results),
        ),
        of(
            "weak: write ratio down by 18 to 63 % where duplication is 23 to 73 %; Dmdedup −33 to +7 %",
            "within 2 points of the ideal on every workload",
            near_ideal(results, Mode::Weak, GAPS.0),
        ),
        of("weak: 78 to 86 % of the ideal saving (18 of 23 %, 63 of 73 %)", "78 % on each of the six workloads", efficiency(results)),
        of(
            "strong: down by 15 to 51 %; ordering alone +41 to +71 % on two workloads; Dmdedup 5 to 12 ×",
            "within 3 points of the ideal",
            near_ideal(results, Mode::Strong, GAPS.1),
        ),
        of(
            "strong: ordering alone −18 to −5 % on update, install, Vehicle; +5 % on BBench; +41 to +71 % on Hadoop and YCSB",
            "1, 4 and 32 requests of 4 KiB outstanding bracket it on each of the six workloads",
            granular::bracket(results),
        ),
        of("strong: anticipation saves up to 63 % more", "as much by the paper's rule alone", granular::anticipation(results)),
        of(
            "latency: within 5 %; package installation 11 to 15 % (weak) and 37 to 42 % (strong) more",
            "within 3 %, 10 %",
            latency(results),
        ),
        of("space of the run: 22 to 56 % saved", "the ideal less 1 %", saved(results)),
        of(
            "energy on the tablet: −3 to +11 %, most of it run time (−3.6 to +10.5 %)",
            "no more run time than the paper's",
            energy(results),
        ),
    ]
}

fn listed(values: &[(&Workload, f64)], show: impl Fn(f64) -> String) -> String {
    values.iter().map(|(w, v)| format!("{} {}", w.short(), show(*v))).collect::<Vec<_>>().join(", ")
}

/// Returns the value of each workload, in the order of workloads.
fn each(results: &Results, value: impl Fn(&Workload) -> Option<f64>) -> Vec<(&'static Workload, f64)> {
    results.workloads().into_iter().filter_map(|w| Some((w, value(w)?))).collect()
}

fn of_paper_alone(values: &[(&'static Workload, f64)]) -> Vec<(&'static Workload, f64)> {
    values.iter().copied().filter(|(w, _)| w.is_judged()).collect()
}

fn near_ideal(results: &Results, mode: Mode, most: f64) -> Judged {
    let figures = |w: &Workload, scheme| results.figures(w, scheme, mode);
    let gaps = each(results, |w| figures(w, BEST).map(|f| f.write_ratio - f.ideal));
    let of_paper = |scheme| {
        let ratios = of_paper_alone(&each(results, |w| Some(figures(w, scheme)?.write_ratio)));
        range(ratios.into_iter().map(|(_, ratio)| ratio))
    };
    let (Some((best_least, best_most)), Some((shadow_least, shadow_most))) = (of_paper(BEST), of_paper(Scheme::Shadow)) else {
        return nothing();
    };
    let far: Vec<_> = gaps.iter().copied().filter(|&(_, gap)| gap > most).collect();
    let tail = if far.is_empty() {
        "all of them".to_owned()
    } else {
        format!("all but {}, which lie above it by points: {}", far.len(), listed(&far, |gap| format!("{:.1}", gap * 100.0)))
    };
    let measured = format!(
        "write ratio of the paper's workloads: {} {best_least:.3} to {best_most:.3}, shadow {shadow_least:.2} to {shadow_most:.2}; within \
         {:.0} points of the ideal, of {} traces: {tail}",
        BEST.name(),
        most * 100.0,
        gaps.len()
    );
    (measured, RowResult::of(far.is_empty()))
}

/// Judges each of the paper's workloads that was replayed by the least efficiency in the paper, on the model of the paper's device.
fn efficiency(results: &Results) -> Judged {
    let of = |scheme| of_paper_alone(&each(results, |w| results.figures(w, scheme, Mode::Weak)?.efficiency));
    let best = of(BEST);
    if best.is_empty() {
        return nothing();
    }
    let less = best.iter().filter(|(_, efficiency)| *efficiency < EFFICIENCY.0).count();
    let shown = |scheme| listed(&of(scheme), |efficiency| format!("{:.1}", efficiency * 100.0));
    let measured = format!(
        "{less} of {} are below: {} {} %; for comparison, packed, the default of a volume: {} %",
        best.len(),
        BEST.name(),
        shown(BEST),
        shown(Scheme::Packed)
    );
    (measured, RowResult::of(less == 0))
}

/// Judges what was measured live, if it was, and virtual run time otherwise.
fn latency(results: &Results) -> Judged {
    let virtual_time = virtual_latency(results);
    let Some((measured, is_met)) = live_latency(&results.live_figures) else { return virtual_time };
    let beside = if virtual_time.1 == RowResult::NotMeasured { String::new() } else { format!(". {}", virtual_time.0) };
    (measured + &beside, RowResult::StandIn(is_met))
}

/// Describes the live run times, and says whether none is too long.
fn live_latency(live: &LiveFigures) -> Option<(String, bool)> {
    let mut is_met = true;
    let mut texts = Vec::new();
    for (scheme, most) in [(WEAK, LATENCIES.0), (STRONG, LATENCIES.1)] {
        let all: Vec<_> = live.workloads().into_iter().filter_map(|w| Some((w, live.longer(w, scheme)?))).collect();
        if all.is_empty() {
            return None;
        }
        is_met &= all.iter().all(|(_, longer)| *longer <= most);
        texts.push(format!("{scheme}, at most {:+.0} %: {}", most * 100.0, listed(&all, |longer| format!("{:+.1} %", longer * 100.0))));
    }
    Some((format!("live replays on a store slowed to the paper's device, mean run time against passthrough: {}", texts.join("; ")), is_met))
}

fn virtual_latency(results: &Results) -> Judged {
    let longer = |mode| each(results, |w| results.time_ratio(w.trace, BEST, mode, w.device).map(|ratio| ratio - 1.0));
    let mut is_met = true;
    let values: Vec<String> = [(Mode::Weak, LATENCIES.0), (Mode::Strong, LATENCIES.1)]
        .into_iter()
        .map(|(mode, most)| {
            let far: Vec<_> = longer(mode).into_iter().filter(|&(_, l)| l > most).collect();
            is_met &= far.is_empty();
            let tail =
                if far.is_empty() { "all".to_owned() } else { format!("all but {}", listed(&far, |l| format!("{:+.0} %", l * 100.0))) };
            format!("{}: within {:.0} %: {tail}", mode.name(), most * 100.0)
        })
        .collect();
    if longer(Mode::Weak).is_empty() {
        nothing()
    } else {
        let measured = format!("virtual run time on the model of the paper's device stands in; {}", values.join("; "));
        (measured, RowResult::StandIn(is_met))
    }
}

/// Judges the space that the run alone takes, as section 4.4 counts it, and shows the whole file system beside it.
fn saved(results: &Results) -> Judged {
    let space = |w: &Workload| results.of(w.trace, BEST, Mode::Weak, w.device).map(|t| t.report.space);
    let gaps = each(results, |w| space(w).and_then(|s| Some(s.added.ratio? - space::ideal_added(&s.added)?)));
    let saved = of_paper_alone(&each(results, |w| Some(1.0 - space(w)?.added.ratio?)));
    let whole = range(of_paper_alone(&each(results, |w| Some(1.0 - space(w)?.ratio?))).into_iter().map(|(_, saved)| saved));
    let (false, Some((least, most))) = (saved.is_empty(), whole) else {
        return nothing();
    };
    let far: Vec<_> = gaps.iter().copied().filter(|&(_, gap)| gap > SPACE_GAP).collect();
    let tail = if far.is_empty() {
        "all".to_owned()
    } else {
        format!("all but, by points, {}", listed(&far, |gap| format!("{:.1}", gap * 100.0)))
    };
    let measured = format!(
        "the run alone: {} saved; setup included {:.0} to {:.0} %; the run within 1 % of its blocks of the ideal, of {} traces: {tail}",
        listed(&saved, |saved| format!("{:.1} %", saved * 100.0)),
        least * 100.0,
        most * 100.0,
        gaps.len()
    );
    (measured, RowResult::of(far.is_empty()))
}

/// Judges whether the traces repeat as much as the paper's workloads, zeros left out.
fn reproduced(results: &Results) -> Judged {
    let mut cases = Vec::new();
    for p in PUBLISHED {
        let Some(contents) = of_paper(p.name).and_then(|w| results.contents_of(w.trace)) else { continue };
        let duplicates = contents.duplicates_and_zeros().0;
        cases.push((p.name, duplicates, p.duplication_percent, (duplicates - p.duplication_percent).abs() <= DUPLICATION_GAP));
    }
    if cases.is_empty() {
        return nothing();
    }
    let list: Vec<String> = cases.iter().map(|(name, here, there, _)| format!("{name} {here:.1} ({there:.0})")).collect();
    let not: Vec<&str> = cases.iter().filter(|(.., is_met)| !is_met).map(|(name, ..)| *name).collect();
    let tail = if not.is_empty() { String::new() } else { format!("; not reproduced: {}", not.join(", ")) };
    let measured = format!("per cent here (published), zeros left out: {}{tail}", list.join(", "));
    (measured, RowResult::of(not.is_empty()))
}

/// Compares run times with the paper's, which it multiplied with power for the energy; live ones with the processor time beside them.
fn energy(results: &Results) -> Judged {
    let live = &results.live_figures;
    let mut list = Vec::new();
    let mut more = 0;
    for p in PUBLISHED {
        let (Some(w), Some((_, _, published, _))) = (of_paper(p.name), p.energy) else { continue };
        let (Some(longer), Some(processor)) = (live.longer(w, WEAK), live.processor(w, WEAK)) else { continue };
        // Published with one decimal.
        more += usize::from(100.0 * longer > published + 0.05);
        list.push(format!("{} {:+.1} ({published:+.1}), processor {:.1}", p.name, 100.0 * longer, 100.0 * processor));
    }
    if list.is_empty() {
        return virtual_energy(results);
    }
    let measured = format!(
        "live replays on the tablet's model, {}: {more} of {} take more run time; per cent here (published), and the server's processor \
         seconds beyond passthrough's in per cent of the run time, hashing included: {}",
        live.energy(),
        list.len(),
        list.join(", ")
    );
    (measured, RowResult::StandIn(more == 0))
}

fn virtual_energy(results: &Results) -> Judged {
    let mut cases = Vec::new();
    for p in PUBLISHED {
        let (Some(w), Some((_, _, published, _))) = (of_paper(p.name), p.energy) else { continue };
        let Some(ratio) = results.time_ratio(w.trace, BEST, Mode::Weak, w.device) else { continue };
        cases.push((p.name, 100.0 * (ratio - 1.0), published));
    }
    if cases.is_empty() {
        return nothing();
    }
    // Both are given with one decimal.
    let more = cases.iter().filter(|(_, here, published)| *here > published + 0.05).count();
    let list: Vec<String> = cases.iter().map(|(name, here, published)| format!("{name} {here:+.1} ({published:+.1})")).collect();
    let measured = format!(
        "no power to measure; virtual run time on the tablet's model stands in: {more} of {} take more; per cent here (published): {}",
        cases.len(),
        list.join(", ")
    );
    (measured, RowResult::StandIn(more == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::papers::studies::contents::{Contents, Kind};
    use crate::laboratory::papers::studies::live_figures::tests::case;

    fn live(weak: f64, strong: f64) -> Results {
        let cases = vec![
            case("02_apt_install", "passthrough", &[100.0, 100.0]),
            case("02_apt_install", WEAK, &[weak, weak]),
            case("02_apt_install", STRONG, &[strong, strong]),
        ];
        Results { live_figures: LiveFigures { cores: 2, cases }, ..Results::default() }
    }

    #[test]
    fn live_run_times_decide_where_there_are_any() {
        let of = |weak, strong| (latency(&live(weak, strong)).1, energy(&live(weak, strong)).1);
        assert_eq!(of(102.0, 109.0), (RowResult::StandIn(true), RowResult::StandIn(true)));
        assert_eq!(of(102.0, 111.0).0, RowResult::StandIn(false));
        assert_eq!(of(111.0, 100.0), (RowResult::StandIn(false), RowResult::StandIn(false)));
        assert_eq!(latency(&Results::default()).1, RowResult::NotMeasured);
        assert!(energy(&live(102.0, 100.0)).0.contains("Install +2.0 (+10.5), processor 0.2"), "{}", energy(&live(102.0, 100.0)).0);
    }

    /// Results in which each judged trace has the paper's duplicates, less these points for BBench, and as many zeros.
    fn with(points: f64) -> Results {
        let contents = PUBLISHED.map(|p| {
            let less = if p.name == "BBench" { points } else { 0.0 };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some hundred
            let (duplicates, zeros) = ((10.0 * (p.duplication_percent - less)) as u64, (10.0 * less) as u64);
            let kind = Kind { name: "D".to_owned(), blocks: 1000, duplicates, zeros };
            Contents { trace: of_paper(p.name).expect("a trace").trace.to_owned(), kinds: vec![kind] }
        });
        Results { contents: contents.to_vec(), ..Results::default() }
    }

    #[test]
    fn zeros_reproduce_nothing() {
        assert_eq!(reproduced(&with(4.0)).1, RowResult::Holds);
        let (measured, verdict) = reproduced(&with(60.0));
        assert_eq!(verdict, RowResult::Missed);
        assert!(measured.ends_with("not reproduced: BBench"), "{measured}");
    }
}
