//! Work out of line: duplicates that the index did not find when they were written (SmartDedup section 3.1).
//!
//! 1. It takes what the skipped buffer has, and waits until that is durable: what changes later is skipped again.
//! 2. It gathers candidates, LBNs with a tag of their fingerprint: of the skipped buffer, and of the ranges that somebody asked for.
//! 3. Then it sweeps the fingerprint table (`sweep.rs`).
//! 4. A new mapping is a record of the open epoch, like that of a written duplicate, and obeys the same rules. The block that it leaves is
//!    kept by its entry alone, until it is reclaimed.
//! 5. Its reads are limited to a rate, and it makes no records while those of the open epoch fill a quarter of their memory; if somebody
//!    waits for it, half of their memory, so that the epoch is sealed then.
//! 6. On a full volume it begins at once, since it makes room. A sweep that has begun so goes on to its end.
//! 7. Blocks that were deferred are read while candidates are gathered, and get their fingerprints (`naming.rs`).

mod blocks;
mod naming;
mod sweep;

use crate::answers::Answers;
use crate::format::page::{PageId, Region};
use crate::index::{NamedLbn, Ranges, Skipped};
use crate::interface::Deduplicate;
use crate::schedule::{Blocked, Task};
use crate::scheme::Scheme;
use crate::space::GRANULE_BLOCKS;
use crate::stats::OutOfLineCounts;
use crate::store::{BlocksRead, Store};
use crate::units::{Epoch, Lbn, Pbn, Time, count};
use std::collections::BTreeMap;

/// LBNs that one turn gathers.
const LBNS_A_STEP: usize = 256;
/// Work that somebody waits for reads this number of times as fast.
const URGENT: u64 = 8;
/// Ranges that somebody asked for and that are not gathered yet.
const RANGES_MAX: usize = 1024;
/// The time between two looks whether an epoch is durable.
const COMMIT_MS: u64 = 100;
/// A sweep that reads more than this number of pages for each candidate waits this number of times as long.
const PAGES_A_CANDIDATE: u64 = 1;
const RARE: u64 = 20;

/// The step of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutOfLineStage {
    /// Nothing is under way.
    Idle,
    /// This epoch and those before it are to be durable.
    Await(Epoch),
    /// Candidates are gathered.
    Gather,
    /// The fingerprint table is compared with the candidates, from the entry of this block on.
    Sweep(Pbn),
}

/// The work out of line, and how far it is.
pub(crate) struct OutOfLine {
    stage: OutOfLineStage,
    /// The entries that were taken of the skipped buffer.
    batch: Skipped,
    /// While they are swept, they are in order of their tags.
    candidates: Vec<NamedLbn>,
    /// The blocks that it has read, and its reads that are under way.
    known: BlocksRead,
    reading: u64,
    /// The blocks below this one are read singly: they could not be read together.
    read_singly_until: Pbn,
    /// The blocks that candidates have left for later places, in these epochs: until later, their counts have the links that are gone.
    left: BTreeMap<Pbn, Epoch>,
    /// The volume was full during this sweep.
    makes_room: bool,
    /// A block that was deferred and could not be given its fingerprint.
    unnamed: Option<Pbn>,
    /// The LBNs that somebody asked for.
    asked: Ranges,
    pub waits: bool,
    /// It goes on at this time.
    pause: Option<Time>,
    looked_up: u64,
    linked: u64,
}

impl OutOfLine {
    /// The work on a volume that was opened: what somebody had asked for goes on.
    pub fn new(store: &Store) -> Self {
        let mut asked = Ranges::new(RANGES_MAX);
        if store.settings.finds_out_of_line() {
            store.uncompared.asked().for_each(|(first, end)| asked.add(first, end));
        }
        Self {
            stage: OutOfLineStage::Idle,
            batch: Skipped::new(0, 0),
            candidates: Vec::new(),
            known: BlocksRead::default(),
            reading: 0,
            read_singly_until: Pbn(0),
            left: BTreeMap::new(),
            makes_room: false,
            unnamed: None,
            asked,
            waits: false,
            pause: None,
            looked_up: 0,
            linked: 0,
        }
    }

    /// Does what somebody asked for.
    #[cold]
    pub fn order(&mut self, store: &mut Store, order: Deduplicate) {
        let now = store.io.now;
        store.uncompared.pause(order == Deduplicate::Pause, now);
        if let Deduplicate::Range { first, end } = order {
            let end = end.min(Lbn(store.geometry.logical_blocks));
            if store.settings.finds_out_of_line() && first < end {
                self.asked.add(first, end);
                store.uncompared.ask(first, end, now);
            }
        }
        self.pause = None;
    }

    /// Whether it has nothing to do now, or waits for a page.
    pub fn rests(&self, store: &Store) -> bool {
        !is_save_due(store) && (self.waits || !self.has_work(store) || !self.may_work(store) || !self.is_due(store))
    }

    /// Whether there is anything to be compared. Mostly there is not, and each step of the engine asks.
    fn has_work(&self, store: &Store) -> bool {
        self.is_under_way() || !store.skipped.is_empty()
    }

    fn is_under_way(&self) -> bool {
        self.stage != OutOfLineStage::Idle || self.asked.len() > 0 || !self.batch.is_empty()
    }

    fn may_work(&self, store: &Store) -> bool {
        let is_affordable = self.makes_room || is_urgent(store) || store.adaptation.allowance().out_of_line > 0;
        is_affordable && !store.uncompared.is_paused && store.settings.finds_out_of_line() && !store.is_read_only()
    }

    fn is_due(&self, store: &Store) -> bool {
        let would_make_room = store.space.is_full() && !store.skipped.is_empty();
        self.is_under_way()
            || would_make_room
            || store.skipped.is_nearly_full()
            || self.begins_at(store).is_some_and(|at| at <= store.io.now)
    }

    fn begins_at(&self, store: &Store) -> Option<Time> {
        let since = store.skipped.since()?;
        let (delay, pages) = (store.settings.knobs.out_of_line_delay_ms, store.geometry.pages_of_blocks(Region::Fingerprints));
        let is_worth_it = pages <= store.skipped.lbns() * PAGES_A_CANDIDATE;
        Some(since.plus_ms(if is_worth_it { delay } else { delay.saturating_mul(RARE) }))
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self, store: &Store) -> Option<Time> {
        match (save_at(store), self.works_at(store)) {
            (Some(saves), Some(works)) => Some(saves.min(works)),
            (saves, works) => saves.or(works),
        }
    }

    fn works_at(&self, store: &Store) -> Option<Time> {
        if self.waits || !self.has_work(store) || !self.may_work(store) {
            return None;
        }
        if self.is_due(store) { self.pause } else { self.begins_at(store) }
    }

    /// The LBNs that it mapped to another block.
    pub fn linked(&self) -> u64 {
        self.linked
    }

    pub fn counts(&self, store: &Store) -> OutOfLineCounts {
        OutOfLineCounts {
            is_on: store.settings.finds_out_of_line(),
            is_paused: store.uncompared.is_paused,
            skipped: store.skipped.counts(),
            taken: self.batch.counts(),
            asked_lbns: self.asked.lbns(),
            candidates: count(self.candidates.len()),
            swept_pages: if let OutOfLineStage::Sweep(next) = self.stage { next.0 / GRANULE_BLOCKS } else { 0 },
            pages: store.geometry.pages_of_blocks(Region::Fingerprints),
            looked_up: self.looked_up,
            linked: self.linked,
        }
    }

    /// Does a little of it.
    pub fn go_on(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers) {
        self.waits = self.reading > 0;
        if is_save_due(store) {
            scheme.update_superblock(store);
        }
        if self.rests(store) || self.pause.is_some_and(|until| store.io.now < until) {
            return;
        }
        self.pause = None;
        self.makes_room |= store.space.is_full();
        match self.stage {
            OutOfLineStage::Idle => {
                if self.batch.named_max() == 0 {
                    self.batch = store.skipped.another();
                }
                if self.batch.is_empty() {
                    std::mem::swap(&mut self.batch, &mut store.skipped);
                    store.uncompared.begin();
                }
                self.stage = OutOfLineStage::Await(store.tables.open.number);
                store.io.schedule.more_background = true;
            }
            OutOfLineStage::Await(epoch) if !store.tables.is_durable(epoch) => {
                self.pause = Some(store.io.now.plus_ms(COMMIT_MS));
            }
            OutOfLineStage::Await(_) => {
                self.candidates = self.batch.take_named();
                self.stage = OutOfLineStage::Gather;
                store.io.schedule.more_background = true;
            }
            OutOfLineStage::Gather => self.gather(store),
            OutOfLineStage::Sweep(next) => self.sweep(store, scheme, answers, next),
        }
    }

    /// Waits for a page that is being read, by one of this number of reads.
    fn wait(&mut self, store: &mut Store, id: PageId, reads: u64) {
        self.pause_after_reads(store, reads);
        store.tables.wait(&mut store.io, id, Task::OutOfLine);
    }

    /// Waits for reads, and then for as long as their rate asks for.
    fn pause_after_reads(&mut self, store: &Store, reads: u64) {
        self.waits = true;
        let rate = store.settings.knobs.out_of_line_reads_per_second;
        let share = u64::from(store.adaptation.allowance().out_of_line);
        let rate =
            if self.makes_room || is_urgent(store) { rate.saturating_mul(URGENT) } else { (rate.saturating_mul(share) / 100).max(1) };
        self.pause = Some(store.io.now.plus_ns((reads * 1_000_000_000).div_ceil(rate)));
    }

    /// Looks up the fingerprints of LBNs that have none yet, until there is no room for more candidates.
    fn gather(&mut self, store: &mut Store) {
        for _ in 0..LBNS_A_STEP {
            let next = self.asked.first().or_else(|| self.batch.next_unnamed());
            let Some(lbn) = next.filter(|_| self.candidates.len() < self.batch.named_max()) else {
                return self.begin_sweep(store);
            };
            let is_settled = store.tables.overlay(lbn).is_none();
            let blank = is_settled.then(|| store.tables.map_page(&mut store.io, lbn)).filter(|&(_, is_blank)| is_blank);
            let end = blank.map_or(lbn + 1, |(page_end, _)| page_end);
            if blank.is_none() {
                match store.durable_place(lbn, &self.known) {
                    Ok(Some((_, fp))) => {
                        self.candidates.reserve_exact(self.batch.named_max() - self.candidates.len());
                        self.candidates.push(self.batch.layout.entry(lbn, &fp));
                    }
                    Ok(None) => match store.deferred(lbn) {
                        Ok(Some(pbn)) if self.unnamed != Some(pbn) => return self.read_unnamed(store, pbn),
                        Ok(_) => {}
                        Err(page) => return self.wait(store, page, 1),
                    },
                    Err(Blocked::Page(page)) => return self.wait(store, page, 1),
                    Err(Blocked::Carrier(pbn)) => return self.read_carriers(store, [pbn]),
                    Err(_) => return self.wait_for_room(store),
                }
            }
            if self.asked.first().is_some() { self.asked.remove_below(end) } else { self.batch.remove_unnamed(end) }
        }
        store.io.schedule.more_background = true;
    }

    fn begin_sweep(&mut self, store: &mut Store) {
        self.forget_left(store);
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.looked_up += count(self.candidates.len());
        self.stage = OutOfLineStage::Sweep(Pbn(0));
        if self.candidates.is_empty() {
            self.end_sweep(store);
        }
        store.io.schedule.more_background = true;
    }

    fn end_sweep(&mut self, store: &mut Store) {
        self.known.clear();
        (self.read_singly_until, self.makes_room) = (Pbn(0), false);
        self.batch.give_named(std::mem::take(&mut self.candidates));
        self.stage = OutOfLineStage::Idle;
        if self.batch.is_empty() && self.asked.first().is_none() {
            store.uncompared.end(store.io.now);
        }
    }
}

/// Whether somebody waits for it: who has asked for it, or writes that find no room.
fn is_urgent(store: &Store) -> bool {
    store.uncompared.is_asked || store.space.is_full()
}

/// The time at which the superblock has to be written again, unless it is being written.
fn save_at(store: &Store) -> Option<Time> {
    store.uncompared.save_at().filter(|_| !store.medium.is_busy && !store.is_read_only())
}

fn is_save_due(store: &Store) -> bool {
    save_at(store).is_some_and(|at| at <= store.io.now)
}
