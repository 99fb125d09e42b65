//! The median of many small numbers, without a list of them.

use std::collections::BTreeMap;

/// The number of occurrences of each number.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: BTreeMap<u64, u64>,
    total: u64,
}

impl Histogram {
    pub fn add(&mut self, number: u64) {
        *self.counts.entry(number).or_default() += 1;
        self.total += 1;
    }

    /// Adds a number that is not 0.
    pub fn add_if_any(&mut self, number: u64) {
        if number > 0 {
            self.add(number);
        }
    }

    /// Returns the median, the upper of the two middle numbers if their count is even; none without numbers.
    pub fn median(&self) -> Option<u64> {
        let mut below = 0;
        self.counts.iter().find_map(|(number, count)| {
            below += count;
            (below > self.total / 2).then_some(*number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_number() {
        let median = |numbers: &[u64]| {
            let mut histogram = Histogram::default();
            numbers.iter().for_each(|number| histogram.add(*number));
            histogram.median()
        };
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[9, 1, 1]), Some(1));
        assert_eq!(median(&[1, 2, 5, 100]), Some(5));
    }
}
