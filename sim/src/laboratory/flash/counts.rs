//! Counts of a flash, and its wear.

use serde::{Deserialize, Serialize};

/// Counts of pages and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashCounts {
    /// Pages that were programmed for the host.
    pub host_pages: u64,
    /// Those of them that the host wrote only in part, so that the rest was read first.
    pub partial_pages: u64,
    /// Pages that were read for the host.
    pub read_pages: u64,
    /// Pages that held something until the host trimmed them.
    pub trimmed_pages: u64,
    /// Valid pages that cleaning moved.
    pub moved_pages: u64,
    /// Blocks that were cleaned. Each was erased.
    pub collections: u64,
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

impl FlashCounts {
    /// Returns what was counted since an earlier moment.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            host_pages: self.host_pages - earlier.host_pages,
            partial_pages: self.partial_pages - earlier.partial_pages,
            read_pages: self.read_pages - earlier.read_pages,
            trimmed_pages: self.trimmed_pages - earlier.trimmed_pages,
            moved_pages: self.moved_pages - earlier.moved_pages,
            collections: self.collections - earlier.collections,
        }
    }

    /// Returns the write amplification: all pages programmed for each of the host's; 0 if the host wrote nothing.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        ratio(self.host_pages + self.moved_pages, self.host_pages)
    }
}

/// The erases of a flash, block by block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    pub blocks: u64,
    pub erases: u64,
    /// The erases of a block: the mean, the standard deviation, the least and the most.
    pub mean: f64,
    pub deviation: f64,
    pub min: u32,
    pub max: u32,
    /// The most over the mean, 1 for even wear; 0 if nothing was erased.
    pub max_over_mean: f64,
}

impl Wear {
    /// Summarizes the erases of each block.
    #[must_use]
    pub fn of(erases: &[u32]) -> Self {
        let (blocks, sum) = (erases.len() as u64, erases.iter().copied().map(u64::from).sum());
        let mean = ratio(sum, blocks);
        let squares: f64 = erases.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum();
        let (min, max) = (erases.iter().min().copied().unwrap_or(0), erases.iter().max().copied().unwrap_or(0));
        #[allow(clippy::cast_precision_loss)] // a count of blocks is far below 2^52
        let deviation = (squares / blocks.max(1) as f64).sqrt();
        Self { blocks, erases: sum, mean, deviation, min, max, max_over_mean: if sum == 0 { 0.0 } else { f64::from(max) / mean } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_the_spread_of_erases() {
        let wear = Wear::of(&[2, 4, 4, 6]);
        assert_eq!((wear.blocks, wear.erases, wear.mean, wear.min, wear.max, wear.max_over_mean), (4, 16, 4.0, 2, 6, 1.5));
        assert!((wear.deviation - 2_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Wear::of(&[0, 0]).max_over_mean, 0.0);
    }

    #[test]
    fn amplification_counts_moved_pages_besides_those_of_the_host() {
        let counts = FlashCounts { host_pages: 10, moved_pages: 25, ..FlashCounts::default() };
        assert_eq!((counts.amplification(), FlashCounts::default().amplification()), (3.5, 0.0));
        assert_eq!(counts.since(&FlashCounts { host_pages: 5, moved_pages: 25, ..FlashCounts::default() }).amplification(), 1.0);
    }
}
