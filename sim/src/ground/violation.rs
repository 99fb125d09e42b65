//! Violations of a rule or a promise, as checkers report them.

use std::fmt;

/// A broken rule or promise; the description begins with its name (`R2`, `P3`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// Formats a [`Violation`].
macro_rules! violation {
    ($($arg:tt)*) => { $crate::ground::violation::Violation(format!($($arg)*)) };
}
pub(crate) use violation;
