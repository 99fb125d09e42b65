//! Figure 4: the chart and the table of memory and processor time.

use crate::laboratory::papers::drawing::chart::figure;
use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group, end_of_axis};
use crate::laboratory::papers::drawing::html::{Table, change, number};
use crate::laboratory::papers::studies::app_dedupe::live::{LoadCosts, PASSTHROUGH};

/// Formats Figure 4.
#[must_use]
pub fn costs(live: &LoadCosts) -> String {
    let setups = live.setups();
    let loads = live.loads();
    let most = live.costs.iter().map(|cost| cost.peak_mib).fold(0.0, f64::max);
    let series: Vec<&str> = std::iter::once(PASSTHROUGH).chain(setups.iter().copied()).collect();
    let group = |load: &&str| {
        let bar =
            |(at, setup): (usize, &&str)| Bar { label: String::new(), parts: vec![(at, live.of(load, setup).map(|cost| cost.peak_mib))] };
        Group { label: (*load).to_owned(), bars: series.iter().enumerate().map(bar).collect(), marks: Vec::new() }
    };
    let chart = Chart {
        id: "loads-memory",
        title: "Figure 4: most memory of the server, by load".to_owned(),
        axis: "MiB resident",
        series: &series,
        marks: &[],
        top: end_of_axis(most),
        bar_width: 16,
        groups: loads.iter().map(group).collect(),
    };
    let mut heads = vec!["load".to_owned(), "seconds when recorded".to_owned()];
    heads.extend(series.iter().flat_map(|setup| [format!("{setup}: MiB"), format!("{setup}: processor seconds")]));
    heads.extend(setups.iter().flat_map(|setup| [format!("{setup}: memory beyond"), format!("{setup}: processor beyond")]));
    let caption = format!("Figure 4: the server's memory and processor time, {} cores; beyond those of passthrough", live.cores);
    let mut table = Table::new(caption, heads);
    for load in loads {
        let seconds = live.of(load, PASSTHROUGH).map(|cost| cost.load_seconds);
        let mut row = vec![load.to_owned(), number(seconds, 1)];
        row.extend(series.iter().flat_map(|setup| {
            let cost = live.of(load, setup);
            [number(cost.map(|cost| cost.peak_mib), 1), number(cost.map(|cost| cost.cpu_seconds), 2)]
        }));
        row.extend(setups.iter().flat_map(|setup| {
            let more = live.more(load, setup);
            [change(more.map(|more| more.memory)), change(more.map(|more| more.processor))]
        }));
        table.row(row);
    }
    figure(&chart) + &table.html()
}
