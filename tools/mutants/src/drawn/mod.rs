//! Mutation without choosing: all single-place changes of the engine that `cargo mutants` ([`listed`]) and the syntax tree ([`syntax`]) offer, drawn
//! by a seed, each tried against tests and explorer ([`trial`]).
//!
//! 1. The list is sorted and the draw follows from it and the seed alone, so the same tree and seed draw the same mutants.
//! 2. The first N of the draw that build are tried: one that does not build is no mutant.
//! 3. The score leaves out those that `sim/mutants/equivalent.tsv` explains: nobody can tell them from the engine as it is.

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
use results::{Results, Verdict};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use trial::Bench;
use twox_hash::XxHash3_64;

const ENGINE: &str = "engine/src";
const PLACE: &str = "target/mutants/drawn";
/// The exploration of one that the engine's tests let pass, in minutes.
const MINUTES: f64 = 1.0;

struct Wanted {
    mutants: usize,
    seed: u64,
    minutes: f64,
    jobs: usize,
    baseline: bool,
    /// The kit's own tests too.
    kit: bool,
    /// Only these ids, in place of a draw.
    only: Vec<String>,
    lists: bool,
    /// What was found before is forgotten.
    anew: bool,
    /// The score, in percent, below which the command fails.
    least: f64,
}

/// `mutants --random N [--seed S] …`, from the repository's root.
///
/// # Errors
/// When an argument is none, the copies cannot be made, or the unchanged tree fails.
pub fn command(words: &[String]) -> io::Result<ExitCode> {
    let wanted = parse(words).map_err(io::Error::other)?;
    let mut changes = listed::changes()?;
    let of_cargo = changes.len();
    changes.extend(syntax::changes(Path::new(ENGINE))?);
    let all = mutation::mutations(changes)?;
    let equivalent = Equivalent::read(Path::new("sim/mutants/equivalent.tsv"), &all)?;
    let code = hash(all.iter().map(|mutation| mutation.id.as_bytes()));
    println!("{} mutants of {ENGINE}: cargo mutants lists {of_cargo}, the syntax tree offers the others", all.len());
    let drawn = if wanted.only.is_empty() { draw(all, wanted.seed) } else { named(all, &wanted.only)? };
    if wanted.lists {
        for mutation in drawn.iter().take(wanted.mutants) {
            print!("{} {}\n{}", mutation.id, mutation.place(), mutation.diff());
        }
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(PLACE)?;
    let path = Path::new(PLACE).join("results.tsv");
    if wanted.anew && path.exists() {
        fs::remove_file(&path)?;
    }
    let run = Run { drawn: &drawn, equivalent: &equivalent, wanted: &wanted };
    let mut progress = Progress { next: 0, under_way: 0, tried: Vec::new(), results: Results::open(&path, code, tree(&wanted)?)? };
    run.all(&mut progress)?;
    let tried: Vec<&Mutation> = progress.tried.iter().map(|&at| &drawn[at]).collect();
    let table = table::Table::of(&tried, &equivalent, &progress.results);
    print!("{table}");
    Ok(if table.score() >= wanted.least { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Workers on one list.
struct Run<'a> {
    drawn: &'a [Mutation],
    equivalent: &'a Equivalent,
    wanted: &'a Wanted,
}

struct Progress {
    /// The next of the list, and how many of those before are on trial.
    next: usize,
    under_way: usize,
    /// Those that count, as places in the list.
    tried: Vec<usize>,
    results: Results,
}

impl Run<'_> {
    /// Tries mutants until as many count as are wanted.
    fn all(&self, progress: &mut Progress) -> io::Result<()> {
        let shared = Mutex::new(progress);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.wanted.jobs).map(|job| (job, &shared)).collect();
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
                None => bench.insert(Bench::new(&self.place(job), self.wanted, self.wanted.baseline && job == 0)?),
            };
            let outcome = bench.try_mutation(mutation)?;
            println!("{}", table::line(mutation, &outcome));
            let mut progress = lock();
            progress.under_way -= 1;
            if outcome.verdict != Verdict::Unbuildable {
                progress.tried.push(at);
            }
            progress.results.add(&mutation.id, outcome)?;
        }
    }

    /// The next that has to be tried. What is known already, or explained, is passed by and counts.
    fn next(&self, progress: &mut Progress) -> Option<usize> {
        while progress.tried.len() + progress.under_way < self.wanted.mutants {
            let at = progress.next;
            let mutation = self.drawn.get(at)?;
            progress.next += 1;
            let known = progress.results.of(&mutation.id).map(|outcome| &outcome.verdict);
            let is_asked_for = !self.wanted.only.is_empty();
            if is_asked_for || (known.is_none() && self.equivalent.why(&mutation.id).is_none()) {
                progress.under_way += 1;
                return Some(at);
            }
            if known != Some(&Verdict::Unbuildable) {
                progress.tried.push(at);
            }
        }
        None
    }

    fn place(&self, job: usize) -> PathBuf {
        Path::new(PLACE).join(job.to_string())
    }
}

/// All of them, in the order that the seed says.
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

/// A hash of all that decides what becomes of a mutant: sources, and how it is tried.
fn tree(wanted: &Wanted) -> io::Result<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "engine", "sim/src", "sim/tests", "docs/format.md"])
        .output()?;
    let names = text(&listed.stdout);
    let contents: Vec<Vec<u8>> = names.split('\0').filter_map(|name| Some([name.as_bytes(), &fs::read(name).ok()?].concat())).collect();
    let trial = format!("{} {}", wanted.minutes, wanted.kit);
    Ok(hash(contents.iter().map(Vec::as_slice).chain([trial.as_bytes()])))
}

fn parse(words: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
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
            "--random" => wanted.mutants = above_zero(word, words.next())?,
            "--seed" => wanted.seed = number(word, words.next())?,
            "--minutes" => wanted.minutes = minutes(word, words.next())?,
            "--jobs" => wanted.jobs = above_zero(word, words.next())?,
            "--only" => wanted.only.push(words.next().ok_or("--only wants an id")?.clone()),
            "--least" => wanted.least = number(word, words.next())?,
            "--list" => wanted.lists = true,
            "--kit" => wanted.kit = true,
            "--anew" => wanted.anew = true,
            "--no-baseline" => wanted.baseline = false,
            other => return Err(format!("--random: what is '{other}'? ./dev mutants --help says more")),
        }
    }
    wanted.mutants = wanted.mutants.max(wanted.only.len());
    Ok(wanted)
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
    fn others_take_the_place_of_those_that_do_not_build() {
        let place = tempfile::tempdir().expect("a folder");
        let mut results = Results::open(&place.path().join("results"), String::new(), String::new()).expect("there is none");
        let mut known = |id: &str, verdict| results.add(id, Outcome { verdict, took: Duration::ZERO }).expect("it is written");
        known("0", Verdict::Unbuildable);
        known("1", Verdict::Survived);
        known("3", Verdict::Caught(String::new()));
        let drawn: Vec<Mutation> = (0..10).map(mutation).collect();
        let wanted = parse(&["--random", "4"].map(str::to_owned)).expect("words");
        let run = Run { drawn: &drawn, equivalent: &Equivalent::default(), wanted: &wanted };
        let mut progress = Progress { next: 0, under_way: 0, tried: Vec::new(), results };
        assert_eq!([0, 1, 2].map(|_| run.next(&mut progress)), [Some(2), Some(4), None], "four count, of which two were known");
        progress.under_way -= 1;
        assert_eq!(run.next(&mut progress), Some(5), "one of them did not build");
    }
}
