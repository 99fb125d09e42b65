//! The table of recorded figures, `docs/figures.tsv`, and the pages that quote from it.
//!
//! 1. A row says when, at which commit, on which processor and by which command its figure was measured. Rows are only ever appended.
//! 2. A page quotes a figure as a link to the table that ends with the figure's name. It says what the newest row of that name says.
//! 3. The picture in README is drawn of `docs/savings.tsv`.

use super::{pass_or_list, root, texts};
use std::collections::BTreeMap;
use std::process::Command;

const TABLE: &str = "docs/figures.tsv";

/// A row of the table.
pub struct Row {
    date: String,
    commit: String,
    name: String,
    figure: f64,
    unit: String,
    target: String,
}

impl Row {
    /// # Errors
    /// Says what a reader of the history could not do with the row.
    fn read(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [date, commit, _processor, _features, name, figure, unit, target, _command] = fields[..] else {
            return Err(format!("{} fields, the head of the table has 9", fields.len()));
        };
        if fields.iter().any(|field| field.trim().is_empty()) {
            return Err("an empty field: write 'none' where there is no unit or target, 'unknown' where nobody said".to_owned());
        }
        if date.len() != 10 || date.split('-').count() != 3 {
            return Err(format!("'{date}' is no date like 2026-01-31"));
        }
        if commit.len() != 12 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("'{commit}' is not the twelve digits of a commit"));
        }
        let figure = figure.parse().map_err(|_| format!("'{figure}' is no number"))?;
        let [date, commit, name, unit, target] = [date, commit, name, unit, target].map(str::to_owned);
        Ok(Self { date, commit, name, figure, unit, target })
    }

    /// Whether the figure meets its target, such as `<= 1.6`; none where there is no such target.
    pub fn holds(&self) -> Option<bool> {
        let mut words = self.target.split_whitespace();
        let (relation, limit) = (words.next()?, words.next()?.parse::<f64>().ok()?);
        match relation {
            "<=" => Some(self.figure <= limit),
            ">=" => Some(self.figure >= limit),
            "==" => Some((self.figure - limit).abs() < f64::EPSILON),
            _ => None,
        }
    }

    /// Whether a page may quote the figure so: with thousands apart, rounded to fewer digits, with its unit behind it.
    fn is_quoted_by(&self, text: &str) -> bool {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        let number = number.replace(',', "");
        let digits = number.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        number == format!("{:.digits$}", self.figure) && (unit.is_empty() || unit == self.unit)
    }
}

fn table() -> Vec<Result<Row, String>> {
    let text = std::fs::read_to_string(root().join(TABLE)).expect("docs/figures.tsv is there");
    text.lines().filter(|line| !line.starts_with('#')).map(Row::read).collect()
}

/// The newest row of each name.
pub fn newest() -> BTreeMap<String, Row> {
    table().into_iter().flatten().map(|row| (row.name.clone(), row)).collect()
}

/// (what is quoted, name) of each figure that a line quotes.
pub fn figures_of(line: &str) -> Vec<(&str, &str)> {
    line.match_indices("figures.tsv#")
        .filter_map(|(at, mark)| {
            let (before, _) = line[..at].rsplit_once("](")?;
            let (_, text) = before.rsplit_once('[')?;
            let (name, _) = line[at + mark.len()..].split_once(')')?;
            Some((text, name))
        })
        .collect()
}

#[test]
fn each_recorded_figure_says_where_it_is_from() {
    let mut findings = Vec::new();
    let known = super::commits::all("each_recorded_figure_says_where_it_is_from");
    let mut before = String::new();
    for (number, row) in table().into_iter().enumerate() {
        let at = format!("{TABLE}:{}", number + 2);
        match row {
            Err(why) => findings.push(format!("{at}: {why}")),
            Ok(row) => {
                if row.date < before {
                    findings.push(format!("{at}: {} comes after {before}: a new row is the last one", row.date));
                }
                if known.as_ref().is_some_and(|known| !known.iter().any(|commit| commit.starts_with(&row.commit))) {
                    findings.push(format!("{at}: the history has no commit {}: measure one that is merged", row.commit));
                }
                before = row.date;
            }
        }
    }
    pass_or_list(&findings);
}

#[test]
fn pages_quote_the_newest_figures() {
    let newest = newest();
    let mut findings = Vec::new();
    let mut quotes = 0;
    let pages = texts("pages_quote_the_newest_figures", &[".md"]);
    for (name, text) in &pages {
        for (number, line) in text.lines().enumerate() {
            for (said, figure) in figures_of(line) {
                quotes += 1;
                match newest.get(figure) {
                    None => findings.push(format!("{name}:{}: {TABLE} has no figure '{figure}'", number + 1)),
                    Some(row) if !row.is_quoted_by(said) => {
                        findings.push(format!("{name}:{}: '{said}' is quoted, and {figure} is {} {}", number + 1, row.figure, row.unit));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    assert!(pages.is_empty() || quotes > 60, "only {quotes} quotes were read: have they another form?");
    pass_or_list(&findings);
}

/// Runs a script of the tree, which has to end well. No compiled copy of it is left there.
fn passes(test: &str, words: &[&str]) {
    match Command::new("python3").arg("-B").args(words).current_dir(root()).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => super::skipped(test, &format!("python3: {error}")),
    }
}

#[test]
fn the_recorder_of_figures_keeps_its_rules() {
    passes("the_recorder_of_figures_keeps_its_rules", &["tools/bench/figures_test.py"]);
}

#[test]
fn the_picture_of_savings_is_drawn_of_the_figures_beside_it() {
    passes("the_picture_of_savings_is_drawn_of_the_figures_beside_it", &["tools/picture/draw.py", "--check"]);
}

#[test]
fn a_quote_may_be_rounded_and_nothing_else() {
    let row = |figure: &str| {
        Row::read(&format!("2026-01-31\t0123456789ab\tunknown\tunknown\tname\t{figure}\tunits\t<= 1.6\t./dev")).expect("a row")
    };
    assert!(row("1.5554").is_quoted_by("1.555") && row("1.5554").is_quoted_by("1.5554 units") && row("1613676").is_quoted_by("1,613,676"));
    assert!(!row("1.5554").is_quoted_by("1.556") && !row("1.5554").is_quoted_by("1.5554 ms") && !row("1.5554").is_quoted_by("about 1.6"));
    assert_eq!([row("1.6").holds(), row("1.7").holds()], [Some(true), Some(false)]);
    assert_eq!(figures_of("a [1](figures.tsv#b), **[2 %](docs/figures.tsv#c)**"), [("1", "b"), ("2 %", "c")]);
}
