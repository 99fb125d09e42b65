//! Figure 3 at one granularity: the paper's systems commit each request of 4 KiB, and here a request has as many blocks as a client sent.
//!
//! The same requests are sent in pieces of one block, with 1, 4 and 32 of them waiting. The paper does not say how many wait, so that these
//! bracket what it publishes, or do not.

use crate::laboratory::papers::drawing::html::{Table, change, number};
use crate::laboratory::papers::results::{Results, range};
use crate::laboratory::papers::studies::matrix::GRANULAR;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::published::{ANTICIPATED, ORDERING_ALONE};
use crate::laboratory::papers::studies::workloads::{Workload, all_of_paper, of_paper};
use crate::laboratory::papers::verdict::{Judged, RowResult, nothing};
use crate::laboratory::replay::scheme::Scheme;

fn ratio(results: &Results, workload: &Workload, scheme: Scheme, mode: Mode) -> Option<f64> {
    Some(results.figures(workload, scheme, mode)?.write_ratio)
}

/// Returns what anticipation saves, of the original writes: the most of all workloads and modes.
fn saved(results: &Results, scheme: Scheme) -> Option<f64> {
    let of = |workload, mode| Some(ratio(results, workload, Scheme::Ordered, mode)? - ratio(results, workload, scheme, mode)?);
    let workloads = ORDERING_ALONE.iter().filter_map(|(name, ..)| of_paper(name));
    let all = workloads.flat_map(|workload| Mode::OF_BLOCKS.into_iter().filter_map(move |mode| of(workload, mode)));
    range(all).map(|(_, most)| most)
}

/// Judges whether ordering alone brackets what is published for each workload.
#[must_use]
pub fn bracket(results: &Results) -> Judged {
    let mut cases = Vec::new();
    for (name, least, most) in ORDERING_ALONE {
        let Some(workload) = of_paper(name) else { continue };
        let here = range(Mode::OF_BLOCKS.into_iter().filter_map(|mode| ratio(results, workload, Scheme::OrderedOnly, mode)));
        cases.extend(here.map(|(lowest, highest)| (name, lowest, highest, lowest <= least && highest >= most)));
    }
    if cases.is_empty() {
        return nothing();
    }
    let met = cases.iter().filter(|(.., is_met)| *is_met).count();
    let list: Vec<String> = cases.iter().map(|(name, lowest, highest, _)| format!("{name} {lowest:.2} to {highest:.2}")).collect();
    let measured = format!("requests of 4 KiB, 32 to 1 of them waiting: {met} of {} bracket it: {}", cases.len(), list.join(", "));
    (measured, RowResult::of(met == cases.len()))
}

/// Judges what anticipation saves by the most that it saves in the paper.
#[must_use]
pub fn anticipation(results: &Results) -> Judged {
    let (Some(paper), Some(all)) = (saved(results, Scheme::OrderedPeriod), saved(results, Scheme::OrderedAnticipate)) else {
        return nothing();
    };
    let measured = format!(
        "requests of 4 KiB: the paper's rule alone saves up to {} of the original writes, all of ours up to {}",
        change(Some(paper)),
        change(Some(all))
    );
    (measured, RowResult::of(paper >= ANTICIPATED))
}

/// Formats the write ratios.
#[must_use]
pub fn table(results: &Results) -> Table {
    let mut heads = vec!["workload".to_owned(), "published, ordering alone".to_owned(), "outstanding".to_owned()];
    heads.extend(GRANULAR[1..].iter().map(|scheme| scheme.name().to_owned()));
    heads.extend(["client flushes".to_owned(), "bound".to_owned()]);
    let caption = "Write ratio, strong, in requests of 4 KiB; as recorded below them, with 32 and 1 outstanding";
    let mut table = Table::new(caption, heads);
    let workloads = ORDERING_ALONE.into_iter().flat_map(|(name, least, most)| all_of_paper(name).map(move |w| (w, least, most)));
    for (workload, least, most) in workloads {
        for mode in Mode::OF_BLOCKS.into_iter().chain([Mode::Strong, Mode::Alone]) {
            let Some(none) = results.figures(workload, Scheme::None, mode) else { continue };
            let published = if least < most { format!("{least} to {most}") } else { format!("{least}") };
            let waiting = mode.outstanding().to_string();
            let size = if mode.request_blocks_max().is_some() { "" } else { ", as recorded" };
            let mut row = vec![workload.short(), published, waiting + size];
            row.extend(GRANULAR[1..].iter().map(|&scheme| number(ratio(results, workload, scheme, mode), 3)));
            row.extend([none.client_flushes.to_string(), number(Some(none.bound), 3)]);
            table.row(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::replay::report::Report;
    use crate::laboratory::replay::timed::Timed;

    /// Results of Hadoop with these write ratios of ordering alone, with 1, 4 and 32 outstanding.
    fn of(ratios: [f64; 3]) -> Results {
        let workload = of_paper("Hadoop").expect("it is a workload");
        let runs = Mode::OF_BLOCKS.into_iter().zip(ratios).map(|(mode, write_ratio)| {
            let mut report = Report {
                trace: workload.trace.to_owned(),
                scheme: Scheme::OrderedOnly.name().to_owned(),
                outstanding: Some(mode.outstanding()),
                request_blocks_max: mode.request_blocks_max(),
                device_model: workload.device.to_owned(),
                ..Report::default()
            };
            report.measured.write_ratio = write_ratio;
            Timed { report, ..Timed::default() }
        });
        Results { runs: runs.collect(), ..Results::default() }
    }

    #[test]
    fn a_published_range_has_to_lie_between() {
        let verdict = |ratios| bracket(&of(ratios)).1;
        assert_eq!(verdict([3.0, 1.0, 0.6]), RowResult::Holds);
        assert_eq!(verdict([1.6, 1.0, 0.6]), RowResult::Missed, "it stays below");
        assert_eq!(verdict([3.0, 2.0, 1.5]), RowResult::Missed, "it stays above");
    }
}
