//! Random mutation: of all single-place changes of the engine that `cargo mutants` ([`listed`]) and the syntax tree ([`syntax`]) offer,
//! some are drawn by a seed, and each is tried against tests and explorer ([`trial`]).
//!
//! 1. The list is sorted and the draw follows from it and the seed alone, so the same tree and seed draw the same mutants.
//! 2. The first N of the draw that build are tried: a change that does not build is not a mutant.
//! 3. The score leaves out those that `sim/mutants/equivalent.tsv` explains: they cannot be distinguished from the unchanged engine.

mod equivalent;
mod listed;
mod mutation;
mod results;
mod syntax;
mod table;
mod trial;

use crate::scratch::text;
use crate::words::{above_zero, minutes, number};
use equivalent::Equivalent;
use mutation::Mutation;
use results::{Results, TrialResult};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use trial::TrialCopy;
use twox_hash::XxHash3_64;

const ENGINE: &str = "engine/src";
const PLACE: &str = "target/mutants/drawn";
/// The duration of the exploration of a mutant that passes the engine's tests, in minutes.
const MINUTES: f64 = 1.0;

struct Arguments {
    mutants: usize,
    seed: u64,
    minutes: f64,
    jobs: usize,
    baseline: bool,
    /// Whether to run the kit's own tests, too.
    kit: bool,
    /// The only ids to try, instead of a draw.
    only: Vec<String>,
    lists: bool,
    /// Whether to forget earlier results.
    anew: bool,
    /// The score, in percent, below which the command fails.
    least: f64,
}

/// Runs `mutants --random N [--seed S] …`, from the repository's root.
///
/// # Errors
/// Fails if an argument is invalid, the copies cannot be made, or the unchanged tree fails.
pub fn command(words: &[String]) -> io::Result<ExitCode> {
    let arguments = parse(words).map_err(io::Error::other)?;
    let mut changes = listed::changes()?;
    let of_cargo = changes.len();
    changes.extend(syntax::changes(Path::new(ENGINE))?);
    let all = mutation::mutations(changes)?;
    let equivalent = Equivalent::read(Path::new("sim/mutants/equivalent.tsv"), &all)?;
    let code = hash(all.iter().map(|mutation| mutation.id.as_bytes()));
    println!("{} mutants of {ENGINE}: cargo mutants lists {of_cargo}, the syntax tree offers the others", all.len());
    let drawn = if arguments.only.is_empty() { draw(all, arguments.seed) } else { named(all, &arguments.only)? };
    if arguments.lists {
        for mutation in drawn.iter().take(arguments.mutants) {
            print!("{} {}\n{}", mutation.id, mutation.place(), mutation.diff());
        }
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(PLACE)?;
    let path = Path::new(PLACE).join("results.tsv");
    if arguments.anew && path.exists() {
        fs::remove_file(&path)?;
    }
    let run = Workers { drawn: &drawn, equivalent: &equivalent, arguments: &arguments };
    let mut progress = Progress { next: 0, under_way: 0, tried: Vec::new(), results: Results::open(&path, code, tree(&arguments)?)? };
    run.all(&mut progress)?;
    let tried: Vec<&Mutation> = progress.tried.iter().map(|&at| &drawn[at]).collect();
    let table = table::Table::of(&tried, &equivalent, &progress.results);
    print!("{table}");
    Ok(if table.score() >= arguments.least { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The workers on one list.
struct Workers<'a> {
    drawn: &'a [Mutation],
    equivalent: &'a Equivalent,
    arguments: &'a Arguments,
}

struct Progress {
    /// The next mutant of the list, and the number of earlier ones that are on trial.
    next: usize,
    under_way: usize,
    /// The mutants that count, as places in the list.
    tried: Vec<usize>,
    results: Results,
}

impl Workers<'_> {
    /// Tries mutants until as many count as were asked for.
    fn all(&self, progress: &mut Progress) -> io::Result<()> {
        let shared = Mutex::new(progress);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.arguments.jobs).map(|job| (job, &shared)).collect();
            let workers: Vec<_> = workers.into_iter().map(|(job, shared)| scope.spawn(move || self.work(job, shared))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    fn work(&self, job: usize, shared: &Mutex<&mut Progress>) -> io::Result<()> {
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bench = None;
        loop {
            let Some(at) = self.next(&mut lock()) else { return Ok(()) };
            let mutation = &self.drawn[at];
            let bench = match &bench {
                Some(bench) => bench,
                None => bench.insert(TrialCopy::new(&self.place(job), self.arguments, self.arguments.baseline && job == 0)?),
            };
            let outcome = bench.try_mutation(mutation)?;
            println!("{}", table::line(mutation, &outcome));
            let mut progress = lock();
            progress.under_way -= 1;
            if outcome.verdict != TrialResult::Unbuildable {
                progress.tried.push(at);
            }
            progress.results.add(&mutation.id, outcome)?;
        }
    }

    /// Returns the next mutant that has to be tried. Those that are known already, or explained, are skipped and count.
    fn next(&self, progress: &mut Progress) -> Option<usize> {
        while progress.tried.len() + progress.under_way < self.arguments.mutants {
            let at = progress.next;
            let mutation = self.drawn.get(at)?;
            progress.next += 1;
            let known = progress.results.of(&mutation.id).map(|outcome| &outcome.verdict);
            let is_asked_for = !self.arguments.only.is_empty();
            if is_asked_for || (known.is_none() && self.equivalent.why(&mutation.id).is_none()) {
                progress.under_way += 1;
                return Some(at);
            }
            if known != Some(&TrialResult::Unbuildable) {
                progress.tried.push(at);
            }
        }
        None
    }

    fn place(&self, job: usize) -> PathBuf {
        Path::new(PLACE).join(job.to_string())
    }
}

/// Sorts all mutants into the order that the seed gives.
fn draw(mut all: Vec<Mutation>, seed: u64) -> Vec<Mutation> {
    fastrand::Rng::with_seed(seed).shuffle(&mut all);
    all
}

fn named(all: Vec<Mutation>, ids: &[String]) -> io::Result<Vec<Mutation>> {
    if let Some(id) = ids.iter().find(|id| all.iter().all(|mutation| mutation.id != **id)) {
        return Err(io::Error::other(format!("no mutant has the id {id}; --random N --list prints those of a draw")));
    }
    Ok(all.into_iter().filter(|mutation| ids.contains(&mutation.id)).collect())
}

fn hash<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    format!("{:016x}", XxHash3_64::oneshot(&parts.flat_map(|part| [part, &[0]].concat()).collect::<Vec<u8>>()))
}

/// Hashes everything that decides the fate of a mutant: the sources, and the way in which it is tried.
fn tree(arguments: &Arguments) -> io::Result<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "engine", "sim/src", "sim/tests", "docs/format.md"])
        .output()?;
    let names = text(&listed.stdout);
    let contents: Vec<Vec<u8>> = names.split('\0').filter_map(|name| Some([name.as_bytes(), &fs::read(name).ok()?].concat())).collect();
    let trial = format!("{} {}", arguments.minutes, arguments.kit);
    Ok(hash(contents.iter().map(Vec::as_slice).chain([trial.as_bytes()])))
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        mutants: 0,
        seed: 1,
        minutes: MINUTES,
        jobs: 2,
        baseline: true,
        kit: false,
        only: Vec::new(),
        lists: false,
        anew: false,
        least: 95.0,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--random" => arguments.mutants = above_zero(word, words.next())?,
            "--seed" => arguments.seed = number(word, words.next())?,
            "--minutes" => arguments.minutes = minutes(word, words.next())?,
            "--jobs" => arguments.jobs = above_zero(word, words.next())?,
            "--only" => arguments.only.push(words.next().ok_or("--only needs an id")?.clone()),
            "--least" => arguments.least = number(word, words.next())?,
            "--list" => arguments.lists = true,
            "--kit" => arguments.kit = true,
            "--anew" => arguments.anew = true,
            "--no-baseline" => arguments.baseline = false,
            other => return Err(format!("--random: unknown argument '{other}'; see ./dev mutants --help")),
        }
    }
    arguments.mutants = arguments.mutants.max(arguments.only.len());
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mutation::Change;
    use results::Outcome;
    use std::time::Duration;

    fn mutation(id: usize) -> Mutation {
        let change = Change { file: String::new(), start: 0, end: 0, replacement: String::new() };
        Mutation { id: id.to_string(), change, line: 1, old: String::new(), new: String::new() }
    }

    fn order(seed: u64) -> Vec<String> {
        draw((0..100).map(mutation).collect(), seed).into_iter().map(|mutation| mutation.id).collect()
    }

    #[test]
    fn a_seed_draws_the_same_each_time() {
        assert_eq!(order(1), order(1));
        assert!(order(1) != order(2));
    }

    #[test]
    fn mutants_that_do_not_build_are_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let mut results = Results::open(&place.path().join("results"), String::new(), String::new()).expect("there is none");
        let mut known = |id: &str, verdict| results.add(id, Outcome { verdict, took: Duration::ZERO }).expect("it is written");
        known("0", TrialResult::Unbuildable);
        known("1", TrialResult::Survived);
        known("3", TrialResult::Caught(String::new()));
        let drawn: Vec<Mutation> = (0..10).map(mutation).collect();
        let arguments = parse(&["--random", "4"].map(str::to_owned)).expect("words");
        let run = Workers { drawn: &drawn, equivalent: &Equivalent::default(), arguments: &arguments };
        let mut progress = Progress { next: 0, under_way: 0, tried: Vec::new(), results };
        assert_eq!([0, 1, 2].map(|_| run.next(&mut progress)), [Some(2), Some(4), None], "four count, of which two were known");
        progress.under_way -= 1;
        assert_eq!(run.next(&mut progress), Some(5), "one of them did not build");
    }
}
