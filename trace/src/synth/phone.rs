//! Traces like those of six smartphones in SmartDedup's Table 1 (Yang, Jin and Zhao, USENIX ATC '19, section 2).
//!
//! 1. The trace reproduces the numbers of the table in proportion: block writes and reads, blocks ever written, contents ever written.
//! 2. What the table does not give is an assumption of [`Phone::plan`], which `docs/tracing.md` repeats.

use super::choice::Choice;
use super::plan::{Access, Contents, Flushes, Length, Plan};
use super::random::rounded;
use onefold_engine::units::BLOCK_BYTES;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phone {
    /// The number of the trace in the paper.
    pub id: u8,
    /// The size of all requests, in GB.
    pub total_gb: f64,
    /// The bytes read for each byte written.
    pub reads_per_write: f64,
    pub days: f64,
    /// The size of the blocks that were ever written, in GB.
    pub unique_addresses_gb: f64,
    /// The size of the contents that were ever written, in GB.
    pub unique_data_gb: f64,
    /// The share of duplicates among the writes, in per cent.
    pub duplication_pct: f64,
}

const fn row(id: u8, [total_gb, reads_per_write, days, unique_addresses_gb, unique_data_gb, duplication_pct]: [f64; 6]) -> Phone {
    Phone { id, total_gb, reads_per_write, days, unique_addresses_gb, unique_data_gb, duplication_pct }
}

/// Table 1 of the paper.
pub const PHONES: [Phone; 6] = [
    row(1, [2096.8, 7.5, 173.0, 148.2, 192.7, 21.9]),
    row(2, [773.6, 3.4, 85.0, 36.3, 96.2, 45.3]),
    row(3, [426.7, 4.8, 73.0, 34.6, 56.5, 23.2]),
    row(4, [2385.6, 5.8, 145.0, 101.2, 184.2, 47.5]),
    row(5, [1119.7, 3.4, 92.0, 126.7, 148.6, 41.6]),
    row(6, [765.9, 3.4, 72.0, 23.9, 124.8, 28.3]),
];

/// The bytes of a GB in the table; the paper does not define it, and no ratio depends on it.
const GB: f64 = (1u64 << 30) as f64;
const BLOCK: f64 = BLOCK_BYTES as f64;

impl Phone {
    /// Returns the row with this number.
    #[must_use]
    pub fn numbered(id: u8) -> Option<Self> {
        PHONES.into_iter().find(|phone| phone.id == id)
    }

    /// Returns the size of the writes, in GB.
    #[must_use]
    pub fn written_gb(&self) -> f64 {
        self.total_gb / (1.0 + self.reads_per_write)
    }

    /// Returns a plan for a part of the trace, `scale` 1 being all of it.
    ///
    /// Assumptions: Requests have one block each, since the table counts "data requests (4KB each)". There are no zeros, since the table
    /// does not distinguish them. Duplicates repeat contents of any age, recent ones more likely (Zipf, exponent 1): the paper's section
    /// 4.2 shows that recency serves these traces best. A fifth of the blocks receives four of five overwrites and reads. A flush follows
    /// every 7 writes: the recorded `10_phone_mix` has 64,695 block writes for 9,155 flushes. The rate is the mean over the row's days, so
    /// that a tenth of the trace lasts a tenth of them. Compressed sizes are unknown.
    #[must_use]
    pub fn plan(&self, scale: f64, seed: u64) -> Plan {
        Plan {
            seed,
            length: Length::Blocks(rounded(self.written_gb() * GB / BLOCK * scale)),
            reads: self.reads_per_write / (1.0 + self.reads_per_write),
            sizes: Choice::only(1),
            access: Access::HotSpot { requests: 0.8, blocks: 0.2 },
            overwrites: Some(1.0 - self.unique_addresses_gb / self.written_gb()),
            contents: Contents::Shares { zero: 0.0, live: None, ever: Some(self.duplication_pct / 100.0), skew: 1.0 },
            flushes: Flushes { every_writes: Some(7), every_ns: None, fua: 0.0 },
            rate: self.total_gb * GB / BLOCK / (self.days * 86_400.0),
            ..Plan::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the table against itself: the written data less its duplicates are the unique data. A wrong digit would break the equality.
    #[test]
    fn the_rows_agree_with_themselves() {
        for phone in PHONES {
            let unique_gb = phone.written_gb() * (1.0 - phone.duplication_pct / 100.0);
            // Ratios are given to one digit: 3.4 may stand for 3.35.
            let bearable = phone.written_gb() * 0.05 / (1.0 + phone.reads_per_write) + 0.1;
            assert!((unique_gb - phone.unique_data_gb).abs() < bearable, "{}: {unique_gb} and {}", phone.id, phone.unique_data_gb);
            assert!(phone.unique_addresses_gb < phone.written_gb());
        }
        let duplication = PHONES.map(|phone| phone.duplication_pct);
        assert_eq!(
            (duplication.into_iter().fold(100.0, f64::min), duplication.into_iter().fold(0.0, f64::max)),
            (21.9, 47.5),
            "as section 2 has it"
        );
    }
}
