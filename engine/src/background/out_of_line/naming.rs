//! Fingerprints for blocks that were deferred when they were written: only then can the sweep find their duplicates.
//!
//! 1. A block is pinned while it is read (R7), so what arrives belongs to the entry that asked for it.
//! 2. Content that differs from its checksum is damaged (P6), and gets no fingerprint.
//! 3. A block whose page has left memory meanwhile is read again.
//! 4. A range that came to be protected while a block was read keeps it from getting a fingerprint.

use super::OutOfLine;
use crate::fingerprint::Digest;
use crate::interface::Class;
use crate::io::{Arrived, IoFor};
use crate::pool::{Parts, Pool};
use crate::schedule::Task;
use crate::units::{Pbn, count, index};

/// The most blocks in one read.
const RUN_BLOCKS_MAX: u64 = 16;
/// This number of blocks counts as one read.
const RUN_BLOCKS_A_READ: u64 = 8;

impl OutOfLine {
    /// Reads a block that was deferred, whose entry is in memory, and its neighbours that were deferred, too.
    pub(super) fn read_unnamed(&mut self, parts: &mut Parts, wanted: Pbn) {
        let (first, blocks) = parts.pool.deferred_around(wanted, RUN_BLOCKS_MAX);
        (0..blocks).for_each(|i| parts.pool.space.pin(first + i));
        parts.pool.io.read(IoFor::ReadForNaming { first, wanted }, parts.pool.geometry.block_at(first), index(blocks), true, Class::Data);
        self.reading += 1;
        self.pause_after_reads(parts, blocks.div_ceil(RUN_BLOCKS_A_READ));
    }

    /// Whether a block that was read gets its fingerprint. Where ranges are protected, only the LBN that asked for it shows whether it is
    /// in one of them by now.
    fn may_name(&self, pool: &mut Pool, pbn: Pbn, wanted: Pbn) -> bool {
        if pool.medium.superblock.protected.is_empty() {
            return true;
        }
        let asks = self.asked.first().or_else(|| self.batch.next_unnamed());
        pbn == wanted && asks.is_some_and(|lbn| matches!(pool.deferred(lbn), Ok(Some(now)) if now == wanted))
    }

    /// Gives blocks that have been read their fingerprints.
    pub fn unnamed_arrived(&mut self, pool: &mut Pool, first: Pbn, wanted: Pbn, arrived: &Arrived) {
        for i in 0..arrived.buffer.blocks() {
            let pbn = first + count(i);
            let digest = if arrived.result.is_ok() { arrived.digest(i) } else { Digest::Partial };
            let may_name = self.may_name(pool, pbn, wanted);
            if may_name && pool.name_deferred(pbn, digest, arrived.buffer.block(i)) && pbn == wanted {
                self.unnamed = Some(pbn);
            }
            pool.space.unpin(pbn);
        }
        self.reading -= 1;
        pool.io.schedule.push(Task::OutOfLine);
    }
}
