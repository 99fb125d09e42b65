//! `trace export`: writes a trace as text.

use crate::traces::{FORMS, Reading, failed_over, malformed_shown};
use onefold::exit::Outcome;
use onefold::files::stopped_by_signals;
use onefold::output::table::Table;
use onefold::output::{Report, Style, complain, print};
use onefold_trace::text::detect::FormName;
use onefold_trace::transfer::{self, STDOUT};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Write a trace as text
///
/// A trace that was imported from a form and is exported to it again gives the same bytes. A record that the form has no place for is an
/// error, unless `--lenient` leaves it out.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMS)]
pub struct Arguments {
    /// Folder, recording, or text of any form; `-` for standard input.
    trace: PathBuf,
    /// File to make, compressed by zstd where its name ends with .zst; `-` for standard output.
    text: PathBuf,
    /// Form of the text that is written.
    #[arg(long = "to", value_name = "FORM")]
    to: FormName,
    #[command(flatten)]
    reading: Reading,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Exported {
    text: PathBuf,
    form: &'static str,
    records: u64,
    /// Records that the form has no place for.
    left_out: u64,
    malformed_lines: u64,
}

impl Report for Exported {
    const NAME: &'static str = "trace-export";

    fn table(&self) -> Table {
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        Table::new()
            .row("text", self.text.display())
            .row("form", self.form)
            .row("records", self.records)
            .row_if("left out", some(self.left_out))
            .row_if("malformed lines", some(self.malformed_lines))
    }
}

/// Exports.
///
/// # Errors
/// Where the trace cannot be read, the form has no place for something in it, or the file is there already.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let how = arguments.reading.how(Some(&stop));
    let exported = transfer::export(&arguments.trace, arguments.to, &arguments.text, arguments.force, &how, &mut malformed_shown())
        .map_err(|error| failed_over(error, &arguments.trace))?;
    let report = Exported {
        text: arguments.text.clone(),
        form: arguments.to.name(),
        records: exported.read.records - exported.unfit,
        left_out: exported.unfit,
        malformed_lines: exported.read.malformed,
    };
    // Standard output is the text's.
    if arguments.text != Path::new(STDOUT) {
        print(&report, Style::of(arguments.json));
    } else if report.left_out > 0 {
        complain(format_args!("onefold-lab: {} records were left out", report.left_out));
    }
    Ok(())
}
