//! The recorded figures of the project, `docs/figures.tsv`, which some rows of the evaluation are judged by.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A figure that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFigure {
    pub date: String,
    pub commit: String,
    pub figure: String,
    pub unit: String,
}

/// The newest figure of each name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFigures(BTreeMap<String, RecordedFigure>);

impl RecordedFigures {
    /// Reads the table.
    ///
    /// # Errors
    /// Fails if it is not there, or a line has too few columns.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|line| format!("{}: '{line}' is no line of a table of figures", path.display()))
    }

    /// Parses the table; a later line of a name replaces an earlier one.
    ///
    /// # Errors
    /// Returns a line with too few columns.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let [date, commit, _, _, name, figure, unit, ..] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(line.to_owned());
            };
            let [date, commit, figure, unit] = [date, commit, figure, unit].map(str::to_owned);
            all.insert(name.to_owned(), RecordedFigure { date, commit, figure, unit });
        }
        Ok(Self(all))
    }

    /// Returns the figure of this name, if it is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.figure.parse().ok()
    }

    /// Returns the figure with its name, unit and commit.
    #[must_use]
    pub fn quoted(&self, name: &str) -> Option<String> {
        let RecordedFigure { commit, unit, .. } = self.0.get(name)?;
        Some(format!("{name} {:.4} {unit} ({})", self.number(name)?, commit.get(..8).unwrap_or(commit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_figure_of_a_name_counts() {
        let line = |date, commit, figure| format!("{date}\t{commit}\t?\t?\tx\t{figure}\tunits\tnone\t./dev\n");
        let text = "# heads\n".to_owned() + &line("2026-01-01", "aaaaaaaaaaaa", "1.5") + &line("2026-01-02", "bbbbbbbbbbbb", "2");
        let figures = RecordedFigures::parse(&text).expect("it is a table");
        assert_eq!((figures.number("x"), figures.number("y")), (Some(2.0), None));
        assert_eq!(figures.quoted("x").as_deref(), Some("x 2.0000 units (bbbbbbbb)"));
        assert_eq!(RecordedFigures::parse("a\tb\n"), Err("a\tb".to_owned()));
    }
}
