//! A substitute for section 4.5: energy is power × run time. There is no device here to measure power on, so processor seconds and run time
//! are given instead.

use crate::laboratory::papers::drawing::html::{Table, change, number};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::published::PUBLISHED;
use crate::laboratory::papers::studies::workloads::of_paper;
use crate::laboratory::replay::scheme::Scheme;

/// Formats both tables.
#[must_use]
pub fn energy(results: &Results) -> String {
    against_published(results).html() + &processor(results).html()
}

fn against_published(results: &Results) -> Table {
    let heads = [
        "workload",
        "published: watts, original",
        "watts, deduplicated",
        "run time",
        "energy",
        "here: run time, ordered-anticipate",
        "processor seconds of the replay, none",
        "ordered-anticipate",
        "nanoseconds more for each unit",
    ];
    let mut table = Table::new("Section 4.5 and its stand-in (weak, the tablet's model)", heads);
    for p in PUBLISHED {
        let (Some(w), Some((original, with, time, energy))) = (of_paper(p.name), p.energy) else { continue };
        let of = |scheme| results.of(w.trace, scheme, Mode::Weak, w.device);
        let cpu = |scheme| of(scheme).map(|t| t.cpu_seconds);
        #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
        let units = of(Scheme::None).map(|t| t.report.whole.client_units as f64);
        let more =
            cpu(Scheme::OrderedAnticipate).zip(cpu(Scheme::None)).zip(units).map(|((with, none), units)| (with - none) * 1e9 / units);
        table.row([
            format!("{} ({})", p.name, w.short()),
            format!("{original:.2}"),
            format!("{with:.2}"),
            format!("{time:+.1} %"),
            format!("{energy:+.0} %"),
            change(results.time_ratio(w.trace, Scheme::OrderedAnticipate, Mode::Weak, w.device).map(|r| r - 1.0)),
            number(cpu(Scheme::None), 2),
            number(cpu(Scheme::OrderedAnticipate), 2),
            number(more, 0),
        ]);
    }
    table
}

fn processor(results: &Results) -> Table {
    let mut heads = vec!["workload".to_owned(), "mode".to_owned()];
    heads.extend(Scheme::ALL.map(|s| format!("{}, s", s.name())));
    heads.push("block writes a second, none".to_owned());
    heads.push("block writes a second, ordered".to_owned());
    let mut table = Table::new(
        "Processor seconds of each replay, on the workload's device model: scheme, simulation and reading of the trace together",
        heads,
    );
    for w in results.workloads() {
        for mode in [Mode::Weak, Mode::Strong] {
            let of = |scheme| results.of(w.trace, scheme, mode, w.device);
            let mut row = vec![w.short(), mode.name().to_owned()];
            row.extend(Scheme::ALL.map(|scheme| number(of(scheme).map(|t| t.cpu_seconds), 2)));
            row.extend([Scheme::None, Scheme::Ordered].map(|scheme| number(of(scheme).map(|t| t.writes_per_second), 0)));
            table.row(row);
        }
    }
    table
}
