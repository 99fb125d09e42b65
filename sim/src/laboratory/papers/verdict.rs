//! The verdict on a row of the tables that Onefold is to be judged by, and the count of them.

use serde::{Serialize, Serializer};
use std::fmt;

/// The result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowResult {
    Holds,
    Missed,
    /// Measured on something other than in the paper; by that, the goal is met or not.
    StandIn(bool),
    NotMeasured,
}

impl RowResult {
    /// Returns the name on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Missed => "missed",
            Self::StandIn(true) => "stand-in: met",
            Self::StandIn(false) => "stand-in: missed",
            Self::NotMeasured => "not measured",
        }
    }

    /// Judges a goal.
    #[must_use]
    pub const fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Missed }
    }
}

impl Serialize for RowResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The text about the measurement of a row, and its verdict.
pub type Judged = (String, RowResult);

/// A row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub paper: &'static str,
    pub published: &'static str,
    pub goal: &'static str,
    pub measured: String,
    pub verdict: RowResult,
}

impl Row {
    /// Makes a row.
    #[must_use]
    pub fn new(paper: &'static str, published: &'static str, goal: &'static str, (measured, verdict): Judged) -> Self {
        Self { paper, published, goal, measured, verdict }
    }
}

/// Returns what a row says if nothing of the results is about it.
#[must_use]
pub fn nothing() -> Judged {
    ("the traces that show it were not replayed".to_owned(), RowResult::NotMeasured)
}

/// The count of the verdicts of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: usize,
    pub holds: usize,
    pub missed: usize,
    pub stand_in: usize,
    pub not_measured: usize,
}

impl Tally {
    /// Counts.
    #[must_use]
    pub fn of(rows: &[Row]) -> Self {
        let count = |is: fn(RowResult) -> bool| rows.iter().filter(|row| is(row.verdict)).count();
        Self {
            rows: rows.len(),
            holds: count(|verdict| verdict == RowResult::Holds),
            missed: count(|verdict| verdict == RowResult::Missed),
            stand_in: count(|verdict| matches!(verdict, RowResult::StandIn(_))),
            not_measured: count(|verdict| verdict == RowResult::NotMeasured),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, holds, missed, stand_in, not_measured } = self;
        write!(f, "{rows} rows: {holds} holds, {missed} missed, {stand_in} stand-in, {not_measured} not measured")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_counted_once() {
        let verdicts = [RowResult::Holds, RowResult::Missed, RowResult::Missed, RowResult::StandIn(true), RowResult::NotMeasured];
        let rows = verdicts.map(|verdict| Row::new("a paper", "much", "more", (String::new(), verdict)));
        assert_eq!(Tally::of(&rows).to_string(), "5 rows: 1 holds, 2 missed, 1 stand-in, 1 not measured");
    }
}
