//! Trims: clients report what they do not need any more, and a sparse store gives it back to its host within a minute (`give_back.rs`).
//!
//! 1. A trim unlinks blocks, but their fingerprints keep them. When it has rested for a while, granules that hold hardly anything else are
//!    reclaimed. What was merely overwritten comes back with them, and only with them: the rest is kept until it is needed, since
//!    content that is kept may be found as a duplicate.
//! 2. What clients trim meanwhile begins the next round. So a round comes at most once in that time, however often they trim.

use crate::units::Time;

/// A host gets whole pieces back, of 1 MiB each: fewer blocks are not worth a round.
const BLOCKS_MIN: u64 = 256;

/// The trims since the last round.
#[derive(Debug, Default)]
pub(super) struct Trim {
    blocks: u64,
    /// The time from which the next round is due: of the trim with which they were enough.
    since: Option<Time>,
}

impl Trim {
    /// Notes that clients have discarded this many blocks, whether or not anything was there: what was there may have been discarded
    /// before. Fewer than `few` are not worth a round, either.
    pub(super) fn add(&mut self, now: Time, blocks: u64, few: u64) {
        self.blocks = self.blocks.saturating_add(blocks);
        if self.blocks >= BLOCKS_MIN.min(few) {
            self.since.get_or_insert(now);
        }
    }

    pub(super) const fn is_pending(&self) -> bool {
        self.since.is_some()
    }

    /// The time at which a round begins, if trims rest for this long before.
    pub(super) fn begins_at(&self, rest_ms: u64) -> Option<Time> {
        self.since.map(|since| since.plus_ms(rest_ms))
    }
}
