//! The history, as far as it is at hand.

use super::{root, skipped};
use std::process::Command;

/// What git says, line by line; none where it fails: this is no checkout, or a part of the history is not there.
fn git(words: &[&str]) -> Option<Vec<String>> {
    let output = Command::new("git").args(["-c", "safe.directory=*"]).args(words).current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).expect("git writes UTF-8");
    output.status.success().then(|| text.lines().map(str::to_owned).collect())
}

/// All commits that the checked out one descends from; the test skips itself, aloud, where they are not all there.
pub fn all(test: &str) -> Option<Vec<String>> {
    let is_whole = git(&["rev-parse", "--is-shallow-repository"]).is_some_and(|answer| answer == ["false"]);
    let commits = is_whole.then(|| git(&["rev-list", "HEAD"])).flatten();
    if commits.is_none() {
        skipped(test, "the history is not at hand: not a git checkout, or a shallow one");
    }
    commits
}
