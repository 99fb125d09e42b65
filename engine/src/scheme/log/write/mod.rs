//! The commit of an epoch in the log: its units are written to the next places, and one flush follows.
//!
//! 1. *Small epochs*: content and units are sent together, in any order; fingerprints show which content is missing after a crash (L5).
//!    Content that compresses rides in the units themselves (`../compress/carry.rs`).
//!    *Large epochs*: content is flushed before the units are written, so that no recovery has to read all of it.
//! 2. One epoch commits at a time (L10).
//! 3. A small epoch that is one unit and nothing else takes one FUA write, where the device accepts that, instead of the write and the
//!    flush. All else that the flush would cover is durable already, or nothing relies on it: epochs before it are (L10), and its own
//!    content is in the unit.

mod apply;
mod compose;
mod gather;
mod send;

pub use compose::write_units;

use super::commit::{Commit, Step};
use super::compress::{plan_carriers, send_held};
use super::limits::{PLACES_LEFT_MIN, UNIT_RECORD_BYTES};
use super::places::Reserved;
use super::{Log, Unlinked};
use crate::answers::Answers;
use crate::contents::{Contents, HeldState};
use crate::format::record::Record;
use crate::interface::{IoId, Trace};
use crate::io::{FlushFor, Io};
use crate::ledger::RIDES_BYTES_MAX;
use crate::pool::Pool;
use crate::schedule::Task;
use crate::scheme::parts::{Content, Progress};
use crate::settings::Settings;
use crate::space::GRANULE_BLOCKS;
use crate::tables::EpochRecords;
use crate::units::{Epoch, Pbn};
use std::collections::{BTreeSet, VecDeque};

impl Log {
    /// Begins to commit a sealed epoch, which touches these map pages.
    pub fn begin_commit(&mut self, pool: &mut Pool, epoch: &mut EpochRecords, map: VecDeque<u64>) {
        let pending = pending_blocks(pool, epoch);
        self.commit = Some(Commit::new(pending, epoch, Content::under_way(&pool.io, &pool.contents), map));
    }

    /// Continues the commit.
    pub fn write_epoch(&mut self, pool: &mut Pool, answers: &mut Answers) -> Progress {
        let Some(mut commit) = self.commit.take() else { return Ok(false) };
        let progress = commit.step_gather(pool).map(|is_gathered| match commit.step {
            _ if !is_gathered => false,
            // There is nothing to write.
            Step::Gather => true,
            Step::Content => commit.step_content(&mut pool.io),
            Step::Units => self.step_units(&mut commit, pool, answers),
            Step::FlushContent | Step::Flush => false,
        });
        self.commit = Some(commit);
        progress
    }

    /// Continues after a flush of the commit.
    pub fn commit_flushed(&mut self, pool: &mut Pool, answers: &mut Answers) -> Progress {
        let Some(commit) = self.commit.as_mut().filter(|commit| commit.step == Step::FlushContent) else { return Ok(true) };
        commit.step = Step::Units;
        self.write_epoch(pool, answers)
    }

    /// Notes that a write of content has ended.
    pub fn content_arrived(&mut self, io: IoId) {
        self.commit.iter_mut().for_each(|commit| commit.content.arrived(io));
    }

    /// The step of the commit in one word, for reports.
    pub fn phase(&self) -> Option<&'static str> {
        self.commit.as_ref().map(|commit| match commit.step {
            Step::Gather => "links",
            Step::Content => "content",
            Step::FlushContent => "flush-1",
            Step::Units => "units",
            Step::Flush => "flush-2",
        })
    }

    /// The last unit of the commit, by which the store is known.
    pub fn trace(&self) -> Option<Trace> {
        let is_sent = self.commit.as_ref().is_some_and(Commit::is_sent);
        is_sent.then(|| Trace::Log { sequence: self.last_sequence() })
    }

    /// Sends the units, and flushes when they and the content are on the device. Returns whether the epoch is durable.
    fn step_units(&mut self, commit: &mut Commit, pool: &mut Pool, answers: &mut Answers) -> bool {
        if !commit.is_sent() {
            let epoch = pool.tables.committing().number;
            if pool.contents.held.asks(epoch) {
                return false;
            }
            let Some(carriers) = self.room_for_units(commit, pool, epoch) else { return false };
            commit.count_riders(&pool.contents, epoch, &carriers);
            let riders = self.carry(commit, pool, epoch, &carriers);
            // Content that does not ride goes to its own blocks. Then all content of the epoch is under way or written.
            send_held(pool, &mut answers.ack_journal, epoch, |_| true);
            commit.content = Content::under_way(&pool.io, &pool.contents);
            self.send_units(commit, pool, riders);
        }
        if commit.counts.by_fua {
            // Content that is under way belongs to other epochs.
            return commit.units_left == 0;
        }
        if commit.units_left == 0 && commit.content.is_there() {
            commit.step = Step::Flush;
            commit.counts.flushes += 1;
            pool.io.flush(FlushFor::CommitLinks);
        }
        false
    }

    /// Reserves places for the units of the committing epoch. Returns the blocks of each carrier; none where the commit has to wait.
    fn room_for_units(&mut self, commit: &Commit, pool: &mut Pool, epoch: Epoch) -> Option<Vec<Vec<Pbn>>> {
        let bytes = commit.record_bytes(|pbn| pool.contents.held.contains(epoch, pbn));
        let mut carriers = plan_carriers(pool, epoch, bytes);
        loop {
            let rides = |pbn| carriers.iter().any(|blocks| blocks.contains(&pbn));
            let units = carriers.len() + commit.record_bytes(rides).div_ceil(UNIT_RECORD_BYTES);
            match self.reserve_places(pool, units + PLACES_LEFT_MIN, Task::Commit) {
                Reserved::Enough => return Some(carriers),
                Reserved::Waits => return None,
                Reserved::Lacks if self.has_last_places(units) => return Some(carriers),
                // Plain units take fewer places.
                Reserved::Lacks if !carriers.is_empty() => carriers.clear(),
                Reserved::Lacks => {
                    self.starve(&mut pool.io, &mut pool.tables, &pool.space);
                    return None;
                }
            }
        }
    }

    /// Ends the commit of a durable epoch: its effects enter the pages, and its unlinked blocks are kept.
    pub fn end_commit(&mut self, pool: &mut Pool, epoch: &mut EpochRecords) {
        let Some(commit) = self.commit.take().filter(Commit::is_sent) else { return };
        let (number, removed) = (epoch.number, std::mem::take(&mut epoch.removed).into_iter().collect());
        commit.counts.enter(&mut pool.io.ledger.log_epochs, commit.sent);
        // The units confirm that the epoch before was flushed, and no effect of this one has entered a page.
        let before = pool.tables.committed().epoch;
        self.when_confirmed(pool, before);
        self.flushed = self.next - 1;
        pool.tables.committed().epoch = number;
        let sequence = self.flushed;
        self.release_unlinked(pool, commit.flushed_upto);
        let unlinked = apply::commit_records(pool, number, &commit.carriers, &commit.records);
        if !unlinked.is_empty() {
            self.unlinked.push_back(Unlinked { sequence, blocks: unlinked, removed });
        }
        self.checkpoint_if_due(pool);
    }

    /// Frees the blocks that units up to this sequence unlinked: their flush is confirmed (L6).
    pub fn release_unlinked(&mut self, pool: &mut Pool, flushed_upto: u64) {
        while self.unlinked.front().is_some_and(|of| of.sequence <= flushed_upto) {
            let Some(Unlinked { blocks, removed, .. }) = self.unlinked.pop_front() else { break };
            pool.tables.removals.are_durable(removed.len());
            pool.settle.unlink(blocks);
            removed.iter().for_each(|pbn| pool.space.reclaimed(pbn.0 / GRANULE_BLOCKS));
            pool.io.schedule.push(Task::Settle);
        }
    }
}

impl Commit {
    /// Counts the riders of the committing epoch for the ledger.
    pub(super) fn count_riders(&mut self, contents: &Contents, epoch: Epoch, carriers: &[Vec<Pbn>]) {
        let rides = |state: &HeldState| matches!(state, HeldState::Compressed(data) if data.len() <= RIDES_BYTES_MAX);
        self.counts.could_ride = contents.held.of(epoch).any(|(_, held)| rides(&held.state));
        (self.counts.carriers, self.counts.riders) = (carriers.len(), carriers.iter().map(Vec::len).sum());
    }

    /// Gathers records, one map page after the other. Returns whether all are there: then the next step begins, unless there are none.
    fn step_gather(&mut self, pool: &mut Pool) -> Progress {
        if self.step != Step::Gather {
            return Ok(true);
        }
        self.map.begin_round();
        while let Some(id) = self.map.next(&mut pool.io, &mut pool.tables)? {
            self.gather(&mut pool.tables, &pool.space, &pool.geometry, id);
        }
        if !self.map.end_round() {
            return Ok(false);
        }
        self.gather_rest(&mut pool.tables);
        if !self.records.is_empty() {
            self.step = if self.is_large { Step::Content } else { Step::Units };
        }
        Ok(true)
    }

    /// Flushes the content of a large epoch when it is written. The epoch is not durable by that.
    fn step_content(&mut self, io: &mut Io) -> bool {
        if self.content.is_there() {
            self.step = Step::FlushContent;
            self.counts.flushes += 1;
            io.flush(FlushFor::CommitContent);
        }
        false
    }

    /// Whether a single unit makes the epoch durable by a FUA write: its records name no new content outside the unit, and nothing counts
    /// on the flush of the next commit.
    fn fua_is_enough(&self, io: &Io, settings: &Settings) -> bool {
        let needs_no_content = |record: &Record| matches!(record, Record::Link { .. } | Record::Clear { .. } | Record::Removed { .. });
        settings.facts.device_takes_fua && self.records.iter().all(needs_no_content) && !io.durability.is_awaited()
    }
}

/// The new blocks of an epoch, which its records are to name. A block that no LBN of the epoch means any more dies here: no unit names it,
/// so nothing may link to it from now on.
fn pending_blocks(pool: &mut Pool, epoch: &mut EpochRecords) -> BTreeSet<Pbn> {
    let is_alive = |pbn: &&Pbn| pool.space.pending.get(**pbn).is_some_and(|pending| pending.waits && pending.epoch == epoch.number.0);
    let mut pending: BTreeSet<Pbn> = epoch.new_blocks.iter().filter(is_alive).copied().collect();
    // Where counts on the medium are wrong, a block without a link may be alive.
    if !epoch.cancelled.is_empty() || epoch.new_block_lost_a_link {
        let meant: BTreeSet<Pbn> = epoch.points.entries().filter_map(|entry| entry.pbn()).collect();
        let dead: Vec<Pbn> = pending.difference(&meant).copied().collect();
        for pbn in dead {
            pending.remove(&pbn);
            // Its links were cancelled with their LBNs; the link of its fingerprint is cancelled here.
            epoch.cancelled.push(pbn);
            pool.drop_fingerprint(pbn);
        }
    }
    pending
}
