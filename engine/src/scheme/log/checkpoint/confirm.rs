//! Pages on the medium hold only what more than the last units confirms.
//!
//! 1. An epoch is *confirmed* when a later unit, or a superblock, records durably that it was flushed. Then the loss of its units is found,
//!    and reported as damage (L2). The loss of the last epoch is not found: each LBN has its former content again.
//! 2. A page is written only while all that it holds is confirmed, and its tag is the last confirmed epoch. Otherwise a unit that rots
//!    would take back an epoch that some pages hold and others do not: counts would lack links, and blocks with links would be allocated
//!    again.
//! 3. A page that every epoch changes would never be written: it is sent when the next epoch is durable, before that epoch's effects enter
//!    it.
//! 4. Where no epoch comes, a superblock confirms the last one: its log tail stays where it is, and it records how far units are flushed.

use crate::format::log_tail::LogTail;
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::store::Store;
use crate::units::Epoch;

impl Log {
    /// Writes a superblock that confirms all committed epochs (invariant 4).
    pub fn confirm(&mut self, store: &mut Store) {
        let is_more = store.tables.committed.as_ref().is_some_and(|committed| committed.confirmed < committed.epoch);
        if is_more && store.medium.superblock.log_tail.is_some() && !store.medium.is_busy && !store.io.failed {
            self.update_superblock(store);
        }
    }

    /// Writes the superblock again, with the log tail where it is. It confirms all committed epochs. No update is under way.
    pub fn update_superblock(&mut self, store: &mut Store) {
        let Some(log_tail) = &store.medium.superblock.log_tail else { return store.write_superblock() };
        // A crash may have moved places since.
        let same = self.log_tail_behind(&store.medium, log_tail.sequence - 1, log_tail.epoch, log_tail.compacted.clone());
        store.medium.superblock.log_tail = Some(LogTail { barrier: log_tail.barrier, ..same });
        self.write_confirming_superblock(store);
    }

    /// Writes the superblock, whose log tail was composed just now.
    pub(super) fn write_confirming_superblock(&mut self, store: &mut Store) {
        self.confirming = Some((store.tables.committed().epoch, self.flushed));
        store.write_superblock();
    }

    /// Takes the confirmation of a superblock that is durable.
    pub(super) fn superblock_confirms(&mut self, store: &mut Store) {
        if store.io.failed {
            return;
        }
        if let Some((epoch, sequence)) = self.confirming.take() {
            self.when_confirmed(store, epoch);
            self.release_unlinked(store, sequence);
        }
    }

    /// Notes that all epochs up to this one are confirmed, and sends the pages that waited for it.
    pub fn when_confirmed(&mut self, store: &mut Store, epoch: Epoch) {
        store.tables.confirm_upto(&mut store.io, epoch);
        store.send_marked_pages();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.send_what_waited(&mut store.io, &mut store.tables);
            store.io.schedule.push(Task::Checkpoint);
        }
    }
}
