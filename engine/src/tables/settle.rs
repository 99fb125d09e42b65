//! What is durable and waits to enter its page.

use crate::fingerprint::Fingerprint;
use crate::units::Pbn;
use std::collections::BTreeMap;

/// What waits to enter its page: as it came, and by block what had to wait for its page.
#[derive(Default)]
pub(crate) struct Settle {
    pub new_unlinked: Vec<Pbn>,
    pub unlinked: BTreeMap<Pbn, u32>,
    pub new_births: Vec<(Pbn, u64)>,
    /// With the epoch of the birth: a block may have died in it, and been born again in a later one that is not durable yet.
    pub births: BTreeMap<Pbn, u64>,
    /// Fingerprints of blocks that lacked them.
    pub named: BTreeMap<Pbn, Fingerprint>,
}

impl Settle {
    pub fn unlink(&mut self, blocks: Vec<Pbn>) {
        self.new_unlinked.extend(blocks);
    }

    /// Blocks that have lost a link and wait for their page, each as often.
    pub fn unlinked(&self) -> impl Iterator<Item = Pbn> + '_ {
        let waiting = self.unlinked.iter().flat_map(|(&pbn, &times)| std::iter::repeat_n(pbn, times as usize));
        self.new_unlinked.iter().copied().chain(waiting)
    }

    /// A block whose count somebody wants to know.
    pub fn look_at(&mut self, pbn: Pbn) {
        self.unlinked.entry(pbn).or_insert(0);
    }

    pub fn born(&mut self, blocks: Vec<Pbn>, epoch: u64) {
        self.new_births.extend(blocks.into_iter().map(|pbn| (pbn, epoch)));
    }

    pub fn name(&mut self, named: BTreeMap<Pbn, Fingerprint>) {
        self.named.extend(named);
    }

    /// Whether a block's fingerprint waits to enter its page again.
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
        self.new_unlinked.len() + self.unlinked.len() + self.new_births.len() + self.births.len() + self.named.len()
    }
}
