//! A checkpoint: every page that live records touch is written, and the walk begins behind them.
//!
//! 1. **Pages**, each with what is committed by then; *flush*. **Bits** of pages that were written for the first time; *flush*, where there were
//!    any. **Superblock** with the new anchor; *flush*. What lay before the anchor is free (L8).
//! 2. Epochs commit meanwhile: the anchor goes to where the log stood when the checkpoint began.
//! 3. One at a time; the anchor is composed as its superblock is written, so nothing overtakes it. A condensing (`condense.rs`) is one that writes
//!    copies of records instead of the pages of map and refs.
//! 4. With the bits durable before the anchor, a page that was written and has none is one that live records touch: no other needs to be
//!    doubted after a crash.

use super::Log;
use super::condense::{Copies, Segments};
use super::units::PLACES_LEFT_MIN;
use super::walk::runs;
use crate::engine::Engine;
use crate::format::anchor::{Anchor, Condensed};
use crate::format::page::{PageId, Region};
use crate::io::FlushFor;
use crate::io::Stage;
use crate::schedule::Task;
use crate::space::Use;
use crate::tables::Got;
use crate::tables::{Committed, Live};
use crate::units::{Epoch, Pbn, count};
use std::collections::{BTreeSet, VecDeque};

/// The most pages loading, and the most being written, at once.
const PAGES_IN_FLIGHT_MAX: usize = 64;
/// Live records may take so many times their share while it is under way.
const LIVE_SHARES_MAX: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Copies need places.
    Places,
    Pages,
    PagesFlush,
    Bits,
    BitsFlush,
    /// Another update of the superblock is under way.
    SuperblockDue,
    Superblock,
}

/// A checkpoint under way.
pub(super) struct Checkpoint {
    pub at: At,
    /// The last epoch, and the last unit, that lie before the new anchor.
    pub epoch: Epoch,
    pub sequence: u64,
    due: VecDeque<PageId>,
    loading: Vec<PageId>,
    /// In memory, with what nothing vouches for yet (`vouch.rs`).
    pub(super) not_yet: Vec<PageId>,
    writing: BTreeSet<PageId>,
    /// It began after a recount: what that changed is among its pages, so its superblock may say so.
    ends_recount: bool,
    /// Of a condensing.
    pub copies: Option<Copies>,
    /// It is an opening's, which has no place for all records (`spill.rs`): the anchor stays.
    is_spill: bool,
    /// Of such a one: a page could not be read.
    pub lacks_page: bool,
}

impl Checkpoint {
    /// Up to this epoch and unit, by way of these pages; a condensing, where there are copies.
    pub fn new(epoch: Epoch, sequence: u64, due: VecDeque<PageId>, copies: Option<Copies>) -> Self {
        let at = if copies.is_some() { At::Places } else { At::Pages };
        let (loading, not_yet, writing) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { at, epoch, sequence, due, loading, not_yet, writing, ends_recount: false, copies, is_spill: false, lacks_page: false }
    }

    /// Of an opening: these pages, with what is committed up to this epoch.
    pub fn spill(epoch: Epoch, due: VecDeque<PageId>) -> Self {
        Self { is_spill: true, ..Self::new(epoch, 0, due, None) }
    }
}

impl Engine {
    /// Begins one where memory or space asks for it.
    pub(crate) fn checkpoint_if_due(&mut self) {
        let log = self.scheme.log.as_ref().expect("checkpoints are the log's");
        let records = &self.store.tables.committed.as_ref().expect("a log has records").records;
        let memory = self.are_too_many(records.bytes(), records.len());
        // Where blocks are scarce the walk, and what the one before has passed, are of the reserve.
        let reserve = self.store.geometry.reserve_blocks;
        let most = self.store.settings.checkpoint_beyond;
        let most = if self.store.space.census.free > 2 * reserve { most } else { most.min(reserve / 4) };
        let units = count(log.walk.len() + log.segments.places.len()) > most;
        if memory || units || log.has_spilled || log.places.len() < PLACES_LEFT_MIN {
            self.begin_checkpoint();
        } else {
            self.condense_if_due();
        }
    }

    /// Whether further writes should wait for the one that is under way: there are too many live records.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
        let too_many = |live: &Live| self.are_too_many(live.bytes() / LIVE_SHARES_MAX, live.len() / LIVE_SHARES_MAX);
        let is_under_way = self.scheme.log.as_ref().is_some_and(|log| log.checkpoint.is_some());
        is_under_way && self.store.tables.committed.as_ref().is_some_and(|committed| too_many(&committed.records))
    }

    /// Begins one, if none is under way and there is anything before the new anchor, or for the superblock to say.
    pub(crate) fn begin_checkpoint(&mut self) {
        let ends_recount = self.store.space.returned.is_unsaid;
        let is_wanted = |log: &&mut Log| log.keeps_blocks() || log.is_cut_off || ends_recount;
        let Some(log) = self.scheme.log.as_mut().filter(is_wanted) else { return };
        if self.store.io.failed || self.store.io.read_only {
            return;
        }
        if let Some(under_way) = &log.checkpoint {
            log.checkpoint_is_next |= under_way.copies.is_some();
            return;
        }
        let Committed { records, epoch, .. } = self.store.tables.committed();
        let (mut due, epoch): (VecDeque<PageId>, _) = (records.pages(*epoch).collect(), *epoch);
        if ends_recount {
            due.extend(self.store.tables.pages.unsettled());
        }
        log.checkpoint = Some(Checkpoint { ends_recount, ..Checkpoint::new(epoch, log.flushed, due, None) });
        self.store.io.schedule.push(Task::Checkpoint);
    }

    pub(crate) fn go_on_with_checkpoint(&mut self) {
        let at = self.scheme.log.as_ref().and_then(|log| log.checkpoint.as_ref()).map(|checkpoint| checkpoint.at);
        if self.store.io.failed {
            if at.is_some() && self.store.io.stage == Stage::Opening {
                self.opening_failed();
            }
            return;
        }
        match at {
            Some(At::Places) => self.choose_places_of_copies(),
            Some(At::Pages) => self.checkpoint_pages(),
            Some(At::Bits) => self.checkpoint_bits(),
            Some(At::SuperblockDue) => self.checkpoint_superblock(),
            _ => {}
        }
    }

    pub(super) fn checkpoint(&mut self) -> &mut Checkpoint {
        self.scheme.log.as_mut().and_then(|log| log.checkpoint.as_mut()).expect("a step belongs to a checkpoint")
    }

    pub(super) fn checkpoint_pages(&mut self) {
        let most = PAGES_IN_FLIGHT_MAX.min(self.store.tables.pages.waiting_max());
        let mut loading = std::mem::take(&mut self.checkpoint().loading);
        let mut again = Vec::new();
        while self.checkpoint().writing.len() < most && again.len() < most && self.checkpoint().not_yet.len() < most {
            let Some(id) = loading.pop().or_else(|| self.checkpoint().due.pop_front()) else { break };
            match self.store.tables.ensure(&mut self.store.io, id) {
                // It is asked again when that write is over.
                Got::Ready if self.store.tables.pages.expect(id).writing => again.push(id),
                // Somebody sent it since its last record.
                Got::Ready if !self.store.tables.pages.expect(id).unsaved && self.store.tables.pages.expect(id).dirty.is_none() => {}
                Got::Ready if !self.store.tables.may_be_written(id) => self.checkpoint().not_yet.push(id),
                Got::Ready => {
                    self.store.tables.write_page(&mut self.store.io, id);
                    self.checkpoint().writing.insert(id);
                }
                Got::Unreadable if self.checkpoint().is_spill => self.checkpoint().lacks_page = true,
                Got::Unreadable => return self.fail("a read of a page that has to change"),
                Got::Wait => {
                    self.store.tables.wait(&mut self.store.io, id, Task::Checkpoint);
                    again.push(id);
                }
            }
        }
        let checkpoint = self.checkpoint();
        checkpoint.loading = again;
        checkpoint.loading.append(&mut loading);
        let is_blocked = checkpoint.not_yet.len() >= most || checkpoint.due.is_empty() && checkpoint.loading.is_empty();
        if !is_blocked || !checkpoint.writing.is_empty() || checkpoint.copies.as_ref().is_some_and(|copies| !copies.are_written()) {
            return;
        }
        if checkpoint.not_yet.is_empty() {
            checkpoint.at = At::PagesFlush;
            self.store.io.flush(FlushFor::Checkpoint);
        } else if !self.scheme.commit.as_ref().is_some_and(|commit| commit.log.is_sent()) {
            // No epoch does it soon.
            self.vouch();
        }
    }

    /// Sends a page that has waited to be vouched for, if it is still there.
    pub(super) fn send_page_of_checkpoint(&mut self, id: PageId) {
        if self.store.tables.pages.get(id).is_some_and(|page| !page.writing) && self.store.tables.may_be_written(id) {
            self.store.tables.write_page(&mut self.store.io, id);
            self.checkpoint().writing.insert(id);
        } else {
            self.checkpoint().loading.push(id);
        }
    }

    /// A page's write has completed.
    pub(crate) fn checkpoint_page_written(&mut self, id: PageId) {
        if let Some(checkpoint) = self.scheme.log.as_mut().and_then(|log| log.checkpoint.as_mut()) {
            checkpoint.writing.remove(&id);
            self.store.io.schedule.push(Task::Checkpoint);
        }
    }

    pub(crate) fn checkpoint_flushed(&mut self) {
        if self.store.io.failed {
            return;
        }
        let checkpoint = self.checkpoint();
        match checkpoint.at {
            At::PagesFlush => {
                checkpoint.at = At::Bits;
                self.checkpoint_bits();
            }
            At::BitsFlush => self.checkpoint_superblock(),
            _ => unreachable!("no flush is in flight in these steps"),
        }
    }

    /// The bits of pages that are durable for the first time.
    fn checkpoint_bits(&mut self) {
        if !self.store.io.durability.bits_ready.is_empty() {
            return self.store.io.schedule.push(Task::Bits);
        }
        let due: Vec<PageId> = self.store.tables.pages.dirty.iter().copied().filter(|id| id.region == Region::Written).collect();
        for id in due {
            if !self.store.tables.pages.expect(id).writing {
                self.store.tables.write_page(&mut self.store.io, id);
            }
        }
        // Others may have sent some of them.
        if self.store.io.durability.bits_in_flight > 0 {
            return;
        }
        if self.store.io.durability.bits_stamp > self.store.io.durability.mark {
            self.checkpoint().at = At::BitsFlush;
            self.store.io.flush(FlushFor::Checkpoint);
        } else {
            self.checkpoint_superblock();
        }
    }

    fn checkpoint_superblock(&mut self) {
        if self.checkpoint().is_spill {
            return self.end_spill();
        }
        if self.store.medium.is_busy {
            self.checkpoint().at = At::SuperblockDue;
            return;
        }
        self.checkpoint().at = At::Superblock;
        let sequence = self.checkpoint().sequence;
        let epoch = self.checkpoint().epoch;
        if self.checkpoint().ends_recount {
            self.recount_is_durable();
        }
        let condensed = self.condensed_by_then();
        self.store.medium.superblock.anchor = Some(self.anchor_behind(sequence, epoch, condensed));
        self.store.medium.superblock.last_log_sequence = self.scheme.log.as_ref().expect("it is there").next - 1;
        self.write_superblock_that_vouches();
    }

    /// The walk begins behind the unit of this sequence.
    pub(super) fn anchor_behind(&self, sequence: u64, epoch: Epoch, condensed: Condensed) -> Anchor {
        let log = self.scheme.log.as_ref().expect("an anchor is the log's");
        let before = crate::units::index(sequence + 1 - log.first());
        // That of the unit behind, or of those to come: what was left there before a crash is of a lower one, though not always of a lower one
        // than the unit before.
        let incarnation = log.walk.get(before).map_or(self.store.medium.superblock.incarnation, |unit| unit.incarnation);
        let places = log.walk.iter().skip(before).map(|unit| unit.pbn).chain(log.places.iter().copied());
        // Never less than a superblock said before.
        let flushed_upto = log.flushed.max(sequence);
        Anchor { sequence: sequence + 1, incarnation, epoch, flushed_upto, places: runs(places), barrier: None, condensed }
    }

    /// A superblock update is over: perhaps the checkpoint's, perhaps one that it waited for.
    pub(crate) fn checkpoint_after_superblock(&mut self) {
        self.superblock_vouches();
        let Some(at) = self.scheme.log.as_ref().and_then(|log| log.checkpoint.as_ref()).map(|checkpoint| checkpoint.at) else { return };
        match at {
            // It may have to vouch for something.
            At::Pages | At::SuperblockDue => self.store.io.schedule.push(Task::Checkpoint),
            At::Superblock if !self.store.io.failed => self.end_checkpoint(),
            _ => {}
        }
    }

    fn end_checkpoint(&mut self) {
        let names_places = self.store.medium.superblock.anchor.as_ref().is_some_and(|anchor| !anchor.places.is_empty());
        let log = self.scheme.log.as_mut().expect("it is there");
        log.is_cut_off &= !names_places;
        let Checkpoint { epoch, sequence, copies, .. } = log.checkpoint.take().expect("it is the checkpoint's superblock");
        match copies {
            Some(copies) => {
                log.segments.has(copies, log.next - count(log.walk.len()) - 1);
                self.store.tables.committed().records.condensed_upto(epoch);
                self.anchor_has_moved(sequence, Vec::new());
            }
            None => {
                self.store.tables.committed().records.forget_upto(epoch);
                log.has_spilled = false;
                let Segments { places, reserve, .. } = std::mem::take(&mut log.segments);
                // No superblock has ever named these.
                reserve.into_iter().for_each(|pbn| self.leaves_log(pbn));
                self.anchor_has_moved(sequence, places);
            }
        }
        self.go_on_behind_checkpoint();
    }

    /// It is over, or was not made: another one may have waited for it, or an opening, or a closing.
    pub(super) fn go_on_behind_checkpoint(&mut self) {
        let log = self.scheme.log.as_mut().expect("it is there");
        if std::mem::take(&mut log.checkpoint_is_next) {
            self.begin_checkpoint();
        }
        if self.scheme.log.as_ref().is_some_and(|log| log.checkpoint.is_none()) {
            self.after_checkpoint();
        }
    }

    /// The anchor of one pair of copies lies behind the unit of this sequence, and leads to these condensed units no more. What the other pair
    /// leads to, stays.
    fn anchor_has_moved(&mut self, sequence: u64, condensed: Vec<Pbn>) {
        let log = self.scheme.log.as_mut().expect("it is there");
        let units = crate::units::index(sequence + 1 - log.first());
        let passed = log.walk.drain(..units).map(|unit| unit.pbn).chain(condensed).collect();
        for pbn in std::mem::replace(&mut log.passed, passed) {
            let log = self.scheme.log.as_mut().expect("it is there");
            // Where free blocks are hard to find, the log keeps what it has.
            if log.places.len() <= PLACES_LEFT_MIN && self.store.space.of_scheme.get(&pbn) == Some(&Use::Plain) {
                log.places.push_back(pbn);
            } else {
                self.leaves_log(pbn);
            }
        }
        self.store.io.schedule.push(Task::Settle);
        self.store.space.no_longer_busy();
        self.release_held(sequence);
    }

    /// Whether a checkpoint has to come before writers hear that there is no space: it is begun.
    pub(crate) fn checkpoint_frees_blocks(&mut self) -> bool {
        self.begin_checkpoint();
        self.scheme.log.as_ref().is_some_and(|log| log.checkpoint.is_some())
    }

    /// Whether a checkpoint has to empty the log before the volume closes: it is begun.
    pub(crate) fn checkpoint_empties_log(&mut self) -> bool {
        self.scheme.log.as_ref().is_some_and(|log| !log.is_empty() || log.checkpoint.is_some()) && self.checkpoint_frees_blocks()
    }
}
