//! `crash`: explores for some time on all cores, prints what was covered, and shows the shortest history of each violation.

use crate::explorer::explore::Explorer;
use crate::explorer::kind::Kind;
use crate::explorer::options::Modes;
use crate::explorer::states::Coverage;
use crate::ground::record;
use crate::ground::violation::Violation;
use crate::ground::watchdog;
use crate::ground::words::{above_zero, minutes, number};
use onefold_engine::format::CommitMode;
use std::io;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The coverage that half an hour on two cores has to reach ("Done when" 2 of the plan): distinct states, device events under the set
/// checker, and states in each cell of the tables.
const FULL_MINUTES: f64 = 30.0;
const DISTINCT_LEAST: u64 = 1_000_000;
const CHECKED_LEAST: u64 = 10_000_000;
const CELL_LEAST: u64 = 1000;

/// After a violation was found: the time in which to find it again with a shorter history, and the number of histories to compare.
const SHORTER: Duration = Duration::from_secs(10);
const COMPARED: usize = 12;

/// The time by which the last runs may exceed the given duration.
const LATE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
struct Arguments {
    seed: u64,
    only: Option<u64>,
    /// The only kind of runs that are made; the others are skipped.
    kind: Option<Kind>,
    minutes: f64,
    threads: usize,
    /// The number of lines of history that are shown.
    lines: usize,
    /// Whether to go on after a violation was found.
    all: bool,
    modes: Modes,
}

/// Runs `crash [--minutes N] [--seed N] [--threads N] [--only RUN] [--lines N] [--all] [--kind NAME]
/// [--commit-mode ordered|log|any]`.
///
/// # Errors
/// Fails if an argument is invalid.
pub fn command(words: &[String]) -> io::Result<ExitCode> {
    let arguments = parse(words).map_err(io::Error::other)?;
    if let Some(run) = arguments.only {
        return Ok(report_run(&arguments, run));
    }
    let (coverage, mut found) = explore(&arguments);
    println!("{}", coverage.table(arguments.modes));
    println!(
        "seed {}: {} runs, {} states opened, {} distinct, {} device events, {} of them under the set checker; {} stops enumerated to the \
         last metadata state; {} lives with something spoilt, noticed in {}; {} scrubs believed, {} volumes changed offline; {} containers \
         opened",
        arguments.seed,
        coverage.runs,
        coverage.opened,
        coverage.distinct(),
        coverage.device_events,
        coverage.checked_events,
        coverage.enumerated,
        coverage.spoilt,
        coverage.spoilt_found,
        coverage.scrubbed,
        coverage.offline,
        coverage.containers
    );
    found.sort_by_key(|(run, _)| *run);
    let kinds = by_kind(&found);
    for (violation, runs) in &kinds {
        println!("VIOLATION in {} runs, first in {}: {violation}", runs.len(), runs[0]);
    }
    if let Some((_, runs)) = kinds.first() {
        let shortest = runs.iter().take(COMPARED).min_by_key(|&&run| history(&arguments, run).1.len());
        return Ok(report_run(&arguments, *shortest.expect("a kind has runs")));
    }
    Ok(if covers(&coverage, &arguments) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = Arguments {
        seed: 1,
        only: None,
        kind: None,
        minutes: 1.0,
        threads,
        lines: 120,
        all: false,
        modes: Modes::One(CommitMode::Ordered),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => arguments.seed = number(word, words.next())?,
            "--only" => arguments.only = Some(number(word, words.next())?),
            "--kind" => arguments.kind = Some(kind(words.next().map_or("", String::as_str))?),
            "--minutes" => arguments.minutes = minutes(word, words.next())?,
            "--threads" => arguments.threads = above_zero::<usize>(word, words.next())?.min(watchdog::THREADS_MAX),
            "--lines" => arguments.lines = number(word, words.next())?,
            "--all" => arguments.all = true,
            "--commit-mode" => {
                let name = words.next().map_or("", String::as_str);
                arguments.modes = match name {
                    "ordered" => Modes::One(CommitMode::Ordered),
                    "log" => Modes::One(CommitMode::Log),
                    "any" => Modes::Any,
                    _ => return Err(format!("--commit-mode {name}: there are ordered, log and any")),
                };
            }
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(arguments)
}

fn kind(name: &str) -> Result<Kind, String> {
    let known = || Kind::ALL.map(Kind::name).join(", ");
    Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("--kind {name}: there are {}", known()))
}

/// Mixes a run's number into the seed.
#[must_use]
pub fn seed_of(seed: u64, run: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ run.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 29)
}

fn again(modes: Modes, seed: u64, run: u64) -> String {
    let mode = match modes {
        Modes::One(CommitMode::Ordered) => "",
        Modes::One(CommitMode::Log) => " --commit-mode log",
        Modes::Any => " --commit-mode any",
    };
    format!("again: cargo run --release -p onefold-sim -- crash{mode} --seed {seed} --only {run}")
}

fn explore(arguments: &Arguments) -> (Coverage, Vec<(u64, Violation)>) {
    let (modes, seed) = (arguments.modes, arguments.seed);
    watchdog::watch(move |run| {
        println!("VIOLATION in run {run}: a step never ends");
        println!("{}", again(modes, seed, run));
        std::process::exit(1);
    });
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let found: Mutex<Vec<(u64, Violation)>> = Mutex::new(Vec::new());
    let coverage = Mutex::new(Coverage::default());
    let end = Mutex::new(Instant::now() + Duration::from_secs_f64(arguments.minutes * 60.0));
    std::thread::scope(|scope| {
        for number in 0..arguments.threads {
            let (stop, next, found, coverage, end) = (&stop, &next, &found, &coverage, &end);
            scope.spawn(move || {
                let mut explorer = match Explorer::new(arguments.modes) {
                    Ok(explorer) => explorer,
                    Err(violation) => {
                        stop.store(true, Ordering::Relaxed);
                        return found.lock().expect("no panic").push((u64::MAX, violation));
                    }
                };
                explorer.kind = arguments.kind;
                explorer.deadline = Some(*end.lock().expect("no panic") + LATE);
                let (began, mut minutes) = (Instant::now(), 0);
                while !stop.load(Ordering::Relaxed) && Instant::now() < *end.lock().expect("no panic") {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    watchdog::begin(number, run);
                    if let Err(violation) = explorer.run(seed_of(seed, run)) {
                        eprintln!("run {run}: {violation}");
                        found.lock().expect("no panic").push((run, violation));
                        if !arguments.all {
                            let mut end = end.lock().expect("no panic");
                            *end = (*end).min(Instant::now() + SHORTER);
                        }
                    }
                    watchdog::end();
                    let now = began.elapsed().as_secs() / 60;
                    if number == 0 && now > minutes {
                        minutes = now;
                        eprintln!("{minutes} min: {} runs, violations in {}", run + 1, found.lock().expect("no panic").len());
                    }
                }
                coverage.lock().expect("no panic").add(explorer.coverage);
            });
        }
    });
    (coverage.into_inner().expect("no panic"), found.into_inner().expect("no panic"))
}

/// Groups violations that differ only in their numbers; the most frequent first.
fn by_kind(found: &[(u64, Violation)]) -> Vec<(&Violation, Vec<u64>)> {
    let kind_of = |v: &Violation| v.0.chars().filter(|c| !c.is_ascii_digit()).take(50).collect::<String>();
    let mut kinds: Vec<(String, &Violation, Vec<u64>)> = Vec::new();
    for (run, violation) in found {
        let kind = kind_of(violation);
        match kinds.iter_mut().find(|(k, _, _)| *k == kind) {
            Some((_, _, runs)) => runs.push(*run),
            None => kinds.push((kind, violation, vec![*run])),
        }
    }
    kinds.sort_by_key(|(_, _, runs)| std::cmp::Reverse(runs.len()));
    kinds.into_iter().map(|(_, violation, runs)| (violation, runs)).collect()
}

/// Runs one run again and returns what it found and its history.
fn history(arguments: &Arguments, run: u64) -> (Result<(), Violation>, Vec<String>) {
    let mut explorer = match Explorer::new(arguments.modes) {
        Ok(explorer) => explorer,
        Err(violation) => return (Err(violation), Vec::new()),
    };
    record::begin();
    watchdog::begin(0, run);
    let result = explorer.run(seed_of(arguments.seed, run));
    watchdog::end();
    (result, record::end())
}

fn show(lines: &[String], most: usize) {
    if let Some(options) = lines.first() {
        println!("{options}");
    }
    let from = lines.len().saturating_sub(most).max(1);
    if from > 1 {
        println!("... {} lines before", from - 1);
    }
    lines.iter().skip(from).for_each(|line| println!("{line}"));
}

fn report_run(arguments: &Arguments, run: u64) -> ExitCode {
    let (modes, seed, most) = (arguments.modes, arguments.seed, arguments.lines);
    if arguments.only.is_some() {
        watchdog::watch(move |run| {
            show(&record::end(), most);
            println!("VIOLATION in run {run}: a step never ends");
            std::process::exit(1);
        });
    }
    let (result, lines) = history(arguments, run);
    show(&lines, most);
    match result {
        Ok(()) => {
            println!("run {run} of seed {seed} found nothing");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("VIOLATION in run {run}: {violation}");
            println!("{}", again(modes, seed, run));
            ExitCode::FAILURE
        }
    }
}

/// Returns whether enough was covered. Shorter runs only report what is thin.
fn covers(coverage: &Coverage, arguments: &Arguments) -> bool {
    let full = arguments.minutes >= FULL_MINUTES;
    let least = if full { CELL_LEAST } else { 1 };
    let thin = coverage.thin(least, arguments.modes);
    if !thin.is_empty() {
        println!("cells under {least}: {}", thin.join("; "));
    }
    let enough = thin.is_empty() && coverage.distinct() >= DISTINCT_LEAST && coverage.checked_events >= CHECKED_LEAST;
    println!(
        "no violation; {DISTINCT_LEAST} distinct states, {CHECKED_LEAST} checked events, {CELL_LEAST} states a cell: {}",
        match (full, enough) {
            (true, true) => "reached",
            (true, false) => "NOT REACHED",
            (false, _) => "required only of 30 minutes",
        }
    );
    enough || !full
}
