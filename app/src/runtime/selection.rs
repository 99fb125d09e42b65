//! The writes that get their fingerprint at once, where the engine lets some be deferred.

use super::condition::Adaptation;
use crate::machine::Affordable;
use onefold_engine::adaptation::{ALL, is_selected};
use onefold_engine::stats::AdaptationCounts;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The selection of writes, which all receiving threads share.
pub struct Selection {
    /// The share of writes that get their fingerprint at once, in per cent.
    share: AtomicU8,
    /// The writes so far that could have been deferred.
    writes: AtomicU64,
    affordable: Mutex<Affordable>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { share: AtomicU8::new(ALL), writes: AtomicU64::new(0), affordable: Mutex::default() }
    }
}

impl Selection {
    /// Takes the share that the engine wants from now on.
    pub fn set(&self, share: u8) {
        self.share.store(share, Ordering::Relaxed);
    }

    /// Takes what the machine can afford, for reports.
    pub fn afford(&self, affordable: Affordable) {
        *self.affordable.lock().unwrap_or_else(PoisonError::into_inner) = affordable;
    }

    /// Reports the share and its reasons, where some writes may be deferred.
    pub fn report(&self, counts: &AdaptationCounts) -> Option<Adaptation> {
        Adaptation::of(counts, *self.affordable.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the next write is deferred.
    pub fn defers(&self) -> bool {
        let share = self.share.load(Ordering::Relaxed);
        share < ALL && !is_selected(self.writes.fetch_add(1, Ordering::Relaxed), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_what_the_engine_wants() {
        let selection = Selection::default();
        let deferred = || (0..100).filter(|_| selection.defers()).count();
        assert_eq!(deferred(), 0);
        selection.set(30);
        assert_eq!(deferred(), 70);
        selection.set(0);
        assert_eq!(deferred(), 100);
    }
}
