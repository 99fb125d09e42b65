//! `trace import`: reads text, or another trace, into a folder of Parquet files.

use crate::exit::Outcome;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::traces::{FORMS, Reading, failed, malformed_shown, stopped_by_signals};
use onefold_trace::source::Tally;
use onefold_trace::transfer;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Read a text of any form into a new folder of Parquet files
///
/// Malformed lines are shown with file and line number, and counted. Nothing half-written is left behind.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
pub struct Arguments {
    /// Text, compressed by zstd or not; `-` for standard input.
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
}

impl Written {
    pub fn new(trace: &Path, tally: &Tally, records: u64) -> Self {
        Self { trace: trace.to_path_buf(), records, malformed_lines: tally.malformed, relaid_lines: tally.relaid }
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
