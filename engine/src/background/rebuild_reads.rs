//! Reads blocks to rebuild the index: carriers, since only they hold the fingerprints of their slots, and blocks that a crash has left
//! without a whole fingerprint.
//!
//! 1. Only a few reads are under way at once, and their rate is limited, so that clients keep the device.
//! 2. A block is pinned while it is read (R7), so the content that arrives belongs to the entry that asked for it.

use super::IndexRebuild;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::Kind;
use crate::format::unit;
use crate::interface::Class;
use crate::io::{Arrived, Io, IoFor};
use crate::pool::Pool;
use crate::schedule::Task;
use crate::tables::Access;
use crate::units::{Pbn, count, index};

/// Reads under way at once.
const READS_AT_ONCE: u64 = 8;
/// This number of further blocks in a run takes as long as another read.
const RUN_BLOCKS_A_READ: u64 = 8;

impl IndexRebuild {
    /// Reads the next blocks for the page that was seen last.
    pub(super) fn read_blocks(&mut self, pool: &mut Pool) {
        if self.pending_reads.reading > 0 {
            self.waits = true;
            return;
        }
        if self.pending_reads.pause.is_some_and(|until| pool.io.now() < until) {
            return;
        }
        self.pending_reads.go_on_at_once();
        // In an index that is this full most slots find their bucket filled.
        if pool.index.entries() >= pool.index.capacity() / 8 * 7 {
            self.left_some_out |= !self.pending_reads.carriers.is_empty();
            self.pending_reads.carriers.clear();
        }
        let (mut asked, mut cost) = (0, 0);
        while asked < READS_AT_ONCE {
            let Some((first, blocks)) = self.pending_reads.take_run(&pool.geometry) else { break };
            asked += 1;
            cost += 1 + (blocks - 1) / RUN_BLOCKS_A_READ;
            (0..blocks).for_each(|i| pool.space.pin(first + i));
            let at = pool.geometry.block_at(first);
            pool.io.read(IoFor::ReadForFingerprint { first }, at, index(blocks), true, Class::Data);
        }
        while let (Some(&pbn), true) = (self.pending_reads.carriers.last(), asked < READS_AT_ONCE) {
            let (id, at) = pool.geometry.fingerprint_of(pbn);
            let entry = match pool.tables.ensure(&mut pool.io, id) {
                Access::Loading if asked > 0 => break,
                Access::Loading => {
                    self.waits = true;
                    return pool.tables.wait(&mut pool.io, id, Task::RebuildIndex);
                }
                Access::Unreadable => None,
                Access::Ready(resident) => Some(resident.page().content.fingerprint(at)),
            };
            self.pending_reads.carriers.pop();
            let Some(entry) = entry.filter(|entry| entry.kind == Kind::Carrier && !pool.tables.is_losing_its_name(pbn)) else {
                continue;
            };
            if let Some(block) = pool.in_memory(pbn) {
                self.entries += pool.offer_slots(pbn, block.block(0));
                continue;
            }
            asked += 1;
            cost += 1;
            pool.space.pin(pbn);
            let at = pool.geometry.block_at(pbn);
            pool.io.read(IoFor::ReadForIndex { pbn, authenticator: entry.value }, at, 1, false, Class::Data);
        }
        self.pending_reads.are_asked(asked);
        self.waits = asked > 0;
        if asked > 0 {
            let ms = (cost * 1000).div_ceil(pool.settings.knobs.rebuild_reads_per_second);
            self.pending_reads.go_on_at(pool.io.now().plus_ms(ms));
        } else {
            pool.io.schedule.ask_for_background();
        }
    }

    /// Enters the slots of a carrier that has been read. One that does not match its entry is damaged.
    pub fn carrier_arrived(&mut self, pool: &mut Pool, pbn: Pbn, authenticator: Fingerprint, arrived: &Arrived) {
        let block = arrived.buffer.block(0);
        if arrived.result.is_ok() && unit::claims(block) == authenticator && pool.keys.authentic(pbn, block).is_some() {
            self.entries += pool.offer_slots(pbn, block);
        } else {
            pool.entry_is_wrong(pbn, arrived.result.is_err());
        }
        pool.space.unpin(pbn);
        self.read_ended(&mut pool.io);
    }

    /// Gives blocks that have been read their fingerprints again.
    pub fn unnamed_arrived(&mut self, pool: &mut Pool, first: Pbn, arrived: &Arrived) {
        let Arrived { buffer, digests, result } = arrived;
        for i in 0..buffer.blocks() {
            let pbn = first + count(i);
            if let (Ok(()), Some(&Digest::Of(fingerprint))) = (result, digests.get(i)) {
                let is_named = pool.keys.authentic(pbn, buffer.block(i)).is_none() && pool.restore_fingerprint(pbn, fingerprint);
                self.named += u64::from(is_named);
            }
            pool.space.unpin(pbn);
        }
        self.read_ended(&mut pool.io);
    }

    fn read_ended(&mut self, io: &mut Io) {
        if self.pending_reads.one_ended() {
            io.schedule.push(Task::RebuildIndex);
        }
    }
}
