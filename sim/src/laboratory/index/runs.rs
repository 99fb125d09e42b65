//! A candidate for Onefold's level on the medium: sorted runs that are only appended, as an account of units.
//!
//! 1. Fingerprints that are only in memory become a run; when [`FAN`] runs of one level have come together, they become one run of the next
//!    level.
//! 2. An entry has 64 bits, fingerprint and PBN together, 500 in a unit. Where in a run a fingerprint would lie follows from its value, so
//!    a look-up reads one unit, two at the most, and there is nothing to keep in memory for it.
//! 3. A filter says for most fingerprints that a run lacks them. A batch that would read most of a run anyway reads all of it.
//! 4. Entries of blocks that are free leave when runs are merged.

use super::interface::IndexIo;

const ENTRIES_A_UNIT: u64 = 500;
/// The number of runs of a level that are merged into one of the next.
pub const FAN: usize = 8;

/// The runs.
#[derive(Debug, Default)]
pub struct Runs {
    /// The entries of each run, by level.
    levels: Vec<Vec<u64>>,
    pub io: IndexIo,
}

impl Runs {
    /// Returns the number of entries of all runs.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.levels.iter().flatten().sum()
    }

    /// Accounts for looking up a sorted batch, of which `found` are there. `passes` is the share of absent fingerprints that the filter
    /// does not recognise.
    pub fn look_up(&mut self, batch: u64, found: u64, passes: f64) {
        let all = self.entries().max(1) as f64;
        for &run in self.levels.iter().flatten() {
            let units = run.div_ceil(ENTRIES_A_UNIT) as f64;
            let looks = found as f64 * run as f64 / all + (batch - found) as f64 * passes;
            // The expected number of distinct units that these random look-ups touch.
            self.io.looked_up += (units * (1.0 - (-looks / units).exp())).ceil() as u64;
        }
    }

    /// Adds a run, and merges runs. `alive` is the share of entries whose blocks are still in use.
    pub fn add(&mut self, entries: u64, alive: f64) {
        let mut run = entries;
        self.io.written += run.div_ceil(ENTRIES_A_UNIT);
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < FAN {
                return;
            }
            let merged = std::mem::take(&mut self.levels[level]);
            self.io.read += merged.iter().map(|run| run.div_ceil(ENTRIES_A_UNIT)).sum::<u64>();
            run = (merged.iter().sum::<u64>() as f64 * alive).ceil() as u64;
            self.io.written += run.div_ceil(ENTRIES_A_UNIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_level_are_merged_once_there_are_enough() {
        let mut runs = Runs::default();
        (1..FAN).for_each(|_| runs.add(1000, 1.0));
        assert_eq!((runs.entries(), runs.io), (7000, IndexIo { written: 14, ..IndexIo::default() }));
        runs.add(1000, 0.5);
        assert_eq!((runs.entries(), runs.levels.len()), (4000, 2), "half of the blocks are free");
        assert_eq!(runs.io, IndexIo { looked_up: 0, read: 16, written: 16 + 8 });
    }

    #[test]
    fn a_batch_reads_no_more_than_all_and_a_filter_spares_what_is_absent() {
        let looked_up = |batch, found, passes| {
            let mut runs = Runs::default();
            runs.add(500 * 100, 1.0);
            runs.look_up(batch, found, passes);
            runs.io.looked_up
        };
        assert_eq!(looked_up(100_000, 0, 1.0), 100, "all of it, once");
        assert_eq!(looked_up(10, 0, 1.0), 10);
        assert_eq!(looked_up(10_000, 5, 0.0), 5, "only what is there");
        assert_eq!(looked_up(1000, 0, 0.01), 10);
    }
}
