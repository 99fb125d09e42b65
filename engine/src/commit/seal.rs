//! Sealing an epoch: when, and what belongs to it.
//!
//! 1. A flush, FUA or strong write, the timer, or shortage of memory seals; as late as those who wait allow.
//! 2. While one epoch commits, the next fills; one commits at a time.
//! 3. It may wait a little longer for further writes (`anticipate.rs`).

use crate::commit::{Commit, Due, Step};
use crate::engine::Engine;
use crate::format::page::{PageId, Region};
use crate::interface::{Reply, RequestId};
use crate::io::Stage;
use crate::log::LogPart;
use crate::memory::Part;
use crate::schedule::Task;
use crate::tables::{Epoch, Wanted};
use crate::units::{Lbn, Pbn, count};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most map pages that one commit unmaps ranges in, so that a huge discard is many commits and nobody waits for all of it: their links,
/// up to 800 a page, are taken away in one step.
const RANGE_PAGES_MAX: u64 = 64;
/// The least, where memory is scarce.
const RANGE_PAGES_MIN: u64 = 4;
/// The most map pages looked at for that.
const RANGE_PAGES_LOOKED_AT_MAX: u64 = 1 << 16;

impl Engine {
    /// Someone waits for the open epoch.
    fn want_epoch(&mut self, why: Wanted) {
        if self.store.tables.open.wanted.is_none() {
            self.store.tables.open.wanted = Some(why);
            self.scheme.anticipation.wanted(self.store.io.now, self.store.settings.anticipation_ms);
        }
    }

    /// A client's flush waits for every epoch that holds something acknowledged before it came (R5).
    pub(crate) fn client_flush(&mut self, request: RequestId) {
        self.store.io.ledger.client_flushes += 1;
        if self.store.io.failed {
            return self.fail_request(request, crate::interface::Failure::Io);
        }
        self.wait_for_commit(request, Wanted::Flush);
    }

    /// Answers a request when all that came before it is durable.
    pub(crate) fn wait_for_commit(&mut self, request: RequestId, why: Wanted) {
        // A write that only found no room for its promise asks for no more than others do.
        if self.store.io.failed || why != Wanted::Space && std::mem::take(&mut self.journal.lost) {
            return self.fail_request(request, crate::interface::Failure::Io);
        }
        if !self.store.tables.open.is_empty() {
            self.store.tables.open.waiters.push(request);
            return self.want_epoch(why);
        }
        match &mut self.store.tables.committing {
            Some(epoch) => epoch.waiters.push(request),
            None => self.store.io.reply(request, Reply::Done),
        }
    }

    /// Seals the open epoch if it is time.
    pub(crate) fn commit_if_due(&mut self) {
        if self.scheme.commit.is_some() || self.store.io.failed || !self.store.io.stage.commits() || self.is_behind() {
            return;
        }
        self.store.space.reclaim_if_low(&mut self.store.io, &self.store.tables.removals);
        self.find_space_for_waiters();
        if self.store.tables.open.is_empty() {
            let removals = !self.store.tables.removals.unsent.is_empty() || !self.store.io.durability.removed.is_empty();
            // A recount waits for them too.
            if removals && (!self.store.space.waiters.is_empty() || self.background.recount.running() || self.store.space.gives_back()) {
                self.seal();
            }
            return;
        }
        let timer =
            self.store.tables.open.opened.is_some_and(|opened| self.store.io.now >= opened.plus_ms(self.store.settings.commit_period_ms));
        let ring_fills = self.journal.records().0 > self.store.settings.ring_records_max / 4;
        let pressure =
            self.open_bytes() > self.store.memory.accountant.limit(Part::Dirty) / 2 || ring_fills || !self.store.space.waiters.is_empty();
        let wanted =
            self.store.tables.open.wanted.filter(|_| self.scheme.anticipation.until.is_none_or(|until| self.store.io.now >= until));
        let closing = self.store.io.stage.is_closing() || self.store.io.stage == Stage::Recalling && self.journal.recalled.is_empty();
        if !(timer || pressure || wanted.is_some() || closing) {
            // Who wanted it was helped otherwise while it waited for packs: it fills on.
            if std::mem::take(&mut self.store.tables.open.is_due) {
                self.store.io.schedule.push(Task::Admit);
            }
            return;
        }
        // Soon: its content would else go out as it is.
        self.store.tables.open.is_due = self.waits_for_packs();
        if self.store.tables.open.is_due {
            return;
        }
        *match wanted {
            Some(Wanted::Flush) => &mut self.store.io.ledger.epochs_flush,
            Some(Wanted::Fua) => &mut self.store.io.ledger.epochs_fua,
            Some(Wanted::Strong) => &mut self.store.io.ledger.epochs_strong,
            Some(Wanted::Space) => &mut self.store.io.ledger.epochs_pressure,
            None if pressure => &mut self.store.io.ledger.epochs_pressure,
            None => &mut self.store.io.ledger.epochs_timer,
        } += 1;
        self.seal();
    }

    /// Whether so many links of earlier commits still wait for their refs pages that no further ones may be unmapped.
    pub(crate) fn is_behind(&self) -> bool {
        count(self.store.settle.records()) * crate::tables::RECORD_COST_BYTES > self.store.memory.accountant.limit(Part::Dirty)
    }

    /// The open epoch begins to commit, and the next one opens.
    fn seal(&mut self) {
        self.pack_before_seal();
        self.scheme.anticipation.sealed(self.store.io.now);
        self.look_at_counters();
        let next = crate::units::Epoch(self.store.tables.open.number.0 + 1);
        let mut epoch = std::mem::replace(&mut self.store.tables.open, Epoch::new(next));
        self.journal.sealed();
        let map_due = self.map_pages_of(&mut epoch);
        let mut due = BTreeMap::new();
        let in_log = self.scheme.log.is_some();
        let log = if in_log { LogPart::new(self.newborn(&mut epoch), &epoch) } else { LogPart::default() };
        for &index in epoch.refs_pages.iter().filter(|_| !in_log) {
            due.insert(PageId { region: Region::Refs, index }, Due::Unsent);
        }
        // An epoch without records is sealed for the removals alone; any other flushes in step 2 at the latest.
        let removals = epoch.is_empty();
        due.extend(self.store.tables.removals.unsent.keys().map(|&id| (id, Due::Unsent)));
        self.store.tables.committing = Some(epoch);
        self.scheme.commit = Some(Commit {
            step: if in_log { Step::Links } else { Step::Content },
            horizon: self.store.io.horizon(),
            content_left: self.store.contents.content_in_flight,
            due,
            relied_on: 0,
            removals,
            map_due,
            map_loading: Vec::new(),
            map_writing: BTreeSet::new(),
            map_written: false,
            trace: None,
            unlinked: Vec::new(),
            log,
        });
        self.go_on_committing();
    }

    /// The blocks born in an epoch, which its records are to name. One that no LBN of the epoch means any more dies here: no unit names it, so
    /// nobody may link to it from now on.
    fn newborn(&mut self, epoch: &mut Epoch) -> BTreeSet<Pbn> {
        let is_alive = |pbn: &&Pbn| self.store.space.fresh.get(**pbn).is_some_and(|fresh| fresh.waits && fresh.epoch == epoch.number.0);
        let mut newborn: BTreeSet<Pbn> = epoch.births.iter().filter(is_alive).copied().collect();
        // Where counts on the medium are wrong, one may have been left alive that nothing means.
        if !epoch.cancelled.is_empty() || epoch.birth_lost_a_link {
            let meant: BTreeSet<Pbn> = epoch.points.values().filter_map(|entry| entry.pbn()).collect();
            let unborn: Vec<Pbn> = newborn.difference(&meant).copied().collect();
            for pbn in unborn {
                newborn.remove(&pbn);
                // Its links have been cancelled with their LBNs; its fingerprint's goes here.
                epoch.cancelled.push(pbn);
                self.store.end_birth(pbn);
            }
        }
        newborn
    }

    /// The map pages that an epoch touches. Where its ranges touch too many, the rest of them goes over to the open epoch, and with it all
    /// who wait: points of the epoch stand over a range only on pages that are composed now.
    fn map_pages_of(&mut self, epoch: &mut Epoch) -> VecDeque<u64> {
        let per_page = Region::Map.entries_per_page();
        let in_memory = self.store.memory.accountant.limit(Part::Dirty) / (per_page * crate::tables::RECORD_COST_BYTES);
        let most = in_memory.clamp(RANGE_PAGES_MIN, RANGE_PAGES_MAX).min(self.clear_pages_max(epoch.points.len()));
        let mut pages: BTreeSet<u64> = epoch.points.keys().map(|lbn| lbn.0 / per_page).collect();
        let mut looked = 0;
        let mut touched = 0;
        let mut rest = None;
        'ranges: for (&first, &end) in &epoch.ranges {
            let mut page = first.0 / per_page;
            while page * per_page < end.0 {
                if !pages.contains(&page) {
                    // The rest begins with a page that is not composed now, so there is something to put off, and the open epoch is not empty.
                    if touched >= most || looked >= RANGE_PAGES_LOOKED_AT_MAX {
                        rest = Some(Lbn(page * per_page));
                        break 'ranges;
                    }
                    looked += 1;
                    if !self.store.tables.is_blank(&mut self.store.io, PageId { region: Region::Map, index: page }) {
                        touched += 1;
                        pages.insert(page);
                    }
                }
                page += 1;
            }
        }
        if let Some(rest) = rest {
            self.put_off_ranges(epoch, rest, &pages, per_page);
        }
        pages.into_iter().collect()
    }

    /// Moves what the epoch unmaps from `rest` on to the open epoch, but for the pages that are composed now, and with it what was promised.
    fn put_off_ranges(&mut self, epoch: &mut Epoch, rest: Lbn, pages: &BTreeSet<u64>, per_page: u64) {
        for (&first, &end) in &epoch.ranges {
            let mut from = first.max(rest);
            for &page in pages.range(from.0 / per_page..) {
                let (page_first, page_end) = (Lbn(page * per_page), Lbn((page + 1) * per_page));
                if page_first >= end {
                    break;
                }
                if from < page_first {
                    self.store.tables.open.add_range(from, page_first);
                }
                from = from.max(page_end);
            }
            if from < end {
                self.store.tables.open.add_range(from, end);
            }
        }
        debug_assert!(!self.store.tables.open.is_empty(), "who waits goes over with what is put off");
        self.store.tables.open.opened = epoch.opened;
        self.store.tables.open.waiters = std::mem::take(&mut epoch.waiters);
        self.store.tables.open.wanted = epoch.wanted.filter(|_| !self.store.tables.open.waiters.is_empty());
        self.promise_again();
    }
}
