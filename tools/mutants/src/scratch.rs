//! A scratch copy of the tree, in which mutants are made, built and tried.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The result of a test or an exploration.
pub struct SearchResult {
    pub violation: Option<String>,
    pub took: Duration,
}

/// The result of a limited command.
pub enum CommandEnd {
    TooLong,
    With(Output),
}

impl CommandEnd {
    pub fn of(output: Output) -> Self {
        // `timeout` is killed with the rest, or reports that in the way of shells.
        let was_killed = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
        if was_killed { Self::TooLong } else { Self::With(output) }
    }
}

/// A copy of the files that git tracks or does not ignore, and a folder for what is built from it.
pub struct Scratch {
    pub copy: PathBuf,
    pub built: PathBuf,
}

impl Scratch {
    pub fn new(under: &Path) -> io::Result<Self> {
        let under = std::path::absolute(under)?;
        fs::create_dir_all(&under)?;
        Ok(Self { copy: under.join("tree"), built: under.join("built") })
    }

    /// Copies the files that git tracks or does not ignore in their present state. Files that did not change keep their times, so that
    /// little is rebuilt.
    pub fn refresh(&self) -> io::Result<()> {
        let listed = Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
        for name in text(&listed.stdout).split('\0').filter(|n| !n.is_empty()) {
            let (from, to) = (Path::new(name), self.copy.join(name));
            let Ok(bytes) = fs::read(from) else { continue };
            if fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().expect("a file lies in a folder"))?;
            fs::write(to, bytes)?;
        }
        Ok(())
    }

    pub fn cargo<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> io::Result<Output> {
        self.set(Command::new("cargo").args(words)).output()
    }

    fn set<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.built)
            // Each mutant is built once and runs for seconds.
            .envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"), ("CARGO_INCREMENTAL", "1")])
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }

    /// Makes a command in the copy, for mutants that may do anything: it is killed, with all that it started, after this time or when this
    /// process ends, and gets no more memory than a test needs.
    pub fn limited(&self, limit: Duration, program: &Path, words: &[&str]) -> Command {
        const UNDER_LIMITS: &str = "ulimit -v 8388608; exec setpriv --pdeathsig TERM -- timeout -s KILL \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", UNDER_LIMITS, &limit.as_secs().max(1).to_string()]).arg(program).args(words);
        self.set(&mut command);
        command
    }

    pub fn explorer(&self) -> PathBuf {
        self.built.join("release/onefold-sim")
    }

    pub fn build(&self) -> io::Result<Output> {
        self.cargo(["build", "--release", "--quiet", "-p", "onefold-sim", "--no-default-features"])
    }

    /// Runs a test, and returns the first that fails.
    pub fn test(&self, test: &[String]) -> io::Result<SearchResult> {
        let began = Instant::now();
        let output = self.cargo(std::iter::once("test").chain(test.iter().map(String::as_str)))?;
        let stderr = text(&output.stdout);
        let failed = stderr.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        if !output.status.success() && failed.is_none() {
            return Err(io::Error::other(format!(
                "no test failed, and cargo test ended with {}:\n{}",
                output.status,
                text(&output.stderr)
            )));
        }
        Ok(SearchResult { violation: failed.map(|name| format!(": test {name}")), took: began.elapsed() })
    }

    pub fn explore(&self, mode: &str, seed: u64, minutes: f64) -> io::Result<SearchResult> {
        let began = Instant::now();
        let output = Command::new(self.explorer())
            .args(["crash", "--commit-mode", mode, "--minutes", &minutes.to_string(), "--seed", &seed.to_string(), "--lines", "0"])
            .output()?;
        let stderr = text(&output.stdout);
        let violation =
            stderr.lines().find_map(|line| line.split_once("VIOLATION").map(|(_, what)| what.chars().take(160).collect::<String>()));
        if violation.is_none() && !output.status.success() {
            return Err(io::Error::other(format!("the explorer ended with {}:\n{}", output.status, text(&output.stderr))));
        }
        Ok(SearchResult { violation, took: began.elapsed() })
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
