//! The report of an analysis, as text and as JSON.

use onefold::output::Report;
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold_trace::analyze::{Application, By, Sharing, Tables, published};
use serde::Serialize;
use std::path::PathBuf;

/// The means of the published tables. Shares are parts of 1.
#[derive(Debug, Serialize)]
struct Published {
    redundancy: f64,
    requests_per_second: f64,
    write_ratio: f64,
    sharing: f64,
}

impl Published {
    fn new() -> Self {
        Self {
            redundancy: published::mean_of(|row| row.redundancy) / 100.0,
            requests_per_second: published::mean_of(|row| row.requests_per_second),
            write_ratio: published::mean_of(|row| row.write_ratio) / 100.0,
            sharing: published::shared_mean() / 100.0,
        }
    }
}

/// The report of an analysis.
#[derive(Debug, Serialize)]
pub struct AnalysisReport {
    traces: Vec<PathBuf>,
    pub by: By,
    malformed_lines: u64,
    #[serde(flatten)]
    pub tables: Tables,
    published: Published,
}

/// The heads of Table I, after the name.
pub const HEADS: [&str; 10] =
    ["requests", "a second", "size MiB", "written MiB", "read MiB", "KiB each", "writes", "redundant", "without zeros", "zeros"];

/// Formats a share.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats a number with one digit after the point.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

/// Returns bytes in MiB.
#[allow(clippy::cast_precision_loss)] // one digit is shown
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the cells of a row of Table I, after the name.
pub fn characteristics(application: &Application) -> [String; 10] {
    [
        application.requests().to_string(),
        number(application.requests_per_second),
        number(Some(mib(application.bytes()))),
        number(Some(mib(application.written_bytes))),
        number(Some(mib(application.read_bytes))),
        number(application.request_bytes_mean.map(|bytes| bytes / 1024.0)),
        percent(application.write_ratio),
        percent(application.redundancy),
        percent(application.redundancy_without_zeros),
        percent(application.zero()),
    ]
}

/// A measure of this analysis, beside that of the paper if it has one: name, value, published value.
pub type Comparison = (&'static str, String, String);

impl AnalysisReport {
    /// Makes the report of these traces.
    pub fn new(traces: Vec<PathBuf>, by: By, malformed_lines: u64, tables: Tables) -> Self {
        Self { traces, by, malformed_lines, tables, published: Published::new() }
    }

    /// Returns the means, beside those of the paper.
    pub fn comparisons(&self) -> Vec<Comparison> {
        let (tables, published) = (&self.tables, &self.published);
        let none = || "-".to_owned();
        vec![
            ("redundancy, mean", percent(tables.mean_of(|a| a.redundancy)), percent(Some(published.redundancy))),
            ("requests a second, mean", number(tables.mean_of(|a| a.requests_per_second)), number(Some(published.requests_per_second))),
            ("writes among requests, mean", percent(tables.mean_of(|a| a.write_ratio)), percent(Some(published.write_ratio))),
            ("shared by two applications, mean", percent(tables.sharing.mean), percent(Some(published.sharing))),
            ("the same without zeros", percent(tables.sharing_without_zeros.mean), none()),
            ("duplicates found by one index, without zeros", percent(tables.found.by_one_index), none()),
            ("the same by an index for each application", percent(tables.found.by_one_each), none()),
        ]
    }

    /// Returns whether any application wrote zeros.
    pub fn has_zeros(&self) -> bool {
        self.tables.applications.iter().any(|application| application.zeros > 0)
    }

    fn sharing(&self, table: Table, title: &str, sharing: &Sharing) -> Table {
        let numbers: Vec<String> = (1..=sharing.cells.len()).map(|number| number.to_string()).collect();
        let heads: Vec<&str> = ["", self.by.name()].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        let row = |(number, (application, cells)): (usize, (&Application, &Vec<Option<f64>>))| {
            [(number + 1).to_string(), application.name.to_string()]
                .into_iter()
                .chain(cells.iter().map(|cell| number_of_percent(*cell)))
                .collect()
        };
        let rows = self.tables.applications.iter().zip(&sharing.cells).enumerate().map(row).collect();
        table.line("").line(title).grid(&heads, rows)
    }
}

fn number_of_percent(share: Option<f64>) -> String {
    number(share.map(|share| share * 100.0))
}

impl Report for AnalysisReport {
    const NAME: &'static str = "trace-analysis";

    fn table(&self) -> Table {
        let row = |application: &Application| {
            [application.name.to_string()].into_iter().chain(characteristics(application)).collect::<Vec<String>>()
        };
        let heads: Vec<&str> = [self.by.name()].into_iter().chain(HEADS).collect();
        let mut table = Table::new().grid(&heads, self.tables.applications.iter().map(row).collect());
        if self.tables.others > 0 {
            table = table.line(format!("{} applications are one row together; --most N shows more", self.tables.others));
        }
        table = self.sharing(table, "Per cent of a row's blocks that the column wrote, too", &self.tables.sharing);
        if self.has_zeros() {
            table = self.sharing(table, "The same without zeros", &self.tables.sharing_without_zeros);
        }
        let comparisons = self.comparisons().into_iter().map(|(name, value, published)| vec![name.to_owned(), value, published]);
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        table
            .line("")
            .grid(&["", "here", "Mao et al."], comparisons.collect())
            .row_if("malformed lines", some(self.malformed_lines))
            .row_if("in a temporary file", some(self.tables.bytes_aside).map(Size))
    }
}
