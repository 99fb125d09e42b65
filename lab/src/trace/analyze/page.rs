//! The page of an analysis: both tables, with pictures. It uses no script, style sheet or image from anywhere else.

use super::report::{AnalysisReport, HEADS, characteristics, mib, number, percent};
use onefold::output::charts::{Bar, DrawError, bars, map};
use onefold::output::html::{document, table};
use onefold_trace::analyze::{Application, Sharing};
use std::fmt::Write as _;

const TITLE: &str = "Applications and the content that they share";

const DEFINITIONS: &str = "\
Redundancy is the share of the written blocks of 4 KiB whose content the application had written before, since its trace began. \
Zeros are a content like others; they are counted apart as well. A block of unknown content is never redundant. What a row shares \
with a column is the share of the row's written blocks whose content the column wrote, too, whenever. The diagonal is the row's own \
redundancy. Requests are reads and writes. The published means are those of fifteen applications on a phone: Mao et al., \
Content-aware Trace Collection and I/O Deduplication for Smartphones, section II.B.";

/// A column of Table I with a picture.
struct Column {
    title: &'static str,
    value: fn(&Application) -> Option<f64>,
    shown: fn(Option<f64>) -> String,
}

const COLUMNS: [Column; 4] = [
    Column { title: "Redundancy", value: |application| application.redundancy, shown: percent },
    Column { title: "Requests a second", value: |application| application.requests_per_second, shown: number },
    Column { title: "Size, MiB", value: |application| Some(mib(application.bytes())), shown: number },
    Column { title: "Writes among requests", value: |application| application.write_ratio, shown: percent },
];

fn pictures(applications: &[Application]) -> Result<String, DrawError> {
    let mut out = String::new();
    for Column { title, value, shown } in COLUMNS {
        let bar = |application| {
            let value = value(application);
            Bar { name: &application.name, value, shown: shown(value) }
        };
        let svg = bars(&applications.iter().map(bar).collect::<Vec<_>>())?;
        let _ = writeln!(out, "<h3>{title}</h3>\n<div class=\"wide\">{svg}</div>");
    }
    Ok(out)
}

fn sharing(title: &str, applications: &[Application], sharing: &Sharing) -> Result<String, DrawError> {
    let names: Vec<String> =
        applications.iter().enumerate().map(|(number, application)| format!("{} {}", number + 1, application.name)).collect();
    Ok(format!("<h2>{title}</h2>\n<div class=\"wide\">{}</div>\n", map(&names, &sharing.cells)?))
}

/// Formats the page.
///
/// # Errors
/// Fails if a picture cannot be drawn.
pub fn page(report: &AnalysisReport) -> Result<String, DrawError> {
    let (tables, applications) = (&report.tables, &report.tables.applications);
    let mut body = format!("<h1>{TITLE}</h1>\n<p>{DEFINITIONS}</p>\n<h2>Beside the published means</h2>\n");
    let comparisons = report.comparisons().into_iter().map(|(name, value, published)| vec![name.to_owned(), value, published]);
    body.push_str(&table(&["", "here", "Mao et al."], comparisons));
    let row = |application: &Application| [application.name.to_string()].into_iter().chain(characteristics(application)).collect();
    let heads: Vec<&str> = [report.by.name()].into_iter().chain(HEADS).collect();
    let _ = write!(body, "<h2>Table I: the requests of each</h2>\n{}", table(&heads, applications.iter().map(row)));
    body.push_str(&pictures(applications)?);
    body.push_str(&sharing("Table II: per cent of a row's blocks that the column wrote, too", applications, &tables.sharing)?);
    if report.has_zeros() {
        body.push_str(&sharing("Table II without zeros", applications, &tables.sharing_without_zeros)?);
    }
    Ok(document(TITLE, &body))
}
