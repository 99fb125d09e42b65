//! The two tables of an analysis. [`super`] defines what they count.

use super::rows::Counted;
use serde::Serialize;
use std::sync::Arc;

/// A row of Table I. A share or mean of nothing is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Application {
    pub name: Arc<str>,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The time in which the requests were recorded.
    pub duration_ns: u64,
    pub requests_per_second: Option<f64>,
    pub request_bytes_mean: Option<f64>,
    /// The share of writes among reads and writes.
    pub write_ratio: Option<f64>,
    /// The written chunks, of which `zeros` are all zero and `unknown` have no recorded content.
    pub chunks: u64,
    pub zeros: u64,
    pub unknown: u64,
    /// The number of distinct contents written, zeros excluded.
    pub contents: u64,
    /// The share of the written chunks whose content the application had written before.
    pub redundancy: Option<f64>,
    /// The share of the written chunks that are counted in `redundancy` and are not zero.
    pub redundancy_without_zeros: Option<f64>,
}

impl Application {
    pub(super) fn of(counted: &Counted, contents: u64) -> Self {
        let Counted { reads, writes, read_bytes, written_bytes, duration_ns, chunks, zeros, unknown, .. } = *counted;
        let again = chunks - zeros - unknown - contents;
        Self {
            name: Arc::clone(&counted.name),
            reads,
            writes,
            read_bytes,
            written_bytes,
            duration_ns,
            requests_per_second: ratio(reads + writes, duration_ns).map(|each_ns| each_ns * 1e9),
            request_bytes_mean: ratio(read_bytes + written_bytes, reads + writes),
            write_ratio: ratio(writes, reads + writes),
            chunks,
            zeros,
            unknown,
            contents,
            redundancy: ratio(again + zeros.saturating_sub(1), chunks),
            redundancy_without_zeros: ratio(again, chunks),
        }
    }

    /// Returns the number of reads and writes.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the bytes read and written.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// Returns the number of written chunks that have a known content and are not zero.
    #[must_use]
    pub const fn known(&self) -> u64 {
        self.chunks - self.zeros - self.unknown
    }

    /// Returns the share of the written chunks that are zero.
    #[must_use]
    pub fn zero(&self) -> Option<f64> {
        ratio(self.zeros, self.chunks)
    }
}

/// Table II: rows and columns are the applications of Table I, in the same order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sharing {
    /// Each cell is the share of the row's written chunks whose content the column wrote, too; on the diagonal, the row's redundancy.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The mean of the cells off the diagonal.
    pub mean: Option<f64>,
}

impl Sharing {
    pub(super) fn of(cells: Vec<Vec<Option<f64>>>) -> Self {
        let others = cells.iter().enumerate().flat_map(|(row, cells)| {
            let others = cells.iter().enumerate().filter(move |(column, _)| row != *column);
            others.filter_map(|(_, cell)| *cell)
        });
        let mean = mean(others);
        Self { cells, mean }
    }
}

/// The duplicates that an index finds in the chunks of all applications, zeros excluded, as shares of all chunks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// By one index for all applications.
    pub by_one_index: Option<f64>,
    /// By an index for each application.
    pub by_one_each: Option<f64>,
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tables {
    pub applications: Vec<Application>,
    /// The number of applications that were counted together as [`super::OTHERS`].
    pub others: usize,
    pub sharing: Sharing,
    /// The same without chunks of zeros in the numerators.
    pub sharing_without_zeros: Sharing,
    pub found: Found,
    /// The bytes of the temporary file that was needed.
    pub bytes_aside: u64,
}

impl Tables {
    /// Returns the mean of a column of Table I, over the applications that have a value.
    #[must_use]
    pub fn mean_of(&self, column: impl Fn(&Application) -> Option<f64>) -> Option<f64> {
        mean(self.applications.iter().filter_map(column))
    }
}

/// Returns the mean of values; none without values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[allow(clippy::cast_precision_loss)] // shares are shown with one digit
pub(super) fn ratio(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}
