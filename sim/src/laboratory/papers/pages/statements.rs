//! The numeric statements of sections 4.2 and 4.3, and the same values from this run.

use crate::laboratory::papers::drawing::html::{Table, change, number};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::workloads::{Workload, all_of_paper};
use crate::laboratory::replay::scheme::Scheme;

const NAMES: [&str; 6] = ["Update", "Install", "BBench", "Vehicle", "Hadoop", "YCSB"];

/// Lists a value of each trace that was replayed of the paper's workloads: by the workload, and by the trace where it is not the first.
fn each(value: impl Fn(&Workload) -> Option<String>) -> String {
    let values: Vec<String> = NAMES
        .iter()
        .flat_map(|name| all_of_paper(name).enumerate())
        .filter_map(|(i, w)| {
            let name = if i == 0 { w.paper.unwrap_or_default().to_owned() } else { w.short() };
            Some(format!("{name} {}", value(w)?))
        })
        .collect();
    if values.is_empty() { "not replayed".to_owned() } else { values.join(", ") }
}

fn ratio(results: &Results, w: &Workload, scheme: Scheme, mode: Mode) -> Option<f64> {
    Some(results.figures(w, scheme, mode)?.write_ratio)
}

fn writes(results: &Results, scheme: Scheme, mode: Mode) -> String {
    each(|w| Some(change(Some(ratio(results, w, scheme, mode)? - 1.0))))
}

/// Lists the additional savings of one option over another, in shares of the original writes.
fn beyond(results: &Results, less: Scheme, more: Scheme, mode: Mode) -> String {
    each(|w| Some(change(Some(ratio(results, w, less, mode)? - ratio(results, w, more, mode)?))))
}

fn times(results: &Results, scheme: Scheme, mode: Mode) -> String {
    each(|w| Some(format!("{}×", number(Some(results.time_ratio(w.trace, scheme, mode, w.device)?), 2))))
}

/// Returns the section, the published statement and the measured values.
#[must_use]
pub fn statements(results: &Results) -> Vec<(&'static str, &'static str, String)> {
    use Mode::{Strong, Weak};
    use Scheme::{Ordered, OrderedAnticipate, OrderedOnly, Shadow};
    vec![
        (
            "4.2",
            "Dmdedup: 7 to 33 % fewer writes on update, install, Vehicle, Hadoop, YCSB; 7 % more on BBench",
            writes(results, Shadow, Weak),
        ),
        ("4.2", "ordering alone: 17 to 59 % fewer writes", writes(results, OrderedOnly, Weak)),
        ("4.2", "non-critical delay saves up to 2 % more, 8 % on BBench", beyond(results, OrderedOnly, Ordered, Weak)),
        ("4.2", "anticipation saves up to 6 % more", beyond(results, Ordered, OrderedAnticipate, Weak)),
        ("4.2", "all together: 18 to 63 % fewer writes", writes(results, OrderedAnticipate, Weak)),
        ("4.2", "latency, Dmdedup: 1.2 × on update, 1.8 × on install, the others within 5 %", times(results, Shadow, Weak)),
        ("4.2", "latency: 11 to 15 % more on install, the others within 5 %", times(results, OrderedAnticipate, Weak)),
        ("4.3", "Dmdedup: 5 to 12 × the writes", each(|w| Some(format!("{}×", number(Some(ratio(results, w, Shadow, Strong)?), 2))))),
        (
            "4.3",
            "ordering alone: 5 to 18 % fewer writes on update, install, Vehicle; 5 % more on BBench, 41 to 71 % more on Hadoop and YCSB",
            writes(results, OrderedOnly, Strong),
        ),
        ("4.3", "non-critical delay saves up to 3 % more, 11 % on BBench", beyond(results, OrderedOnly, Ordered, Strong)),
        ("4.3", "anticipation saves up to 63 % more", beyond(results, Ordered, OrderedAnticipate, Strong)),
        ("4.3", "all together: 15 to 51 % fewer writes", writes(results, OrderedAnticipate, Strong)),
        ("4.3", "latency, Dmdedup: 4 to 24 × on update, install, YCSB, the others within 4 %", times(results, Shadow, Strong)),
        ("4.3", "latency: 37 to 42 % more on install, the others within 4 %", times(results, OrderedAnticipate, Strong)),
    ]
}

/// Formats the statements as a table.
#[must_use]
pub fn table(results: &Results) -> Table {
    let caption =
        "Sections 4.2 and 4.3, sentence by sentence (latency here: virtual run time on the model of the paper's device, a stand-in)";
    let mut table = Table::new(caption, ["section", "published", "here"]);
    statements(results).into_iter().for_each(|(section, published, here)| table.row([section.to_owned(), published.to_owned(), here]));
    table
}
