//! Programs with and without the library before them, and everything that they leave.

use crate::server::Server;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that a test cannot run here, so that `./dev test` counts it.
pub fn skipped(test: &str, why: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {why}").expect("stderr is open");
}

/// Returns whether the program is there, and otherwise says that the test is skipped.
pub fn has(test: &str, program: &str) -> bool {
    let is_there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().is_ok_and(|found| found.status.success());
    if !is_there {
        skipped(test, &format!("{program} is not installed"));
    }
    is_there
}

/// Returns the library that cargo has built for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join("libonefold_hint.so");
    assert!(beside.is_file(), "cargo leaves the library at {}", beside.display());
    beside
}

/// A program of the test, in C, compiled into this directory.
pub fn compiled(directory: &Path, extra: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = directory.join("checks");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_FORTIFY_SOURCE=2", "-pthread"])
        .arg(here.join("tests/preloaded/checks.c"))
        .arg("-I")
        .arg(here.join("include"))
        .arg("-o")
        .arg(&program)
        .args(extra)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Everything that a program leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub exit: Option<i32>,
    pub out: String,
    pub err: String,
    /// The files of its directory.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The words with which programs run.
#[derive(Clone, Default)]
pub struct Run<'a> {
    pub server: Option<&'a Server>,
    pub hint: &'a str,
    pub patterns: Option<&'a str>,
    /// None for the patience that the library has by itself.
    pub patience_ms: Option<u32>,
}

impl Run<'_> {
    /// Runs a command of the shell in this directory. Without a server it runs without the library.
    pub fn shell(&self, directory: &Path, script: &str) -> Left {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(directory).env("LC_ALL", "C").env("TMPDIR", directory).env_remove("LD_PRELOAD");
        if let Some(server) = self.server {
            command.env("LD_PRELOAD", library()).env("ONEFOLD_RUN_DIR", server.run()).env("ONEFOLD_HINT", self.hint);
            if let Some(patterns) = self.patterns {
                command.env("ONEFOLD_HINT_FILES", patterns);
            }
            if let Some(patience) = self.patience_ms {
                command.env("ONEFOLD_HINT_PATIENCE_MS", patience.to_string());
            }
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(directory.to_str().unwrap(), "DIRECTORY");
        Left { exit: output.status.code(), out: text(&output.stdout), err: text(&output.stderr), files: files(directory) }
    }
}

/// The content of the files of a directory and of its folders.
pub fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            // The other end of a pipe is closed by now.
            let content = if entry.path().is_file() { std::fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            found.insert(name, content);
        }
    }
    found
}

/// A directory with files of some lines each.
pub fn directory_of_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, step) in [("a", 7919_u32), ("b", 104_729), ("c", 1_299_709)] {
        let mut text = String::new();
        for line in 0..3000_u32 {
            writeln!(text, "{:08} line {line}", line.wrapping_mul(step) % 99_991).unwrap();
        }
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}
