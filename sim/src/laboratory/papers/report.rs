//! The report: every replay that was asked for, the targets that it is judged by, and the files of results and pages.

use crate::laboratory::index::naming::Naming;
use crate::laboratory::papers::pages::evaluation::rows;
use crate::laboratory::papers::pages::target::Target;
use crate::laboratory::papers::pages::targets::judge;
use crate::laboratory::papers::results::{Results, RunFacts};
use crate::laboratory::papers::studies::app_dedupe::live::LoadCosts;
use crate::laboratory::papers::studies::contents::contents;
use crate::laboratory::papers::studies::hints::live::HintsLive;
use crate::laboratory::papers::studies::live_figures::LiveFigures;
use crate::laboratory::papers::studies::matrix::{ReplayJob, jobs, jobs_of_recorded, run};
use crate::laboratory::papers::studies::parallel::Failure;
use crate::laboratory::papers::studies::recorded::RecordedFigures;
use crate::laboratory::papers::studies::smartdedup::live::Live;
use crate::laboratory::papers::studies::smartdedup::study::{Subject, study};
use crate::laboratory::papers::studies::workloads::{WORKLOADS, Workload, of_trace};
use crate::laboratory::papers::studies::{app_dedupe, hints, smartdedup};
use crate::laboratory::papers::verdict::Tally;
use crate::laboratory::papers::{pages, stored};
use crate::laboratory::replay::scheme::Scheme;
use crate::laboratory::replay::timed::name_of;
use onefold_trace::synth::phone::PHONES;
use std::path::{Path, PathBuf};
use std::time::Instant;

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
    /// The block writes of Using Hints' dd, of which the size of its other loads follows; nothing of it is replayed with 0.
    pub hint_writes: u64,
    /// The folder of the loads of applications; nothing of APP-Dedupe is replayed without one.
    pub loads: Option<PathBuf>,
    /// The file of what was measured live, if there is one.
    pub live: Option<PathBuf>,
    /// The file of Using Hints' Table 1 as measured live, if there is one.
    pub live_hints: Option<PathBuf>,
    /// The file of what the loads cost live, if there is one.
    pub live_loads: Option<PathBuf>,
    /// The file of OrderMergeDedup's run times as measured live, if there is one.
    pub live_figures: Option<PathBuf>,
    /// The table of recorded figures, if there is one.
    pub figures: Option<PathBuf>,
    /// The results of an earlier report: only what they lack is replayed.
    pub stored: Option<PathBuf>,
    /// Replay nothing at all.
    pub replays_nothing: bool,
    /// The name of the program's revision, for the pages.
    pub revision: Option<String>,
    pub threads: usize,
}

/// The traces of a report.
struct Traces {
    shipped: Vec<PathBuf>,
    recorded: Vec<PathBuf>,
    loads: Vec<PathBuf>,
}

impl Traces {
    /// Finds what is asked for.
    ///
    /// # Errors
    /// Fails if a trace has no such name, or is not there.
    fn find(options: &Options) -> Result<Self, String> {
        let recorded = recorded(&options.recorded);
        let known =
            || WORKLOADS.iter().map(|w| w.trace.to_owned()).chain(recorded.iter().map(|path| name_of(path))).collect::<Vec<_>>().join(", ");
        let is_known = |name: &str| of_trace(name).is_some() || recorded.iter().any(|path| name_of(path) == name);
        if let Some(unknown) = options.only.iter().find(|name| !is_known(name)) {
            return Err(format!("no recorded trace is called {unknown}; the known traces are {}", known()));
        }
        let is_wanted = |trace: &str| options.only.is_empty() || options.only.iter().any(|name| name == trace);
        let wanted = WORKLOADS.iter().filter(|w| is_wanted(w.trace));
        let shipped: Vec<PathBuf> = wanted.map(|w| options.traces.join(format!("{}.tsv.zst", w.trace))).collect();
        if let Some(missing) = shipped.iter().find(|path| !path.is_file()) {
            return Err(format!("{} does not exist; give the folder of the recorded traces by --traces", missing.display()));
        }
        let recorded = recorded.into_iter().filter(|path| is_wanted(&name_of(path))).collect();
        let loads = options.loads.as_deref().map(app_dedupe::runs::loads).transpose()?.unwrap_or_default();
        Ok(Self { shipped, recorded, loads })
    }

    fn jobs(&self, options: &Options) -> Result<Vec<ReplayJob>, String> {
        let mut jobs = jobs(&self.shipped)?;
        jobs.extend(jobs_of_recorded(&self.recorded)?);
        jobs.retain(|job| options.schemes.is_empty() || options.schemes.contains(&job.plan.scheme));
        Ok(jobs)
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.shipped.iter().chain(&self.recorded)
    }
}

/// Replays the traces, writes the report, and judges it; `ordered` by these write ratios.
///
/// # Errors
/// Fails if a trace has no such name, a file that is named is no such file, or the report cannot be written. A replay that fails is a
/// missed target.
pub fn report(options: &Options, own_model: &[(&str, f64)]) -> Result<Vec<Target>, String> {
    let traces = if options.replays_nothing { None } else { Some(Traces::find(options)?) };
    let mut results = options.stored.as_deref().map(stored::read).transpose()?.unwrap_or_default();
    if let Some(live) = &options.live {
        results.live = Live::read(live)?;
    }
    if let Some(live) = &options.live_hints {
        results.hints_live = HintsLive::read(live)?;
    }
    if let Some(live) = &options.live_loads {
        results.load_costs = LoadCosts::read(live)?;
    }
    if let Some(live) = &options.live_figures {
        results.live_figures = LiveFigures::read(live)?;
    }
    if let Some(figures) = &options.figures {
        results.recorded = RecordedFigures::read(figures)?;
    }
    // Fail before an hour's work rather than after it.
    std::fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    if let Some(traces) = &traces {
        replay_what_lacks(&mut results, traces, options)?;
    }
    let targets = judge(&results, own_model);
    let rows = rows(&results);
    let tally = Tally::of(&rows);
    write(&options.out, "results.json", &stored::json(&results, &targets, &rows))?;
    write(&options.out, "results.csv", &pages::csv::csv(&results))?;
    write(&options.out, "index.html", &pages::page::page(&results, &targets, tally))?;
    write(&options.out, "hints.csv", &pages::hints::csv::csv(&results.hints))?;
    write(&options.out, "hints.html", &pages::hints::page::page(&results, tally)?)?;
    write(&options.out, "app-dedupe.csv", &pages::app_dedupe::csv::csv(&results.loads))?;
    write(&options.out, "app-dedupe.html", &pages::app_dedupe::page::page(&results, tally))?;
    write(&options.out, "smartdedup.html", &pages::smartdedup::page::page(&results, tally))?;
    Ok(targets)
}

/// Replays, counts and studies what the results lack, and puts everything in the order of the traces.
fn replay_what_lacks(results: &mut Results, traces: &Traces, options: &Options) -> Result<(), String> {
    let began = Instant::now();
    let is_new = results.runs.is_empty();
    let wanted = traces.jobs(options)?;
    let lacking: Vec<ReplayJob> = wanted.iter().filter(|job| !results.runs.iter().any(|run| job.is_of(run))).cloned().collect();
    let (runs, mut failures) = run(&lacking, options.threads);
    results.runs.extend(runs);
    let counted: Vec<PathBuf> = traces.all().filter(|path| results.contents_of(&name_of(path)).is_none()).cloned().collect();
    let (contents, failed) = contents(&counted, options.threads);
    results.contents.extend(contents);
    failures.extend(failed);
    let made = PHONES.into_iter().filter(|_| options.made_writes > 0).map(|phone| Subject::Made(phone, options.made_writes));
    let mut subjects: Vec<Subject> = traces.all().cloned().map(Subject::Recorded).chain(made).collect();
    subjects.retain(|subject| !results.studies.iter().any(|study| study.trace == subject.name()));
    let (studies, failed) = study(&subjects, options.threads);
    results.studies.extend(studies);
    failures.extend(failed);
    let lacks_hints = options.hint_writes > 0 && results.hints.is_empty();
    if lacks_hints {
        let (runs, failed) = hints::runs::run(options.hint_writes, options.threads);
        results.hints = runs;
        failures.extend(failed);
    }
    let lacks_rivals = options.hint_writes > 0 && results.rivals.is_empty();
    if lacks_rivals {
        let (runs, failed) = smartdedup::rivals::run(options.hint_writes, options.threads);
        results.rivals = runs;
        failures.extend(failed);
    }
    let lacks_loads = replay_loads(results, traces, options.threads, &mut failures);
    results.failures = failures;
    results.sort();
    let earlier = std::mem::take(&mut results.made);
    if lacking.is_empty() && subjects.is_empty() && !lacks_hints && !lacks_rivals && !lacks_loads && !is_new {
        results.made = earlier;
        return Ok(());
    }
    // It goes with the studies: earlier ones keep the machine's speed that they were reported with.
    if is_new || !subjects.is_empty() {
        results.naming = Naming::measure();
    }
    results.made = RunFacts {
        threads: options.threads,
        wall_seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: results.runs.iter().map(|t| t.cpu_seconds).sum(),
        peak_resident_bytes: peak_resident_bytes(),
        complete: is_complete(results, options)?,
        commands: 1,
        revisions: options.revision.iter().cloned().collect(),
    };
    results.made.add(&earlier);
    Ok(())
}

/// Replays the loads and the access patterns that the results lack, and returns whether they lacked any.
fn replay_loads(results: &mut Results, traces: &Traces, threads: usize, failures: &mut Vec<Failure>) -> bool {
    let known = app_dedupe::runs::names(&results.loads);
    let lacking: Vec<PathBuf> = traces.loads.iter().filter(|load| !known.contains(&name_of(load).as_str())).cloned().collect();
    let lacks_access = !traces.loads.is_empty() && results.access.is_empty();
    let (runs, failed) = app_dedupe::runs::run(&lacking, threads);
    results.loads.extend(runs);
    failures.extend(failed);
    if !lacking.is_empty() {
        match app_dedupe::parts::study(&traces.loads, threads) {
            Ok(study) => results.parts = study,
            Err(error) => failures.push(Failure { replay: "loads, the index in parts".to_owned(), error }),
        }
    }
    if lacks_access {
        let (runs, failed) = app_dedupe::access::run(threads);
        results.access = runs;
        failures.extend(failed);
    }
    !lacking.is_empty() || lacks_access
}

/// Returns whether all traces of the set were replayed on all schemes.
fn is_complete(results: &Results, options: &Options) -> Result<bool, String> {
    let everything = Options { only: Vec::new(), schemes: Vec::new(), ..options.clone() };
    let jobs = Traces::find(&everything).and_then(|traces| traces.jobs(&everything))?;
    let is_studied = |w: &Workload| results.studies.iter().any(|study| study.trace == w.trace);
    let is_replayed = |job: &ReplayJob| results.runs.iter().any(|run| job.is_of(run));
    Ok(results.failures.is_empty() && WORKLOADS.iter().all(is_studied) && jobs.iter().all(is_replayed))
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
