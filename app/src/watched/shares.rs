//! Shares by name, of which the largest are kept.

use super::amounts::{Named, Part};
use std::collections::HashMap;

/// The name of all that are not kept.
const OTHERS: &str = "(others)";

/// Shares by name.
pub(super) struct Shares {
    by_name: HashMap<String, Part>,
    others: Part,
    most: usize,
}

impl Shares {
    /// Keeps at most this many names.
    pub fn new(most: usize) -> Self {
        Self { by_name: HashMap::new(), others: Part::default(), most }
    }

    /// Adds to the share of a name. Where there are too many names, the smaller half of them becomes others.
    pub fn add(&mut self, name: &str, part: Part) {
        if let Some(known) = self.by_name.get_mut(name) {
            return known.add(part);
        }
        if self.by_name.len() >= self.most {
            let mut units: Vec<u64> = self.by_name.values().map(|part| part.units).collect();
            units.sort_unstable();
            let median = units[units.len() / 2];
            let others = &mut self.others;
            self.by_name.retain(|_, part| {
                let stays = part.units > median;
                if !stays {
                    others.add(*part);
                }
                stays
            });
        }
        self.by_name.insert(name.to_owned(), part);
    }

    /// Returns the largest ones, and last what the others have, if there are any.
    pub fn largest(&self, most: usize) -> Vec<Named> {
        let named = |(name, part): (&String, &Part)| Named { name: name.clone(), part: *part };
        let mut all: Vec<Named> = self.by_name.iter().map(named).collect();
        all.sort_by(|a, b| (b.part.units, b.part.flushes, &a.name).cmp(&(a.part.units, a.part.flushes, &b.name)));
        let mut others = self.others;
        all.drain(most.min(all.len())..).for_each(|named| others.add(named.part));
        if others != Part::default() {
            all.push(Named { name: OTHERS.to_owned(), part: others });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_and_nothing_is_lost() {
        let mut shares = Shares::new(8);
        let part = |units| Part { requests: 1, bytes: units * 4096, units, ..Part::default() };
        for number in 0..100 {
            shares.add("big", part(50));
            shares.add(&format!("small-{number}"), part(1));
        }
        let all = shares.largest(3);
        assert_eq!((all[0].name.as_str(), all[0].part.units), ("big", 5000));
        assert_eq!(all.last().map(|named| named.name.as_str()), Some(OTHERS));
        assert_eq!(all.iter().map(|named| named.part.units).sum::<u64>(), 5100);
        assert!(shares.by_name.len() <= 8);
    }
}
