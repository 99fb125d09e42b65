//! The example of the report: README, the folder's own page and every page of the report begin with the same count of rows.

use crate::{pass_or_list, root};
use std::fs;

const FOLDER: &str = "docs/example-report";

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_page_has_the_count_of_the_report() {
    let page = text(&format!("{FOLDER}/README.md"));
    let count = page.split("\n\n").nth(1).and_then(|line| line.split(". ").next()).expect("a count below the title");
    let number = count.split_once(" rows: ").map(|(number, _)| number.parse::<u32>());
    assert!(matches!(number, Some(Ok(1..))), "{FOLDER}/README.md begins with '{count}'");
    let of_report = ["index", "smartdedup", "hints", "app-dedupe"].map(|name| format!("{FOLDER}/{name}.html"));
    let lacks = |name: &String| !text(name).contains(count);
    pass_or_list(
        &std::iter::once("README.md".to_owned())
            .chain(of_report)
            .filter(lacks)
            .map(|name| format!("{name} lacks '{count}'"))
            .collect::<Vec<_>>(),
    );
}
