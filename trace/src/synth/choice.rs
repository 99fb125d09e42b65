//! A weighted choice of numbers, as users type it: `1`, `1-32`, `1:70,8:20,16-32:10`.

use super::random::{Random, float};
use rand::RngExt;
use std::fmt;
use std::str::FromStr;

/// Ranges of numbers with weights. All numbers of a range are equally likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    parts: Vec<WeightedRange>,
    weights: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct WeightedRange {
    first: u64,
    last: u64,
    weight: f64,
}

impl Choice {
    /// Makes a choice of a single number.
    #[must_use]
    pub fn only(number: u64) -> Self {
        Self { parts: vec![WeightedRange { first: number, last: number, weight: 1.0 }], weights: 1.0 }
    }

    /// Makes a choice of numbers with their weights; none if all weights are 0.
    #[must_use]
    pub fn weighted(numbers: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let parts: Vec<WeightedRange> = numbers
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .map(|(number, weight)| WeightedRange { first: number, last: number, weight: float(weight) })
            .collect();
        let weights = parts.iter().map(|part| part.weight).sum();
        (!parts.is_empty()).then_some(Self { parts, weights })
    }

    /// Returns the smallest and the largest number.
    #[must_use]
    pub fn ends(&self) -> (u64, u64) {
        let first = self.parts.iter().map(|part| part.first).min().unwrap_or(0);
        (first, self.parts.iter().map(|part| part.last).max().unwrap_or(0))
    }

    /// Returns the mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.parts.iter().map(|part| (float(part.first) + float(part.last)) / 2.0 * part.weight).sum::<f64>() / self.weights
    }

    /// Draws a number.
    pub(super) fn pick(&self, random: &mut Random) -> u64 {
        let [part] = &self.parts[..] else {
            let mut at = random.random::<f64>() * self.weights;
            let found = self.parts.iter().find(|part| {
                at -= part.weight;
                at < 0.0
            });
            // Rounding may leave a small remainder after the last part.
            let part = found.unwrap_or(&self.parts[self.parts.len() - 1]);
            return part.pick(random);
        };
        part.pick(random)
    }
}

impl WeightedRange {
    fn pick(&self, random: &mut Random) -> u64 {
        if self.first == self.last { self.first } else { random.random_range(self.first..=self.last) }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{typed}' is not a choice of numbers: give a number like 8, a range like 1-32, \
                 or several with weights like 1:70,8:20,16-32:10"
            )
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let mut parts = Vec::new();
        for word in typed.split(',') {
            let (range, weight) = word.split_once(':').unwrap_or((word, "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Some(first), Some(last)) = (number(first), number(last)) else { return Err(wrong()) };
            let weight = weight.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight > 0.0).ok_or_else(wrong)?;
            if last < first {
                return Err(wrong());
            }
            parts.push(WeightedRange { first, last, weight });
        }
        let weights = parts.iter().map(|part| part.weight).sum();
        Ok(Self { parts, weights })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            write!(f, "{}", part.first)?;
            if part.last > part.first {
                write!(f, "-{}", part.last)?;
            }
            if self.parts.len() > 1 {
                write!(f, ":{}", part.weight)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Purpose, stream};
    use super::*;

    #[test]
    fn a_typed_choice_is_parsed_and_displayed() {
        for (typed, ends, mean) in [("8", (8, 8), 8.0), ("1-32", (1, 32), 16.5), ("1:70,8:20,16-32:10", (1, 32), 4.7)] {
            let choice: Choice = typed.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((choice.ends(), choice.to_string().as_str()), (ends, typed));
            assert!((choice.mean() - mean).abs() < 1e-9, "{typed}: {}", choice.mean());
        }
        for wrong in ["", "a", "3-1", "1:", "1:0", "1:-2", "1:nan", "1,,2", "+1", "1-"] {
            assert!(wrong.parse::<Choice>().is_err_and(|error| error.contains(&format!("'{wrong}'"))), "{wrong}");
        }
    }

    #[test]
    fn weights_are_kept() {
        let choice: Choice = "1:70,8:20,16-32:10".parse().expect("it is one");
        let mut random = stream(1, Purpose::Sizes);
        let picked: Vec<u64> = (0..100_000).map(|_| choice.pick(&mut random)).collect();
        let share = |wanted: std::ops::RangeInclusive<u64>| float(picked.iter().filter(|n| wanted.contains(n)).count() as u64) / 100_000.0;
        assert!((share(1..=1) - 0.7).abs() < 0.01 && (share(8..=8) - 0.2).abs() < 0.01 && (share(16..=32) - 0.1).abs() < 0.01);
        assert!(picked.iter().all(|n| [1, 8].contains(n) || (16..=32).contains(n)));
    }
}
