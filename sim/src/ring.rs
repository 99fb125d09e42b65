//! The acknowledgement ring as the test kit keeps it: what a server has promised lives on when it is killed or its device fails, and is gone after a
//! power cut.
//!
//! 1. After a kill everything acknowledged is there once the next server says that it is recalled.
//! 2. After a failure of the device (A5) the ring is there, and of what it names anything may be missing: each block holds what was flushed or a newer
//!    version of its own. If something acknowledged is missing, the first request that waits for durability fails; if that succeeds, nothing is.

use crate::content::Shared;
use crate::oracle::Oracle;
use crate::violation::{Violation, violation};
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
    /// A server before this one has made it.
    was_left: bool,
    /// The copied promises are not known to be durable yet.
    recalling: bool,
    /// The last server's device had failed, and nobody has heard yet whether anything is lost (2).
    in_doubt: bool,
}

impl Ring {
    /// Takes promises in, in order.
    pub fn remember(&mut self, promises: Vec<Promise>) {
        let lbn_of = |what: &Promised| match *what {
            Promised::Link { lbn, .. } | Promised::Zero { lbn } | Promised::Content { lbn, .. } => Some(lbn),
            Promised::Unmap { .. } => None,
        };
        for promise in promises {
            // A content gives its room back when a later promise for its LBN stands.
            if let Some(lbn) = lbn_of(&promise.what) {
                self.standing.retain(|before| !matches!(before.what, Promised::Content { lbn: of, .. } if of == lbn));
            }
            self.standing.push(promise);
        }
    }

    /// Every epoch up to this one is durable, and has left these traces on the medium.
    pub fn forget(&mut self, epoch: Epoch, traces: Traces) {
        self.traces = traces;
        self.standing.retain(|p| p.epoch > epoch);
    }

    /// What the last server had promised is durable: from here on the oracle expects it, unless it is in doubt. The blocks of which it does.
    ///
    /// # Errors
    /// When a block was found to hold something else already.
    pub fn recalled(&mut self, oracle: &mut Oracle) -> Result<Vec<u64>, Violation> {
        self.copied.clear();
        self.recalling = false;
        if self.in_doubt { Ok(Vec::new()) } else { self.expect(oracle) }
    }

    /// The first request that waits for durability has been answered: with an error, or nothing is lost. The blocks of which something is expected.
    ///
    /// # Errors
    /// When a block was found without what was acknowledged.
    pub fn answered(&mut self, says_lost: bool, oracle: &mut Oracle) -> Result<Vec<u64>, Violation> {
        self.in_doubt = false;
        if says_lost {
            self.expected.clear();
        }
        self.expect(oracle)
    }

    fn expect(&mut self, oracle: &mut Oracle) -> Result<Vec<u64>, Violation> {
        let expected = std::mem::take(&mut self.expected);
        for (lbn, contents) in &expected {
            if !oracle.narrow(*lbn, contents) {
                return Err(violation!("P1: LBN {lbn} has lost one of {contents:?}, which was acknowledged, and nothing says so"));
            }
        }
        Ok(expected.into_iter().map(|(lbn, _)| lbn).collect())
    }

    /// Whether anything stands that this server has promised.
    #[must_use]
    pub fn has_promises(&self) -> bool {
        !self.standing.is_empty()
    }

    /// Whether the last server has left it: then it is there until the volume is closed, whatever this server promises.
    #[must_use]
    pub fn was_left(&self) -> bool {
        self.was_left
    }

    /// How many of the last server's promises are still to be kept.
    #[must_use]
    pub fn being_recalled(&self) -> u64 {
        if self.recalling { self.copied.len() as u64 } else { 0 }
    }

    /// Whether some of what was acknowledged may be lost (2).
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The ring that the next server finds, and what it is to recall. `oracle` is that of the server that ended; `failed`: its device had failed.
    #[must_use]
    pub fn left(&self, oracle: &Oracle, failed: bool) -> (Self, Legacy) {
        let copied: Vec<Promised> = self.copied.iter().cloned().chain(self.standing.iter().map(|p| p.what.clone())).collect();
        // Where an earlier server's promises are not durable yet, nothing has been acknowledged on top of them.
        let expected = if self.recalling { self.expected.clone() } else { oracle.after_acknowledged() };
        let in_doubt = failed || self.recalling && self.in_doubt;
        let legacy = Legacy { promises: copied.clone(), traces: self.traces };
        (Self { copied, standing: Vec::new(), traces: self.traces, expected, was_left: true, recalling: true, in_doubt }, legacy)
    }
}
