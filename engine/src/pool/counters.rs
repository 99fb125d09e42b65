//! The stop of the volume's counters (`format/counter.rs`), long before they would wrap. From then on nothing new is written.
//!
//! 1. A volume that is opened with a counter at the stop is served read-only, so that no counter moves.
//! 2. When a counter reaches the stop while the volume serves, later writes are refused. Admitted writes are committed, and the volume
//!    closes as usual. The counters have room for that: admitted writes fit in memory, so their number is bounded.

use super::Medium;
use crate::format::counter::COUNTER_STOP;
use crate::interface::Notice;
use crate::io::Io;
use crate::tables::Tables;

/// Checks whether a counter has reached the stop. `sequence`: that of the last log unit. It is called when the volume opens, when its
/// log was read, and at each seal, since only commits advance the counters without end.
pub(crate) fn look_at_counters(io: &mut Io, medium: &Medium, tables: &Tables, sequence: u64) {
    let used_up = medium.superblock.used_up().is_some() || tables.open.number.0 >= COUNTER_STOP || sequence >= COUNTER_STOP;
    if !used_up || io.are_counters_used_up() {
        return;
    }
    io.counters_are_used_up();
    io.notice(Notice::CountersUsedUp);
}
