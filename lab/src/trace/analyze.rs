//! `trace analyze`: shows the characteristics of each application of traces, and the content that they share.

mod page;
mod report;

use crate::traces::{FORMS, Reading, failed, malformed_shown};
use onefold::exit::{Exit, Failed, Outcome};
use onefold::files::stopped_by_signals;
use onefold::output::size::Size;
use onefold::output::{Style, print};
use onefold::pages::PageOption;
use onefold_trace::analyze::{Analysis, By, MEMORY_BYTES_MIN};
use onefold_trace::error::TraceError;
use onefold_trace::source::{ReadOptions, Source};
use report::AnalysisReport;
use std::collections::HashSet;
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
    /// Folders, recordings, or texts of any form; `-` for standard input.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Division into applications: trace, one for each trace, named like it; process; stream; file; cgroup; or phase, from one mark to the
    /// next.
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
    #[command(flatten)]
    page: PageOption,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_memory(typed: &str) -> Result<Size, String> {
    Size::at_least(typed, MEMORY_BYTES_MIN)
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
    let page_file = arguments.page.begin()?;
    let temporary = arguments.temporary.clone().unwrap_or_else(std::env::temp_dir);
    let aside = |error| failed(TraceError::Io { path: temporary.clone(), source: error }, &temporary);
    let reserved = |error| Failed::system(format!("--memory {}", arguments.memory), error).next("Give less; the rest goes to a file.");
    let mut analysis = Analysis::new(arguments.by, arguments.memory.0, &temporary).map_err(reserved)?;
    let mut malformed_lines = 0;
    for (name, trace) in names.iter().zip(&arguments.traces) {
        malformed_lines += count(&mut analysis, name, trace, &how, &temporary).map_err(|error| failed(error, trace))?;
    }
    let tables = analysis.finish(arguments.most.into()).map_err(aside)?;
    let report = AnalysisReport::new(arguments.traces.clone(), arguments.by, malformed_lines, tables);
    if let Some(file) = page_file {
        file.end(page::page(&report))?;
    }
    print(&report, Style::of(arguments.json));
    Ok(())
}
