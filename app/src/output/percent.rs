//! Percentages as people read them.

use std::fmt;

/// A percentage, shown as a whole number.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The sum has no sign where slightly less than zero is rounded.
        write!(f, "{:.0} %", self.0.round() + 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        assert_eq!([-0.4, 0.4, 78.6, -1.6].map(|percent| Percent(percent).to_string()), ["0 %", "0 %", "79 %", "-2 %"]);
    }
}
