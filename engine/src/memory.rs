//! The accountant: each allocation of the data path asks it (`--memory`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The uses of memory. Each has a share of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The index.
    Index,
    /// Metadata pages.
    Pages,
    /// Blocks that were read.
    ReadCache,
    /// Links, pending fingerprints and decrements that are not yet in a page.
    Dirty,
    /// The bytes of requests, in front-ends and in flight to and from the device.
    Requests,
    /// The counts of a recount, and tables of the allocator.
    Work,
    /// Records of the log that pages on the medium may lack.
    Log,
}

impl Part {
    /// All parts, in the order of reports.
    pub const ALL: [Self; 7] = [Self::Index, Self::Pages, Self::ReadCache, Self::Dirty, Self::Requests, Self::Work, Self::Log];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Pages => "pages",
            Self::ReadCache => "read cache",
            Self::Dirty => "dirty records",
            Self::Requests => "requests",
            Self::Work => "work",
            Self::Log => "log records",
        }
    }
}

/// Sixteenths of the budget, in the order of [`Part::ALL`], without a log and with one.
const SHARES: [u64; 7] = [4, 4, 1, 2, 4, 1, 0];
const SHARES_WITH_LOG: [u64; 7] = [3, 3, 1, 1, 3, 1, 4];

/// Keeps every part within its share.
#[derive(Debug)]
pub struct Accountant {
    limits: [u64; 7],
    used: [AtomicU64; 7],
    peak: [AtomicU64; 7],
}

impl Accountant {
    /// The smallest budget that works: below it, a large request could never be admitted.
    pub const BYTES_MIN: u64 = 2 << 20;

    /// Divides `memory_bytes`, or [`Self::BYTES_MIN`] if that is more, without a share for a log: for mode `ordered` and passthrough.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Arc<Self> {
        Self::divided(memory_bytes, false)
    }

    /// Divides `memory_bytes` as [`Self::new`] does; if `has_log`, with a share for the records of a log.
    #[must_use]
    pub fn divided(memory_bytes: u64, has_log: bool) -> Arc<Self> {
        let sixteenth = memory_bytes.max(Self::BYTES_MIN) / 16;
        let shares = if has_log { SHARES_WITH_LOG } else { SHARES };
        Arc::new(Self { limits: shares.map(|share| share * sixteenth), used: Default::default(), peak: Default::default() })
    }

    /// Bytes that `part` may use.
    #[must_use]
    pub fn limit(&self, part: Part) -> u64 {
        self.limits[part as usize]
    }

    /// Bytes that `part` uses now.
    #[must_use]
    pub fn used(&self, part: Part) -> u64 {
        self.used[part as usize].load(Ordering::Relaxed)
    }

    /// The most bytes that `part` has used.
    #[must_use]
    pub fn peak(&self, part: Part) -> u64 {
        self.peak[part as usize].load(Ordering::Relaxed)
    }

    /// Takes `bytes` for `part` if its share has room, or if it uses nothing yet, so that one large request is always admitted.
    pub fn try_take(&self, part: Part, bytes: u64) -> bool {
        let limit = self.limits[part as usize];
        let taken = self.used[part as usize]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| (used == 0 || used + bytes <= limit).then_some(used + bytes));
        if let Ok(before) = taken {
            self.peak[part as usize].fetch_max(before + bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Takes `bytes` for `part` whatever its share: the way out of a shortage needs memory too. `used` shows the overdraft.
    pub fn take(&self, part: Part, bytes: u64) {
        let before = self.used[part as usize].fetch_add(bytes, Ordering::Relaxed);
        self.peak[part as usize].fetch_max(before + bytes, Ordering::Relaxed);
    }

    /// Gives bytes back.
    ///
    /// # Panics
    /// When more is given back than was taken.
    pub fn give(&self, part: Part, bytes: u64) {
        let before = self.used[part as usize].fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{} gave back {bytes} of {before} bytes", part.name());
    }

    /// Whether `part` is within its share.
    #[must_use]
    pub fn within(&self, part: Part) -> bool {
        self.used(part) <= self.limit(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_share_the_whole_budget_and_no_more() {
        for (has_log, log) in [(false, 0), (true, 4)] {
            let accountant = Accountant::divided(64 << 20, has_log);
            assert_eq!(Part::ALL.map(|part| accountant.limit(part)).iter().sum::<u64>(), 64 << 20, "{has_log}");
            assert_eq!(accountant.limit(Part::Log), log * (4 << 20), "{has_log}");
        }
    }

    #[test]
    fn a_part_takes_what_its_share_has_room_for_or_one_thing_of_any_size() {
        let accountant = Accountant::new(0);
        let limit = accountant.limit(Part::Work);
        assert_eq!(limit, Accountant::BYTES_MIN / 16, "the least budget");
        assert!(accountant.try_take(Part::Work, limit) && !accountant.try_take(Part::Work, 1));
        accountant.give(Part::Work, limit);
        assert!(accountant.try_take(Part::Work, limit + 1) && !accountant.try_take(Part::Work, 1));
        assert_eq!((accountant.used(Part::Work), accountant.peak(Part::Work)), (limit + 1, limit + 1));
        assert_eq!(accountant.used(Part::Log), 0, "each has its own");
    }
}
