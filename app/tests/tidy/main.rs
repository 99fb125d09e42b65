//! Style as a test, over the files that git tracks: what a program can check of `CONTRIBUTING.md`, so that no review has to.
//!
//! 1. Every failure names file and line and says what to do instead.
//! 2. A list of exceptions names files that exist.
//! 3. What holds for the structure of the code rather than for its form is in `structure/`.

mod structure;

mod comments;
mod commits;
mod example;
mod figures;
mod mutants;
mod plan;
mod rules;

mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Columns of a line. rustfmt keeps code to them; comments, strings and what stands in macros it leaves as they are: break them by hand.
const COLUMNS_MAX: usize = 140;
/// Lines of a Rust file, whatever the reason.
const LINES_MAX: usize = 800;
/// Lines of a Rust file that is not on the list below.
const LINES_USUAL_MAX: usize = 400;
/// Rust files longer than usual, with the length that they may not pass. Make them shorter, never longer.
const LONG: &[(&str, usize)] =
    &[("sim/src/device/disk.rs", 500), ("sim/src/checkers/oracle.rs", 500), ("sim/src/checkers/setcheck.rs", 500)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies inside the workspace").to_path_buf()
}

/// The tracked files that exist, relative to the root; none where this is no git checkout (a source archive).
fn tracked() -> Vec<String> {
    let output = Command::new("git").args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(root()).output();
    let Ok(output) = output else { return Vec::new() };
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    names.split('\0').filter(|name| !name.is_empty() && root().join(name).is_file()).map(str::to_owned).collect()
}

/// Says that a test cannot run here, so that `./dev test` counts it.
fn skipped(test: &str, why: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "SKIPPED {test}: {why}").expect("stderr is open");
}

/// (name, text) of the tracked files with one of these endings; the test skips itself, aloud, where there is no checkout.
fn texts(test: &str, endings: &[&str]) -> Vec<(String, String)> {
    let names = tracked();
    if names.is_empty() {
        skipped(test, "not a git checkout");
    }
    names
        .into_iter()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .map(|name| {
            let text = std::fs::read_to_string(root().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, text)
        })
        .collect()
}

fn pass_or_list(findings: &[String]) {
    let mut report = String::new();
    for finding in findings {
        writeln!(report, "  {finding}").expect("a string takes any text");
    }
    assert!(findings.is_empty(), "{} findings:\n{report}", findings.len());
}

#[test]
fn lines_are_short() {
    let mut findings = Vec::new();
    for (name, text) in texts("lines_are_short", &[".rs", ".sh", ".py", ".toml"]) {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                findings.push(format!("{name}:{}: {columns} columns, {COLUMNS_MAX} are the most", number + 1));
            }
            if line.ends_with([' ', '\t']) {
                findings.push(format!("{name}:{}: blanks at the end of the line", number + 1));
            }
        }
    }
    pass_or_list(&findings);
}

#[test]
fn files_are_short() {
    let mut findings = Vec::new();
    let files = texts("files_are_short", &[".rs"]);
    for (name, text) in &files {
        let lines = text.lines().count();
        let allowed = LONG.iter().find(|(long, _)| long == name).map(|(_, allowed)| *allowed);
        if lines > LINES_MAX {
            findings.push(format!("{name}: {lines} lines; {LINES_MAX} are the most: split it by what it says"));
        } else if lines > allowed.unwrap_or(LINES_USUAL_MAX) {
            findings.push(format!("{name}: {lines} lines: split it, or where it truly says one thing add (\"{name}\", {lines}) to LONG"));
        }
    }
    for (name, _) in LONG {
        if !files.is_empty() && !files.iter().any(|(file, _)| file == name) {
            findings.push(format!("{name} is on LONG and not in the tree: take it off"));
        }
    }
    pass_or_list(&findings);
}

#[test]
fn nothing_banned() {
    // Put together here, so that this file does not find itself.
    let banned = [
        (concat!("to", "do!("), "write it, or return an error that says what is missing"),
        (concat!("unimplemented", "!("), "write it, or return an error that says what is missing"),
        (concat!("db", "g!("), "remove it, or use tracing"),
        (concat!("FIX", "ME"), "mend it, or describe it in docs/plan.md"),
        (concat!("#[ig", "nore"), "skip aloud at run time (docs/testing.md), or make it a subcommand of ./dev"),
    ];
    let mut findings = Vec::new();
    for (name, text) in texts("nothing_banned", &[".rs", ".sh", ".py"]) {
        for (number, line) in text.lines().enumerate() {
            for (needle, instead) in banned {
                if line.contains(needle) {
                    findings.push(format!("{name}:{}: {needle} is banned: {instead}", number + 1));
                }
            }
        }
    }
    pass_or_list(&findings);
}

#[test]
fn no_paths_of_somebodys_machine() {
    let places = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/"), concat!("/work", "space/")];
    let mut findings = Vec::new();
    for (name, text) in texts("no_paths_of_somebodys_machine", &[".rs", ".sh", ".py", ".md", ".toml", "dev", "run"]) {
        for (number, line) in text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place)) {
                findings
                    .push(format!("{name}:{}: a path of one machine: take it from the environment or a temporary directory", number + 1));
            }
        }
    }
    pass_or_list(&findings);
}

#[test]
fn flushes_are_asked_for_where_they_belong() {
    const MAY: &[&str] = &["engine/src/scheme/", "engine/src/recovery/", "engine/src/engine/life.rs"];
    let mut findings = Vec::new();
    for (name, text) in texts("flushes_are_asked_for_where_they_belong", &[".rs"]) {
        if !name.starts_with("engine/src/") || MAY.iter().any(|may| name.starts_with(may)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if line.contains(".flush(FlushFor::") || line.contains("Action::Flush") && name != "engine/src/io/mod.rs" {
                findings.push(format!(
                    "{name}:{}: a commit scheme, recovery or the life of the volume asks for it, by `Io::flush`",
                    number + 1
                ));
            }
        }
    }
    pass_or_list(&findings);
}

/// The targets of `[text](target)` in a page.
fn links(text: &str) -> Vec<&str> {
    text.match_indices("](").filter_map(|(at, _)| text[at + 2..].split_once(')').map(|(target, _)| target)).collect()
}

#[test]
fn links_of_the_documentation_resolve() {
    let mut findings = Vec::new();
    for (name, text) in texts("links_of_the_documentation_resolve", &[".md"]) {
        for target in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            if target.contains("://") || file.is_empty() {
                continue;
            }
            let path = root().join(&name).parent().expect("a file lies in a directory").join(file);
            if !path.exists() {
                findings.push(format!("{name}: the link to {target} leads nowhere"));
            }
        }
    }
    pass_or_list(&findings);
}

/// Returns the texts between backticks in a line.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Does this quoted text name a place in the tree?
fn names_a_place(word: &str) -> bool {
    let tops = ["engine/", "app/", "lab/", "sim/", "trace/", "data/", "tools/", "docs/", "fuzz/", "hint/", ".ci/"];
    tops.iter().any(|top| word.starts_with(top)) && !word.contains([' ', '*', '<', '{'])
}

#[test]
fn places_named_in_the_documentation_exist() {
    let mut findings = Vec::new();
    for (name, text) in texts("places_named_in_the_documentation_exist", &[".md"]) {
        for (number, line) in text.lines().enumerate() {
            for word in quoted(line).into_iter().filter(|word| names_a_place(word)) {
                let file = word.split([':', '#']).next().unwrap_or_default();
                if !root().join(file).exists() {
                    findings.push(format!("{name}:{}: there is no {word}", number + 1));
                }
            }
        }
    }
    pass_or_list(&findings);
}

/// The names of all benchmarks, from the list that `./dev bench --list` prints.
fn benchmarks() -> BTreeSet<String> {
    let list = std::fs::read_to_string(root().join("tools/bench/list.tsv")).expect("tools/bench/list.tsv is there");
    let names: BTreeSet<_> =
        list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split('\t').next()).map(str::to_owned).collect();
    assert!(!names.is_empty(), "tools/bench/list.tsv names no benchmark");
    names
}

#[test]
fn papers_say_where_everything_is() {
    let page = std::fs::read_to_string(root().join("docs/papers.md")).expect("docs/papers.md is there");
    let known = benchmarks();
    let mut findings = Vec::new();
    let mut rows = 0;
    for (number, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let heading = cells.last().is_some_and(|cell| *cell == "where" || cell.starts_with("---"));
        if !line.starts_with('|') || heading {
            continue;
        }
        rows += 1;
        let place = cells.last().copied().unwrap_or_default();
        let mut says = place.starts_with("planned")
            || ["not built: ", "not measured: "].iter().any(|state| place.strip_prefix(state).is_some_and(|why| why.len() > 10));
        for word in quoted(place) {
            says |= names_a_place(word) || root().join(word).exists();
            if let Some(benchmark) = word.strip_prefix("bench ") {
                says = true;
                if !known.contains(benchmark) {
                    findings.push(format!("docs/papers.md:{}: there is no benchmark '{benchmark}' on ./dev bench --list", number + 1));
                }
            }
        }
        if !says {
            findings.push(format!("docs/papers.md:{}: '{place}' is neither a place, nor planned, nor not built with a reason", number + 1));
        }
    }
    assert!(rows > 100, "only {rows} rows were read: has the page another shape?");
    pass_or_list(&findings);
}

#[test]
fn the_readme_opens_with_the_two_commands() {
    let page = std::fs::read_to_string(root().join("README.md")).expect("README.md is there");
    let block = page.split("```").nth(1).expect("README.md has a block of commands");
    let commands: Vec<&str> =
        block.lines().skip(1).filter_map(|line| line.split('#').next()).map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(commands, ["./dev demo", "./dev test"], "the first block of README.md");
}

#[test]
fn each_decision_has_its_number() {
    let mut numbers = BTreeSet::new();
    for (name, text) in texts("each_decision_has_its_number", &[".md"]) {
        let Some(page) = name.strip_prefix("docs/decisions/").filter(|page| *page != "README.md") else { continue };
        let number = page.split('-').next().unwrap_or_default();
        assert!(number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()), "{name}: call it 0042-short-title.md");
        assert!(text.starts_with(&format!("# {number}")), "{name} opens with '# {number}: title'");
        assert!(numbers.insert(number.to_owned()), "{name}: another decision has this number");
    }
    assert!(!numbers.is_empty() || tracked().is_empty(), "docs/decisions has no page");
}

#[test]
fn every_command_of_dev_explains_itself() {
    let mut findings = Vec::new();
    for (name, text) in texts("every_command_of_dev_explains_itself", &[".sh"]) {
        if !name.starts_with("tools/dev/") || name.ends_with("/lib.sh") {
            continue;
        }
        let command = name.trim_start_matches("tools/dev/").trim_end_matches(".sh");
        if !text.lines().nth(1).is_some_and(|line| line.starts_with("# ") && line.ends_with('.')) {
            findings.push(format!("{name}:2: a sentence that ./dev can list"));
        }
        if !text.contains(&format!("# usage: ./dev {command}")) {
            findings.push(format!("{name}: no line '# usage: ./dev {command} ...'"));
        }
    }
    pass_or_list(&findings);
}

/// The licences that `deny.toml` allows.
fn licences_allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let list = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).expect("deny.toml has the list").0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Can the licence expression be satisfied with allowed licences? OR binds weaker than AND, as SPDX has it; the old slash means OR.
fn licence_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "_WITH_");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = licence_or(&tokens, &mut at, allowed);
    result && at == tokens.len()
}

fn licence_or(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = licence_and(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        result |= licence_and(tokens, at, allowed);
    }
    result
}

fn licence_and(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = licence_one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        result &= licence_one(tokens, at, allowed);
    }
    result
}

fn licence_one(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let result = licence_or(tokens, at, allowed);
        let closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return result && closed;
    }
    allowed.contains(&token.replace("_WITH_", " WITH "))
}

#[test]
fn licences_go_with_ours() {
    let allowed = licences_allowed();
    assert!(licence_allowed("(MIT OR Apache-2.0) AND Unicode-3.0", &allowed) && licence_allowed("GPL-3.0 OR MIT", &allowed));
    assert!(!licence_allowed("GPL-3.0", &allowed) && !licence_allowed("MIT AND GPL-3.0", &allowed) && !licence_allowed("", &allowed));

    // Only what this platform builds: the packages of others may not be on this machine.
    let version = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8(version.stdout).expect("rustc writes UTF-8");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    // Each package has `"name":"...","version":"...","id":"...","license":...`, in this order; a licence is a string or null.
    let mut packages = 0;
    let mut findings = Vec::new();
    for (at, _) in metadata.match_indices("\"license\":") {
        let before = &metadata[..at];
        let name = before.rsplit_once("\"name\":\"").and_then(|(_, rest)| rest.split_once('"')).map_or("?", |(name, _)| name);
        let licence = metadata[at + "\"license\":".len()..]
            .strip_prefix('"')
            .and_then(|rest| rest.split_once('"'))
            .map_or("", |(licence, _)| licence);
        packages += 1;
        if !licence_allowed(licence, &allowed) {
            findings.push(format!("{name}: licence '{licence}' is not on the list of deny.toml"));
        }
    }
    assert!(packages > 10, "only {packages} packages were read: has cargo metadata another shape?");
    pass_or_list(&findings);
}
