//! Random numbers, and the tools of the machine. Tests of `onefold` and of `onefold-lab` share them.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Random numbers from a seed.
pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.u64(0..n)
    }

    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
}

/// Returns whether all `tools` are installed, and reports a skipped test if not, in the words that `./dev` counts.
pub fn have(test: &str, tools: &[&str]) -> bool {
    for tool in tools {
        let found = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()));
        if !found {
            skipped(test, &format!("{tool} is not installed"));
            return false;
        }
    }
    true
}

/// Returns whether block devices of this program can be mounted here, and reports a skipped test if not.
pub fn may_mount(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        skipped(test, "mounting needs root");
        return false;
    }
    let are_there = ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists());
    if !are_there {
        skipped(test, "there is no /dev/fuse or /dev/loop-control");
    }
    are_there
}

/// Reports that a test did not run. It bypasses the capture of `eprintln!`, so that it is visible even if everything else passes.
pub fn skipped(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {reason}").expect("stderr is open");
}

/// Runs a command and returns its output, or panics with all that it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{message}", output.status);
    message
}
