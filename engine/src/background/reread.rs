//! Blocks that are read to fill the index: carriers, whose slots' fingerprints stand in themselves alone, and blocks that a crash has left
//! without a whole name.
//!
//! 1. They are read a few at a time, and so many a second: clients keep the device.
//! 2. A block is pinned while it is read (R7), so what arrives is compared with the entry that asked for it.

use super::Refill;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::Kind;
use crate::format::unit;
use crate::interface::Class;
use crate::io::{Arrived, IoFor};
use crate::schedule::Task;
use crate::store::Store;
use crate::tables::Access;
use crate::units::{Pbn, count, index};

/// Reads under way at once.
const READS_AT_ONCE: u64 = 8;
/// So many further blocks of a run take as long as a read of their own.
const RUN_BLOCKS_A_READ: u64 = 8;

impl Refill {
    /// Reads the next blocks that the page seen last has asked for.
    pub(super) fn reread(&mut self, store: &mut Store) {
        if self.rereading.reading > 0 {
            self.waits = true;
            return;
        }
        if self.rereading.pause.is_some_and(|until| store.io.now < until) {
            return;
        }
        self.rereading.pause = None;
        // Most slots find their bucket filled when so much of the index is.
        if store.index.len() >= store.index.capacity() / 8 * 7 {
            self.rereading.carriers.clear();
        }
        let (mut asked, mut cost) = (0, 0);
        while asked < READS_AT_ONCE {
            let Some((first, blocks)) = self.rereading.take_run() else { break };
            asked += 1;
            cost += 1 + (blocks - 1) / RUN_BLOCKS_A_READ;
            (0..blocks).for_each(|i| store.space.pin(first + i));
            let at = store.geometry.block_at(first);
            store.io.read(IoFor::ReadForFingerprint { first }, at, index(blocks), true, Class::Data);
        }
        while let (Some(&pbn), true) = (self.rereading.carriers.last(), asked < READS_AT_ONCE) {
            let (id, at) = store.geometry.fingerprint_of(pbn);
            let entry = match store.tables.ensure(&mut store.io, id) {
                Access::Loading if asked > 0 => break,
                Access::Loading => {
                    self.waits = true;
                    return store.tables.wait(&mut store.io, id, Task::Refill);
                }
                Access::Unreadable => None,
                Access::Ready(resident) => Some(resident.page().content.fingerprint(at)),
            };
            self.rereading.carriers.pop();
            let Some(entry) = entry.filter(|entry| entry.kind == Kind::Carrier && !store.tables.is_losing_its_name(pbn)) else {
                continue;
            };
            if let Some(block) = store.in_memory(pbn) {
                self.entries += store.offer_slots(pbn, block.block(0));
                continue;
            }
            asked += 1;
            cost += 1;
            store.space.pin(pbn);
            let at = store.geometry.block_at(pbn);
            store.io.read(IoFor::ReadForIndex { pbn, authenticator: entry.value }, at, 1, false, Class::Data);
        }
        self.rereading.reading = asked;
        self.waits = asked > 0;
        if asked > 0 {
            let ms = (cost * 1000).div_ceil(store.settings.refill_reads_per_second);
            self.rereading.pause = Some(store.io.now.plus_ms(ms));
        } else {
            store.io.schedule.more_background = true;
        }
    }

    /// A carrier has arrived. One that is not what its entry says is left to whoever reads it.
    pub fn carrier_arrived(&mut self, store: &mut Store, pbn: Pbn, authenticator: Fingerprint, arrived: &Arrived) {
        let block = arrived.buffer.block(0);
        if arrived.result.is_ok() && unit::claims(block) == authenticator && store.authentic(pbn, block).is_some() {
            self.entries += store.offer_slots(pbn, block);
        }
        store.space.unpin(pbn);
        self.reread_one(store);
    }

    /// Blocks without a whole name have arrived.
    pub fn unnamed_arrived(&mut self, store: &mut Store, first: Pbn, arrived: &Arrived) {
        let Arrived { buffer, digests, result } = arrived;
        for i in 0..buffer.blocks() {
            let pbn = first + count(i);
            if let (Ok(()), Some(&Digest::Of(fingerprint))) = (result, digests.get(i)) {
                let is_named = store.authentic(pbn, buffer.block(i)).is_none() && store.name_again(pbn, fingerprint);
                self.named += u64::from(is_named);
            }
            store.space.unpin(pbn);
        }
        self.reread_one(store);
    }

    fn reread_one(&mut self, store: &mut Store) {
        self.rereading.reading -= 1;
        if self.rereading.reading == 0 {
            store.io.schedule.push(Task::Refill);
        }
    }
}
