//! `CONTRIBUTING.md`: each of its rules has a check that exists.

use super::{names_a_place, pass_or_list, quoted, root, texts};

const PAGE: &str = "CONTRIBUTING.md";

/// Whether a check is there: a file, a command that `./dev test` runs, or a test by its name.
fn exists(check: &str, sources: &[(String, String)]) -> bool {
    if let Some(command) = check.strip_prefix("./dev ") {
        let stages = std::fs::read_to_string(root().join("tools/dev/test.sh")).expect("tools/dev/test.sh is there");
        return stages.lines().any(|line| line.contains(&format!("stage {command} ")));
    }
    if names_a_place(check) || check.contains('.') {
        return root().join(check).is_file();
    }
    let test = format!("#[test]\nfn {check}()");
    sources.iter().any(|(_, text)| text.contains(&test))
}

#[test]
fn each_rule_has_a_check_that_exists() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("CONTRIBUTING.md is there");
    let sources = texts("each_rule_has_a_check_that_exists", &[".rs"]);
    if sources.is_empty() {
        return;
    }
    let mut findings = Vec::new();
    let mut rules = 0;
    for (number, line) in page.lines().enumerate() {
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else { continue };
        let (rule, checks) = row.rsplit_once(" | ").unwrap_or((row, ""));
        if rule == "rule" {
            continue;
        }
        rules += 1;
        let checks = quoted(checks);
        if checks.is_empty() {
            findings.push(format!("{PAGE}:{}: nothing checks '{rule}': write a test, or strike it out", number + 1));
        }
        let missing = checks.into_iter().filter(|check| !exists(check, &sources));
        findings.extend(missing.map(|check| format!("{PAGE}:{}: there is no check '{check}' in ./dev test", number + 1)));
    }
    assert!(rules > 20, "only {rules} rules were read: has the page another shape?");
    pass_or_list(&findings);
}

#[test]
fn files_open_with_what_they_are_about() {
    let mut findings = Vec::new();
    for (name, text) in texts("files_open_with_what_they_are_about", &[".rs"]) {
        if !text.starts_with("//! ") {
            findings.push(format!("{name}: begin with '//! ' and the concept of the file"));
        }
    }
    pass_or_list(&findings);
}
