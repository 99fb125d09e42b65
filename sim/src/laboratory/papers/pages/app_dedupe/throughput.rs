//! Figure 6: the chart and the table of throughput by access pattern.

use crate::laboratory::papers::drawing::chart::figure;
use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group, end_of_axis};
use crate::laboratory::papers::drawing::html::{Table, change, number};
use crate::laboratory::papers::studies::app_dedupe::access::{AccessRun, MODEL, Pattern, RUNS, Setup, find, ratio};

/// Formats Figure 6.
#[must_use]
pub fn throughput(runs: &[AccessRun]) -> String {
    let with = &Setup::ALL[1..];
    let cases = || Pattern::ALL.into_iter().flat_map(|pattern| RUNS.map(|run| (pattern, run)));
    let series: Vec<String> = with.iter().map(|setup| setup.name()).collect();
    let most =
        cases().flat_map(|(pattern, run)| with.iter().filter_map(move |&setup| ratio(runs, pattern, run, setup))).fold(1.0, f64::max);
    let group = |pattern: Pattern| {
        let setups = with.iter().enumerate().flat_map(|of| RUNS.map(|run| (of, run)));
        let bar = |((series, &setup), run): ((usize, &Setup), u64)| Bar {
            label: run.to_string(),
            parts: vec![(series, ratio(runs, pattern, run, setup))],
        };
        Group { label: pattern.name().to_owned(), bars: setups.map(bar).collect(), marks: vec![(0, 1.0)] }
    };
    let chart = Chart {
        id: "access-throughput",
        title: "Figure 6: throughput by access pattern; below each bar the blocks of a run of duplicates".to_owned(),
        axis: "÷ that without deduplication",
        series: &series.iter().map(String::as_str).collect::<Vec<_>>(),
        marks: &["no deduplication"],
        top: end_of_axis(most),
        bar_width: 24,
        groups: Pattern::ALL.map(group).to_vec(),
    };
    let mut heads = vec!["pattern, run of duplicates".to_owned(), "no deduplication, seconds".to_owned()];
    heads.extend(series.iter().map(|name| format!("{name}: throughput")));
    heads.extend(Setup::ALL.map(|setup| format!("{}: units read and written", setup.name())));
    let mut table = Table::new(format!("Figure 6: change of the throughput, virtual time on the model {MODEL}"), heads);
    for (pattern, run) in cases() {
        let of = |setup| find(runs, pattern, run, setup);
        let mut row = vec![format!("{}, runs of {run}", pattern.name()), number(of(Setup::NONE).map(|found| found.virtual_seconds), 3)];
        row.extend(with.iter().map(|&setup| change(ratio(runs, pattern, run, setup).map(|ratio| ratio - 1.0))));
        row.extend(Setup::ALL.map(|setup| of(setup).map_or_else(|| "–".to_owned(), |f| (f.device_units + f.read_units).to_string())));
        table.row(row);
    }
    figure(&chart) + &table.html()
}
