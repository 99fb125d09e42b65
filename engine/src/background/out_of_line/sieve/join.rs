//! The join: which candidates have a tag of a block that came through the filters, and the comparison of these.

use super::pages::{Page, Pages};
use super::{CANDIDATE_BYTES, KEY_BITS, PAIR_BYTES, Sieve, SieveStep, key, named};
use crate::answers::Answers;
use crate::background::out_of_line::{OutOfLine, OutOfLineStage};
use crate::index::{NamedLbn, TagLayout};
use crate::schedule::Blocked;
use crate::scheme::Scheme;
use crate::store::Store;
use crate::units::{Pbn, low_half};

/// The most blocks that one candidate is compared with: the first ones in the table take the links.
const BLOCKS_MAX: usize = 8;
/// What was found is compared before it is more than this.
const FOUND_MAX: usize = 512;

impl Sieve {
    /// Notes the blocks that may have a candidate's content and are not the one that it was written to.
    fn find(&mut self, layout: TagLayout, candidate: NamedLbn, own: Option<u32>) {
        let wanted = key(layout.head(candidate));
        let key_of = |pair: &NamedLbn| key(self.layout.head(*pair));
        let at = self.loaded.partition_point(|pair| key_of(pair) < wanted);
        let alike = self.loaded[at..].iter().take_while(|&pair| key_of(pair) == wanted);
        let common = layout.tag_bits().min(self.layout.tag_bits());
        let blocks = alike.filter_map(|&pair| {
            let value = self.layout.lbn(pair)?.0;
            let (pbn, is_carrier) = (Pbn(value >> 1), value & 1 == 1);
            let differ = (layout.head(candidate) ^ self.layout.head(pair)) >> (u64::BITS - common);
            let is_own = own == Some(low_half(pbn.0));
            (is_carrier || differ == 0 && !is_own).then_some((pbn, candidate))
        });
        self.found.extend(blocks.take(BLOCKS_MAX));
    }
}

impl OutOfLine {
    /// Loads pairs, as many as fit.
    pub(in crate::background::out_of_line) fn load_pairs(&mut self, store: &mut Store, page: usize) {
        let is_full = self.sieve.loaded.len() + Pages::<PAIR_BYTES>::A_PAGE > self.sieve.loaded_max();
        if page < self.sieve.pairs.pages() && !is_full {
            let page_of: Page = self.sieve.pairs.page(store, page, self.sieve.arrived());
            let Some(entries) = self.entries(store, page_of) else { return };
            self.sieve.loaded.extend(entries.chunks_exact(PAIR_BYTES).map(named));
            return self.go_to(store, SieveStep::Load { page: page + 1 });
        }
        self.sieve.load_from = page;
        self.sieve.loaded.sort_unstable();
        self.go_to(store, SieveStep::Join { page: 0 });
    }

    /// Joins the candidates on a page with the pairs that are loaded.
    pub(in crate::background::out_of_line) fn join(&mut self, store: &mut Store, page: usize) {
        const { assert!(KEY_BITS < u64::BITS) };
        if page >= self.sieve.candidates.pages() || self.sieve.loaded.is_empty() {
            return if self.sieve.found.is_empty() { self.end_join(store) } else { self.begin_comparing(store, page) };
        }
        let Some(entries) = self.candidates_on(store, page) else { return };
        for entry in entries.chunks_exact(CANDIDATE_BYTES) {
            let own = u32::from_le_bytes(entry[8..].try_into().expect("four bytes"));
            self.sieve.find(self.batch.layout, named(entry), Some(own).filter(|_| store.settings.min_run <= 1));
        }
        if self.sieve.found.len() >= FOUND_MAX {
            self.begin_comparing(store, page + 1)
        } else {
            self.go_to(store, SieveStep::Join { page: page + 1 })
        }
    }

    /// Goes on behind pairs that were joined with all candidates.
    fn end_join(&mut self, store: &mut Store) {
        self.sieve.loaded.clear();
        if self.sieve.load_from < self.sieve.pairs.pages() {
            return self.go_to(store, SieveStep::Load { page: self.sieve.load_from });
        }
        let _compared = self.sieve.pairs.begin_anew();
        if self.sieve.table.0 < store.geometry.data_blocks { self.fill_filter(store, 0) } else { self.end_pass(store) }
    }

    fn begin_comparing(&mut self, store: &mut Store, page: usize) {
        self.forget_left(store);
        let mut found = std::mem::take(&mut self.sieve.found);
        self.candidates = found.iter().map(|&(_, candidate)| candidate).collect();
        self.candidates.sort_unstable();
        self.candidates.dedup();
        found.sort_unstable();
        self.sieve.blocks = found.into_iter().map(|(pbn, _)| pbn).collect();
        self.sieve.blocks.dedup();
        self.go_to(store, SieveStep::Compare { at: 0, page });
    }

    /// Compares what was found with the blocks that may have its content, from this place on.
    pub(in crate::background::out_of_line) fn compare_found(
        &mut self,
        store: &mut Store,
        scheme: &mut Scheme,
        answers: &mut Answers,
        (at, page): (usize, usize),
    ) -> Result<(), Blocked> {
        for at in at..self.sieve.blocks.len() {
            self.stage = OutOfLineStage::Sieve(SieveStep::Compare { at, page });
            self.compare_block(store, scheme, answers, self.sieve.blocks[at])?;
        }
        self.candidates.clear();
        self.go_to(store, SieveStep::Join { page });
        Ok(())
    }
}
