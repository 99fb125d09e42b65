//! `trace import`: reads text, a recording, or another trace, into a folder of Parquet files.

use crate::traces::{FORMS, Reading, failed, malformed_shown};
use onefold::exit::Outcome;
use onefold::files::stopped_by_signals;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_trace::source::Tally;
use onefold_trace::transfer;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Read a recording, or a text of any form, into a new folder of Parquet files
///
/// A recording that was cut off, because its recorder was killed, is read up to its last whole block. Malformed lines are shown with file
/// and line number, and counted. Nothing half-written is left behind.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
pub struct Arguments {
    /// Recording, or text, compressed by zstd or not; `-` for standard input.
    text: PathBuf,
    /// Folder to make.
    trace: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Written {
    pub trace: PathBuf,
    pub records: u64,
    pub malformed_lines: u64,
    /// Lines that were understood, but are laid out otherwise than the first: an export would not give the same bytes.
    pub relaid_lines: u64,
    /// The place at which a recording is cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_off_at: Option<u64>,
}

impl Written {
    pub fn new(trace: &Path, tally: &Tally, records: u64) -> Self {
        let Tally { malformed, relaid, cut_off_at, .. } = *tally;
        Self { trace: trace.to_path_buf(), records, malformed_lines: malformed, relaid_lines: relaid, cut_off_at }
    }
}

impl Report for Written {
    const NAME: &'static str = "trace-written";

    fn table(&self) -> Table {
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        Table::new()
            .row("trace", self.trace.display())
            .row("records", self.records)
            .row_if("malformed lines", some(self.malformed_lines))
            .row_if("lines laid out otherwise", some(self.relaid_lines))
            .row_if("cut off", self.cut_off_at.map(|at| format!("at byte {at}")))
    }
}

/// Imports.
///
/// # Errors
/// Where the text cannot be read, too much of it is malformed, or the folder is there already.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let how = arguments.reading.how(Some(&stop));
    let tally = transfer::import(&arguments.text, &arguments.trace, &how, &mut malformed_shown())
        .map_err(|error| failed(error, &arguments.text))?;
    print(&Written::new(&arguments.trace, &tally, tally.records), Style::of(arguments.json));
    Ok(())
}
