//! What a machine tells of its own work. Its driver counts for itself; this is held against it, or adds what no driver can see.

use onefold_engine::stats::{Ledger, Stats};
use serde::Serialize;

/// Epochs by what ended them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Epochs {
    pub flush: u64,
    pub fua: u64,
    pub strong: u64,
    pub timer: u64,
    /// Memory or space.
    pub memory: u64,
    pub close: u64,
}

impl Epochs {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.flush + self.fua + self.strong + self.timer + self.memory + self.close
    }

    /// What has come since an earlier account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            flush: self.flush - earlier.flush,
            fua: self.fua - earlier.fua,
            strong: self.strong - earlier.strong,
            timer: self.timer - earlier.timer,
            memory: self.memory - earlier.memory,
            close: self.close - earlier.close,
        }
    }
}

impl From<&Ledger> for Epochs {
    fn from(l: &Ledger) -> Self {
        let (timer, memory) = (l.epochs_timer, l.epochs_pressure);
        Self { flush: l.epochs_flush, fua: l.epochs_fua, strong: l.epochs_strong, timer, memory, close: 0 }
    }
}

/// Blocks of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// That an LBN maps to.
    pub linked: u64,
    /// Of these, that more than one maps to; none: it cannot tell.
    pub shared: Option<u64>,
    /// By their fingerprint alone.
    pub kept: u64,
    pub free: Option<u64>,
}

/// A machine's account; none where it keeps none.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// To be held against the device's own count, to the unit.
    pub ledger: Option<Ledger>,
    pub epochs: Option<Epochs>,
    /// Units that it did not write as new content: duplicates, zeros, what a block held already.
    pub found: Option<u64>,
    pub filled: Option<Filled>,
    /// Anything else, by name.
    pub facts: Vec<(&'static str, u64)>,
}

impl From<Stats> for Account {
    fn from(s: Stats) -> Self {
        let l = &s.ledger;
        Self {
            epochs: Some(l.into()),
            found: Some(l.duplicates + l.unchanged + l.zeroes),
            filled: Some(Filled {
                linked: s.unique_blocks + s.shared_blocks,
                shared: Some(s.shared_blocks),
                kept: s.kept_blocks,
                free: Some(s.free_blocks),
            }),
            facts: vec![("blocks reclaimed", l.reclaimed_blocks), ("contents at their limit of links", l.overflows)],
            ledger: Some(s.ledger),
        }
    }
}
