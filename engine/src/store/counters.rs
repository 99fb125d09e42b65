//! The volume's counters come to an end long before they would wrap (`format/counter.rs`): from then on nothing new is written.
//!
//! 1. A volume that is opened with a counter at the stop is served as one that was opened read-only: no counter moves.
//! 2. Where a counter comes to the stop while the volume serves, what was admitted is committed and the volume closes as ever; each write
//!    that comes later is refused. The counters have room for that, and no client can make it last: it is what is in memory.

use super::Store;
use crate::format::counter::COUNTER_STOP;
use crate::interface::Notice;
use crate::io::Stage;

impl Store {
    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.io.failed || self.io.used_up || self.io.read_only
    }

    /// Sees whether a counter has come to its end: as the volume opens, when its log was read, and at each seal, for nothing but commits
    /// makes counters go on and on. `sequence`: that of the last unit of a log.
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
