//! The report: every replay that was asked for, the targets that it is judged by, and four files.

use crate::index_lab::naming::Naming;
use crate::papers::evaluation::rows;
use crate::papers::matrix::{jobs, jobs_of_recorded, run};
use crate::papers::results::{Results, RunFacts};
use crate::papers::smartdedup::live::Live;
use crate::papers::smartdedup::study::{Subject, study};
use crate::papers::targets::{Target, judge};
use crate::papers::workloads::{WORKLOADS, of_trace};
use crate::papers::{csv, page, smartdedup};
use crate::replay::scheme::Scheme;
use crate::replay::timed::name_of;
use onefold_trace::synth::phone::PHONES;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The version of `results.json`. Fields may be added within a version; none changes its meaning.
const VERSION: u32 = 1;

/// The replays of a report, and its place.
#[derive(Clone, Debug)]
pub struct Options {
    pub out: PathBuf,
    /// The folder of the traces.
    pub traces: PathBuf,
    /// The folder that contains the folders of traces that were recorded here, if there are any.
    pub recorded: PathBuf,
    /// The names of the traces to replay; empty for all.
    pub only: Vec<String>,
    /// The schemes to replay; empty for all.
    pub schemes: Vec<Scheme>,
    /// The block writes of each trace that is made like a row of SmartDedup's Table 1; none are made with 0.
    pub made_writes: u64,
    /// The file of what was measured live, if there is one.
    pub live: Option<PathBuf>,
    pub threads: usize,
}

/// Replays the traces, writes the report, and judges it by these write ratios.
///
/// # Errors
/// Fails if a trace has no such name, or the report cannot be written. A replay that fails is a missed target.
pub fn report(options: &Options, write_ratios: &[(&str, f64)]) -> Result<Vec<Target>, String> {
    let recorded = recorded(&options.recorded);
    let known =
        || WORKLOADS.iter().map(|w| w.trace.to_owned()).chain(recorded.iter().map(|path| name_of(path))).collect::<Vec<_>>().join(", ");
    let is_known = |name: &str| of_trace(name).is_some() || recorded.iter().any(|path| name_of(path) == name);
    if let Some(unknown) = options.only.iter().find(|name| !is_known(name)) {
        return Err(format!("no recorded trace is called {unknown}; the known traces are {}", known()));
    }
    let is_wanted = |trace: &str| options.only.is_empty() || options.only.iter().any(|name| name == trace);
    let recorded: Vec<PathBuf> = recorded.iter().filter(|path| is_wanted(&name_of(path))).cloned().collect();
    let wanted = WORKLOADS.iter().filter(|w| is_wanted(w.trace));
    let traces: Vec<PathBuf> = wanted.map(|w| options.traces.join(format!("{}.tsv.zst", w.trace))).collect();
    if let Some(missing) = traces.iter().find(|path| !path.is_file()) {
        return Err(format!("{} does not exist; give the folder of the recorded traces by --traces", missing.display()));
    }
    let live = options.live.as_deref().map(Live::read).transpose()?.unwrap_or_default();
    // Fail before an hour's work rather than after it.
    std::fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    let began = Instant::now();
    let mut jobs = jobs(&traces)?;
    jobs.extend(jobs_of_recorded(&recorded)?);
    jobs.retain(|job| options.schemes.is_empty() || options.schemes.contains(&job.plan.scheme));
    let (runs, mut failures) = run(&jobs, options.threads);
    let made = PHONES.into_iter().filter(|_| options.made_writes > 0).map(|phone| Subject::Made(phone, options.made_writes));
    let subjects: Vec<Subject> = traces.into_iter().chain(recorded).map(Subject::Recorded).chain(made).collect();
    let (studies, failed) = study(&subjects, options.threads);
    failures.extend(failed);
    let naming = Naming::measure();
    let made = RunFacts {
        threads: options.threads,
        wall_seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: runs.iter().map(|t| t.cpu_seconds).sum(),
        peak_resident_bytes: peak_resident_bytes(),
        complete: options.only.is_empty() && options.schemes.is_empty(),
    };
    let results = Results { runs, studies, failures, made };
    let targets = judge(&results, write_ratios);
    let json = json!({
        "version": VERSION,
        "report": "papers",
        "made": results.made,
        "targets": targets,
        "against_published": rows(&results, &naming),
        "smart_dedup": { "studies": results.studies, "naming": naming, "live": live },
        "failures": results.failures,
        "runs": results.runs,
    });
    write(&options.out, "results.json", &(json.to_string() + "\n"))?;
    write(&options.out, "results.csv", &csv::csv(&results))?;
    write(&options.out, "index.html", &page::page(&results, &targets, &naming))?;
    write(&options.out, "smartdedup.html", &smartdedup::page::page(&results, &live, &naming))?;
    Ok(targets)
}

/// Lists the folders there, in the order of their names.
fn recorded(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_folder = |path: &PathBuf| path.is_dir() && !name_of(path).is_empty();
    let mut folders: Vec<PathBuf> = found.filter(is_folder).collect();
    folders.sort();
    folders
}

fn write(out: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = out.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Reads the peak memory from `/proc/self/status`.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
