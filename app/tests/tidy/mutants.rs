//! A mutant that a single test hunts names a test that exists: a renamed test would otherwise leave its mutant unhunted.

use super::{pass_or_list, texts};
use std::path::Path;

/// The folders of the crates whose tests hunt mutants.
const CRATES: [(&str, &str); 5] = [
    ("onefold", "app"),
    ("onefold-engine", "engine"),
    ("onefold-observer", "observer"),
    ("onefold-sim", "sim"),
    ("onefold-trace", "trace"),
];

/// The crate, the test target (none for the library's own tests) and the filter of each command in a mutant's description.
fn hunts(description: &str) -> Vec<(String, Option<String>, String)> {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let commands = words.split('`').filter_map(|code| code.strip_prefix("cargo test -p "));
    commands
        .map(|command| {
            let words: Vec<&str> = command.split(' ').filter(|word| *word != "--").collect();
            match words[..] {
                [package, "--test", target] => (package.to_owned(), Some(target.to_owned()), String::new()),
                [package, "--test", target, filter] => (package.to_owned(), Some(target.to_owned()), filter.to_owned()),
                [package, "--lib", filter] => (package.to_owned(), None, filter.to_owned()),
                _ => (command.to_owned(), None, command.to_owned()),
            }
        })
        .collect()
}

/// Whether these files have the modules of the filter, and in its last part a module or a function whose name has it. Without a filter
/// there has to be a file.
fn is_there(filter: &str, files: &[&(String, String)]) -> bool {
    let is_module = |part: &str| {
        let is_named = |path: &Path| path.iter().any(|of_path| of_path == part || of_path.to_str() == Some(&format!("{part}.rs")));
        files.iter().any(|(name, _)| is_named(Path::new(name)))
    };
    let is_function = |part: &str| {
        let declares =
            |line: &str| line.trim_start().strip_prefix("fn ").is_some_and(|rest| rest.split('(').next().unwrap_or("").contains(part));
        files.iter().any(|(_, text)| text.lines().any(declares))
    };
    let mut parts: Vec<&str> = filter.split("::").filter(|part| !part.is_empty()).collect();
    let last = parts.pop();
    !files.is_empty() && parts.into_iter().all(is_module) && last.is_none_or(|last| is_module(last) || is_function(last))
}

#[test]
fn tests_that_hunt_mutants_exist() {
    let sources = texts("tests_that_hunt_mutants_exist", &[".rs"]);
    let mut findings = Vec::new();
    for (name, text) in texts("tests_that_hunt_mutants_exist", &[".patch"]) {
        let description = text.split("diff --git").next().unwrap_or_default();
        for (package, target, filter) in hunts(description) {
            let folder = CRATES.iter().find(|(of, _)| *of == package).map_or("", |(_, folder)| *folder);
            let (file, below) = match target {
                Some(target) => (format!("{folder}/tests/{target}.rs"), format!("{folder}/tests/{target}/")),
                None => (String::new(), format!("{folder}/src/")),
            };
            let files: Vec<_> = sources.iter().filter(|(source, _)| *source == file || source.starts_with(&below)).collect();
            if !is_there(&filter, &files) {
                findings.push(format!("{name}: nothing in {below} is named {filter}"));
            }
        }
    }
    pass_or_list(&findings);
}

#[test]
fn missing_tests_are_found() {
    let files = [("engine/tests/road/ring.rs".to_owned(), "#[test]\nfn what_was_packed_stays() {}".to_owned())];
    let there = |filter| is_there(filter, &files.iter().collect::<Vec<_>>());
    assert!(there("ring::what_was_packed") && there("ring::") && there("packed_stays"));
    assert!(!there("rings::what_was_packed") && !there("ring::what_was_unpacked") && !is_there("", &[]));
    let found = hunts("Hunted by\n`cargo test -p onefold --test guard hosts::a`, and `cargo test -p onefold-engine --lib b`.");
    assert_eq!(found.iter().map(|(package, ..)| package.as_str()).collect::<Vec<_>>(), ["onefold", "onefold-engine"]);
    assert_eq!(found[0].1.as_deref(), Some("guard"));
}
