//! The log's part of the superblock when the volume opens, closes, and changes to mode `ordered`.

use crate::format::log_tail::{Barrier, Compacted};
use crate::pool::Medium;
use crate::scheme::log::Log;
use crate::settings::{Compression, Settings};
use crate::tables::Tables;

impl Log {
    /// Removes the log, which is empty: mode `ordered` needs none. Its blocks stay reserved until both pairs of superblock copies have
    /// forgotten them: otherwise the older pair would lead to units whose places belong to others by then. The superblock is to be written
    /// twice.
    pub fn leave(&mut self, medium: &mut Medium) {
        self.is_left = true;
        medium.superblock.set_last_log_sequence(self.next - 1);
        medium.superblock.drop_log_tail();
        medium.superblock.set_log_live(false);
    }

    /// Whether the log was removed.
    pub fn is_left(&self) -> bool {
        self.is_left
    }

    /// Puts the end of the log, which is empty, into the superblock. Its places wait for the next opening.
    pub fn close_superblock(&self, tables: &mut Tables, medium: &mut Medium) {
        self.log_tail_at_end(tables, medium);
        medium.superblock.set_last_log_sequence(self.next - 1);
        medium.superblock.set_log_live(false);
    }

    /// Prepares the superblock for an open volume. `is_closed`: this opening found the log closed already after a crash, so no unit from
    /// before this opening counts behind that.
    pub fn open_superblock(&mut self, tables: &mut Tables, medium: &mut Medium, settings: &Settings, is_closed: bool) {
        if settings.compression != Compression::Off {
            medium.superblock.set_slots();
        }
        if !medium.superblock.is_log_live() {
            self.is_cut_off = false;
            self.log_tail_at_end(tables, medium);
            medium.superblock.set_log_live(true);
        } else if is_closed {
            let barrier = Barrier { sequence: self.next - 1, incarnation: medium.superblock.incarnation };
            medium.superblock.set_barrier(barrier);
        }
    }

    fn log_tail_at_end(&self, tables: &mut Tables, medium: &mut Medium) {
        let epoch = tables.committed().epoch;
        let log_tail = self.log_tail_behind(medium, self.next - 1, epoch, Compacted::default());
        medium.superblock.set_log_tail(log_tail);
    }
}
