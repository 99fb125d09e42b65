//! What makes epochs durable: one commit scheme, chosen when the volume opens.
//!
//! 1. One epoch commits at a time; while it does, the next one fills.
//! 2. A scheme is asked for this and no more: where the content of a new block goes, now or when its epoch is sealed; whether there is room
//!    for a further record; that an epoch is sealed, that an operation of its own has ended; what is still owed before the volume closes;
//!    how far it is.
//! 3. Only a scheme, the opening and the closing of the volume, and an update of the superblock ask for flushes.

pub(crate) mod log;
mod ordered;
mod parts;
mod seal;

pub(crate) use log::Log;
pub(crate) use parts::{Progress, Reached, Step};

use crate::answers::Answers;
use crate::buffer::Slice;
use crate::format::entry::Kind;
use crate::format::page::PageId;
use crate::interface::{IoId, Reply, Trace};
use crate::schedule::{Blocked, Task};
use crate::stats::LogBlocks;
use crate::store::Store;
use crate::tables::Epoch;
use crate::units::{Lbn, Pbn};
use std::collections::VecDeque;

/// The commit scheme of an open volume.
pub(crate) enum Scheme {
    /// Content and increments, links, decrements; with the commit that is under way.
    Ordered(Option<ordered::Commit>),
    /// The carried log, in its mode, and while a live one is emptied.
    Log(Box<Log>),
}

impl Default for Scheme {
    fn default() -> Self {
        Self::Ordered(None)
    }
}

impl Scheme {
    /// Makes sure of room for so many further records of the open epoch, before they are admitted: sealed, they always find it.
    pub fn admit_records(&mut self, store: &mut Store, records: usize) -> Result<(), Blocked> {
        match self {
            Self::Ordered(_) => Ok(()),
            Self::Log(log) => log.admit_records(store, records),
        }
    }

    /// Further records of the open epoch that find room.
    pub fn room_for_records(&self, store: &Store) -> usize {
        match self {
            Self::Ordered(_) => usize::MAX,
            Self::Log(log) => log.room_for_records(store),
        }
    }

    /// Whether further records have to wait for some that are under way.
    pub fn is_crowded(&self, store: &Store, answers: &Answers) -> bool {
        match self {
            Self::Ordered(_) => answers.journal.ring_waits_for_content(store),
            Self::Log(log) => log.holds_enough(store, answers) || log.waits_for_checkpoint(store),
        }
    }

    /// Holds back the content of a block that is born in the open epoch, or not. What is to be kept of it.
    pub fn hold_back(&mut self, store: &mut Store, answers: &Answers, kind: Kind, lbn: Lbn, pbn: Pbn, slice: &Slice) -> Option<Slice> {
        match self {
            Self::Ordered(_) => None,
            Self::Log(log) => log.hold_back(store, answers, kind, lbn, pbn, slice),
        }
    }

    /// Bytes of memory that held content takes, besides itself.
    pub fn held_bytes(&self, store: &Store) -> u64 {
        match self {
            Self::Ordered(_) => 0,
            Self::Log(log) => log.held_bytes(store),
        }
    }

    /// A held block was compressed, if it could be.
    pub fn compressed(&mut self, store: &mut Store, answers: &mut Answers, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) {
        if let Self::Log(log) = self {
            log.compressed(store, answers, io, pbn, data);
        }
    }

    /// A block was born in the open epoch, which may have become a large one by that.
    pub fn epoch_has_grown(&mut self, store: &mut Store, answers: &mut Answers) {
        if let Self::Log(log) = self {
            log.let_large_epoch_go(store, answers);
        }
    }

    /// Packs what the open epoch holds back, if there is enough of it.
    pub fn pack_if_large(&mut self, store: &mut Store, answers: &mut Answers) {
        if let Self::Log(log) = self {
            log.pack_if_large(store, answers, store.tables.open.number);
        }
    }

    /// A pack is to be born in the open epoch that was not made in it. Whether it may be.
    pub fn takes_foreign_pack(&mut self, store: &mut Store, answers: &mut Answers) -> bool {
        match self {
            Self::Ordered(_) => false,
            Self::Log(log) => {
                log.let_epoch_of_packs_go(store, answers);
                true
            }
        }
    }

    /// Whether the open epoch had better not be sealed yet, for what is being made for it.
    fn waits_before_seal(&self, store: &Store) -> bool {
        matches!(self, Self::Log(log) if log.waits_for_packs(store))
    }

    /// The open epoch is about to be sealed.
    fn before_seal(&mut self, store: &mut Store, answers: &mut Answers) {
        if let Self::Log(log) = self {
            log.pack_before_seal(store, answers);
        }
    }

    /// The sequence of the last unit of a log.
    pub fn last_sequence(&self) -> u64 {
        match self {
            Self::Ordered(_) => 0,
            Self::Log(log) => log.last_sequence(),
        }
    }

    /// The most map pages on which one epoch of so many points may unmap ranges.
    fn clear_pages_max(&self, store: &Store, points: usize) -> u64 {
        match self {
            Self::Ordered(_) => u64::MAX,
            Self::Log(log) => log.clear_pages_max(store, points),
        }
    }

    /// The sealed epoch begins to commit; it touches these map pages.
    fn begin_commit(&mut self, store: &mut Store, epoch: &mut Epoch, map: VecDeque<u64>) {
        match self {
            Self::Ordered(commit) => *commit = Some(ordered::Commit::new(store, epoch, map)),
            Self::Log(log) => log.begin_commit(store, epoch, map),
        }
    }

    /// Goes on with the commit as far as it gets.
    ///
    /// # Errors
    /// What has failed.
    pub fn go_on(&mut self, store: &mut Store, answers: &mut Answers) -> Progress {
        match self {
            Self::Ordered(Some(commit)) => commit.go_on(store, &answers.journal),
            Self::Ordered(None) => Ok(false),
            Self::Log(log) => log.go_on(store, answers),
        }
    }

    /// A flush of the commit has ended well.
    ///
    /// # Errors
    /// What has failed.
    pub fn commit_flushed(&mut self, store: &mut Store, answers: &mut Answers) -> Progress {
        match self {
            Self::Ordered(Some(commit)) => commit.flushed(store, &answers.journal),
            Self::Ordered(None) => Ok(false),
            Self::Log(log) => log.commit_flushed(store, answers),
        }
    }

    /// A write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        match self {
            Self::Ordered(commit) => commit.iter_mut().for_each(|commit| commit.content_arrived(io)),
            Self::Log(log) => log.content_arrived(io),
        }
    }

    /// Units at neighbouring places are on the device, if `is_good`, and with them these carriers.
    pub fn units_written(&mut self, store: &mut Store, units: usize, carriers: Vec<Pbn>, is_good: bool) {
        if let Self::Log(log) = self {
            log.units_written(store, units, carriers, is_good);
        }
    }

    /// Copies of records at neighbouring places are on the device.
    pub fn copies_written(&mut self, store: &mut Store, units: usize) {
        if let Self::Log(log) = self {
            log.copies_written(store, units);
        }
    }

    /// A page's write has completed.
    pub fn page_written(&mut self, store: &mut Store, id: PageId, stamp: u64) {
        match self {
            Self::Ordered(commit) => commit.iter_mut().for_each(|commit| commit.page_written(id, stamp)),
            Self::Log(log) => log.page_written(store, id),
        }
        store.commit_may_go_on();
    }

    /// The epoch that commits is durable: whoever waited is answered, and what it allows waits for its pages.
    pub fn end_commit(&mut self, store: &mut Store, answers: &mut Answers) {
        let Some(mut epoch) = store.tables.committing.take() else { return };
        store.medium.superblock.last_epoch = epoch.number;
        answers.anticipation.durable(store.io.now);
        if answers.journal.has_ring(store) {
            let trace = self.trace();
            answers.journal.promises_are_kept(store, epoch.number, trace);
        }
        for request in std::mem::take(&mut epoch.waiters) {
            store.io.reply(request, Reply::Done);
        }
        match self {
            Self::Ordered(commit) => commit.take().into_iter().for_each(|commit| commit.end(store, &mut epoch)),
            Self::Log(log) => log.end_commit(store, &mut epoch),
        }
        store.settle.unlink(epoch.cancelled);
        store.io.schedule.push(Task::Settle);
    }

    /// What the commit left on the medium, by which the store is known.
    fn trace(&self) -> Option<Trace> {
        match self {
            Self::Ordered(commit) => commit.as_ref().and_then(ordered::Commit::trace),
            Self::Log(log) => log.trace(),
        }
    }

    /// The step of the commit in one word: for reports.
    pub fn phase(&self) -> Option<&'static str> {
        match self {
            Self::Ordered(commit) => commit.as_ref().map(ordered::Commit::phase),
            Self::Log(log) => log.phase(),
        }
    }

    /// Something has to be vouched for before pages can be written.
    pub fn vouch(&mut self, store: &mut Store) {
        if let Self::Log(log) = self {
            log.vouch(store);
        }
    }

    /// Goes on with what waits for a free block.
    pub fn feed(&mut self, store: &mut Store) {
        if let Self::Log(log) = self {
            log.feed(store);
        }
    }

    /// Blocks that have lost a link which counts until a later commit, each as often.
    pub fn unlinked(&self) -> impl Iterator<Item = Pbn> + '_ {
        let log = if let Self::Log(log) = self { Some(log) } else { None };
        log.into_iter().flat_map(|log| log.unlinked())
    }

    /// Records that are kept until then, for the account of memory.
    pub fn held_records(&self) -> usize {
        if let Self::Log(log) = self { log.held_records() } else { 0 }
    }

    /// Blocks that the scheme keeps for itself.
    pub fn blocks_kept(&self, store: &Store) -> Option<LogBlocks> {
        if let Self::Log(log) = self { Some(log.blocks_kept(&store.space)) } else { None }
    }

    /// Whether pages are being brought up to date, so that what stands for them can be given up: a checkpoint is under way.
    pub fn has_checkpoint(&self) -> bool {
        matches!(self, Self::Log(log) if log.has_checkpoint())
    }

    /// Goes on with a checkpoint.
    ///
    /// # Errors
    /// What has failed.
    pub fn go_on_with_checkpoint(&mut self, store: &mut Store) -> Step {
        if let Self::Log(log) = self { log.go_on_with_checkpoint(store) } else { Ok(Reached::Nothing) }
    }

    /// A flush of a checkpoint has ended well.
    pub fn checkpoint_flushed(&mut self, store: &mut Store) -> Reached {
        if let Self::Log(log) = self { log.checkpoint_flushed(store) } else { Reached::Nothing }
    }

    /// An update of the superblock is over: perhaps a checkpoint's, perhaps one that it waited for.
    pub fn superblock_written(&mut self, store: &mut Store) -> Reached {
        if let Self::Log(log) = self { log.superblock_written(store) } else { Reached::Nothing }
    }

    /// Whether something has to come before writers hear that there is no space, and blocks may be free then: it is begun.
    pub fn frees_blocks(&mut self, store: &mut Store) -> bool {
        if let Self::Log(log) = self { log.checkpoint_frees_blocks(store) } else { false }
    }

    /// Whether something has to come before the volume closes: it is begun.
    pub fn owes(&mut self, store: &mut Store) -> bool {
        if let Self::Log(log) = self { log.checkpoint_empties_log(store) } else { false }
    }

    /// A recount has ended: what it changed is to be made durable. Whether it was exact although commits went on, and all names are known.
    pub fn recounted(&mut self, store: &mut Store) -> bool {
        match self {
            Self::Ordered(_) => store.write_superblock(),
            Self::Log(log) => log.begin_checkpoint(store),
        }
        matches!(self, Self::Log(_))
    }

    /// The superblock is to be written again, for what else it says.
    pub fn update_superblock(&mut self, store: &mut Store) {
        match self {
            Self::Ordered(_) => store.write_superblock(),
            Self::Log(log) => log.vouch(store),
        }
    }

    /// The volume serves from now on.
    pub fn serves(&mut self, store: &mut Store) {
        if let Self::Log(log) = self {
            log.checkpoint_if_due(store);
        }
    }

    /// The superblock is about to say that the volume is closed.
    pub fn close_superblock(&self, store: &mut Store) {
        if let Self::Log(log) = self {
            log.close_superblock(store);
        }
    }
}
