//! The acknowledgement ring as the test kit keeps it: what a server has promised lives on when it is killed, and is gone after a power cut.

use crate::content::Shared;
use crate::oracle::Oracle;
use onefold_engine::interface::{Legacy, Promise, Promised, Traces};
use onefold_engine::units::Epoch;

/// A server's ring.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// What the last server left; stays until it is durable.
    copied: Vec<Promised>,
    standing: Vec<Promise>,
    /// What the last durable epoch has left on the medium.
    traces: Traces,
    /// What clients may find once the copied promises are durable: each block's contents.
    expected: Vec<(u64, Vec<Shared>)>,
}

impl Ring {
    /// Takes promises in, in order.
    pub fn remember(&mut self, promises: Vec<Promise>) {
        self.standing.extend(promises);
    }

    /// Every epoch up to this one is durable, and has left these traces on the medium.
    pub fn forget(&mut self, epoch: Epoch, traces: Traces) {
        self.traces = traces;
        self.standing.retain(|p| p.epoch > epoch);
    }

    /// What the last server had promised is durable: from here on the oracle expects it.
    pub fn recalled(&mut self, oracle: &mut Oracle) -> Vec<u64> {
        self.copied.clear();
        let expected = std::mem::take(&mut self.expected);
        expected.iter().for_each(|(lbn, contents)| oracle.narrow(*lbn, contents));
        expected.into_iter().map(|(lbn, _)| lbn).collect()
    }

    /// Whether the last server's promises still stand.
    #[must_use]
    pub fn is_being_recalled(&self) -> bool {
        !self.copied.is_empty() || !self.expected.is_empty()
    }

    /// The ring that the next server finds, and what it is to recall. `oracle` is that of the server that died.
    #[must_use]
    pub fn left(&self, oracle: &Oracle) -> (Self, Legacy) {
        let copied: Vec<Promised> = self.copied.iter().cloned().chain(self.standing.iter().map(|p| p.what.clone())).collect();
        // Where an earlier server's promises are not durable yet, nothing has been acknowledged on top of them.
        let expected = if self.expected.is_empty() { oracle.after_acknowledged() } else { self.expected.clone() };
        let legacy = Legacy { promises: copied.clone(), traces: self.traces };
        (Self { copied, standing: Vec::new(), traces: [None; 2], expected }, legacy)
    }
}
