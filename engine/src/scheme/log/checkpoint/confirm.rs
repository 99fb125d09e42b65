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
use crate::pool::Pool;
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::units::Epoch;

impl Log {
    /// Writes a superblock that confirms all committed epochs (invariant 4).
    pub fn confirm(&mut self, pool: &mut Pool) {
        let is_more = pool.tables.committed.as_ref().is_some_and(|committed| committed.confirmed < committed.epoch);
        if is_more && pool.medium.superblock.log_tail.is_some() && !pool.medium.is_busy() && !pool.io.has_failed() {
            self.update_superblock(pool);
        }
    }

    /// Writes the superblock again, with the log tail where it is. It confirms all committed epochs. No update is under way.
    pub fn update_superblock(&mut self, pool: &mut Pool) {
        let Some(log_tail) = &pool.medium.superblock.log_tail else { return pool.write_superblock() };
        // A crash may have moved places since.
        let same = self.log_tail_behind(&pool.medium, log_tail.sequence - 1, log_tail.epoch, log_tail.compacted.clone());
        let log_tail = LogTail { barrier: log_tail.barrier, ..same };
        pool.medium.superblock.set_log_tail(log_tail);
        self.write_confirming_superblock(pool);
    }

    /// Writes the superblock, whose log tail was composed just now.
    pub(super) fn write_confirming_superblock(&mut self, pool: &mut Pool) {
        self.confirming = Some((pool.tables.committed().epoch, self.flushed));
        pool.write_superblock();
    }

    /// Takes the confirmation of a superblock that is durable.
    pub(super) fn superblock_confirms(&mut self, pool: &mut Pool) {
        if pool.io.has_failed() {
            return;
        }
        if let Some((epoch, sequence)) = self.confirming.take() {
            self.when_confirmed(pool, epoch);
            self.release_unlinked(pool, sequence);
        }
    }

    /// Notes that all epochs up to this one are confirmed, and sends the pages that waited for it.
    pub fn when_confirmed(&mut self, pool: &mut Pool, epoch: Epoch) {
        pool.tables.confirm_upto(&mut pool.io, epoch);
        pool.send_marked_pages();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.send_what_waited(&mut pool.io, &mut pool.tables);
            pool.io.schedule.push(Task::Checkpoint);
        }
    }
}
