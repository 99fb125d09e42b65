//! A damaged log: a unit that was flushed is not there. The volume is read-only, and serves what it can prove.
//!
//! 1. The log counts up to the last epoch before the hole. What came later may stand on pages all the same, each sector as new as its tag says.
//! 2. An LBN is served where its content is what a fingerprint says, or its carrier the one that the carrier's entry names, *and* the sectors of its
//!    map entry and of that fingerprint are of the same age: then both are of one moment, and the content is the LBN's own as of then, never a
//!    stranger's.
//! 3. Everything else is an error: zeros, for nothing proves them; content with a checksum only; what cannot be read.

use super::Log;
use super::walk::Ended;
use crate::engine::Engine;
use crate::tables::{Committed, Unchained};
use crate::units::{Epoch, Pbn};
use std::collections::BTreeSet;

impl Ended {
    /// A block that is two of the log's: units, condensed ones, places of coming ones. It would be written, and let go of, twice.
    pub fn twice(&self) -> Option<Pbn> {
        let mut seen = BTreeSet::new();
        let units = self.units.iter().map(|unit| unit.pbn);
        units.chain(self.condensed.iter().copied()).chain(self.come.iter().copied()).find(|&pbn| !seen.insert(pbn))
    }
}

impl Engine {
    /// Its records count up to this epoch. It may show as the volume opens, or later, when a page comes.
    pub(crate) fn log_is_damaged(&mut self, last: Epoch) {
        self.store.tables.proved_only = Some(last);
        self.store.tables.committed.iter_mut().for_each(|committed| committed.is_end_known = false);
        self.store.settings.verify_reads = true;
        self.fail("a damaged log");
        self.recovery.opening = None;
        self.serve();
    }

    /// What the log says up to the hole is live, for what can be proved with it. An epoch may go on in a condensed unit that is not there, and a unit
    /// that names what the volume does not have, or a block twice, says nothing that could be believed.
    pub(super) fn adopt_damaged(&mut self, mut ended: Ended) {
        let (mut live, mut last) = (self.log_opening().live.take().expect("what was read is live"), ended.epoch);
        if ended.condensed_missing.is_some() || ended.outside.is_some() || ended.twice().is_some() {
            (live, last) = (Unchained::default(), Epoch(0));
        }
        if last > Epoch(0) {
            ended.replay(&BTreeSet::new(), &mut |epoch, effect| live.push(epoch, effect));
        }
        self.store.tables.committed = Some(Committed::new(live.chained(), last, last));
        self.scheme.log = Some(Log::new(ended.end + 1));
        self.log_is_damaged(last);
    }
}
