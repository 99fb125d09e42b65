//! Figures 5, 7 and 8: a chart for each, and the table of its values.

use crate::laboratory::papers::drawing::chart::figure;
use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group, end_of_axis};
use crate::laboratory::papers::drawing::html::{Table, change, number, percent};
use crate::laboratory::papers::studies::app_dedupe::published::{COLLECTIONS, RESPONSES, WRITES_SAVED};
use crate::laboratory::papers::studies::app_dedupe::runs::{
    Case, LoadRun, SCHEMES, collections, find, mean, names, response_us, saved, written,
};
use crate::laboratory::replay::scheme::Scheme;
use onefold_engine::units::BLOCK_BYTES;

/// Returns megabytes.
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn megabytes(units: f64) -> f64 {
    units * BLOCK_BYTES as f64 / 1e6
}

/// The data of a load on a scheme, in units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Data {
    /// The client's, and the metadata of deduplication.
    pub generated: f64,
    /// The client's that were found to be held by a block already, zeros included.
    pub found: f64,
    pub written: f64,
}

impl Data {
    /// Takes the data of a replay.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    pub fn of(run: &LoadRun) -> Self {
        let figures = &run.report.measured;
        Self {
            generated: (figures.client_units + figures.metadata_units_all) as f64,
            found: figures.duplication.found.unwrap_or(0.0) * figures.client_units as f64,
            written: written(run),
        }
    }
}

/// Formats Figure 5.
#[must_use]
pub fn data_written(runs: &[LoadRun]) -> String {
    let of = |load: &str, scheme| find(runs, load, scheme, Case::WEAK).map(Data::of);
    let series = ["no deduplication", "ordered: generated", "ordered: written", "packed: generated", "packed: written"];
    let bars = |load: &str| {
        let [none, ordered, packed] = SCHEMES.map(|scheme| of(load, scheme));
        let values = [
            none.map(|data| data.written),
            ordered.map(|data| data.generated),
            ordered.map(|data| data.written),
            packed.map(|data| data.generated),
            packed.map(|data| data.written),
        ];
        values.map(|value| value.map(megabytes))
    };
    let loads = names(runs);
    let most = loads.iter().flat_map(|load| bars(load)).flatten().fold(0.0, f64::max);
    let group = |load: &&str| Group {
        label: (*load).to_owned(),
        bars: bars(load).into_iter().enumerate().map(|part| Bar { label: String::new(), parts: vec![part] }).collect(),
        marks: Vec::new(),
    };
    let chart = Chart {
        id: "loads-written",
        title: "Figure 5: data written to the flash, by load".to_owned(),
        axis: "megabytes",
        series: &series,
        marks: &[],
        top: end_of_axis(most),
        bar_width: 13,
        groups: loads.iter().map(group).collect(),
    };
    figure(&chart) + &data_table(runs).html()
}

fn data_table(runs: &[LoadRun]) -> Table {
    let mut heads = vec!["load".to_owned(), "no deduplication, MB".to_owned(), "redundant".to_owned()];
    for scheme in &SCHEMES[1..] {
        heads.extend(["generated, MB", "found, MB", "written, MB", "saved"].map(|head| format!("{}: {head}", scheme.name())));
    }
    let mut table = Table::new("Figure 5: data generated, found as duplicates, and written, weak persistence", heads);
    for load in names(runs) {
        let none = find(runs, load, Scheme::None, Case::WEAK);
        let redundant = none.map(|run| 1.0 - run.report.measured.ideal);
        let mut row = vec![load.to_owned(), number(none.map(|run| megabytes(written(run))), 1), percent(redundant)];
        for &scheme in &SCHEMES[1..] {
            let data = find(runs, load, scheme, Case::WEAK).map(Data::of);
            row.extend([data.map(|d| d.generated), data.map(|d| d.found), data.map(|d| d.written)].map(|of| number(of.map(megabytes), 1)));
            row.push(percent(data.zip(none).map(|(data, none)| 1.0 - data.written / written(none))));
        }
        table.row(row);
    }
    let mean_of = |scheme| percent(mean(&saved(runs, scheme, Case::WEAK, written)));
    let redundant: Vec<(&str, f64)> = names(runs)
        .into_iter()
        .filter_map(|load| Some((load, 1.0 - find(runs, load, Scheme::None, Case::WEAK)?.report.measured.ideal)))
        .collect();
    let mut row = vec!["mean".to_owned(), "–".to_owned(), percent(mean(&redundant))];
    for &scheme in &SCHEMES[1..] {
        row.extend(["–", "–", "–"].map(str::to_owned));
        row.push(mean_of(scheme));
    }
    table.row(row);
    table
}

/// A figure of which each load has a value on each scheme.
struct ByLoad {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    case: Case,
    value: fn(&LoadRun) -> f64,
    decimals: usize,
    published: (f64, f64),
}

const TIMES: ByLoad = ByLoad {
    id: "loads-responses",
    title: "Figure 7: mean response time",
    unit: "µs",
    case: Case::STRONG,
    value: response_us,
    decimals: 0,
    published: RESPONSES,
};
const COLLECTED: ByLoad = ByLoad {
    id: "loads-collections",
    title: "Figure 8: collections of the flash",
    unit: "collections",
    case: Case::WEAK,
    value: collections,
    decimals: 0,
    published: COLLECTIONS,
};

impl ByLoad {
    fn chart(&self, runs: &[LoadRun]) -> String {
        let of = |load: &str, scheme| find(runs, load, scheme, self.case).map(self.value);
        let bars = |load: &str| {
            let bare = of(load, Scheme::None).filter(|bare| *bare > 0.0);
            SCHEMES[1..].iter().map(move |&scheme| Some(of(load, scheme)? / bare?)).collect::<Vec<_>>()
        };
        let loads = names(runs);
        let most = loads.iter().flat_map(|load| bars(load)).flatten().fold(1.0, f64::max);
        let group = |load: &&str| Group {
            label: (*load).to_owned(),
            bars: bars(load).into_iter().enumerate().map(|part| Bar { label: String::new(), parts: vec![part] }).collect(),
            marks: vec![(0, 1.0), (1, 1.0 - self.published.0)],
        };
        let series: Vec<&str> = SCHEMES[1..].iter().map(|scheme| scheme.name()).collect();
        let chart = Chart {
            id: self.id,
            title: format!("{}, {}", self.title, self.case.name()),
            axis: "÷ that on the bare flash",
            series: &series,
            marks: &["the bare flash", "the paper's mean"],
            top: end_of_axis(most),
            bar_width: 22,
            groups: loads.iter().map(group).collect(),
        };
        figure(&chart)
    }

    fn table(&self, runs: &[LoadRun]) -> Table {
        let mut heads = vec!["load".to_owned(), format!("bare flash, {}", self.unit)];
        for scheme in &SCHEMES[1..] {
            heads.extend([format!("{}, {}", scheme.name(), self.unit), format!("{}, change", scheme.name())]);
        }
        let caption = format!("{}, {}", self.title, self.case.name());
        let mut table = Table::new(caption, heads);
        for load in names(runs) {
            let of = |scheme| find(runs, load, scheme, self.case).map(self.value);
            let bare = of(Scheme::None);
            let mut row = vec![load.to_owned(), number(bare, self.decimals)];
            for &scheme in &SCHEMES[1..] {
                let changed = of(scheme).zip(bare.filter(|bare| *bare > 0.0)).map(|(with, bare)| with / bare - 1.0);
                row.extend([number(of(scheme), self.decimals), change(changed)]);
            }
            table.row(row);
        }
        let mut row = vec!["mean of the changes".to_owned(), "–".to_owned()];
        for &scheme in &SCHEMES[1..] {
            row.extend(["–".to_owned(), change(mean(&saved(runs, scheme, self.case, self.value)).map(|saved| -saved))]);
        }
        table.row(row);
        table
    }
}

/// Formats Figure 7.
#[must_use]
pub fn responses(runs: &[LoadRun]) -> String {
    TIMES.chart(runs) + &TIMES.table(runs).html()
}

/// Formats Figure 8, and the means in every case.
#[must_use]
pub fn collected(runs: &[LoadRun]) -> String {
    let mut heads = vec!["persistence, flash".to_owned()];
    for scheme in &SCHEMES[1..] {
        heads.extend(["data written", "collections", "mean response"].map(|head| format!("{}: {head}", scheme.name())));
    }
    let paper = [WRITES_SAVED, COLLECTIONS.0, RESPONSES.0].map(|saved| change(Some(-saved)));
    let mut table = Table::new("The mean change against the bare flash, in each case", heads);
    for case in Case::ALL {
        let mut row = vec![case.name()];
        for &scheme in &SCHEMES[1..] {
            let values: [fn(&LoadRun) -> f64; 3] = [written, collections, response_us];
            row.extend(values.map(|value| change(mean(&saved(runs, scheme, case, value)).map(|saved| -saved))));
        }
        table.row(row);
    }
    let published = std::iter::once("the paper".to_owned()).chain(paper.clone()).chain(paper);
    table.row(published);
    COLLECTED.chart(runs) + &COLLECTED.table(runs).html() + &table.html()
}
