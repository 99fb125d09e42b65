//! Trims: clients say what they do not need any more, and a sparse store gives it back to its host within a minute.
//!
//! 1. A trim unlinks blocks, but their fingerprints keep them. When it has rested for a while, granules that hold hardly anything else are
//!    reclaimed. What was merely overwritten comes back with them, and only with them: the rest is kept until it is needed, since
//!    content that is kept may be found as a duplicate.
//! 2. What clients trim meanwhile begins the next round. So a round comes at most once in that time, however often they trim.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use crate::io::Io;
use crate::tables::Tables;
use crate::units::Time;

/// A host gets whole pieces back, and so many blocks, 1 MiB, make one: fewer are not worth a round.
const BLOCKS_MIN: u64 = 256;
/// The part of a granule that has to be kept blocks: three quarters. The rest is mostly units of the log.
const KEPT_MIN: u64 = GRANULE_BLOCKS * 3 / 4;

/// The trims since the last round.
#[derive(Debug, Default)]
pub(super) struct Trim {
    blocks: u64,
    /// The time from which the next round is due: of the trim with which they were enough.
    since: Option<Time>,
}

impl Trim {
    pub(super) const fn is_pending(&self) -> bool {
        self.since.is_some()
    }

    /// The time at which a round begins, if trims rest for this long before.
    pub(super) fn begins_at(&self, rest_ms: u64) -> Option<Time> {
        self.since.map(|since| since.plus_ms(rest_ms))
    }
}

impl Space {
    /// Clients have discarded so many blocks, whether or not anything was there: what was there may have been discarded before.
    pub fn trimmed(&mut self, now: Time, blocks: u64) {
        let policy = &self.policy;
        if policy.trim_rest_ms == 0 || !policy.discard_freed {
            return;
        }
        self.trim.blocks = self.trim.blocks.saturating_add(blocks);
        if self.trim.blocks >= BLOCKS_MIN.min(policy.discard_batch_blocks) {
            self.trim.since.get_or_insert(now);
        }
    }

    /// Reclaims and discards what trims have left, once they have rested. A round lasts as long again, so that it finds what was unlinked
    /// some time after the request, and until nothing is left to do.
    pub(super) fn give_back_trimmed(&mut self, io: &mut Io, tables: &mut Tables) {
        let rest_ms = self.policy.trim_rest_ms;
        let Some(begins) = self.trim.begins_at(rest_ms).filter(|&begins| begins <= io.now) else { return };
        let least = u32::try_from(KEPT_MIN.min(self.policy.discard_batch_blocks)).unwrap_or(u32::MAX);
        let finds = self.second_before(rest_ms).is_some_and(|since_s| self.reclaim_unused(io, &tables.removals, since_s, least));
        if finds || self.is_reclaiming(&tables.removals) {
            return;
        }
        if self.discards == 0 && !self.freed.is_empty() {
            self.discard_freed(io, tables, true);
        }
        if self.discards == 0 && io.now >= begins.plus_ms(rest_ms) {
            self.trim = Trim::default();
        }
    }
}
