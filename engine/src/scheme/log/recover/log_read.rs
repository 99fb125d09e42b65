//! The part of a log that an opening has read, for its progress.

use crate::interface::Progress;
use crate::tables::Tables;

/// The part of a log that was read.
#[derive(Clone, Copy, Default)]
pub(crate) struct LogRead {
    /// The number of units.
    pub units: u64,
    /// The number of records that entered pages (`overflow.rs`).
    pub overflowed: u64,
}

impl LogRead {
    /// The progress once this was read, with `live` records in memory; at most `units_most` units are to be read. None if there is no log
    /// to read.
    pub fn progress(self, units_most: u64, live: u64) -> Option<Progress> {
        let Self { units, overflowed } = self;
        (units > 0).then_some(Progress { units, units_most, records: live + overflowed, records_on_pages: overflowed })
    }
}

/// The number of records in memory that were passed on.
pub(super) fn records_in_memory(tables: &Tables) -> u64 {
    tables.committed.as_ref().map_or(0, |committed| committed.records.len())
}
