//! A pass over the fingerprint table, step by step.

use super::filter::Filter;
use super::pages::{Page, Pages};
use super::{CANDIDATE_BYTES, PAIR_BYTES, PAIR_PAGES_A_PAGE, Sieve, Sifted, Step, key, named};
use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::interface::Class;
use crate::io::{Arrived, Io, IoFor};
use crate::pool::Pool;
use crate::schedule::Blocked;
use crate::space::GRANULE_BLOCKS;
use crate::tables::{Access, Tables};
use crate::units::{BLOCK_SIZE, Pbn, count, index};

/// Pages of the table that one turn sieves.
const TABLE_PAGES_A_STEP: usize = 4;
/// The most times that the pairs are sieved again.
const ROUNDS_MAX: u64 = 3;
/// Pages of the sieve that one read brings count as one read for each eight of them.
const PAGES_A_READ: u64 = 8;
/// Writes under way at once.
const WRITES_MAX: u64 = 16;

impl Sieve {
    /// Begins a pass with the oldest candidates that were set aside, and returns their number. It goes on when they are durable.
    pub fn begin_pass(&mut self, tables: &Tables) -> u64 {
        let pages = index(self.candidates_max()).div_ceil(Pages::<CANDIDATE_BYTES>::A_PAGE).max(1);
        self.candidates = self.aside.take_oldest(pages);
        self.awaited = self.awaited.saturating_sub(self.candidates());
        self.step = Some(Step::Await(tables.open.number));
        self.candidates()
    }

    /// Goes on with the pass that is under way. Nothing is read while `is_reading`.
    pub fn sift(&mut self, pool: &mut Pool, is_reading: bool) -> Sifted {
        let done = match self.step {
            None => Ok(Sifted::Over),
            Some(Step::Await(epoch)) if !pool.tables.is_durable(epoch) => Ok(Sifted::Commits),
            Some(Step::Await(_)) => Ok(self.fill_filter(0)),
            Some(Step::Fill { page }) => self.fill(&mut pool.io, &pool.geometry, is_reading, page),
            Some(Step::Table) => Ok(self.sieve_table(pool)),
            Some(Step::Again { page }) => self.sieve_again(&mut pool.io, &pool.geometry, is_reading, page),
            Some(Step::Load { page }) => self.load_pairs(&mut pool.io, &pool.geometry, is_reading, page),
            Some(Step::Join { page }) => self.join(&mut pool.io, &pool.geometry, &pool.settings, is_reading, page),
            Some(Step::Compare { .. }) => Ok(Sifted::Found),
        };
        done.unwrap_or_else(|waits| waits)
    }

    pub(super) fn go_to(&mut self, step: Step) -> Sifted {
        self.step = Some(step);
        Sifted::Goes
    }

    pub(super) fn fill_filter(&mut self, round: u64) -> Sifted {
        self.round = round;
        self.loaded = Vec::new();
        self.filter = Filter::new(self.bytes, round);
        self.go_to(Step::Fill { page: 0 })
    }

    /// Takes the entries of a page, or reads them first. Nothing is read while pages are written.
    pub(super) fn entries(&mut self, io: &mut Io, geometry: &Geometry, is_reading: bool, page: Page) -> Result<Vec<u8>, Sifted> {
        match page {
            Page::Entries(entries) => Ok(entries),
            Page::At { .. } if self.writing > 0 || is_reading => Err(Sifted::Writes),
            Page::At { first, blocks } => {
                self.arrived = None;
                io.read(IoFor::ReadForSieve { first }, geometry.block_at(first), blocks, false, Class::Data);
                Err(Sifted::Reads(count(blocks).div_ceil(PAGES_A_READ)))
            }
        }
    }

    pub(super) fn candidates_on(&mut self, io: &mut Io, geometry: &Geometry, is_reading: bool, page: usize) -> Result<Vec<u8>, Sifted> {
        let page = self.candidates.page(geometry, page, self.arrived());
        self.entries(io, geometry, is_reading, page)
    }

    fn fill(&mut self, io: &mut Io, geometry: &Geometry, is_reading: bool, page: usize) -> Result<Sifted, Sifted> {
        for entry in self.candidates_on(io, geometry, is_reading, page)?.chunks_exact(CANDIDATE_BYTES) {
            self.filter.add(key(self.layout_of_candidates.head(named(entry))));
        }
        let next = page + 1;
        if next < self.candidates.pages() {
            return Ok(self.go_to(Step::Fill { page: next }));
        }
        if self.round == 0 {
            return Ok(self.go_to(Step::Table));
        }
        self.former = Some(self.pairs.begin_anew());
        Ok(self.go_to(Step::Again { page: 0 }))
    }

    /// Sieves a few pages of the table.
    fn sieve_table(&mut self, pool: &mut Pool) -> Sifted {
        for _ in 0..TABLE_PAGES_A_STEP {
            let next = self.table;
            let is_full = self.pairs.pages() + PAIR_PAGES_A_PAGE > Self::pair_pages_max(&pool.geometry);
            if next.0 >= pool.geometry.data_blocks || is_full {
                return self.end_segment();
            }
            if self.writing >= WRITES_MAX {
                return Sifted::Writes;
            }
            match self.pairs.reserve(pool, PAIR_PAGES_A_PAGE) {
                Ok(()) => {}
                Err(Blocked::Page(page)) => return Sifted::Page(page, 1),
                Err(_) if self.pairs.pages() > 1 => return self.end_segment(),
                Err(_) => return Sifted::NoRoom,
            }
            let (id, _) = pool.geometry.fingerprint_of(next);
            if !pool.tables.is_blank(&mut pool.io, id) {
                let pages = pool.geometry.pages_of_blocks(Region::Fingerprints);
                let reads = pool.tables.load_ahead(&mut pool.io, (0..pages - id.index).map(|i| id.after(i)));
                match pool.tables.ensure(&mut pool.io, id) {
                    Access::Loading => return Sifted::Page(id, reads),
                    Access::Unreadable => {}
                    Access::Ready(resident) => {
                        let blocks = GRANULE_BLOCKS.min(pool.geometry.data_blocks - next.0);
                        let content = &resident.page().content;
                        let entries: Vec<_> = (0..blocks).map(|i| content.fingerprint(index(i))).collect();
                        (0..).zip(&entries).for_each(|(i, entry)| self.sieve(&mut pool.io, &pool.geometry, next + i, entry));
                    }
                }
            }
            self.table = pool.geometry.first_pbn(id) + GRANULE_BLOCKS;
        }
        Sifted::Goes
    }

    /// Goes on with the pairs of a part of the table: they are sieved again if many are there.
    fn end_segment(&mut self) -> Sifted {
        let are_many = self.pairs.entries() > count(self.loaded_max());
        if are_many && self.round < ROUNDS_MAX {
            return self.fill_filter(self.round + 1);
        }
        self.filter = Filter::default();
        self.go_to(Step::Load { page: 0 })
    }

    fn sieve_again(&mut self, io: &mut Io, geometry: &Geometry, is_reading: bool, page: usize) -> Result<Sifted, Sifted> {
        let Some(former) = self.former.as_ref().filter(|former| page < former.pages()) else {
            // What has arrived was there before the pairs were written anew.
            (self.former, self.arrived) = (None, None);
            return Ok(self.end_segment());
        };
        let page_of = self.pairs.former_page(geometry, former, page, self.arrived());
        for entry in self.entries(io, geometry, is_reading, page_of)?.chunks_exact(PAIR_BYTES) {
            let pair = named(entry);
            if self.filter.lets_through(key(self.layout.head(pair))) {
                self.writing += u64::from(self.pairs.add(io, geometry, pair.bits().to_le_bytes()));
            }
        }
        Ok(self.go_to(Step::Again { page: page + 1 }))
    }

    /// Pages of the sieve have arrived. Where they could not be read, they have no entries.
    pub fn pages_arrived(&mut self, first: Pbn, arrived: &Arrived) {
        let bytes = if arrived.result.is_ok() { arrived.buffer.bytes().to_vec() } else { vec![0; arrived.buffer.blocks() * BLOCK_SIZE] };
        self.arrived = Some((first, bytes));
    }

    /// A page of the sieve was written.
    pub fn page_written(&mut self) {
        self.writing -= 1;
    }
}
