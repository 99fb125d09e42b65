//! Seals an epoch: decides when, and which records belong to it.
//!
//! 1. A flush, a FUA or strong write, the timer, or shortage of memory seals the epoch, as late as the waiting requests allow.
//! 2. While one epoch commits, the next one fills; one commits at a time.
//! 3. The seal may wait a little longer for further writes (`answers/anticipate.rs`).

use super::Scheme;
use crate::answers::Answers;
use crate::format::page::{PageId, Region};
use crate::io::Stage;
use crate::memory::Part;
use crate::pool::{Pool, look_at_counters};
use crate::schedule::Task;
use crate::tables::{EpochRecords, RECORD_COST_BYTES, Wanted};
use crate::units::Lbn;
use std::collections::{BTreeSet, VecDeque};

/// The most map pages on which one commit unmaps ranges. So a huge discard is many commits and no request waits for all of it: their links,
/// up to 800 a page, are removed in one step.
const RANGE_PAGES_MAX: u64 = 64;
/// The least number of these pages, where memory is scarce.
const RANGE_PAGES_MIN: u64 = 4;
/// The most map pages that are examined for that.
const RANGE_PAGES_LOOKED_AT_MAX: u64 = 1 << 16;

impl Scheme {
    /// Whether the open epoch is to be sealed now. `is_recounting`: a recount waits for removals.
    pub fn is_seal_due(&self, pool: &mut Pool, answers: &Answers, is_recounting: bool) -> bool {
        if pool.tables.open.is_empty() {
            let removals = !pool.tables.removals.unsent.is_empty() || !pool.io.durability.removed.is_empty();
            return removals && (!pool.space.waiters.is_empty() || is_recounting || pool.space.gives_back());
        }
        let (open, now) = (&pool.tables.open, pool.io.now());
        let timer = open.seal_by().is_some_and(|by| now >= by);
        let is_filling = answers.ack_journal.records().0 > pool.settings.facts.journal_records_max / 4;
        let memory_fills = pool.open_bytes() > pool.memory.accountant.limit(Part::Dirty) / 2;
        let pressure = memory_fills || is_filling || !pool.space.waiters.is_empty();
        let wanted = open.wanted.filter(|_| answers.anticipation.until.is_none_or(|until| now >= until));
        let closing = pool.io.stage().is_closing() || pool.io.stage() == Stage::Replaying && answers.ack_journal.to_replay.is_empty();
        if !(timer || pressure || wanted.is_some() || closing) {
            // The request that wanted the seal was satisfied another way while it waited for packs: the epoch continues to fill.
            if pool.tables.open.fills_on() {
                pool.io.schedule.push(Task::Admit);
            }
            return false;
        }
        // Deferred, or its content is written uncompressed.
        let waits = self.waits_before_seal(&pool.tables, &pool.contents);
        pool.tables.open.seal_when_compressed(waits);
        if waits {
            return false;
        }
        let ledger = &mut pool.io.ledger;
        *match wanted {
            Some(Wanted::Flush) => &mut ledger.epochs_flush,
            Some(Wanted::Fua) => &mut ledger.epochs_fua,
            Some(Wanted::Strong) => &mut ledger.epochs_strong,
            Some(Wanted::Space) => &mut ledger.epochs_pressure,
            None if pressure => &mut ledger.epochs_pressure,
            None => &mut ledger.epochs_timer,
        } += 1;
        true
    }

    /// Begins to commit the open epoch, and opens the next one.
    #[inline(never)]
    pub fn seal(&mut self, pool: &mut Pool, answers: &mut Answers) {
        self.before_seal(pool, answers);
        answers.anticipation.sealed(pool.io.now());
        look_at_counters(&mut pool.io, &pool.medium, &pool.tables, self.last_sequence());
        let mut epoch = pool.tables.seal();
        answers.ack_journal.sealed();
        let most = self.clear_pages_max(&pool.space, epoch.points.len());
        let map = map_pages_of(pool, answers, &mut epoch, most);
        self.begin_commit(pool, &mut epoch, map);
        pool.tables.commit(epoch);
    }
}

/// The map pages that an epoch touches. Where its ranges touch too many, the rest of the ranges moves to the open epoch, with all waiting
/// requests: points of the epoch overlap a range only on pages that are composed now.
fn map_pages_of(pool: &mut Pool, answers: &mut Answers, epoch: &mut EpochRecords, most: u64) -> VecDeque<u64> {
    let per_page = Region::Map.entries_per_page();
    let in_memory = pool.memory.accountant.limit(Part::Dirty) / (per_page * RECORD_COST_BYTES);
    let most = in_memory.clamp(RANGE_PAGES_MIN, RANGE_PAGES_MAX).min(most);
    let mut pages: BTreeSet<u64> = epoch.points.lbns().map(|lbn| lbn.0 / per_page).collect();
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
                if !pool.tables.is_blank(&mut pool.io, PageId { region: Region::Map, index: page }) {
                    touched += 1;
                    pages.insert(page);
                }
            }
            page += 1;
        }
    }
    if let Some(rest) = rest {
        put_off_ranges(pool, answers, epoch, rest, &pages, per_page);
    }
    pages.into_iter().collect()
}

/// Moves the epoch's ranges from `rest` on to the open epoch, but for the pages that are composed now, and with them what was promised.
fn put_off_ranges(pool: &mut Pool, answers: &mut Answers, epoch: &mut EpochRecords, rest: Lbn, pages: &BTreeSet<u64>, per_page: u64) {
    for (&first, &end) in &epoch.ranges {
        let mut from = first.max(rest);
        for &page in pages.range(from.0 / per_page..) {
            let (page_first, page_end) = (Lbn(page * per_page), Lbn((page + 1) * per_page));
            if page_first >= end {
                break;
            }
            if from < page_first {
                pool.tables.open.add_range(from, page_first);
            }
            from = from.max(page_end);
        }
        if from < end {
            pool.tables.open.add_range(from, end);
        }
    }
    debug_assert!(!pool.tables.open.is_empty(), "the waiting requests move with the ranges that are put off");
    pool.tables.open.seal_like(epoch);
    pool.tables.open.take_waiters(epoch);
    answers.ack_journal.promise_again(pool);
}
