//! The join: which candidates have a tag of a block that came through the filters.

use super::pages::{Page, Pages};
use super::{CANDIDATE_BYTES, PAIR_BYTES, Sieve, Sifted, Step, key, named};
use crate::format::geometry::Geometry;
use crate::index::NamedLbn;
use crate::io::Io;
use crate::settings::Settings;
use crate::units::{Pbn, low_half};

/// The most blocks that one candidate is compared with: the first ones in the table take the links.
const BLOCKS_MAX: usize = 8;
/// Blocks that were found are compared before they are more than this.
const FOUND_MAX: usize = 512;

impl Sieve {
    /// Notes the blocks that may have a candidate's content and are not the one that it was written to. What a rotten page says of LBNs
    /// and blocks that the volume does not have is left out.
    fn find(&mut self, geometry: &Geometry, candidate: NamedLbn, own: Option<u32>) {
        if self.layout_of_candidates.lbn(candidate).is_none_or(|lbn| lbn.0 >= geometry.logical_blocks) {
            return;
        }
        let (of_pairs, of_candidates) = (self.layout, self.layout_of_candidates);
        let wanted = key(of_candidates.head(candidate));
        let key_of = |pair: &NamedLbn| key(of_pairs.head(*pair));
        let at = self.loaded.partition_point(|pair| key_of(pair) < wanted);
        let alike = self.loaded[at..].iter().take_while(|&pair| key_of(pair) == wanted);
        let common = of_candidates.tag_bits().min(of_pairs.tag_bits());
        let blocks = alike.filter_map(|&pair| {
            let value = of_pairs.lbn(pair)?.0;
            let (pbn, is_carrier) = (Pbn(value >> 1), value & 1 == 1);
            let is_there = pbn.0 < geometry.data_blocks;
            let differ = (of_candidates.head(candidate) ^ of_pairs.head(pair)) >> (u64::BITS - common);
            let is_own = own == Some(low_half(pbn.0));
            (is_there && (is_carrier || differ == 0 && !is_own)).then_some((pbn, candidate))
        });
        self.found.extend(blocks.take(BLOCKS_MAX));
    }

    /// Loads pairs, as many as fit.
    pub(super) fn load_pairs(&mut self, io: &mut Io, geometry: &Geometry, is_reading: bool, page: usize) -> Result<Sifted, Sifted> {
        let is_full = self.loaded.len() + Pages::<PAIR_BYTES>::A_PAGE > self.loaded_max();
        if page < self.pairs.pages() && !is_full {
            let page_of: Page = self.pairs.page(geometry, page, self.arrived());
            let entries = self.entries(io, geometry, is_reading, page_of)?;
            self.loaded.extend(entries.chunks_exact(PAIR_BYTES).map(named));
            return Ok(self.go_to(Step::Load { page: page + 1 }));
        }
        self.load_from = page;
        self.loaded.sort_unstable();
        Ok(self.go_to(Step::Join { page: 0 }))
    }

    /// Joins the candidates on a page with the pairs that are loaded.
    pub(super) fn join(
        &mut self,
        io: &mut Io,
        geometry: &Geometry,
        settings: &Settings,
        is_reading: bool,
        page: usize,
    ) -> Result<Sifted, Sifted> {
        if page >= self.candidates.pages() || self.loaded.is_empty() {
            return Ok(if self.found.is_empty() { self.end_join(geometry) } else { self.begin_comparing(page) });
        }
        let knows_own = settings.min_run <= 1;
        for entry in self.candidates_on(io, geometry, is_reading, page)?.chunks_exact(CANDIDATE_BYTES) {
            let own = entry.last_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            self.find(geometry, named(entry), own.filter(|_| knows_own));
        }
        Ok(if self.found.len() >= FOUND_MAX { self.begin_comparing(page + 1) } else { self.go_to(Step::Join { page: page + 1 }) })
    }

    /// Goes on behind pairs that were joined with all candidates.
    fn end_join(&mut self, geometry: &Geometry) -> Sifted {
        self.loaded.clear();
        if self.load_from < self.pairs.pages() {
            return self.go_to(Step::Load { page: self.load_from });
        }
        let _compared = self.pairs.begin_anew();
        self.arrived = None;
        if self.table.0 < geometry.data_blocks { self.fill_filter(0) } else { Sifted::Over }
    }

    fn begin_comparing(&mut self, page: usize) -> Sifted {
        self.found.sort_unstable();
        self.blocks = self.found.iter().map(|&(pbn, _)| pbn).collect();
        self.blocks.dedup();
        self.go_to(Step::Compare { at: 0, page })
    }

    /// The candidates for which blocks were found, in order.
    pub fn candidates_found(&self) -> Vec<NamedLbn> {
        let mut candidates: Vec<NamedLbn> = self.found.iter().map(|&(_, candidate)| candidate).collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }

    /// The next block that is to be compared with them, while some are.
    pub fn block_found(&self) -> Option<Pbn> {
        match self.step {
            Some(Step::Compare { at, .. }) => self.blocks.get(at).copied(),
            _ => None,
        }
    }

    /// Goes on to the next block that was found, and behind the last one to further candidates.
    pub fn block_compared(&mut self) {
        if let Some(Step::Compare { at, page }) = self.step {
            let next = at + 1;
            self.step = Some(if next < self.blocks.len() { Step::Compare { at: next, page } } else { Step::Join { page } });
            if next >= self.blocks.len() {
                self.found.clear();
            }
        }
    }
}
