//! Sets of bytes, as ranges in order that neither touch nor overlap.

use std::ops::Range;

/// Returns the set that these ranges make, in any order and overlapping as they may.
pub fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the part of a set that lies in a range. Takes logarithmic time where there is none.
pub fn clip(set: &[Range<u64>], to: &Range<u64>) -> Vec<Range<u64>> {
    let first = set.partition_point(|range| range.end <= to.start);
    let inside = set[first..].iter().take_while(|range| range.start < to.end);
    inside.map(|range| range.start.max(to.start)..range.end.min(to.end)).filter(|range| !range.is_empty()).collect()
}

/// Returns a set without another.
pub fn subtract(set: &[Range<u64>], without: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in set {
        let mut start = range.start;
        for gone in clip(without, range) {
            left.push(start..gone.start);
            start = gone.end;
        }
        left.push(start..range.end);
    }
    left.retain(|range| !range.is_empty());
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_as_their_bytes() {
        let ranges = [5..9, 1..3, 8..12, 3..4, 20..20, 15..16];
        let set = merge(&ranges);
        assert_eq!(set, [1..4, 5..12, 15..16]);
        assert_eq!(clip(&set, &(3..6)), [3..4, 5..6]);
        assert!(clip(&set, &(12..15)).is_empty() && clip(&set, &(4..5)).is_empty());
        assert_eq!(subtract(&set, &[2..6, 10..11, 15..16]), [1..2, 6..10, 11..12]);
        assert_eq!(subtract(&set, &[]), set);
    }
}
