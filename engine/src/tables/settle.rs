//! Decrements and fingerprints of durable epochs, which wait to enter their pages.

use crate::fingerprint::Fingerprint;
use crate::units::Pbn;
use std::collections::BTreeMap;

/// The changes that wait: new ones as they came; those whose page has to be read first, by block.
#[derive(Default)]
pub(crate) struct Settle {
    pub new_unlinked: Vec<Pbn>,
    pub unlinked: BTreeMap<Pbn, u32>,
    pub new_to_insert: Vec<(Pbn, u64)>,
    /// New blocks, each with its epoch: a block may have been freed in that epoch and taken again in a later one that is not durable yet.
    pub to_insert: BTreeMap<Pbn, u64>,
    /// Fingerprints of blocks that lacked one.
    pub named: BTreeMap<Pbn, Fingerprint>,
}

impl Settle {
    pub fn unlink(&mut self, blocks: Vec<Pbn>) {
        self.new_unlinked.extend(blocks);
    }

    /// Blocks that have lost links and wait for their page, each once a link.
    pub fn unlinked(&self) -> impl Iterator<Item = Pbn> + '_ {
        let waiting = self.unlinked.iter().flat_map(|(&pbn, &times)| std::iter::repeat_n(pbn, times as usize));
        self.new_unlinked.iter().copied().chain(waiting)
    }

    /// Asks for the count of a block without changing it.
    pub fn look_at(&mut self, pbn: Pbn) {
        self.unlinked.entry(pbn).or_insert(0);
    }

    pub fn insert_later(&mut self, blocks: Vec<Pbn>, epoch: u64) {
        self.new_to_insert.extend(blocks.into_iter().map(|pbn| (pbn, epoch)));
    }

    pub fn name(&mut self, named: BTreeMap<Pbn, Fingerprint>) {
        self.named.extend(named);
    }

    /// Whether a fingerprint of this block waits to enter its page.
    pub fn names(&self, pbn: Pbn) -> bool {
        self.named.contains_key(&pbn)
    }

    pub fn names_any(&self) -> bool {
        !self.named.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.records() == 0
    }

    pub fn records(&self) -> usize {
        self.new_unlinked.len() + self.unlinked.len() + self.new_to_insert.len() + self.to_insert.len() + self.named.len()
    }

    /// Takes the decrements that came last.
    pub fn take_new_unlinked(&mut self) -> Vec<Pbn> {
        std::mem::take(&mut self.new_unlinked)
    }

    /// Takes the new blocks that came last.
    pub fn take_new_to_insert(&mut self) -> Vec<(Pbn, u64)> {
        std::mem::take(&mut self.new_to_insert)
    }

    /// Takes the fingerprints of blocks that lacked one.
    pub fn take_named(&mut self) -> BTreeMap<Pbn, Fingerprint> {
        std::mem::take(&mut self.named)
    }
}
