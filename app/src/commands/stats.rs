//! `stats`: what an attached volume did.

use super::attached;
use crate::exit::{Failed, Outcome};
use crate::output::size::Size;
use crate::output::table::Table;
use crate::output::{Report, Style, print};
use crate::runtime::condition::{Count, Counts};
use crate::server::control::{self, Ask};
use crate::server::directory::run_directory;
use crate::server::record::Places;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Show what an attached volume did
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    volume: String,
    #[arg(long)]
    json: bool,
    /// Again every so many seconds, until it is interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    watch: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Stats {
    path: PathBuf,
    counts: Counts,
}

impl Report for Stats {
    const NAME: &'static str = "stats";

    fn table(&self) -> Table {
        let rows =
            |counts: &[Count]| counts.iter().map(|c| vec![c.what.clone(), c.operations.to_string(), Size(c.bytes).to_string()]).collect();
        Table::new()
            .row("backing store", self.path.display())
            .line("")
            .grid(&["clients", "operations", "bytes"], rows(&self.counts.client))
            .line("")
            .grid(&["device", "operations", "bytes"], rows(&self.counts.device))
    }
}

/// Shows.
///
/// # Errors
/// When it is not attached, or its server does not answer.
pub fn run(arguments: &Arguments) -> Outcome {
    let record = attached(&arguments.volume)?;
    let control = Places::of(&run_directory()?, &record.id).control;
    loop {
        let answer = control::ask(&control, Ask::Stats)?;
        let counts = serde_json::from_value(answer).map_err(|e| Failed::system("the server speaks another language", e))?;
        print(&Stats { path: record.path.clone(), counts }, Style::of(arguments.json));
        let Some(seconds) = arguments.watch else { return Ok(()) };
        std::thread::sleep(Duration::from_secs(seconds.max(1)));
        println!();
    }
}
