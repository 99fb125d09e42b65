//! The acknowledgement journal as the test kit keeps it: it survives when the server is killed or its device fails, and is gone after a
//! power loss.
//!
//! 1. After a kill everything acknowledged is there once the next server reports that the journal is replayed.
//! 2. After a failure of the device (A5) the journal is there, but any of the promised data may be missing: each block holds what was
//!    flushed or a newer version of its own. If something acknowledged is missing, the first request that waits for durability fails; if it
//!    succeeds, nothing is missing.
//! 3. There is one journal, which goes from server to server: nothing is added to it before the replay of what was found in it has ended.

use crate::checkers::oracle::Oracle;
use crate::ground::content::Shared;
use crate::ground::violation::{Violation, violation};
use onefold_engine::interface::{Legacy, Promise, Promised, Traces};
use onefold_engine::units::Epoch;

/// A server's acknowledgement journal.
#[derive(Clone, Debug, Default)]
pub struct AckJournal {
    /// The promises that the last server left; they stay until they are durable.
    found: Vec<Promised>,
    in_force: Vec<Promise>,
    /// The changes that the last durable epoch has left on the medium.
    traces: Traces,
    /// The contents that clients may find in each block once the promises that were found are durable.
    expected: Vec<(u64, Vec<Shared>)>,
    /// Whether an earlier server made it.
    was_inherited: bool,
    /// Whether the promises that were found are not known to be durable yet.
    replaying: bool,
    /// Whether this server has reported that its replay has ended (3).
    takes_promises: bool,
    /// Whether the last server's device had failed, and it has not been reported yet whether anything is lost (2).
    in_doubt: bool,
}

impl AckJournal {
    /// Appends promises, in order.
    ///
    /// # Errors
    /// Fails if the replay has not ended (3).
    pub fn remember(&mut self, promises: Vec<Promise>) -> Result<(), Violation> {
        if !self.takes_promises {
            return Err(violation!("journal: {promises:?} are added before the replay has ended"));
        }
        let lbn_of = |what: &Promised| match *what {
            Promised::Link { lbn, .. } | Promised::Zero { lbn } | Promised::Content { lbn, .. } => Some(lbn),
            Promised::Unmap { .. } => None,
        };
        for promise in promises {
            // The room of a content is freed when a later promise for its LBN is in force.
            if let Some(lbn) = lbn_of(&promise.what) {
                self.in_force.retain(|before| !matches!(before.what, Promised::Content { lbn: of, .. } if of == lbn));
            }
            self.in_force.push(promise);
        }
        Ok(())
    }

    /// Forgets the promises of epochs up to this one, which is durable and has left these changes on the medium.
    pub fn forget(&mut self, epoch: Epoch, traces: Traces) {
        self.traces = traces;
        self.in_force.retain(|p| p.epoch > epoch);
    }

    /// Notes that the last server's promises are durable: from now on the oracle expects them, unless they are in doubt. Returns the blocks
    /// for which it does.
    ///
    /// # Errors
    /// Fails if a block was found to hold something else already.
    pub fn replayed(&mut self, oracle: &mut Oracle) -> Result<Vec<u64>, Violation> {
        self.found.clear();
        self.replaying = false;
        self.takes_promises = true;
        if self.in_doubt { Ok(Vec::new()) } else { self.expect(oracle) }
    }

    /// Notes that the first request that waits for durability has been answered: with an error, or nothing is lost. Returns the blocks of
    /// which something is expected.
    ///
    /// # Errors
    /// Fails if a block was found without what was acknowledged.
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
                return Err(violation!("P1: LBN {lbn} has lost one of {contents:?}, which was acknowledged, and no error reports it"));
            }
        }
        Ok(expected.into_iter().map(|(lbn, _)| lbn).collect())
    }

    /// Returns whether any promises of this server are in force.
    #[must_use]
    pub fn has_promises(&self) -> bool {
        !self.in_force.is_empty()
    }

    /// Returns whether the last server left it: then it exists until the volume is closed, even if this server promises nothing.
    #[must_use]
    pub fn was_inherited(&self) -> bool {
        self.was_inherited
    }

    /// Returns the number of the last server's promises that are still to be kept.
    #[must_use]
    pub fn being_replayed(&self) -> u64 {
        if self.replaying { self.found.len() as u64 } else { 0 }
    }

    /// Returns whether some of what was acknowledged may be lost (2).
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Returns the journal that the next server finds, and what it has to replay. `oracle` is that of the server that ended; `failed` says
    /// that its device had failed.
    #[must_use]
    pub fn left(&self, oracle: &Oracle, failed: bool) -> (Self, Legacy) {
        let found: Vec<Promised> = self.found.iter().cloned().chain(self.in_force.iter().map(|p| p.what.clone())).collect();
        // If an earlier server's promises are not durable yet, nothing has been acknowledged after them.
        let expected = if self.replaying { self.expected.clone() } else { oracle.after_acknowledged() };
        let in_doubt = failed || self.replaying && self.in_doubt;
        let legacy = Legacy { promises: found.clone(), traces: self.traces };
        let next = Self { found, traces: self.traces, expected, was_inherited: true, replaying: true, in_doubt, ..Self::default() };
        (next, legacy)
    }
}
