//! `trace analyze`: shows the characteristics of each application of traces, and the content that they share.

mod charts;
mod page;

use crate::exit::{Exit, Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::traces::{FORMS, Reading, failed, failed_over, malformed_shown, stopped_by_signals};
use onefold_trace::analyze::{Analysis, Application, By, MEMORY_BYTES_MIN, Sharing, Tables, published};
use onefold_trace::error::TraceError;
use onefold_trace::partial_output::PartialOutput;
use onefold_trace::source::{ReadOptions, Source};
use serde::Serialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show the applications of traces: redundancy, rates and sizes of each, and the content that they share
///
/// These are Tables I and II of a study of fifteen applications of a phone (Mao et al., Content-aware Trace Collection and I/O
/// Deduplication for Smartphones), whose means are printed beside. Redundancy is the share of the written blocks whose content the
/// application had written before. What a row shares with a column is the share of the row's written blocks whose content the column
/// wrote, too. Requests are reads and writes.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
pub struct Arguments {
    /// Folders, or texts of any form; `-` for standard input.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Division into applications: trace, one for each trace, named like it; process; stream; or phase, from one mark to the next.
    #[arg(long, value_name = "DIVISION", default_value = By::Trace.name())]
    by: By,
    /// Applications that get a row: the N that wrote the most blocks. The others are one row together.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    most: u16,
    /// Memory for contents, 16 bytes for each content of an application; those beyond it go to a temporary file.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory)]
    memory: Size,
    /// Directory of the temporary file. Default: that of the system.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// File to write a page with tables and pictures to.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long, requires = "html")]
    force: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_memory(typed: &str) -> Result<Size, String> {
    Size::at_least(typed, MEMORY_BYTES_MIN)
}

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

#[derive(Debug, Serialize)]
struct AnalysisReport {
    traces: Vec<PathBuf>,
    by: By,
    malformed_lines: u64,
    #[serde(flatten)]
    tables: Tables,
    published: Published,
}

/// The heads of Table I, after the name.
const HEADS: [&str; 10] =
    ["requests", "a second", "size MiB", "written MiB", "read MiB", "KiB each", "writes", "redundant", "without zeros", "zeros"];

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

#[allow(clippy::cast_precision_loss)] // one digit is shown
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the cells of a row of Table I, after the name.
fn characteristics(application: &Application) -> [String; 10] {
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
type Comparison = (&'static str, String, String);

impl AnalysisReport {
    fn comparisons(&self) -> Vec<Comparison> {
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
    fn has_zeros(&self) -> bool {
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

/// Returns the name of a trace as an application: that of its folder, or that of its file up to the first dot.
fn name_of(trace: &Path) -> String {
    let whole = trace.canonicalize().ok().filter(|_| trace.is_dir());
    let name = whole.as_deref().unwrap_or(trace).file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned();
    match name.split_once('.') {
        Some((stem, _)) if whole.is_none() && !stem.is_empty() => stem.to_owned(),
        _ => name,
    }
}

/// Returns the name of each trace as an application: where two would be the same, what the user typed.
fn names(traces: &[PathBuf]) -> Outcome<Vec<String>> {
    let mut seen = HashSet::new();
    if let Some(twice) = traces.iter().find(|trace| !seen.insert(trace.as_path())) {
        return Err(Failed::new(Exit::Usage, format!("{} is given twice", twice.display())));
    }
    let names: Vec<String> = traces.iter().map(|trace| name_of(trace)).collect();
    let is_alone = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    Ok(names.iter().zip(traces).map(|(name, trace)| if is_alone(name) { name.clone() } else { trace.display().to_string() }).collect())
}

/// Counts one trace; returns the number of its malformed lines.
fn count(analysis: &mut Analysis, name: &str, trace: &Path, how: &ReadOptions, temporary: &Path) -> Result<u64, TraceError> {
    let mut source = Source::open(trace, how)?;
    analysis.begin(name);
    let tally = source
        .each(how, &mut malformed_shown(), |source, record| analysis.count(&record, source.unit()).map_err(TraceError::io(temporary)))?;
    Ok(tally.malformed)
}

/// Analyzes.
///
/// # Errors
/// Where a trace cannot be read, too much of it is malformed, or the page is there already or cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let how = arguments.reading.how(Some(&stop));
    let names = names(&arguments.traces)?;
    let place = |html: &PathBuf| PartialOutput::new(html, arguments.force).map_err(|error| failed_over(error, html));
    let place = arguments.html.as_ref().map(place).transpose()?;
    let temporary = arguments.temporary.clone().unwrap_or_else(std::env::temp_dir);
    let aside = |error| failed(TraceError::Io { path: temporary.clone(), source: error }, &temporary);
    let reserved = |error| Failed::system(format!("--memory {}", arguments.memory), error).next("Give less; the rest goes to a file.");
    let mut analysis = Analysis::new(arguments.by, arguments.memory.0, &temporary).map_err(reserved)?;
    let mut malformed_lines = 0;
    for (name, trace) in names.iter().zip(&arguments.traces) {
        malformed_lines += count(&mut analysis, name, trace, &how, &temporary).map_err(|error| failed(error, trace))?;
    }
    let tables = analysis.finish(arguments.most.into()).map_err(aside)?;
    let report =
        AnalysisReport { traces: arguments.traces.clone(), by: arguments.by, malformed_lines, tables, published: Published::new() };
    if let (Some(html), Some(place)) = (&arguments.html, place) {
        let page = page::page(&report).map_err(|error| Failed::new(Exit::System, format!("{}: {error}", html.display())))?;
        let written = File::create(&place.partial).and_then(|mut file| file.write_all(page.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(TraceError::io(html)).and_then(|()| place.keep()).map_err(|error| failed_over(error, html))?;
    }
    print(&report, Style::of(arguments.json));
    Ok(())
}
