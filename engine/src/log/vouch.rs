//! What pages on the medium may hold: nothing that the last units alone vouch for.
//!
//! 1. An epoch is *vouched for* when something else than its own units says, durably, that it was flushed: a unit behind it, or a superblock. Then
//!    the loss of its units is told as damage (L2). Of the last epoch nothing tells it: each LBN has its own former content again.
//! 2. A page is written only while all that it holds is vouched for, and its tag is the last such epoch. Else a unit that rots would take back an epoch
//!    that some pages hold and others do not: counts would lack links, and blocks that are linked to would be handed out anew.
//! 3. A page that every epoch changes would never be written: it is sent when the next epoch is durable, before the effects of that enter.
//! 4. Where no epoch comes, a superblock vouches for the last one: its anchor stays where it is, and says how far units are flushed.

use crate::engine::Engine;
use crate::format::anchor::Anchor;
use crate::schedule::Task;
use crate::units::Epoch;

impl Engine {
    /// Has a superblock vouch for what is committed (invariant 4).
    pub(crate) fn vouch(&mut self) {
        let is_more = self.store.tables.committed.as_ref().is_some_and(|committed| committed.vouched < committed.epoch);
        let is_due = is_more && self.scheme.log.as_ref().is_some_and(|log| log.vouching.is_none());
        let Some(anchor) =
            self.store.medium.superblock.anchor.as_ref().filter(|_| is_due && !self.store.medium.is_busy && !self.store.io.failed)
        else {
            return;
        };
        // A crash may have moved places since.
        let same = self.anchor_behind(anchor.sequence - 1, anchor.epoch, anchor.condensed.clone());
        self.store.medium.superblock.anchor = Some(Anchor { barrier: anchor.barrier, ..same });
        self.write_superblock_that_vouches();
    }

    /// Its anchor is of this moment.
    pub(super) fn write_superblock_that_vouches(&mut self) {
        let log = self.scheme.log.as_mut().expect("only a log is vouched for");
        log.vouching = Some((self.store.tables.committed().epoch, log.flushed));
        self.write_superblock();
    }

    /// A superblock update is over.
    pub(super) fn superblock_vouches(&mut self) {
        let Some(log) = self.scheme.log.as_mut().filter(|_| !self.store.io.failed) else { return };
        if let Some((epoch, sequence)) = log.vouching.take() {
            self.when_vouched_for(epoch);
            self.release_held(sequence);
        }
    }

    /// All up to this epoch is: what waited for that is sent.
    pub(super) fn when_vouched_for(&mut self, epoch: Epoch) {
        self.store.tables.vouch_upto(&self.store.io, epoch);
        let Some(checkpoint) = self.scheme.log.as_mut().expect("only a log is vouched for").checkpoint.as_mut() else { return };
        for id in std::mem::take(&mut checkpoint.not_yet) {
            self.send_page_of_checkpoint(id);
        }
        self.store.io.schedule.push(Task::Checkpoint);
    }
}
