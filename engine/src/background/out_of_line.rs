//! Work out of line: duplicates that the index did not find when they were written (SmartDedup section 3.1).
//!
//! 1. It takes what the skipped buffer has, and waits until that is durable: what changes later is skipped again.
//! 2. It gathers candidates, LBNs with a tag of their fingerprint: of the skipped buffer, and of the ranges that somebody asked for.
//! 3. Then it sweeps the fingerprint table. The first block of a fingerprint that takes further links is the one that all candidates of
//!    that content are mapped to; the fingerprint table is always read in the same order, so later sweeps choose the same block.
//! 4. A new mapping is a record of the open epoch, like that of a written duplicate, and obeys the same rules. The block that it leaves is
//!    kept by its fingerprint alone, until it is reclaimed.
//! 5. Its reads are limited to a rate, and it makes no records while those of the open epoch fill a quarter of their memory.

use crate::answers::Answers;
use crate::format::entry::Kind;
use crate::format::page::{PageId, Region};
use crate::index::{NamedLbn, Ranges, Skipped};
use crate::interface::Deduplicate;
use crate::memory::Part;
use crate::schedule::{Blocked, Task};
use crate::scheme::Scheme;
use crate::space::GRANULE_BLOCKS;
use crate::stats::OutOfLineCounts;
use crate::store::{Remapped, Store};
use crate::tables::Access;
use crate::units::{Epoch, Lbn, Pbn, Time, count, index};

/// LBNs that one turn gathers, and fingerprint pages that one turn sweeps.
const LBNS_A_STEP: usize = 256;
const PAGES_A_STEP: usize = 4;
/// Pages that are loaded ahead.
const PAGES_AHEAD: u64 = 8;
/// Ranges that somebody asked for and that are not gathered yet.
const RANGES_MAX: usize = 1024;
/// The wait for room for records.
const CROWDED_MS: u64 = 10;
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
    /// The next page of the fingerprint table.
    Sweep(u64),
}

/// The work out of line, and how far it is.
pub(crate) struct OutOfLine {
    stage: OutOfLineStage,
    /// The entries that were taken of the skipped buffer.
    batch: Skipped,
    /// While they are swept, they are in order of their tags.
    candidates: Vec<NamedLbn>,
    /// The LBNs that somebody asked for.
    asked: Ranges,
    /// Somebody has paused it.
    is_paused: bool,
    pub waits: bool,
    /// It goes on at this time.
    pause: Option<Time>,
    looked_up: u64,
    linked: u64,
}

impl Default for OutOfLine {
    fn default() -> Self {
        Self {
            stage: OutOfLineStage::Idle,
            batch: Skipped::new(0, 0),
            candidates: Vec::new(),
            asked: Ranges::new(RANGES_MAX),
            is_paused: false,
            waits: false,
            pause: None,
            looked_up: 0,
            linked: 0,
        }
    }
}

impl OutOfLine {
    /// Does what somebody asked for.
    pub fn order(&mut self, store: &Store, order: Deduplicate) {
        match order {
            Deduplicate::Range { first, end } => {
                let end = end.min(Lbn(store.geometry.logical_blocks));
                if store.settings.finds_out_of_line() && first < end {
                    self.asked.add(first, end);
                }
                self.is_paused = false;
            }
            Deduplicate::Pause => self.is_paused = true,
            Deduplicate::Resume => self.is_paused = false,
        }
        self.pause = None;
    }

    /// Whether it has nothing to do now, or waits for a page.
    pub fn rests(&self, store: &Store) -> bool {
        self.waits || !self.may_work(store) || !self.is_due(store)
    }

    fn may_work(&self, store: &Store) -> bool {
        !self.is_paused && store.settings.finds_out_of_line() && !store.is_read_only()
    }

    fn is_due(&self, store: &Store) -> bool {
        let is_under_way = self.stage != OutOfLineStage::Idle || self.asked.first().is_some() || !self.batch.is_empty();
        is_under_way || store.skipped.is_nearly_full() || self.begins_at(store).is_some_and(|at| at <= store.io.now)
    }

    fn begins_at(&self, store: &Store) -> Option<Time> {
        let (delay, pages) = (store.settings.knobs.out_of_line_delay_ms, store.geometry.pages_of_blocks(Region::Fingerprints));
        let is_worth_it = pages <= store.skipped.named() * PAGES_A_CANDIDATE;
        store.skipped.since().map(|since| since.plus_ms(if is_worth_it { delay } else { delay.saturating_mul(RARE) }))
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self, store: &Store) -> Option<Time> {
        if self.waits || !self.may_work(store) {
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
            is_paused: self.is_paused,
            skipped: store.skipped.counts(),
            taken: self.batch.counts(),
            asked_lbns: self.asked.lbns(),
            candidates: count(self.candidates.len()),
            swept_pages: if let OutOfLineStage::Sweep(next) = self.stage { next } else { 0 },
            pages: store.geometry.pages_of_blocks(Region::Fingerprints),
            looked_up: self.looked_up,
            linked: self.linked,
        }
    }

    /// Does a little of it.
    pub fn go_on(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers) {
        self.waits = false;
        if self.rests(store) || self.pause.is_some_and(|until| store.io.now < until) {
            return;
        }
        self.pause = None;
        match self.stage {
            OutOfLineStage::Idle => {
                if self.batch.named_max() == 0 {
                    self.batch = store.skipped.another();
                }
                if self.batch.is_empty() {
                    std::mem::swap(&mut self.batch, &mut store.skipped);
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

    /// Waits for a page that is being read, with this number of others.
    fn wait(&mut self, store: &mut Store, id: PageId, others: u64) {
        self.waits = true;
        let ms = ((1 + others) * 1000).div_ceil(store.settings.knobs.out_of_line_reads_per_second);
        self.pause = Some(store.io.now.plus_ms(ms));
        store.tables.wait(&mut store.io, id, Task::OutOfLine);
    }

    /// Looks up the fingerprints of LBNs that have none yet, until there is no room for more candidates.
    fn gather(&mut self, store: &mut Store) {
        for _ in 0..LBNS_A_STEP {
            let next = self.asked.first().or_else(|| self.batch.next_unnamed());
            let Some(lbn) = next.filter(|_| self.candidates.len() < self.batch.named_max()) else {
                return self.begin_sweep(store);
            };
            let (page, _) = store.geometry.map_of(lbn);
            let is_blank = store.tables.overlay(lbn).is_none() && store.tables.is_blank(&mut store.io, page);
            let end = if is_blank { store.geometry.first_lbn(PageId { index: page.index + 1, ..page }) } else { lbn + 1 };
            if !is_blank {
                match store.durable_block(lbn) {
                    Ok(Some((_, fp))) => {
                        self.candidates.reserve_exact(self.batch.named_max() - self.candidates.len());
                        self.candidates.push(self.batch.layout.entry(lbn, &fp));
                    }
                    Ok(None) => {}
                    Err(page) => return self.wait(store, page, 0),
                }
            }
            if self.asked.first().is_some() { self.asked.remove_below(end) } else { self.batch.remove_unnamed(end) }
        }
        store.io.schedule.more_background = true;
    }

    fn begin_sweep(&mut self, store: &mut Store) {
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.looked_up += count(self.candidates.len());
        self.stage = OutOfLineStage::Sweep(0);
        if self.candidates.is_empty() {
            self.end_sweep();
        }
        store.io.schedule.more_background = true;
    }

    fn end_sweep(&mut self) {
        self.batch.give_named(std::mem::take(&mut self.candidates));
        self.stage = OutOfLineStage::Idle;
    }

    /// Compares pages of the fingerprint table with the candidates, from page `next` on.
    fn sweep(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, mut next: u64) {
        let pages = store.geometry.pages_of_blocks(Region::Fingerprints);
        for _ in 0..PAGES_A_STEP {
            if next >= pages {
                self.end_sweep();
                break;
            }
            let id = PageId { region: Region::Fingerprints, index: next };
            if !store.tables.is_blank(&mut store.io, id) {
                match store.tables.ensure(&mut store.io, id) {
                    Access::Loading => {
                        let others = ask_ahead(store, next, pages);
                        return self.wait(store, id, others);
                    }
                    Access::Unreadable => {}
                    Access::Ready(_) => match self.compare_page(store, scheme, answers, id) {
                        Ok(()) => {}
                        Err(Blocked::Page(missing)) => return self.wait(store, missing, 0),
                        // There is no room for another record now.
                        Err(_) => {
                            self.pause = Some(store.io.now.plus_ms(CROWDED_MS));
                            return;
                        }
                    },
                }
            }
            next += 1;
            self.stage = OutOfLineStage::Sweep(next);
        }
        store.io.schedule.more_background = true;
    }

    /// Maps the candidates to the blocks of a page, which is in memory, that hold their content.
    fn compare_page(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, id: PageId) -> Result<(), Blocked> {
        let first = store.geometry.first_pbn(id);
        let blocks = GRANULE_BLOCKS.min(store.geometry.data_blocks - first.0);
        let content = &store.tables.pages.expect(id).content;
        let entries = (0..blocks).map(|i| (first + i, content.fingerprint(index(i))));
        let layout = self.batch.layout;
        let known = entries.filter(|(_, entry)| entry.kind == Kind::Fingerprint).map(|(pbn, entry)| (pbn, layout.tag_of(&entry.value)));
        let matches: Vec<(Pbn, usize)> = known
            .filter_map(|(pbn, tag)| {
                let at = self.candidates.partition_point(|&candidate| layout.tag(candidate) < tag);
                self.candidates.get(at).is_some_and(|&candidate| layout.tag(candidate) == tag).then_some((pbn, at))
            })
            .collect();
        matches.into_iter().try_for_each(|(pbn, at)| self.map_candidates(store, scheme, answers, (pbn, at)))
    }

    /// Maps the candidates from `at` on that have one tag to this block, if they have its content.
    fn map_candidates(
        &mut self,
        store: &mut Store,
        scheme: &mut Scheme,
        answers: &mut Answers,
        (pbn, at): (Pbn, usize),
    ) -> Result<(), Blocked> {
        let layout = self.batch.layout;
        let tag = layout.tag(self.candidates[at]);
        for candidate in self.candidates[at..].iter_mut().take_while(|candidate| layout.tag(**candidate) == tag) {
            let Some(lbn) = layout.lbn(*candidate) else { continue };
            match store.may_remap(lbn, pbn).map_err(Blocked::Page)? {
                Remapped::May(fp) => {
                    if lacks_room(store, scheme, answers) {
                        return Err(Blocked::Space);
                    }
                    scheme.admit_records(store, 1)?;
                    store.remap(lbn, pbn, &fp);
                    scheme.pack_if_large(store, answers);
                    self.linked += 1;
                    *candidate = layout.without_lbn(*candidate);
                }
                Remapped::Stands(fp) => {
                    store.index.end_doubt(&fp, pbn);
                    *candidate = layout.without_lbn(*candidate);
                }
                Remapped::Changed => *candidate = layout.without_lbn(*candidate),
                Remapped::NotThere | Remapped::Differs => {}
            }
        }
        Ok(())
    }
}

/// Whether clients' records need the memory.
fn lacks_room(store: &Store, scheme: &Scheme, answers: &Answers) -> bool {
    let dirty = store.memory.accountant.limit(Part::Dirty);
    store.open_bytes() > dirty / 4 || store.tables.open.is_due || store.is_behind() || scheme.is_crowded(store, answers)
}

/// Loads the pages that come after `next`. Returns how many it reads.
fn ask_ahead(store: &mut Store, next: u64, pages: u64) -> u64 {
    let ahead = PAGES_AHEAD.min(store.tables.pages.ahead_max()).min(pages - next);
    let mut asked = 0;
    for index in (1..ahead).map(|i| next + i) {
        let id = PageId { region: Region::Fingerprints, index };
        if !store.tables.is_blank(&mut store.io, id) {
            asked += u64::from(matches!(store.tables.ensure(&mut store.io, id), Access::Loading));
        }
    }
    asked
}
