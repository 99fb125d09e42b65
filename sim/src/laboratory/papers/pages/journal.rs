//! The traces on which the journal writes less than `ordered-anticipate`, and the reason: both write the same content, so metadata decide.

use crate::laboratory::papers::drawing::html::{Table, escape, number};
use crate::laboratory::papers::pages::log::float;
use crate::laboratory::papers::pages::target::COUNTED_ON;
use crate::laboratory::papers::results::{Results, range};
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::replay::figures::Figures;
use crate::laboratory::replay::scheme::Scheme;

/// A trace on both schemes, weak.
#[derive(Clone, Debug)]
struct Case {
    trace: String,
    /// Client units in each epoch.
    epoch: f64,
    journal: f64,
    ordered: f64,
    packed: Option<f64>,
    /// Units of metadata in each epoch.
    records: f64,
    journal_metadata: f64,
    ordered_metadata: f64,
}

fn per_epoch(figures: &Figures, units: u64) -> f64 {
    float(units) / float(figures.epochs_all.unwrap_or(0).max(1))
}

/// Lists the traces, those with the smallest epochs first.
fn cases(results: &Results) -> Vec<Case> {
    let of = |trace: &str, scheme| results.of(trace, scheme, Mode::Weak, COUNTED_ON).map(|timed| &timed.report.measured);
    let case = |trace: String| {
        let (journal, ordered) = (of(&trace, Scheme::Journal)?, of(&trace, Scheme::OrderedAnticipate)?);
        Some(Case {
            epoch: per_epoch(journal, journal.client_units),
            journal: journal.write_ratio,
            ordered: ordered.write_ratio,
            packed: of(&trace, Scheme::Packed).map(|figures| figures.write_ratio),
            records: per_epoch(journal, journal.device_units.get("written").copied().unwrap_or(0)),
            journal_metadata: per_epoch(journal, journal.metadata_units_all),
            ordered_metadata: per_epoch(ordered, ordered.metadata_units_all),
            trace,
        })
    };
    let mut cases: Vec<Case> = results.traces().into_iter().filter_map(case).collect();
    cases.sort_by(|a, b| a.epoch.total_cmp(&b.epoch));
    cases
}

fn between(cases: &[&Case], value: fn(&Case) -> f64, decimals: usize) -> String {
    let (least, most) = range(cases.iter().map(|case| value(case))).unwrap_or_default();
    format!("{least:.decimals$} to {most:.decimals$}")
}

/// Says on how many traces the journal writes less, and why.
fn explanation(cases: &[Case]) -> String {
    let (less, others): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.journal < case.ordered);
    let beaten = cases.iter().filter(|case| case.packed.is_some_and(|packed| packed < case.journal)).count();
    let names: Vec<&str> = less.iter().map(|case| case.trace.as_str()).collect();
    let why = if less.is_empty() {
        String::new()
    } else {
        format!(
            " ({}). There an epoch has {} client units, and the journal's costs {} units of metadata: the changes of an epoch are packed \
             into {} blocks of records, and their pages are written home once for many epochs. ordered-anticipate has no such record: each \
             epoch writes the pages themselves that it changes, of counts and map at least, {} units",
            names.join(", "),
            between(&less, |case| case.epoch, 0),
            between(&less, |case| case.journal_metadata, 1),
            between(&less, |case| case.records, 1),
            between(&less, |case| case.ordered_metadata, 1)
        )
    };
    let large = if others.is_empty() {
        String::new()
    } else {
        format!(
            ". On the others an epoch has {} client units: the journal's records, {} blocks, then come on top of the pages that both \
             write, and it writes more",
            between(&others, |case| case.epoch, 0),
            between(&others, |case| case.records, 1)
        )
    };
    format!(
        "Weak, on the model \"{COUNTED_ON}\", journal writes less than ordered-anticipate on {} of {} traces{why}{large}. Small epochs are \
         why commit mode log exists: packed, the default of a volume, writes less than the journal on {beaten} of {}.",
        less.len(),
        cases.len(),
        cases.len()
    )
}

/// Formats the explanation and its counts.
#[must_use]
pub fn section(results: &Results) -> String {
    let cases = cases(results);
    if cases.is_empty() {
        return "<p>The traces that show it were not replayed.</p>\n".to_owned();
    }
    let heads = [
        "trace",
        "client units in an epoch",
        "write ratio, journal",
        "ordered-anticipate",
        "packed",
        "less is written by",
        "blocks of records in an epoch, journal",
        "units of metadata in an epoch, journal",
        "ordered-anticipate",
    ];
    let mut table = Table::new("Journal and ordered-anticipate, weak, the smallest epochs first", heads);
    for case in &cases {
        table.row([
            case.trace.clone(),
            number(Some(case.epoch), 1),
            number(Some(case.journal), 3),
            number(Some(case.ordered), 3),
            number(case.packed, 3),
            if case.journal < case.ordered { Scheme::Journal } else { Scheme::OrderedAnticipate }.name().to_owned(),
            number(Some(case.records), 2),
            number(Some(case.journal_metadata), 2),
            number(Some(case.ordered_metadata), 2),
        ]);
    }
    format!("<p>{}</p>\n{}", escape(&explanation(&cases)), table.html())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(trace: &str, epoch: f64, (journal, ordered): (f64, f64)) -> Case {
        let (records, journal_metadata, ordered_metadata) = (1.0, 1.1, 2.5);
        Case { trace: trace.to_owned(), epoch, journal, ordered, packed: Some(0.9), records, journal_metadata, ordered_metadata }
    }

    #[test]
    fn the_traces_on_which_the_journal_writes_less_are_counted_and_named() {
        let text = explanation(&[case("small", 3.0, (1.2, 1.6)), case("large", 400.0, (0.8, 0.7)), case("larger", 500.0, (0.95, 0.9))]);
        assert!(text.contains("less than ordered-anticipate on 1 of 3 traces (small)"), "{text}");
        assert!(text.contains("3 to 3 client units") && text.contains("400 to 500 client units"), "{text}");
        assert!(text.contains("less than the journal on 2 of 3"), "{text}");
        let none = explanation(&[case("large", 400.0, (0.8, 0.7))]);
        assert!(none.contains("on 0 of 1 traces.") || none.contains("on 0 of 1 traces. On"), "{none}");
    }
}
