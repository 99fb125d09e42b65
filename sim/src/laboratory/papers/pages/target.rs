//! A target of the report, and its judgement.

use serde::Serialize;
use std::fmt;

/// The device model that counts are taken on: the device takes no time, so that only the client's own think times matter.
pub const COUNTED_ON: &str = "instant";

/// The origin of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Source {
    /// A published value of OrderMergeDedup's paper.
    #[serde(rename = "the paper")]
    Paper,
    /// A model or an allowance of this project.
    #[serde(rename = "ours")]
    Ours,
}

impl Source {
    /// Returns the name on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "the paper",
            Self::Ours => "ours",
        }
    }
}

/// A target and its judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    pub name: String,
    pub source: Source,
    pub value: f64,
    pub unit: &'static str,
    pub target: String,
    pub holds: bool,
    /// The counts behind it.
    pub because: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holds = if self.holds { "holds" } else { "MISSED" };
        write!(f, "{}: {:.4} {}, wanted {}: {holds}", self.name, self.value, self.unit, self.target)?;
        if self.holds || self.because.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.because) }
    }
}
