//! `onefold-lab report`: makes the papers' evaluation over the recorded traces, with the targets that it is judged by.

use crate::synth::parse_count;
use onefold::exit::{Exit, Failed, Outcome};
use onefold::output::table::Table;
use onefold::output::{Report, Style, print};
use onefold_sim::laboratory::papers::pages::target::Target;
use onefold_sim::laboratory::papers::pages::targets::OWN_MODEL;
use onefold_sim::laboratory::papers::report::{Options, report};
use onefold_sim::laboratory::replay::scheme::Scheme;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The project's table of recorded figures.
const FIGURES: &str = "docs/figures.tsv";
/// The project's loads of applications.
const LOADS: &str = "data/loads";
/// The block writes of Using Hints' dd: with these all of its replays take a few minutes.
const HINT_WRITES: u64 = 1 << 15;

/// Replay every recorded trace on every scheme, and write the papers' figures beside ours
///
/// Every trace is replayed weak and strong, on three device models. The policies for the index run over the same traces, as in
/// SmartDedup's figures, loads of Using Hints are replayed with hints and without, and loads of applications with flash below, as in
/// APP-Dedupe's figures. index.html, smartdedup.html, hints.html, app-dedupe.html, results.csv, hints.csv, app-dedupe.csv and
/// results.json go into the folder of the report. Each target is printed; the command ends with 1 where one is missed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the report; it is made.
    #[arg(long, value_name = "DIRECTORY", default_value = "target/report")]
    out: PathBuf,
    /// Replay this trace alone; may be given several times.
    #[arg(long = "trace", value_name = "NAME")]
    only: Vec<String>,
    /// Replay on this scheme alone; may be given several times.
    #[arg(long = "scheme", value_name = "NAME", value_parser = Scheme::named)]
    schemes: Vec<Scheme>,
    /// Folder of the recorded traces of this project.
    #[arg(long, value_name = "DIRECTORY", default_value = "data/traces")]
    traces: PathBuf,
    /// Folder of traces that were recorded here, which are replayed by fewer schemes. Default: target/workloads, where
    /// `./dev workloads record` puts them, if it is there.
    #[arg(long, value_name = "DIRECTORY", value_parser = parse_folder)]
    recorded: Option<PathBuf>,
    /// Block writes of each trace that is made like a row of SmartDedup's Table 1, for the policies of the index; 0 for no such traces.
    #[arg(long, value_name = "N", value_parser = parse_writes, default_value = "2M")]
    made_writes: u64,
    /// Block writes of the dd of Using Hints, of which the size of its other loads follows (the paper has 1M); 0 for none of them. Default:
    /// 32K; 0 if --trace or --scheme chooses.
    #[arg(long, value_name = "N", value_parser = parse_writes)]
    hint_writes: Option<u64>,
    /// Folder of the loads of applications, for APP-Dedupe's figures. Default: data/loads; none if --trace or --scheme chooses.
    #[arg(long, value_name = "DIRECTORY", value_parser = parse_loads)]
    loads: Option<PathBuf>,
    /// File of what was measured live, which `./dev bench smartdedup-fio` leaves.
    #[arg(long, value_name = "FILE", value_parser = parse_file)]
    live: Option<PathBuf>,
    /// File of Using Hints' Table 1, which `./dev bench hints-table-1` leaves.
    #[arg(long, value_name = "FILE", value_parser = parse_live_hints)]
    live_hints: Option<PathBuf>,
    /// File of what the loads cost live (APP-Dedupe's Figure 4), which `./dev bench load-memory load-processor` leave.
    #[arg(long, value_name = "FILE", value_parser = parse_live_loads)]
    live_loads: Option<PathBuf>,
    /// File of OrderMergeDedup's run times on a slowed store, which `./dev bench live-figures` leaves.
    #[arg(long, value_name = "FILE", value_parser = parse_live_figures)]
    live_figures: Option<PathBuf>,
    /// Table of the project's recorded figures, which some rows are judged by. Default: docs/figures.tsv, if it is there.
    #[arg(long, value_name = "FILE", value_parser = parse_figures)]
    figures: Option<PathBuf>,
    /// Results of an earlier report (results.json, or results.json.zst): only what they lack is replayed.
    #[arg(long, value_name = "FILE", value_parser = parse_stored)]
    stored: Option<PathBuf>,
    /// Replay nothing: write the pages anew of the results that --stored names.
    #[arg(long, requires = "stored")]
    no_replay: bool,
    /// Name of the revision that replays, for the pages.
    #[arg(long, value_name = "NAME")]
    revision: Option<String>,
    /// Threads that replay.
    #[arg(long, value_name = "N", default_value = "2")]
    jobs: NonZeroUsize,
    /// Print the targets as JSON.
    #[arg(long)]
    json: bool,
}

/// Parses a folder: one that the user names has to be there; the default one need not.
fn parse_folder(typed: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(typed);
    if folder.is_dir() { Ok(folder) } else { Err("no folder is there; ./dev workloads record makes such".to_owned()) }
}

/// Parses a number of block writes, or 0.
fn parse_writes(typed: &str) -> Result<u64, String> {
    if typed == "0" { Ok(0) } else { parse_count(typed) }
}

/// Parses a file that the user names: it has to be there.
fn parse_file(typed: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(typed);
    if file.is_file() { Ok(file) } else { Err("no file is there; ./dev bench smartdedup-fio makes such".to_owned()) }
}

/// Parses a file that the user names: it has to be there.
fn parse_live_hints(typed: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(typed);
    if file.is_file() { Ok(file) } else { Err("no file is there; ./dev bench hints-table-1 makes such".to_owned()) }
}

/// Parses a folder that the user names: it has to be there.
fn parse_loads(typed: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(typed);
    if folder.is_dir() { Ok(folder) } else { Err("no folder is there; the project's own is data/loads".to_owned()) }
}

/// Parses a file that the user names: it has to be there.
fn parse_live_loads(typed: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(typed);
    if file.is_file() { Ok(file) } else { Err("no file is there; ./dev bench load-memory makes such".to_owned()) }
}

/// Parses a file that the user names: it has to be there.
fn parse_live_figures(typed: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(typed);
    if file.is_file() { Ok(file) } else { Err("no file is there; ./dev bench live-figures makes such".to_owned()) }
}

/// Parses the results of an earlier report: the file has to be there.
fn parse_stored(typed: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(typed);
    if file.is_file() { Ok(file) } else { Err("no file is there; onefold-lab report writes results.json".to_owned()) }
}

/// Parses the table of figures: one that the user names has to be there; the default one need not.
fn parse_figures(typed: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(typed);
    if file.is_file() { Ok(file) } else { Err("no file is there; the project's own is docs/figures.tsv".to_owned()) }
}

#[derive(Debug, Serialize)]
struct Judged {
    page: PathBuf,
    targets: Vec<Target>,
}

impl Report for Judged {
    const NAME: &'static str = "papers";

    fn table(&self) -> Table {
        let table = self.targets.iter().fold(Table::new(), |table, target| table.line(target.to_string()));
        table.line(self.page.display().to_string())
    }

    fn failure(self) -> Option<Failed> {
        let missed = self.targets.iter().filter(|target| !target.holds).count();
        (missed > 0).then(|| Failed::new(Exit::System, format!("{missed} of {} targets are missed", self.targets.len())))
    }
}

/// Reports.
///
/// # Errors
/// When a trace has no such name, the report cannot be written, or a target is missed.
pub fn run(arguments: &Arguments) -> Outcome {
    let chooses = !arguments.only.is_empty() || !arguments.schemes.is_empty();
    let options = Options {
        out: arguments.out.clone(),
        traces: arguments.traces.clone(),
        recorded: arguments.recorded.clone().unwrap_or_else(|| "target/workloads".into()),
        only: arguments.only.clone(),
        schemes: arguments.schemes.clone(),
        made_writes: arguments.made_writes,
        hint_writes: arguments.hint_writes.unwrap_or(if chooses { 0 } else { HINT_WRITES }),
        loads: arguments.loads.clone().or_else(|| (!chooses).then(|| LOADS.into())),
        live: arguments.live.clone(),
        live_hints: arguments.live_hints.clone(),
        live_loads: arguments.live_loads.clone(),
        live_figures: arguments.live_figures.clone(),
        figures: arguments.figures.clone().or_else(|| Some(PathBuf::from(FIGURES)).filter(|file| file.is_file())),
        stored: arguments.stored.clone(),
        replays_nothing: arguments.no_replay,
        revision: arguments.revision.clone(),
        threads: arguments.jobs.get(),
    };
    let targets = report(&options, &OWN_MODEL).map_err(|error| Failed::new(Exit::Usage, error))?;
    let judged = Judged { page: options.out.join("index.html"), targets };
    print(&judged, Style::of(arguments.json));
    judged.failure().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_sim::laboratory::papers::pages::target::Source;

    #[test]
    fn a_missed_target_fails_the_command() {
        let target = |holds| Target {
            name: "ordered-weak-05_vehicle".into(),
            source: Source::Ours,
            value: 0.8,
            unit: "units/unit",
            target: "<= 0.1".into(),
            holds,
            because: "counts".into(),
        };
        let judged = |targets: &[bool]| Judged { page: "index.html".into(), targets: targets.iter().map(|&holds| target(holds)).collect() };
        assert_eq!(judged(&[true, true]).failure(), None);
        let failed = judged(&[true, false]).failure().expect("one is missed");
        assert_eq!((failed.exit as u8, failed.message.as_str()), (1, "1 of 2 targets are missed"));
        assert!(judged(&[false]).table().to_string().contains("MISSED"));
    }
}
