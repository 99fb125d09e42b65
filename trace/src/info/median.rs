//! The median of many small numbers, without keeping each.

use std::collections::BTreeMap;

/// How often each number came.
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

    /// The same, but for nothing.
    pub fn add_if_any(&mut self, number: u64) {
        if number > 0 {
            self.add(number);
        }
    }

    /// The upper one of the two in the middle where their count is even; none of nothing.
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
    fn the_one_in_the_middle() {
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
