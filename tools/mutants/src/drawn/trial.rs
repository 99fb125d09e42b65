//! One mutant on trial: the engine's tests, then the crash explorer, then, where that is wanted, the tests of the kit, each only where the one before
//! noticed nothing.

use super::Wanted;
use super::mutation::Mutation;
use super::results::{Outcome, Verdict};
use crate::scratch::{Ended, Scratch, text};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// The engine's tests, without those in documentation.
const ENGINE: [&str; 5] = ["test", "--package=onefold-engine", "--lib", "--tests", "--locked"];
const KIT: [&str; 5] = ["test", "--package=onefold-sim", "--lib", "--tests", "--locked"];

/// The least time after which tests are taken to hang, and how many times their usual time that is at least.
const LIMIT_LEAST: Duration = Duration::from_secs(60);
const LIMIT_TIMES: u32 = 5;

/// How long an exploration may go on after its time.
const LATE: Duration = Duration::from_secs(90);

/// A worker's copy of the tree, and how long tests take there.
pub struct Bench {
    scratch: Scratch,
    minutes: f64,
    engine_limit: Duration,
    /// None: the kit's tests are left out.
    kit_limit: Option<Duration>,
}

impl Bench {
    /// Makes the copy, builds it, and sees that the unchanged tree passes.
    ///
    /// # Errors
    /// When it does not, since nothing would be proved then.
    pub fn new(under: &Path, wanted: &Wanted, explores: bool) -> io::Result<Self> {
        let scratch = Scratch::new(under)?;
        scratch.fresh()?;
        let mut bench = Self { scratch, minutes: wanted.minutes, engine_limit: Duration::MAX, kit_limit: None };
        bench.engine_limit = bench.limit(&ENGINE)?;
        if wanted.kit {
            bench.kit_limit = Some(bench.limit(&KIT)?);
        }
        let built = bench.scratch.build()?;
        if !built.status.success() {
            return Err(io::Error::other(format!("the unchanged tree does not build:\n{}", text(&built.stderr))));
        }
        if explores {
            if let Some(found) = bench.explored("any", wanted.minutes)? {
                return Err(io::Error::other(format!(
                    "the explorer finds a fault in the unchanged tree, so no mutant proves anything: {found}"
                )));
            }
        }
        Ok(bench)
    }

    fn limit(&self, tests: &[&str]) -> io::Result<Duration> {
        if !self.is_built(tests)? {
            return Err(io::Error::other(format!("cargo {} does not build in the unchanged tree", tests.join(" "))));
        }
        let began = Instant::now();
        if let Some(found) = self.tested(tests, Duration::from_secs(3600))? {
            return Err(io::Error::other(format!("the unchanged tree fails, so no mutant proves anything: {found}")));
        }
        Ok(LIMIT_LEAST.max(began.elapsed() * LIMIT_TIMES))
    }

    /// Tries a mutant; the copy is as it was afterwards.
    ///
    /// # Errors
    /// When something cannot be run.
    pub fn try_mutation(&self, mutation: &Mutation) -> io::Result<Outcome> {
        let began = Instant::now();
        let changed = self.scratch.copy.join(&mutation.change.file);
        let before = fs::read(&changed)?;
        mutation.apply(&self.scratch.copy)?;
        let verdict = self.verdict(mutation);
        fs::write(&changed, before)?;
        Ok(Outcome { verdict: verdict?, took: began.elapsed() })
    }

    fn verdict(&self, mutation: &Mutation) -> io::Result<Verdict> {
        if !self.is_built(&ENGINE)? {
            return Ok(Verdict::Unbuildable);
        }
        if let Some(found) = self.tested(&ENGINE, self.engine_limit)? {
            return Ok(Verdict::Caught(format!("engine: {found}")));
        }
        // Builds of tests hold what those of a release do not, and the reverse holds too.
        if !has_compiled(&self.scratch.build()?)? {
            return Ok(Verdict::Unbuildable);
        }
        let modes = modes(&mutation.change.file);
        for mode in modes {
            if let Some(found) = self.explored(mode, self.minutes / modes.len() as f64)? {
                return Ok(Verdict::Caught(format!("explorer, {mode}: {found}")));
            }
        }
        if let Some(limit) = self.kit_limit {
            if self.is_built(&KIT)? {
                if let Some(found) = self.tested(&KIT, limit)? {
                    return Ok(Verdict::Caught(format!("kit: {found}")));
                }
            }
        }
        Ok(Verdict::Survived)
    }

    fn is_built(&self, tests: &[&str]) -> io::Result<bool> {
        has_compiled(&self.scratch.cargo(tests.iter().copied().chain(["--no-run", "--quiet"]))?)
    }

    /// The test that failed, if one did.
    fn tested(&self, tests: &[&str], limit: Duration) -> io::Result<Option<String>> {
        let mut command = self.scratch.limited(limit, Path::new("cargo"), tests);
        // Failures need not be small here, nor be kept for the next mutant.
        command.envs([("PROPTEST_MAX_SHRINK_ITERS", "0"), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"), ("RUST_BACKTRACE", "0")]);
        Ok(match Ended::of(command.output()?) {
            Ended::TooLong => Some(format!("a test goes on for more than {} s", limit.as_secs())),
            Ended::With(output) if output.status.success() => None,
            Ended::With(output) => {
                let said = text(&output.stdout);
                let failed = said.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
                Some(failed.map_or_else(|| "a test ends its process".to_owned(), |name| format!("test {name}")))
            }
        })
    }

    /// What the explorer found, if it did.
    fn explored(&self, mode: &str, minutes: f64) -> io::Result<Option<String>> {
        let limit = Duration::from_secs_f64(minutes * 60.0) + LATE;
        let words = ["crash", "--commit-mode", mode, "--minutes", &minutes.to_string(), "--threads", "1", "--lines", "0"];
        Ok(match Ended::of(self.scratch.limited(limit, &self.scratch.explorer(), &words).output()?) {
            Ended::TooLong => Some(format!("a life goes on for more than {} s", LATE.as_secs())),
            Ended::With(output) if output.status.success() => None,
            Ended::With(output) => {
                let said = text(&output.stdout);
                let violation = said.lines().find_map(|line| Some(line.split_once("VIOLATION")?.1.chars().take(160).collect::<String>()));
                Some(violation.unwrap_or_else(|| format!("it ended with {}", output.status)))
            }
        })
    }
}

/// Whether the compiler took the sources.
///
/// # Errors
/// When it was not the sources that it failed at.
fn has_compiled(output: &Output) -> io::Result<bool> {
    let said = text(&output.stderr);
    let is_refused = said.contains("error: could not compile") && !said.contains("No space left on device") && !said.contains("signal: ");
    match output.status.success() {
        false if !is_refused => Err(io::Error::other(format!("cargo ended with {}, not for the sources' sake:\n{said}", output.status))),
        success => Ok(success),
    }
}

/// The modes in which a file's code runs.
fn modes(file: &str) -> &'static [&'static str] {
    if file.contains("/log/") {
        &["log"]
    } else if file.ends_with("commit/ordered.rs") {
        &["ordered"]
    } else {
        &["ordered", "log"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn a_full_disk_makes_no_mutant_unbuildable() {
        let compiled = |code: i32, said: &str| {
            let output = Output { status: ExitStatus::from_raw(code << 8), stdout: Vec::new(), stderr: said.as_bytes().to_vec() };
            has_compiled(&output).ok()
        };
        assert_eq!(compiled(0, "warning: never read"), Some(true));
        assert_eq!(compiled(101, "error[E0308]: mismatched types\nerror: could not compile `onefold-engine` (lib)"), Some(false));
        assert_eq!(compiled(101, "error: No space left on device (os error 28)\nerror: could not compile `onefold-engine` (lib)"), None);
        assert_eq!(compiled(101, "error: could not compile `onefold-engine` (lib)\n(signal: 9, SIGKILL: kill)"), None);
        assert_eq!(compiled(101, "error: the lock file needs to be updated"), None);
    }
}
