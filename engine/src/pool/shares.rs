//! The shares of the memory for the index.

use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::index::Skipped;
use crate::memory::{Accountant, Part};
use crate::settings::Settings;
use crate::units::count;

/// This part of the memory for the index is for the skipped buffer: half for what is skipped, half for what is being looked up.
const SKIPPED_SHARE: u64 = 8;
/// The same part on a large volume, where a sweep would read more than [`PAGES_A_CANDIDATE`] pages of the fingerprint table for each LBN in
/// the buffer. An eighth of that is for what is skipped, an eighth for what is being set aside, the rest for the sieve.
const SKIPPED_SHARE_OF_LARGE: u64 = 4;
const PAGES_A_CANDIDATE: u64 = 2;
/// The bytes of the smallest buffer of a large volume, and of the smallest sieve.
const SKIPPED_BYTES_MIN: u64 = 1024;
const SIEVE_BYTES_MIN: u64 = 4096;

/// The parts of the memory for the index that are at least and at most for what was read.
const PREFETCHED_SHARES: (u64, u64) = (256, 4);

/// The shares of the memory for the index, in bytes.
#[derive(Clone, Copy)]
pub(super) struct IndexShares {
    /// For the entries of the index.
    pub entries: u64,
    /// For each of two skipped buffers.
    pub skipped: u64,
    /// For the sieve: none on a small volume.
    pub sieve: u64,
}

impl IndexShares {
    pub fn of(settings: &Settings, accountant: &Accountant, geometry: &Geometry) -> Self {
        let share = accountant.limit(Part::Index);
        let knobs = &settings.knobs;
        let small = (share / SKIPPED_SHARE).min(knobs.skipped_bytes_max) / 2;
        let (skipped, sieve) = if !settings.finds_out_of_line() || small == 0 {
            (0, 0)
        } else if Self::is_large(small, geometry) || knobs.always_sieves {
            let all = (share / SKIPPED_SHARE_OF_LARGE).min(knobs.skipped_bytes_max);
            ((all / 8).max(SKIPPED_BYTES_MIN), (all / 4 * 3).max(SIEVE_BYTES_MIN))
        } else {
            (small, 0)
        };
        let entries = share.saturating_sub(2 * skipped + sieve).min(knobs.index_bytes_max);
        Self { entries, skipped, sieve }
    }

    fn is_large(skipped: u64, geometry: &Geometry) -> bool {
        let lbns = Skipped::new(skipped, geometry.logical_blocks, false).named_max();
        geometry.pages_of_blocks(Region::Fingerprints) > PAGES_A_CANDIDATE * count(lbns)
    }

    /// The bytes for the skipped buffers and the sieve.
    pub fn out_of_line(&self) -> u64 {
        2 * self.skipped + self.sieve
    }
}

/// The bytes for what was read: what the index and the skipped buffer, which take `used`, leave of the share, within bounds.
pub(super) fn share_of_prefetched(accountant: &Accountant, used: u64) -> u64 {
    let share = accountant.limit(Part::Index);
    share.saturating_sub(used).clamp(share / PREFETCHED_SHARES.0, share / PREFETCHED_SHARES.1)
}
