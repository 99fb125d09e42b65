//! The commit of an epoch in the log: its units are written to the next places, and one flush stands behind them.
//!
//! 1. *Small epochs*: content and units go out together, in any order; what of the content is missing after a crash, its fingerprint shows
//!    (L5). What compresses rides in the units themselves (`../compress/carry.rs`).
//!    *Large epochs*: content is flushed before the units are written, so that no recovery has to read all of it.
//! 2. One epoch at a time (L10).
//! 3. A small epoch that is one unit and nothing else goes by one FUA write, where the device takes that, in place of the write and the
//!    flush. All that the flush would cover besides is durable already, or nobody relies on it: epochs before it are (L10), its own content
//!    is in the unit.

mod apply;
mod compose;
mod gather;
mod send;

pub use compose::write_units;

use super::commit::{Commit, Step};
use super::compress::{plan_carriers, send_held};
use super::limits::{PLACES_LEFT_MIN, UNIT_RECORD_BYTES};
use super::places::Reserved;
use super::{Held, Log};
use crate::answers::Answers;
use crate::contents::Holding;
use crate::format::record::Record;
use crate::interface::{IoId, Trace};
use crate::io::FlushFor;
use crate::ledger::RIDES_BYTES_MAX;
use crate::schedule::Task;
use crate::scheme::parts::{Content, Progress};
use crate::space::GRANULE_BLOCKS;
use crate::store::Store;
use crate::tables::Epoch as Records;
use crate::units::{Epoch, Pbn, count};
use std::collections::{BTreeSet, VecDeque};

impl Log {
    /// A sealed epoch begins to commit; it touches these map pages.
    pub fn begin_commit(&mut self, store: &mut Store, epoch: &mut Records, map: VecDeque<u64>) {
        let newborn = newborn(store, epoch);
        self.commit = Some(Commit::new(newborn, epoch, Content::under_way(store), map));
    }

    /// Goes on with the commit as far as it gets.
    pub fn go_on(&mut self, store: &mut Store, answers: &mut Answers) -> Progress {
        let Some(mut commit) = self.commit.take() else { return Ok(false) };
        let progress = commit.step_gather(store).map(|is_gathered| match commit.step {
            _ if !is_gathered => false,
            // There is nothing to be said.
            Step::Gather => true,
            Step::Content => commit.step_content(store),
            Step::Units => self.step_units(&mut commit, store, answers),
            Step::FlushContent | Step::Flush => false,
        });
        self.commit = Some(commit);
        progress
    }

    /// A flush of the commit has ended well.
    pub fn commit_flushed(&mut self, store: &mut Store, answers: &mut Answers) -> Progress {
        let Some(commit) = self.commit.as_mut().filter(|commit| commit.step == Step::FlushContent) else { return Ok(true) };
        commit.step = Step::Units;
        self.go_on(store, answers)
    }

    /// A write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        self.commit.iter_mut().for_each(|commit| commit.content.arrived(io));
    }

    /// The step of the commit in one word: for reports.
    pub fn phase(&self) -> Option<&'static str> {
        self.commit.as_ref().map(|commit| match commit.step {
            Step::Gather => "links",
            Step::Content => "content",
            Step::FlushContent => "flush-1",
            Step::Units => "units",
            Step::Flush => "flush-2",
        })
    }

    /// What the commit left on the medium, by which the store is known.
    pub fn trace(&self) -> Option<Trace> {
        let is_sent = self.commit.as_ref().is_some_and(Commit::is_sent);
        is_sent.then(|| Trace::Log { sequence: self.last_sequence() })
    }

    /// Sends the units, and when they and the content are on the device, flushes. Whether the epoch is durable.
    fn step_units(&mut self, commit: &mut Commit, store: &mut Store, answers: &mut Answers) -> bool {
        if !commit.is_sent() {
            let epoch = store.tables.committing().number;
            if store.contents.held.asks(epoch) {
                return false;
            }
            let Some(carriers) = self.room_for_units(commit, store, epoch) else { return false };
            commit.count_riders(store, epoch, &carriers);
            let riders = self.carry(commit, store, epoch, &carriers);
            // What does not ride goes to its own blocks. From here on all content of the epoch is on its way.
            send_held(store, &mut answers.journal, epoch, |_| true);
            commit.content = Content::under_way(store);
            self.send_units(commit, store, riders);
        }
        if commit.counts.by_fua {
            // Content that is under way is not of its blocks.
            return commit.units_left == 0;
        }
        if commit.units_left == 0 && commit.content.is_there() {
            commit.step = Step::Flush;
            commit.counts.flushes += 1;
            store.io.flush(FlushFor::CommitLinks);
        }
        false
    }

    /// Makes sure of places for the units of the committing epoch: which of them carry what. None: it has to wait for some.
    fn room_for_units(&mut self, commit: &Commit, store: &mut Store, epoch: Epoch) -> Option<Vec<Vec<Pbn>>> {
        let bytes = commit.record_bytes(|pbn| store.contents.held.contains(epoch, pbn));
        let mut carriers = plan_carriers(store, epoch, bytes);
        loop {
            let rides = |pbn| carriers.iter().any(|blocks| blocks.contains(&pbn));
            let units = carriers.len() + commit.record_bytes(rides).div_ceil(UNIT_RECORD_BYTES);
            match self.reserve_places(store, units + PLACES_LEFT_MIN, Task::Commit) {
                Reserved::Enough => return Some(carriers),
                Reserved::Waits => return None,
                Reserved::Lacks if self.has_last_places(units) => return Some(carriers),
                // Plain units take fewer places.
                Reserved::Lacks if !carriers.is_empty() => carriers.clear(),
                Reserved::Lacks => {
                    self.starve(store);
                    return None;
                }
            }
        }
    }

    /// The epoch is durable: its effects enter the pages, and what it unlinked is held.
    pub fn end_commit(&mut self, store: &mut Store, epoch: &mut Records) {
        let Some(commit) = self.commit.take().filter(Commit::is_sent) else { return };
        let (number, removed) = (epoch.number, std::mem::take(&mut epoch.removed).into_iter().collect());
        commit.counts.enter(&mut store.io.ledger.log_epochs, commit.sent);
        // Its units say that the epoch before was flushed, and nothing of its own has entered a page.
        let before = store.tables.committed().epoch;
        self.when_vouched_for(store, before);
        self.flushed = self.next - 1;
        store.tables.committed().epoch = number;
        let sequence = self.flushed;
        self.release_held(store, commit.flushed_upto);
        let unlinked = apply::commit_records(store, number, &commit.carriers, &commit.records);
        if !unlinked.is_empty() {
            self.held.push_back(Held { sequence, unlinked, removed });
        }
        self.checkpoint_if_due(store);
    }

    /// Gives up what units up to this sequence unlinked: it is durable that they were flushed (L6).
    pub fn release_held(&mut self, store: &mut Store, flushed_upto: u64) {
        while self.held.front().is_some_and(|held| held.sequence <= flushed_upto) {
            let Some(Held { unlinked, removed, .. }) = self.held.pop_front() else { break };
            store.tables.removals.sent -= count(removed.len());
            store.settle.unlink(unlinked);
            removed.iter().for_each(|pbn| store.space.reclaimed(pbn.0 / GRANULE_BLOCKS));
            store.io.schedule.push(Task::Settle);
        }
    }
}

impl Commit {
    /// It was decided what rides in the units of the committing epoch.
    pub(super) fn count_riders(&mut self, store: &Store, epoch: Epoch, carriers: &[Vec<Pbn>]) {
        let rides = |state: &Holding| matches!(state, Holding::Small(data) if data.len() <= RIDES_BYTES_MAX);
        self.counts.could_ride = store.contents.held.of(epoch).any(|(_, held)| rides(&held.state));
        (self.counts.carriers, self.counts.riders) = (carriers.len(), carriers.iter().map(Vec::len).sum());
    }

    /// Gathers records, page of the map by page. Whether all are there: then another step comes next, unless there are none.
    fn step_gather(&mut self, store: &mut Store) -> Progress {
        if self.step != Step::Gather {
            return Ok(true);
        }
        self.map.begin_round();
        while let Some(id) = self.map.next(store)? {
            self.gather(store, id);
        }
        if !self.map.end_round() {
            return Ok(false);
        }
        self.gather_rest(store);
        if !self.records.is_empty() {
            self.step = if self.is_large { Step::Content } else { Step::Units };
        }
        Ok(true)
    }

    /// A large epoch's content is on its way: when it is there, it is flushed. The epoch is not durable by that.
    fn step_content(&mut self, store: &mut Store) -> bool {
        if self.content.is_there() {
            self.step = Step::FlushContent;
            self.counts.flushes += 1;
            store.io.flush(FlushFor::CommitContent);
        }
        false
    }

    /// Whether it is durable with its unit, if it is one: none of its records names content that lies elsewhere and was born in it, and
    /// nobody counts on the flush of the next commit.
    fn fua_is_enough(&self, store: &Store) -> bool {
        let needs_no_content = |record: &Record| matches!(record, Record::Link { .. } | Record::Clear { .. } | Record::Removed { .. });
        store.settings.device_takes_fua && self.records.iter().all(needs_no_content) && !store.io.durability.is_awaited()
    }
}

/// The blocks born in an epoch, which its records are to name. One that no LBN of the epoch means any more dies here: no unit names it, so
/// nobody may link to it from now on.
fn newborn(store: &mut Store, epoch: &mut Records) -> BTreeSet<Pbn> {
    let is_alive = |pbn: &&Pbn| store.space.fresh.get(**pbn).is_some_and(|fresh| fresh.waits && fresh.epoch == epoch.number.0);
    let mut newborn: BTreeSet<Pbn> = epoch.births.iter().filter(is_alive).copied().collect();
    // Where counts on the medium are wrong, one may have been left alive that nothing means.
    if !epoch.cancelled.is_empty() || epoch.birth_lost_a_link {
        let meant: BTreeSet<Pbn> = epoch.points.values().filter_map(|entry| entry.pbn()).collect();
        let unborn: Vec<Pbn> = newborn.difference(&meant).copied().collect();
        for pbn in unborn {
            newborn.remove(&pbn);
            // Its links have been cancelled with their LBNs; its fingerprint's goes here.
            epoch.cancelled.push(pbn);
            store.end_birth(pbn);
        }
    }
    newborn
}
