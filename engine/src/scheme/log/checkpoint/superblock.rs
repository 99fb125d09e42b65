//! The log's part of the superblock when the volume opens, closes, and changes to mode `ordered`.

use crate::format::log_tail::{Barrier, Compacted};
use crate::scheme::log::Log;
use crate::settings::Compression;
use crate::store::Store;

impl Log {
    /// Removes the log, which is empty: mode `ordered` needs none. Its blocks stay reserved until both pairs of superblock copies have
    /// forgotten them: otherwise the older pair would lead to units whose places belong to others by then. The superblock is to be written
    /// twice.
    pub fn leave(&mut self, store: &mut Store) {
        self.is_left = true;
        store.medium.superblock.last_log_sequence = self.next - 1;
        store.medium.superblock.log_tail = None;
        store.medium.superblock.set_log_live(false);
    }

    /// Whether the log was removed.
    pub fn is_left(&self) -> bool {
        self.is_left
    }

    /// Puts the end of the log, which is empty, into the superblock. Its places wait for the next opening.
    pub fn close_superblock(&self, store: &mut Store) {
        self.log_tail_at_end(store);
        store.medium.superblock.last_log_sequence = self.next - 1;
        store.medium.superblock.set_log_live(false);
    }

    /// Prepares the superblock for an open volume. `is_closed`: this opening found the log closed already after a crash, so no unit from
    /// before this opening counts behind that.
    pub fn open_superblock(&mut self, store: &mut Store, is_closed: bool) {
        if store.settings.compression != Compression::Off {
            store.medium.superblock.set_slots();
        }
        if !store.medium.superblock.is_log_live() {
            self.is_cut_off = false;
            self.log_tail_at_end(store);
            store.medium.superblock.set_log_live(true);
        } else if is_closed {
            let barrier = Barrier { sequence: self.next - 1, incarnation: store.medium.superblock.incarnation };
            store.medium.superblock.log_tail.iter_mut().for_each(|log_tail| log_tail.barrier = Some(barrier));
        }
    }

    fn log_tail_at_end(&self, store: &mut Store) {
        let epoch = store.tables.committed().epoch;
        store.medium.superblock.log_tail = Some(self.log_tail_behind(store, self.next - 1, epoch, Compacted::default()));
    }
}
