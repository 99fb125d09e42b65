//! The stop of the volume's counters (`format/counter.rs`), long before they would wrap. From then on nothing new is written.
//!
//! 1. A volume that is opened with a counter at the stop is served read-only, so that no counter moves.
//! 2. When a counter reaches the stop while the volume serves, later writes are refused. Admitted writes are committed, and the volume
//!    closes as usual. The counters have room for that: admitted writes fit in memory, so their number is bounded.

use super::Store;
use crate::format::counter::COUNTER_STOP;
use crate::interface::Notice;
use crate::io::Stage;

impl Store {
    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.io.failed || self.io.used_up || self.io.read_only
    }

    /// Checks whether a counter has reached the stop. `sequence`: that of the last log unit. It is called when the volume opens, when its
    /// log was read, and at each seal, since only commits advance the counters without end.
    pub fn look_at_counters(&mut self, sequence: u64) {
        let used_up = self.medium.superblock.used_up().is_some() || self.tables.open.number.0 >= COUNTER_STOP || sequence >= COUNTER_STOP;
        if !used_up || self.io.used_up {
            return;
        }
        self.io.used_up = true;
        self.io.read_only |= self.io.stage == Stage::Opening;
        self.io.notice(Notice::CountersUsedUp);
    }
}
