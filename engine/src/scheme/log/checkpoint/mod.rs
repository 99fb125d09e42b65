//! A checkpoint: every page that live records touch is written, and the walk begins behind them.
//!
//! 1. **Pages**, each with what is committed by then; *flush*. **Bits** of pages that were written for the first time; *flush*, where there
//!    were any. **Superblock** with the new anchor; *flush*. What lay before the anchor is free (L8).
//! 2. Epochs commit meanwhile: the anchor goes to where the log stood when the checkpoint began.
//! 3. One at a time; the anchor is composed as its superblock is written, so nothing overtakes it. A condensing (`condense.rs`) is one that
//!    writes copies of records instead of the pages of map and refs.
//! 4. With the bits durable before the anchor, a page that was written and has none is one that live records touch: no other needs to be
//!    doubted after a crash.

mod condense;
mod superblock;
mod vouch;

use super::Log;
use super::checkpointing::{At, Checkpoint};
use super::commit::Commit;
use super::copies::{Copies, Segments};
use super::limits::PLACES_LEFT_MIN;
use super::places::runs;
use crate::format::anchor::{Anchor, Condensed};
use crate::format::page::{PageId, Region};
use crate::format::superblock::CommitMode;
use crate::io::FlushFor;
use crate::memory::Part;
use crate::schedule::Task;
use crate::scheme::parts::{Reached, Step};
use crate::space::Use;
use crate::store::Store;
use crate::tables::{Access, Committed, Live, Page};
use crate::units::{Epoch, Pbn, count, index};
use std::collections::VecDeque;

/// The most pages loading, and the most being written, at once.
const PAGES_IN_FLIGHT_MAX: usize = 64;
/// Live records may take so many times their share while it is under way.
const LIVE_SHARES_MAX: u64 = 2;

/// Whether live records of so many bytes, and so many of them, are more than memory is meant for.
pub(super) fn are_too_many(store: &Store, bytes: u64, records: u64) -> bool {
    // Mode `ordered` has no share for a log that it empties; nothing else is there yet.
    let part = if store.settings.commit_mode == CommitMode::Log { Part::Log } else { Part::Dirty };
    bytes > store.memory.accountant.limit(part) || records > store.settings.live_records_max
}

impl Log {
    /// Begins one where memory or space asks for it.
    pub fn checkpoint_if_due(&mut self, store: &mut Store) {
        let records = &store.tables.committed().records;
        let (bytes, number) = (records.bytes(), records.len());
        // Where blocks are scarce the walk, and what the one before has passed, are of the reserve.
        let reserve = store.geometry.reserve_blocks;
        let most = store.settings.checkpoint_beyond;
        let most = if store.space.census.free > 2 * reserve { most } else { most.min(reserve / 4) };
        let units = count(self.walk.len() + self.segments.places.len()) > most;
        if are_too_many(store, bytes, number) || units || self.has_spilled || self.places.len() < PLACES_LEFT_MIN {
            self.begin_checkpoint(store);
        } else {
            self.condense_if_due(store);
        }
    }

    /// Whether further writes should wait for the one that is under way: there are too many live records.
    pub fn waits_for_checkpoint(&self, store: &Store) -> bool {
        let too_many = |live: &Live| are_too_many(store, live.bytes() / LIVE_SHARES_MAX, live.len() / LIVE_SHARES_MAX);
        self.checkpoint.is_some() && store.tables.committed.as_ref().is_some_and(|committed| too_many(&committed.records))
    }

    /// Begins one, if none is under way and there is anything before the new anchor, or for the superblock to say.
    pub fn begin_checkpoint(&mut self, store: &mut Store) {
        let ends_recount = store.space.returned.is_unsaid;
        let is_wanted = self.keeps_blocks() || self.is_cut_off || ends_recount;
        if !is_wanted || store.io.failed || store.io.read_only {
            return;
        }
        if let Some(under_way) = &self.checkpoint {
            self.checkpoint_is_next |= under_way.copies.is_some();
            return;
        }
        let Committed { records, epoch, .. } = store.tables.committed();
        let (mut due, epoch): (VecDeque<PageId>, _) = (records.pages(*epoch).collect(), *epoch);
        if ends_recount {
            due.extend(store.tables.pages.unwritten());
        }
        self.checkpoint = Some(Checkpoint { ends_recount, ..Checkpoint::new(epoch, self.flushed, due, None) });
        store.io.schedule.push(Task::Checkpoint);
    }

    /// Goes on with the one that is under way.
    ///
    /// # Errors
    /// What has failed.
    pub fn go_on_with_checkpoint(&mut self, store: &mut Store) -> Step {
        let Some(checkpoint) = self.checkpoint.take() else { return Ok(Reached::Nothing) };
        match checkpoint.at {
            At::Places => self.choose_places_of_copies(checkpoint, store),
            At::Pages => self.checkpoint_pages(checkpoint, store),
            At::Bits => Ok(self.checkpoint_bits(checkpoint, store)),
            At::SuperblockDue => Ok(self.checkpoint_superblock(checkpoint, store)),
            At::PagesFlush | At::BitsFlush | At::Superblock => Ok(self.wait(checkpoint)),
        }
    }

    /// It goes on when something has ended.
    fn wait(&mut self, checkpoint: Checkpoint) -> Reached {
        self.checkpoint = Some(checkpoint);
        Reached::Nothing
    }

    fn checkpoint_pages(&mut self, mut checkpoint: Checkpoint, store: &mut Store) -> Step {
        let most = PAGES_IN_FLIGHT_MAX.min(store.tables.pages.waiting_max());
        if let Err(what) = checkpoint.send_pages(store, most) {
            self.checkpoint = Some(checkpoint);
            return Err(what);
        }
        let all_are_looked_at = checkpoint.due.is_empty() && checkpoint.loading.is_empty();
        let is_blocked = checkpoint.not_yet.len() >= most || all_are_looked_at;
        let are_copied = checkpoint.copies.as_ref().is_none_or(Copies::are_written);
        let may_go_on = is_blocked && checkpoint.writing.is_empty() && are_copied;
        if may_go_on && checkpoint.not_yet.is_empty() {
            checkpoint.at = At::PagesFlush;
            store.io.flush(FlushFor::Checkpoint);
        }
        let waits_to_be_vouched_for = may_go_on && !checkpoint.not_yet.is_empty();
        self.checkpoint = Some(checkpoint);
        if waits_to_be_vouched_for && !self.commit.as_ref().is_some_and(Commit::is_sent) {
            // No epoch does it soon.
            self.vouch(store);
        }
        Ok(Reached::Nothing)
    }

    /// A page's write has completed.
    pub fn page_written(&mut self, store: &mut Store, id: PageId) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.writing.remove(&id);
            store.io.schedule.push(Task::Checkpoint);
        }
    }

    /// A flush of the checkpoint has ended well.
    pub fn checkpoint_flushed(&mut self, store: &mut Store) -> Reached {
        let Some(mut checkpoint) = self.checkpoint.take() else { return Reached::Nothing };
        if checkpoint.at == At::PagesFlush {
            checkpoint.at = At::Bits;
            return self.checkpoint_bits(checkpoint, store);
        }
        self.checkpoint_superblock(checkpoint, store)
    }

    /// The bits of pages that are durable for the first time.
    fn checkpoint_bits(&mut self, mut checkpoint: Checkpoint, store: &mut Store) -> Reached {
        let Store { io, tables, .. } = &mut *store;
        if !io.durability.bits_ready.is_empty() {
            io.schedule.push(Task::Bits);
            return self.wait(checkpoint);
        }
        let due: Vec<PageId> = tables.pages.dirty.iter().copied().filter(|id| id.region == Region::Written).collect();
        for id in due {
            if !tables.pages.expect(id).writing {
                tables.write_page(io, id);
            }
        }
        // Others may have sent some of them.
        if io.durability.bits_in_flight > 0 {
            return self.wait(checkpoint);
        }
        if io.durability.bits_stamp > io.durability.mark {
            checkpoint.at = At::BitsFlush;
            io.flush(FlushFor::Checkpoint);
            return self.wait(checkpoint);
        }
        self.checkpoint_superblock(checkpoint, store)
    }

    fn checkpoint_superblock(&mut self, mut checkpoint: Checkpoint, store: &mut Store) -> Reached {
        if checkpoint.is_spill {
            self.checkpoint = Some(checkpoint);
            return Reached::Spilled;
        }
        if store.medium.is_busy {
            checkpoint.at = At::SuperblockDue;
            return self.wait(checkpoint);
        }
        checkpoint.at = At::Superblock;
        if checkpoint.ends_recount {
            store.recount_is_durable();
        }
        let condensed = self.condensed_by(checkpoint.copies.as_ref());
        store.medium.superblock.anchor = Some(self.anchor_behind(store, checkpoint.sequence, checkpoint.epoch, condensed));
        store.medium.superblock.last_log_sequence = self.next - 1;
        self.checkpoint = Some(checkpoint);
        self.write_superblock_that_vouches(store);
        Reached::Nothing
    }

    /// The walk begins behind the unit of this sequence.
    pub fn anchor_behind(&self, store: &Store, sequence: u64, epoch: Epoch, condensed: Condensed) -> Anchor {
        let before = index(sequence + 1 - self.first());
        // That of the unit behind, or of those to come: what was left there before a crash is of a lower one, though not always of a lower
        // one than the unit before.
        let incarnation = self.walk.get(before).map_or(store.medium.superblock.incarnation, |unit| unit.incarnation);
        let places = self.walk.iter().skip(before).map(|unit| unit.pbn).chain(self.places.iter().copied());
        // Never less than a superblock said before.
        let flushed_upto = self.flushed.max(sequence);
        Anchor { sequence: sequence + 1, incarnation, epoch, flushed_upto, places: runs(places), barrier: None, condensed }
    }

    /// A superblock update is over: perhaps the checkpoint's, perhaps one that it waited for.
    pub fn superblock_written(&mut self, store: &mut Store) -> Reached {
        self.superblock_vouches(store);
        match self.checkpoint.as_ref().map(|checkpoint| checkpoint.at) {
            // It may have to vouch for something.
            Some(At::Pages | At::SuperblockDue) => {
                store.io.schedule.push(Task::Checkpoint);
                Reached::Nothing
            }
            Some(At::Superblock) if !store.io.failed => self.end_checkpoint(store),
            _ => Reached::Nothing,
        }
    }

    fn end_checkpoint(&mut self, store: &mut Store) -> Reached {
        let Some(Checkpoint { epoch, sequence, copies, .. }) = self.checkpoint.take() else { return Reached::Nothing };
        let names_places = store.medium.superblock.anchor.as_ref().is_some_and(|anchor| !anchor.places.is_empty());
        self.is_cut_off &= !names_places;
        match copies {
            Some(copies) => {
                self.segments.has(copies, self.next - count(self.walk.len()) - 1);
                store.tables.committed().records.condensed_upto(epoch);
                self.anchor_has_moved(store, sequence, Vec::new());
            }
            None => {
                store.tables.committed().records.forget_upto(epoch);
                self.has_spilled = false;
                let Segments { places, reserve, .. } = std::mem::take(&mut self.segments);
                // No superblock has ever named these.
                reserve.into_iter().for_each(|pbn| Self::leaves_log(store, pbn));
                self.anchor_has_moved(store, sequence, places);
            }
        }
        self.go_on_behind_checkpoint(store)
    }

    /// It is over, or was not made: another one may have waited for it.
    fn go_on_behind_checkpoint(&mut self, store: &mut Store) -> Reached {
        if std::mem::take(&mut self.checkpoint_is_next) {
            self.begin_checkpoint(store);
        }
        if self.checkpoint.is_none() { Reached::End } else { Reached::Nothing }
    }

    /// The anchor of one pair of copies lies behind the unit of this sequence, and leads to these condensed units no more. What the other
    /// pair leads to, stays.
    fn anchor_has_moved(&mut self, store: &mut Store, sequence: u64, condensed: Vec<Pbn>) {
        let units = index(sequence + 1 - self.first());
        let passed = self.walk.drain(..units).map(|unit| unit.pbn).chain(condensed).collect();
        for pbn in std::mem::replace(&mut self.passed, passed) {
            // Where free blocks are hard to find, the log keeps what it has.
            if self.places.len() <= PLACES_LEFT_MIN && store.space.of_scheme.get(&pbn) == Some(&Use::Plain) {
                self.places.push_back(pbn);
            } else {
                Self::leaves_log(store, pbn);
            }
        }
        store.io.schedule.push(Task::Settle);
        store.space.no_longer_busy();
        self.release_held(store, sequence);
    }

    /// Whether a checkpoint has to come before writers hear that there is no space: it is begun.
    pub fn checkpoint_frees_blocks(&mut self, store: &mut Store) -> bool {
        self.begin_checkpoint(store);
        self.checkpoint.is_some()
    }

    /// Whether a checkpoint has to empty the log before the volume closes: it is begun.
    pub fn checkpoint_empties_log(&mut self, store: &mut Store) -> bool {
        (!self.is_empty() || self.checkpoint.is_some()) && self.checkpoint_frees_blocks(store)
    }

    /// Whether one is under way.
    pub fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }
}

impl Checkpoint {
    /// Sends pages that are due, as far as they are in memory, with so many under way at once.
    fn send_pages(&mut self, store: &mut Store, most: usize) -> Result<(), &'static str> {
        let Store { io, tables, .. } = store;
        let mut loading = std::mem::take(&mut self.loading);
        let mut again = Vec::new();
        while self.writing.len() < most && again.len() < most && self.not_yet.len() < most {
            let Some(id) = loading.pop().or_else(|| self.due.pop_front()) else { break };
            match tables.ensure(io, id) {
                Access::Ready(resident) => {
                    let Page { writing, unsaved, dirty, .. } = *resident.page();
                    match (writing, unsaved || dirty.is_some()) {
                        // It is asked again when that write is over.
                        (true, _) => again.push(id),
                        // Somebody sent it since its last record.
                        (false, false) => {}
                        _ if !tables.may_be_written(id) => self.not_yet.push(id),
                        _ => {
                            tables.write_page(io, id);
                            self.writing.insert(id);
                        }
                    }
                }
                Access::Unreadable if self.is_spill => self.lacks_page = true,
                Access::Unreadable => return Err("a read of a page that has to change"),
                Access::Loading => {
                    tables.wait(io, id, Task::Checkpoint);
                    again.push(id);
                }
            }
        }
        self.loading = again;
        self.loading.append(&mut loading);
        Ok(())
    }

    /// More is vouched for: sends the pages that have waited for that, those that are still there.
    fn send_what_waited(&mut self, store: &mut Store) {
        let Store { io, tables, .. } = store;
        for id in std::mem::take(&mut self.not_yet) {
            if tables.pages.get(id).is_some_and(|page| !page.writing) && tables.may_be_written(id) {
                tables.write_page(io, id);
                self.writing.insert(id);
            } else {
                self.loading.push(id);
            }
        }
    }
}
