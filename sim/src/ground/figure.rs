//! A figure: a measured value of a benchmark, compared with its target.

use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// Prints a line, and returns whether it was printed: a reader that has gone is not an error.
#[must_use]
pub fn say(text: impl fmt::Display) -> bool {
    writeln!(io::stdout(), "{text}").is_ok()
}

/// The required relation of a value to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Relation {
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = "==")]
    Exactly,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    pub relation: Relation,
    pub target: f64,
    pub holds: bool,
    pub seed: u64,
    /// The command that prints it again.
    pub command: String,
    /// Everything else that was measured.
    pub detail: serde_json::Value,
}

impl Figure {
    /// Makes a figure, and judges it.
    #[must_use]
    pub fn new(name: &'static str, value: f64, unit: &'static str, relation: Relation, target: f64) -> Self {
        let holds = match relation {
            Relation::AtMost => value <= target,
            Relation::AtLeast => value >= target,
            Relation::Exactly => (value - target).abs() < f64::EPSILON,
        };
        Self { name, value, unit, relation, target, holds, seed: 0, command: String::new(), detail: serde_json::Value::Null }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = match self.relation {
            Relation::AtMost => "at most",
            Relation::AtLeast => "at least",
            Relation::Exactly => "exactly",
        };
        let holds = if self.holds { "holds" } else { "MISSED" };
        write!(f, "{}: {:.4} {}, target {relation} {}: {holds} (seed {})", self.name, self.value, self.unit, self.target, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_relation() {
        let holds = |value, relation| Figure::new("", value, "", relation, 2.0).holds;
        assert_eq!([1.9, 2.0, 2.1].map(|v| holds(v, Relation::AtMost)), [true, true, false]);
        assert_eq!([1.9, 2.0, 2.1].map(|v| holds(v, Relation::AtLeast)), [false, true, true]);
        assert_eq!([1.9, 2.0, 2.1].map(|v| holds(v, Relation::Exactly)), [false, true, false]);
    }
}
