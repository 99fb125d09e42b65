//! What pages on the medium may hold: nothing that the last units alone vouch for.
//!
//! 1. An epoch is *vouched for* when something else than its own units says, durably, that it was flushed: a unit behind it, or a
//!    superblock. Then the loss of its units is told as damage (L2). Of the last epoch nothing tells it: each LBN has its own former
//!    content again.
//! 2. A page is written only while all that it holds is vouched for, and its tag is the last such epoch. Else a unit that rots would take
//!    back an epoch that some pages hold and others do not: counts would lack links, and blocks that are linked to would be handed out
//!    anew.
//! 3. A page that every epoch changes would never be written: it is sent when the next epoch is durable, before the effects of that enter.
//! 4. Where no epoch comes, a superblock vouches for the last one: its anchor stays where it is, and says how far units are flushed.

use crate::format::anchor::Anchor;
use crate::schedule::Task;
use crate::scheme::log::Log;
use crate::store::Store;
use crate::units::Epoch;

impl Log {
    /// Has a superblock vouch for what is committed (invariant 4).
    pub fn vouch(&mut self, store: &mut Store) {
        let is_more = store.tables.committed.as_ref().is_some_and(|committed| committed.vouched < committed.epoch);
        let is_due = is_more && self.vouching.is_none() && !store.medium.is_busy && !store.io.failed;
        let Some(anchor) = store.medium.superblock.anchor.as_ref().filter(|_| is_due) else { return };
        // A crash may have moved places since.
        let same = self.anchor_behind(store, anchor.sequence - 1, anchor.epoch, anchor.condensed.clone());
        store.medium.superblock.anchor = Some(Anchor { barrier: anchor.barrier, ..same });
        self.write_superblock_that_vouches(store);
    }

    /// Its anchor is of this moment.
    pub(super) fn write_superblock_that_vouches(&mut self, store: &mut Store) {
        self.vouching = Some((store.tables.committed().epoch, self.flushed));
        store.write_superblock();
    }

    /// A superblock update is over.
    pub(super) fn superblock_vouches(&mut self, store: &mut Store) {
        if store.io.failed {
            return;
        }
        if let Some((epoch, sequence)) = self.vouching.take() {
            self.when_vouched_for(store, epoch);
            self.release_held(store, sequence);
        }
    }

    /// All up to this epoch is: what waited for that is sent.
    pub fn when_vouched_for(&mut self, store: &mut Store, epoch: Epoch) {
        store.tables.vouch_upto(&store.io, epoch);
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.send_what_waited(store);
            store.io.schedule.push(Task::Checkpoint);
        }
    }
}
