//! Named mutants. Each patch under `sim/mutants` breaks one rule, in a scratch copy; the explorer has to find the fault: in mode `ordered`
//! or, for those in the folder `log`, in the log's mode. If the text of a patch names a `cargo test …`, that test has to fail instead.
//!
//! 1. The copy holds the files that git tracks or does not ignore, so no part of a mutant can get into the tree.
//! 2. The unchanged copy is explored first, in each mode: if that finds a fault, no mutant proves anything.
//! 3. A mutant that does not build, or that is not found in time, is a failure of the kit.

use crate::scratch::{Scratch, text};
use crate::words::{above_zero, minutes, number};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The explorer's time for each mutant, in minutes.
const MINUTES: f64 = 2.0;

/// The folders of patches, and the mode in which each is explored.
const HUNTS: [(&str, &str); 2] = [("", "ordered"), ("log", "log")];

/// A patch, and the way to find its fault.
struct Mutant {
    name: String,
    patch: PathBuf,
    mode: &'static str,
    /// The arguments of the `cargo test` that has to find it, instead of the explorer.
    test: Option<Vec<String>>,
}

struct Arguments {
    only: Vec<String>,
    seed: u64,
    minutes: f64,
    jobs: usize,
    baseline: bool,
}

/// Runs `mutants [NAME...] [--seed N] [--minutes N] [--jobs N] [--no-baseline]`, from the repository's root.
///
/// # Errors
/// Fails if the copy cannot be made, or an argument is invalid.
pub fn command(words: &[String]) -> io::Result<ExitCode> {
    let arguments = parse(words).map_err(io::Error::other)?;
    let mut mutants = Vec::new();
    for (folder, mode) in HUNTS {
        mutants.extend(mutants_in(folder, mode)?);
    }
    let mutants = chosen(mutants, &arguments.only)?;
    if arguments.baseline {
        let place = place(0)?;
        place.refresh()?;
        let built = place.build()?;
        if !built.status.success() {
            return Err(io::Error::other(format!("the unchanged tree does not build:\n{}", text(&built.stderr))));
        }
        for (_, mode) in HUNTS.iter().filter(|(_, mode)| mutants.iter().any(|mutant| mutant.mode == *mode)) {
            if let Some(found) = place.explore(mode, arguments.seed, arguments.minutes)?.violation {
                return Err(io::Error::other(format!("the unchanged tree breaks a promise itself, so no mutant proves anything: {found}")));
            }
            println!("unchanged, mode {mode}: nothing found in {} minutes", arguments.minutes);
        }
    }
    let queue = Mutex::new(mutants.iter());
    let (passed, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |job: usize| -> io::Result<()> {
        let place = place(job)?;
        while let Some(mutant) = { queue.lock().unwrap_or_else(PoisonError::into_inner).next() } {
            let name = &mutant.name;
            match place.try_mutant(mutant, &arguments)? {
                Ok(line) => {
                    passed.fetch_add(1, Ordering::Relaxed);
                    println!("caught   {name}: {line}");
                }
                Err(line) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    println!("MISSED   {name}: {line}");
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs).map(|job| scope.spawn(move || work(job))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let (passed, failed) = (passed.into_inner(), failed.into_inner());
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes a worker's copy of the tree.
fn place(job: usize) -> io::Result<Scratch> {
    Scratch::new(&Path::new("target/mutants/named").join(job.to_string()))
}

/// Lists the mutants of one folder, by name.
fn mutants_in(folder: &str, mode: &'static str) -> io::Result<Vec<Mutant>> {
    let place = Path::new("sim/mutants").join(folder);
    let mut patches: Vec<PathBuf> = fs::read_dir(place)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    patches.retain(|p| p.extension() == Some(OsStr::new("patch")));
    patches.sort();
    let mutant = |patch: PathBuf| {
        let stem = Path::new(folder).join(patch.file_stem().expect("a patch has a name"));
        let test = test_of(&fs::read_to_string(&patch)?);
        Ok(Mutant { name: stem.to_string_lossy().into_owned(), patch, mode, test })
    };
    patches.into_iter().map(mutant).collect()
}

/// Returns the test that the text of a patch names, if it names one.
fn test_of(patch: &str) -> Option<Vec<String>> {
    let words = patch.split("\ndiff ").next()?;
    let (_, test) = words.split_once("`cargo test ")?;
    Some(test.split('`').next()?.split_whitespace().map(str::to_owned).collect())
}

/// Returns the mutants with these names; all of them without names.
fn chosen(mut mutants: Vec<Mutant>, only: &[String]) -> io::Result<Vec<Mutant>> {
    if let Some(name) = only.iter().find(|name| mutants.iter().all(|mutant| mutant.name != **name)) {
        let names: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
        return Err(io::Error::other(format!("no mutant is called {name}; the known mutants are {}", names.join(", "))));
    }
    mutants.retain(|mutant| only.is_empty() || only.contains(&mutant.name));
    Ok(mutants)
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments { only: Vec::new(), seed: 1, minutes: MINUTES, jobs: 2, baseline: true };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => arguments.seed = number(word, words.next())?,
            "--minutes" => arguments.minutes = minutes(word, words.next())?,
            "--jobs" => arguments.jobs = above_zero(word, words.next())?,
            "--no-baseline" => arguments.baseline = false,
            name if name.starts_with("--") => return Err(format!("unknown option {name}")),
            name => arguments.only.push(name.to_owned()),
        }
    }
    Ok(arguments)
}

impl Scratch {
    fn try_mutant(&self, mutant: &Mutant, arguments: &Arguments) -> io::Result<Result<String, String>> {
        self.refresh()?;
        let applied = Command::new("patch")
            .args(["-p1", "--quiet", "--no-backup-if-mismatch", "-i"])
            .arg(std::path::absolute(&mutant.patch)?)
            .current_dir(&self.copy)
            .output()?;
        if !applied.status.success() {
            return Ok(Err(format!("the patch does not apply: {}", text(&applied.stdout).trim())));
        }
        let built = match &mutant.test {
            Some(test) => self.cargo(["test", "--no-run"].into_iter().chain(test.iter().map(String::as_str)))?,
            None => self.build()?,
        };
        if !built.status.success() {
            return Ok(Err(format!("it does not build:\n{}", text(&built.stderr))));
        }
        let found = match &mutant.test {
            Some(test) => self.test(test)?,
            None => self.explore(mutant.mode, arguments.seed, arguments.minutes)?,
        };
        Ok(match (found.violation, &mutant.test) {
            (Some(what), _) => Ok(format!("after {:.1} s{what}", found.took.as_secs_f64())),
            (None, Some(test)) => Err(format!("cargo test {} passes", test.join(" "))),
            (None, None) => Err(format!("nothing found in {} minutes", arguments.minutes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_reported() {
        let all = || ["r1", "log/l2"].map(|name| Mutant { name: name.to_owned(), patch: PathBuf::new(), mode: "log", test: None }).into();
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            chosen(all(), &only).map(|mutants| mutants.len()).map_err(|e| e.to_string())
        };
        assert_eq!((names(&[]), names(&["log/l2"])), (Ok(2), Ok(1)));
        assert_eq!(names(&["r1", "l2"]), Err("no mutant is called l2; the known mutants are r1, log/l2".to_owned()));
    }

    #[test]
    fn a_patch_may_name_its_test() {
        let words = |patch: &str| test_of(patch).map(|words| words.join("|"));
        assert_eq!(
            words("L3: it is.\n\nHunted by `cargo test -p engine --lib walk`.\n\ndiff --git a b\n"),
            Some("-p|engine|--lib|walk".to_owned())
        );
        assert_eq!(words("L3: it is.\n\ndiff --git a b\n+// `cargo test -p engine`\n"), None);
    }
}
