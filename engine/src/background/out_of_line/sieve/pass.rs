//! A pass over the fingerprint table, step by step.

use super::filter::Filter;
use super::pages::Page;
use super::{CANDIDATE_BYTES, PAIR_BYTES, PAIR_PAGES_A_PAGE, Sieve, SieveStep, key, named};
use crate::background::out_of_line::{OutOfLine, OutOfLineStage};
use crate::format::page::Region;
use crate::interface::Class;
use crate::io::{Arrived, IoFor};
use crate::schedule::{Blocked, Task};
use crate::space::GRANULE_BLOCKS;
use crate::store::Store;
use crate::tables::Access;
use crate::units::{BLOCK_SIZE, Pbn, count, index};

/// Pages of the table that one turn sieves.
const TABLE_PAGES_A_STEP: usize = 4;
/// The most times that the pairs are sieved again.
const ROUNDS_MAX: u64 = 3;
/// Pages of the sieve that one read brings count as one read for each eight of them.
const PAGES_A_READ: u64 = 8;
/// Writes under way at once.
const WRITES_MAX: u64 = 16;

impl OutOfLine {
    /// Whether a pass over the table is to begin.
    pub(in crate::background::out_of_line) fn is_pass_due(&self, store: &Store) -> bool {
        let is_all_gathered = self.batch.is_empty() && self.asked.first().is_none();
        let candidates = self.sieve.candidates();
        candidates > 0 && (candidates >= self.sieve.candidates_max(store) || store.uncompared.is_asked && is_all_gathered)
    }

    pub(in crate::background::out_of_line) fn begin_pass(&mut self, store: &mut Store) {
        self.forget_left(store);
        self.looked_up += self.sieve.candidates();
        self.sieve.table = Pbn(0);
        self.fill_filter(store, 0);
    }

    pub(super) fn fill_filter(&mut self, store: &mut Store, round: u64) {
        self.sieve.round = round;
        self.sieve.loaded = Vec::new();
        self.sieve.filter = Filter::new(self.sieve.bytes, round);
        self.go_to(store, SieveStep::Fill { page: 0 });
    }

    pub(super) fn go_to(&mut self, store: &mut Store, step: SieveStep) {
        self.stage = OutOfLineStage::Sieve(step);
        store.io.schedule.more_background = true;
    }

    /// Goes on with a step that needs no comparison.
    pub(in crate::background::out_of_line) fn go_on_sieving(&mut self, store: &mut Store, step: SieveStep) {
        match step {
            SieveStep::Fill { page } => self.fill(store, page),
            SieveStep::Table => self.sieve_table(store),
            SieveStep::Again { page } => self.sieve_again(store, page),
            SieveStep::Load { page } => self.load_pairs(store, page),
            SieveStep::Join { page } => self.join(store, page),
            SieveStep::Compare { .. } => {}
        }
    }

    /// Takes the entries of a page, or reads them first. Nothing is read while pages are written.
    pub(super) fn entries(&mut self, store: &mut Store, page: Page) -> Option<Vec<u8>> {
        match page {
            Page::Entries(entries) => Some(entries),
            Page::At { .. } if self.sieve.writing > 0 || self.reading > 0 => {
                self.waits = true;
                None
            }
            Page::At { first, blocks } => {
                self.sieve.arrived = None;
                store.io.read(IoFor::ReadForSieve { first }, store.geometry.block_at(first), blocks, false, Class::Data);
                self.reading += 1;
                self.pause_after_reads(store, count(blocks).div_ceil(PAGES_A_READ));
                None
            }
        }
    }

    pub(super) fn candidates_on(&mut self, store: &mut Store, page: usize) -> Option<Vec<u8>> {
        let page = self.sieve.candidates.page(store, page, self.sieve.arrived());
        self.entries(store, page)
    }

    fn fill(&mut self, store: &mut Store, page: usize) {
        let Some(entries) = self.candidates_on(store, page) else { return };
        let layout = self.batch.layout;
        for entry in entries.chunks_exact(CANDIDATE_BYTES) {
            self.sieve.filter.add(key(layout.head(named(entry))));
        }
        let next = page + 1;
        if next < self.sieve.candidates.pages() {
            return self.go_to(store, SieveStep::Fill { page: next });
        }
        if self.sieve.round == 0 {
            return self.go_to(store, SieveStep::Table);
        }
        self.sieve.former = Some(self.sieve.pairs.begin_anew());
        self.go_to(store, SieveStep::Again { page: 0 });
    }

    /// Sieves a few pages of the table.
    fn sieve_table(&mut self, store: &mut Store) {
        for _ in 0..TABLE_PAGES_A_STEP {
            let next = self.sieve.table;
            if next.0 >= store.geometry.data_blocks {
                return self.end_segment(store);
            }
            if self.sieve.writing >= WRITES_MAX {
                self.waits = true;
                return;
            }
            if self.sieve.pairs.pages() + PAIR_PAGES_A_PAGE > Sieve::pair_pages_max(store) {
                return self.end_segment(store);
            }
            match self.sieve.pairs.reserve(store, PAIR_PAGES_A_PAGE) {
                Ok(()) => {}
                Err(Blocked::Page(page)) => return self.wait(store, page, 1),
                Err(_) if self.sieve.pairs.pages() > 1 => return self.end_segment(store),
                Err(_) => return self.give_up_sieve(store),
            }
            let (id, _) = store.geometry.fingerprint_of(next);
            if !store.tables.is_blank(&mut store.io, id) {
                let pages = store.geometry.pages_of_blocks(Region::Fingerprints);
                let reads = store.tables.load_ahead(&mut store.io, (0..pages - id.index).map(|i| id.after(i)));
                match store.tables.ensure(&mut store.io, id) {
                    Access::Loading => return self.wait(store, id, reads),
                    Access::Unreadable => {}
                    Access::Ready(resident) => {
                        let blocks = GRANULE_BLOCKS.min(store.geometry.data_blocks - next.0);
                        let content = &resident.page().content;
                        let entries: Vec<_> = (0..blocks).map(|i| content.fingerprint(index(i))).collect();
                        (0..).zip(&entries).for_each(|(i, entry)| self.sieve.sieve(store, next + i, entry));
                    }
                }
            }
            self.sieve.table = store.geometry.first_pbn(id) + GRANULE_BLOCKS;
        }
        store.io.schedule.more_background = true;
    }

    /// Goes on with the pairs of a part of the table: they are sieved again if many are there.
    fn end_segment(&mut self, store: &mut Store) {
        let are_many = self.sieve.pairs.entries() > count(self.sieve.loaded_max());
        if are_many && self.sieve.round < ROUNDS_MAX {
            return self.fill_filter(store, self.sieve.round + 1);
        }
        self.sieve.filter = Filter::default();
        self.go_to(store, SieveStep::Load { page: 0 });
    }

    fn sieve_again(&mut self, store: &mut Store, page: usize) {
        let Some(former) = self.sieve.former.as_ref() else { return self.end_segment(store) };
        if page >= former.pages() {
            self.sieve.former = None;
            return self.end_segment(store);
        }
        let page_of = self.sieve.pairs.former_page(store, former, page, self.sieve.arrived());
        let Some(entries) = self.entries(store, page_of) else { return };
        for entry in entries.chunks_exact(PAIR_BYTES) {
            let pair = named(entry);
            if self.sieve.filter.lets_through(key(self.sieve.layout.head(pair))) {
                self.sieve.writing += u64::from(self.sieve.pairs.add(store, pair.bits().to_le_bytes()));
            }
        }
        self.go_to(store, SieveStep::Again { page: page + 1 });
    }

    /// Whether what is skipped during a pass has to be set aside now, whatever the pass waits for.
    pub(in crate::background::out_of_line) fn sets_aside_meanwhile(&self, store: &Store) -> bool {
        let may = match self.sieve.later_waits {
            None => true,
            Some(Blocked::Page(page)) => store.tables.pages.peek(page).is_some(),
            Some(_) => false,
        };
        let is_passing = matches!(self.stage, OutOfLineStage::Sieve(_));
        may && is_passing && store.skipped.is_nearly_full() && store.skipped.last_named().is_some() && self.sets_aside(store)
    }

    /// Sets aside for the next pass what is skipped meanwhile.
    pub(in crate::background::out_of_line) fn set_aside_meanwhile(&mut self, store: &mut Store) {
        self.sieve.later_waits = None;
        while let Some((candidate, low)) = store.skipped.last_named() {
            match self.sieve.set_aside(store, candidate, low, true) {
                Ok(()) => store.skipped.remove_last_named(),
                Err(blocked) => {
                    if let Blocked::Page(page) = blocked {
                        store.tables.wait(&mut store.io, page, Task::OutOfLine);
                    }
                    self.sieve.later_waits = Some(blocked);
                    return;
                }
            }
        }
    }

    /// Ends with what was set aside: all of it was compared.
    pub(super) fn end_pass(&mut self, store: &mut Store) {
        self.end_sweep(store);
        self.sieve.give_back(store);
        store.io.schedule.more_background = true;
    }

    /// Gives the blocks back. What is being compared, or waits for it, is gathered again.
    #[cold]
    pub(in crate::background::out_of_line) fn give_up_sieve(&mut self, store: &mut Store) {
        // Those of the next pass, too.
        (0..2).for_each(|_| self.sieve.give_back(store));
        self.candidates.clear();
        self.known.clear();
        let left = store.uncompared.under_way().chain(store.uncompared.skipped());
        left.for_each(|(first, end)| self.asked.add(first, end));
        self.stage = OutOfLineStage::Idle;
        store.io.schedule.more_background = true;
    }

    /// Pages of the sieve have arrived. Where they could not be read, they have no entries.
    pub fn sieve_pages_arrived(&mut self, store: &mut Store, first: Pbn, arrived: &Arrived) {
        let bytes = if arrived.result.is_ok() { arrived.buffer.bytes().to_vec() } else { vec![0; arrived.buffer.blocks() * BLOCK_SIZE] };
        self.sieve.arrived = Some((first, bytes));
        self.reading -= 1;
        store.io.schedule.push(Task::OutOfLine);
    }

    /// A page of the sieve was written.
    pub fn sieve_page_written(&mut self, store: &mut Store) {
        self.sieve.writing -= 1;
        store.io.schedule.push(Task::OutOfLine);
    }

    /// Whether the candidates of a batch are set aside.
    pub(in crate::background::out_of_line) fn sets_aside(&self, store: &Store) -> bool {
        self.sieve.has_memory() && !store.space.lacks_room_for_others(store.io.stage)
    }
}
