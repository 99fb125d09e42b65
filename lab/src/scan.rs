//! `onefold-lab scan`: counts how often contents occur in an image, a device or a tree of files.

use crate::traces::failed_over;
use onefold::exit::Outcome;
use onefold::files::{first_shown, stopped_by_signals, unscanned};
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::error::TraceError;
use onefold_trace::partial_output::PartialOutput;
use onefold_trace::scan::{MEMORY_BYTES_MIN, ScanError, scan};
use onefold_trace::synth::{DISTRIBUTION_NAME, Distribution};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// The number of counts in the table; JSON has all.
const ROWS_MAX: usize = 20;

/// Count how often each content occurs in an image, a block device or a tree of files
///
/// Blocks are 4 KiB; the last one of a file is filled up with zeros. Blocks of zeros are counted apart. Trees are scanned without following
/// links, each file once however many names it has, and without the file systems mounted in them. Nothing is changed. Hashes of 64 bits
/// identify contents. `onefold-lab synth --distribution FILE` makes similar traces.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files, block devices and directories.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// File to write the distribution to: comma-separated values where its name ends with .csv, otherwise JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long, requires = "out")]
    force: bool,
    /// Memory to count in, 64 bytes a content; contents beyond it go to temporary files, 17 bytes a content.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory)]
    memory: Size,
    /// Directory of the temporary files. Default: that of the system.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_memory(typed: &str) -> Result<Size, String> {
    Size::at_least(typed, MEMORY_BYTES_MIN)
}

#[derive(Debug, Serialize)]
struct Found {
    paths: Vec<PathBuf>,
    files: u64,
    /// The number of things inside trees that could not be read.
    unread: u64,
    temporary_files: usize,
    duplication: Option<f64>,
    #[serde(flatten)]
    distribution: Distribution,
}

impl Report for Found {
    // The file of `--out` has this name, too: the output of `--json` is such a file.
    const NAME: &'static str = DISTRIBUTION_NAME;

    fn table(&self) -> Table {
        let found = &self.distribution;
        let blocks =
            |n: u64| format!("{n} ({})", n.checked_mul(BLOCK_BYTES).map_or_else(|| "-".to_owned(), |bytes| Size(bytes).to_string()));
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        let table = Table::new()
            .row("files", self.files)
            .row_if("not read", some(self.unread))
            .row_if("temporary files", some(self.temporary_files as u64))
            .row("blocks", blocks(found.blocks()))
            .row("blocks of zeros", blocks(found.zero_blocks))
            .row("distinct contents", blocks(found.contents()))
            .row_if("duplicates", self.duplication.map(|share| format!("{:.1} % of the blocks", share * 100.0)))
            .row_if("compressed as in slots", found.sizes().map(|sizes| format!("{:.0} bytes a content (mean)", sizes.mean())));
        let row = |o: &onefold_trace::synth::Occurring| [o.times, o.contents, o.times * o.contents].map(|n| n.to_string()).to_vec();
        let rows = found.occurring().iter().take(ROWS_MAX).map(row).collect();
        let table = table.line("").grid(&["times", "contents", "blocks"], rows);
        let more = found.occurring().len().saturating_sub(ROWS_MAX);
        if more > 0 { table.line(format!("and {more} more numbers of times; --json and --out have all")) } else { table }
    }
}

/// Scans.
///
/// # Errors
/// When something that was named cannot be read, or the file is there already or cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let place = |out: &PathBuf| PartialOutput::new(out, arguments.force).map_err(|error| failed_over(error, out));
    let place = arguments.out.as_ref().map(place).transpose()?;
    let temporary = arguments.temporary.clone().unwrap_or_else(std::env::temp_dir);
    let mut show = first_shown::<ScanError>("not read: ", "more could not be read; it is counted only");
    let scanned = scan(&arguments.paths, arguments.memory.0, &temporary, Some(&stop), &mut show).map_err(unscanned)?;
    if let (Some(out), Some(place)) = (&arguments.out, place) {
        let is_csv = out.extension().is_some_and(|extension| extension == "csv");
        let text = if is_csv { scanned.distribution.to_csv() } else { scanned.distribution.to_json() };
        let written = File::create(&place.partial).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(TraceError::io(out)).and_then(|()| place.keep()).map_err(|error| failed_over(error, out))?;
    }
    let found = Found {
        paths: arguments.paths.clone(),
        files: scanned.counts.files,
        unread: scanned.counts.unread,
        temporary_files: scanned.runs,
        duplication: scanned.distribution.duplication(),
        distribution: scanned.distribution,
    };
    print(&found, Style::of(arguments.json));
    Ok(())
}
