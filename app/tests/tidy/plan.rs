//! `docs/plan.md`: what each goal's row says, and that it says no more.
//!
//! 1. A row has the goal's state, the command that shows it, one figure of `docs/figures.tsv` and a note.
//! 2. A goal holds only if the newest figure that its row quotes meets the target. Where one is missed, the note says what binds.

use super::figures::{Row, figures_of, newest};
use super::{benchmarks, pass_or_list, quoted, root};
use std::collections::BTreeMap;

const PLAN: &str = "docs/plan.md";
/// Characters of a line: a row that says more belongs to another page.
const COLUMNS_MAX: usize = 400;

/// The faults of the row of a goal: number, goal, state, command, figure, note.
fn faults_of_goal(cells: &[&str], newest: &BTreeMap<String, Row>) -> Vec<String> {
    let [_, _, state, command, figure, note] = cells else {
        return vec![format!("{} cells, not number, goal, state, command, figure, note", cells.len())];
    };
    let mut faults = Vec::new();
    if !["holds", "held", "missed", "open"].contains(state) {
        faults.push(format!("the state '{state}' is none of holds, held, missed and open"));
    }
    let quotes = figures_of(figure);
    if *figure != "–" && quotes.len() != 1 {
        faults.push(format!("'{figure}' is not one figure of docs/figures.tsv, nor – where a test alone shows the goal"));
    }
    let misses = quotes.iter().filter_map(|(_, name)| newest.get(*name)).any(|row| row.holds() == Some(false));
    if misses && *state != "missed" {
        faults.push(format!("the state is '{state}', and the figure misses its target"));
    }
    if *state == "missed" && note.is_empty() {
        faults.push("it is missed, and the note does not say what binds".to_owned());
    }
    let commands = quoted(command);
    if commands.is_empty() {
        faults.push("no command shows it".to_owned());
    }
    let known = benchmarks();
    for words in commands.iter().filter_map(|command| command.split_once("./dev bench ")).map(|(_, words)| words) {
        let unknown = words.split_whitespace().take_while(|word| !word.starts_with("--")).filter(|word| !known.contains(*word));
        faults.extend(unknown.map(|word| format!("there is no benchmark '{word}' on ./dev bench --list")));
    }
    faults
}

#[test]
fn each_goal_of_the_plan_has_a_state_a_command_and_a_figure() {
    let page = std::fs::read_to_string(root().join(PLAN)).expect("docs/plan.md is there");
    let newest = newest();
    let mut findings = Vec::new();
    let mut goals = 0;
    for (number, line) in page.lines().enumerate() {
        let at = format!("{PLAN}:{}", number + 1);
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            findings.push(format!("{at}: {columns} characters, {COLUMNS_MAX} are the most: the rest belongs to the page that it is about"));
        }
        let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells[0] == "#" || cells[0].starts_with("---") {
            continue;
        }
        goals += 1;
        findings.extend(faults_of_goal(&cells, &newest).into_iter().map(|fault| format!("{at}: {}: {fault}", cells[0])));
    }
    assert!(goals > 40, "only {goals} goals were read: has the page another shape?");
    pass_or_list(&findings);
}
