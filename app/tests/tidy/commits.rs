//! The history, as far as it is at hand: what each commit message says.
//!
//! 1. A message is an imperative subject of at most 72 characters, a blank line, and a body that says why.
//! 2. Merges that `git merge` makes are exempt, and so is what was committed before there was this test.

use super::{pass_or_list, root, skipped};
use std::process::Command;

/// The messages of the commits behind this one are checked.
const SINCE: &str = "64f816e4e6b48da4d0ead7f5f526225afc047e2e";
const SUBJECT_COLUMNS_MAX: usize = 72;
/// First words that are no imperative, and do not show it by their ending.
const NO_IMPERATIVES: [&str; 47] = [
    "a", "an", "the", "this", "that", "these", "it", "we", "i", "no", "not", "now", // of a statement
    "was", "were", "did", "had", "made", "wrote", "went", "got", "took", "gave", "found", "kept", "said", "left", "sent", "built", "began",
    "broke", "brought", "chose", "came", "held", "knew", "lost", "ran", "showed", // past
    "adds", "fixes", "makes", "moves", "removes", "renames", "changes", "uses", "lets", // what the commit does
];
/// Imperatives that end like a gerund, or like the past.
const IMPERATIVES: [&str; 16] = [
    "bring", "cling", "ping", "ring", "spring", "string", "swing", "wring", // -ing
    "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", // -ed
];

/// The lines that git prints; none where it fails: this is no checkout, or a part of the history is not there.
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

/// Whether a subject's first word may be an imperative, as far as these lists can tell.
fn is_imperative(word: &str) -> bool {
    let word = word.to_lowercase();
    let has_other_ending = ["ing", "ed", ":"].iter().any(|ending| word.ends_with(ending));
    !NO_IMPERATIVES.contains(&word.as_str()) && (!has_other_ending || IMPERATIVES.contains(&word.as_str()))
}

/// A line such as `Signed-off-by: somebody`.
fn is_trailer(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(key, _)| key.contains('-') && !key.contains(' '))
}

/// The faults of a message.
fn faults_of_message(message: &str) -> Vec<String> {
    let mut lines = message.trim_end().lines();
    let subject = lines.next().unwrap_or_default();
    let columns = subject.chars().count();
    let first = subject.split_whitespace().next().unwrap_or_default();
    let mut faults = Vec::new();
    if columns > SUBJECT_COLUMNS_MAX {
        faults.push(format!("the subject has {columns} characters, {SUBJECT_COLUMNS_MAX} are the most"));
    }
    if subject.ends_with('.') {
        faults.push("the subject ends with a full stop".to_owned());
    }
    if !is_imperative(first) {
        faults.push(format!("'{first}' is no imperative: say what the commit does as an order, 'Rename', 'Refuse', 'Keep'"));
    }
    if lines.next().is_some_and(|second| !second.is_empty()) {
        faults.push("no blank line follows the subject".to_owned());
    }
    if !lines.any(|line| !line.trim().is_empty() && !is_trailer(line)) {
        faults.push("no body says why".to_owned());
    }
    faults
}

#[test]
fn commit_messages_have_an_imperative_subject_and_a_body() {
    let test = "commit_messages_have_an_imperative_subject_and_a_body";
    let range = format!("{SINCE}..HEAD");
    // Shallow or not, a history without that commit does not say which of its commits are newer.
    let Some(lines) = git(&["log", "--no-merges", "--format=%x1e%h%n%B", &range]) else {
        return skipped(test, &format!("the history is not at hand as far back as {SINCE}"));
    };
    let mut findings = Vec::new();
    for commit in lines.join("\n").split('\u{1e}').filter(|commit| !commit.is_empty()) {
        let (hash, message) = commit.split_once('\n').unwrap_or((commit, ""));
        let subject = message.lines().next().unwrap_or_default();
        findings.extend(faults_of_message(message).into_iter().map(|fault| format!("{hash} '{subject}': {fault}")));
    }
    pass_or_list(&findings);
}

#[test]
fn a_message_that_breaks_a_rule_is_found() {
    let good = ["Rename the callback\n\nNobody found it.", "Feed the log\n\nIt was empty.\n\nSigned-off-by: somebody"];
    for message in good {
        assert_eq!(faults_of_message(message), Vec::<String>::new(), "{message}");
    }
    let long = format!("Keep {}\n\nWhy.", "x".repeat(SUBJECT_COLUMNS_MAX));
    let bad = [
        "Rename the callback",
        "Rename the callback\n\nSigned-off-by: somebody",
        "Rename the callback\nNobody found it.\n\nMore.",
        "Rename the callback.\n\nWhy.",
        "Renamed the callback\n\nWhy.",
        "Renaming the callback\n\nWhy.",
        "The callback has another name\n\nWhy.",
        "Engine: rename the callback\n\nWhy.",
        &long,
    ];
    for message in bad {
        assert_eq!(faults_of_message(message).len(), 1, "{message}: {:?}", faults_of_message(message));
    }
}
