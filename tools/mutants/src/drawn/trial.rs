//! The trial of a mutant: the engine's tests, then the crash explorer, then, on request, the tests of the kit, each only if the one before
//! noticed nothing.

use super::Arguments;
use super::mutation::Mutation;
use super::results::{Outcome, TrialResult};
use crate::scratch::{CommandEnd, Scratch, text};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// The arguments for the engine's tests, without those in documentation.
const ENGINE: [&str; 5] = ["test", "--package=onefold-engine", "--lib", "--tests", "--locked"];
const KIT: [&str; 5] = ["test", "--package=onefold-sim", "--lib", "--tests", "--locked"];

/// The shortest time after which tests count as hanging, and the smallest multiple of their usual time.
const LIMIT_LEAST: Duration = Duration::from_secs(60);
const LIMIT_TIMES: u32 = 5;

/// The time by which an exploration may exceed its duration.
const LATE: Duration = Duration::from_secs(90);

/// A worker's copy of the tree, and the time that tests take there.
pub struct TrialCopy {
    scratch: Scratch,
    minutes: f64,
    engine_limit: Duration,
    /// The limit for the kit's tests; none if they are left out.
    kit_limit: Option<Duration>,
}

impl TrialCopy {
    /// Makes the copy, builds it, and checks that the unchanged tree passes.
    ///
    /// # Errors
    /// Fails if it does not, since nothing would be proved then.
    pub fn new(under: &Path, arguments: &Arguments, explores: bool) -> io::Result<Self> {
        let scratch = Scratch::new(under)?;
        scratch.refresh()?;
        let mut bench = Self { scratch, minutes: arguments.minutes, engine_limit: Duration::MAX, kit_limit: None };
        bench.engine_limit = bench.limit(&ENGINE)?;
        if arguments.kit {
            bench.kit_limit = Some(bench.limit(&KIT)?);
        }
        let built = bench.scratch.build()?;
        if !built.status.success() {
            return Err(io::Error::other(format!("the unchanged tree does not build:\n{}", text(&built.stderr))));
        }
        if explores {
            if let Some(found) = bench.explored("any", arguments.minutes)? {
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

    /// Tries a mutant, and restores the copy.
    ///
    /// # Errors
    /// Fails if something cannot be run.
    pub fn try_mutation(&self, mutation: &Mutation) -> io::Result<Outcome> {
        let began = Instant::now();
        let changed = self.scratch.copy.join(&mutation.change.file);
        let before = fs::read(&changed)?;
        mutation.apply(&self.scratch.copy)?;
        let verdict = self.verdict(mutation);
        fs::write(&changed, before)?;
        Ok(Outcome { verdict: verdict?, took: began.elapsed() })
    }

    fn verdict(&self, mutation: &Mutation) -> io::Result<TrialResult> {
        if !self.is_built(&ENGINE)? {
            return Ok(TrialResult::Unbuildable);
        }
        if let Some(found) = self.tested(&ENGINE, self.engine_limit)? {
            return Ok(TrialResult::Caught(format!("engine: {found}")));
        }
        // Test builds contain code that release builds do not, and the reverse.
        if !has_compiled(&self.scratch.build()?)? {
            return Ok(TrialResult::Unbuildable);
        }
        let modes = modes(&mutation.change.file);
        for mode in modes {
            if let Some(found) = self.explored(mode, self.minutes / modes.len() as f64)? {
                return Ok(TrialResult::Caught(format!("explorer, {mode}: {found}")));
            }
        }
        if let Some(limit) = self.kit_limit {
            if self.is_built(&KIT)? {
                if let Some(found) = self.tested(&KIT, limit)? {
                    return Ok(TrialResult::Caught(format!("kit: {found}")));
                }
            }
        }
        Ok(TrialResult::Survived)
    }

    fn is_built(&self, tests: &[&str]) -> io::Result<bool> {
        has_compiled(&self.scratch.cargo(tests.iter().copied().chain(["--no-run", "--quiet"]))?)
    }

    /// Returns the test that failed, if one did.
    fn tested(&self, tests: &[&str], limit: Duration) -> io::Result<Option<String>> {
        let mut command = self.scratch.limited(limit, Path::new("cargo"), tests);
        // Failures need not be shrunk here, nor be kept for the next mutant.
        command.envs([("PROPTEST_MAX_SHRINK_ITERS", "0"), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"), ("RUST_BACKTRACE", "0")]);
        Ok(match CommandEnd::of(command.output()?) {
            CommandEnd::TooLong => Some(format!("a test goes on for more than {} s", limit.as_secs())),
            CommandEnd::With(output) if output.status.success() => None,
            CommandEnd::With(output) => {
                let stderr = text(&output.stdout);
                let failed = stderr.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
                Some(failed.map_or_else(|| "a test ends its process".to_owned(), |name| format!("test {name}")))
            }
        })
    }

    /// Returns the violation that the explorer found, if it found one.
    fn explored(&self, mode: &str, minutes: f64) -> io::Result<Option<String>> {
        let limit = Duration::from_secs_f64(minutes * 60.0) + LATE;
        let words = ["crash", "--commit-mode", mode, "--minutes", &minutes.to_string(), "--threads", "1", "--lines", "0"];
        Ok(match CommandEnd::of(self.scratch.limited(limit, &self.scratch.explorer(), &words).output()?) {
            CommandEnd::TooLong => Some(format!("a life goes on for more than {} s", LATE.as_secs())),
            CommandEnd::With(output) if output.status.success() => None,
            CommandEnd::With(output) => {
                let stderr = text(&output.stdout);
                let violation = stderr.lines().find_map(|line| Some(line.split_once("VIOLATION")?.1.chars().take(160).collect::<String>()));
                Some(violation.unwrap_or_else(|| format!("it ended with {}", output.status)))
            }
        })
    }
}

/// Returns whether the compiler accepted the sources.
///
/// # Errors
/// Fails if the compiler failed for a reason other than the sources.
fn has_compiled(output: &Output) -> io::Result<bool> {
    let stderr = text(&output.stderr);
    let is_refused =
        stderr.contains("error: could not compile") && !stderr.contains("No space left on device") && !stderr.contains("signal: ");
    match output.status.success() {
        false if !is_refused => {
            Err(io::Error::other(format!("cargo ended with {}, for a reason other than the sources:\n{stderr}", output.status)))
        }
        success => Ok(success),
    }
}

/// Returns the modes in which a file's code runs.
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
        let compiled = |code: i32, stderr: &str| {
            let output = Output { status: ExitStatus::from_raw(code << 8), stdout: Vec::new(), stderr: stderr.as_bytes().to_vec() };
            has_compiled(&output).ok()
        };
        assert_eq!(compiled(0, "warning: never read"), Some(true));
        assert_eq!(compiled(101, "error[E0308]: mismatched types\nerror: could not compile `onefold-engine` (lib)"), Some(false));
        assert_eq!(compiled(101, "error: No space left on device (os error 28)\nerror: could not compile `onefold-engine` (lib)"), None);
        assert_eq!(compiled(101, "error: could not compile `onefold-engine` (lib)\n(signal: 9, SIGKILL: kill)"), None);
        assert_eq!(compiled(101, "error: the lock file needs to be updated"), None);
    }
}
