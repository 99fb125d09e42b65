//! The bounds of a superblock's numbers, checked when it is read and when it is written.
//!
//! 1. Places lie in the volume.
//! 2. Counters stop long before they could wrap ([`counter`](crate::format::counter)), and delays long before a sum with the time could.
//! 3. What the log tail says of the log was true when the superblock was written: no counter of it is ahead of the superblock's own.
//! 4. Each unit of the log scan lies in a block of its own, so the log scan has no more units than the volume has data blocks. No sequence
//!    that the log tail names lies further ahead: neither the last unit that it knows to be flushed nor its barrier.
//! 5. A server can be given the memory that is its default, and writes wait for room a day at the longest.
//! 6. A guarded volume has an interval within its bounds, and no extent where its guard block lies; another has no interval.

use super::content::Superblock;
use super::fields::{INCOMPATIBLE_DEFAULTS, RANGE_FOUND, at};
use crate::format::counter::{COUNTER_MAX, COUNTER_STOP, DELAY_MS_MAX};
use crate::format::guard::{GUARD_MS_MAX, GUARD_MS_MIN};
use crate::format::layout::Field;
use crate::format::log_tail::{LogTail, at as at_log_tail};
use crate::format::refused::SuperblockError;
use crate::memory::Accountant;

/// The most memory that a volume may have as its default: more than any machine has.
pub const MEMORY_BYTES_MAX: u64 = 1 << 50;
/// The longest time that a volume may have writes wait for room by default, in seconds.
pub const FULL_WAIT_S_MAX: u64 = 86_400;

fn at_most(field: Field, value: u64, limit: u64) -> Result<(), SuperblockError> {
    if value > limit { Err(SuperblockError::OutOfRange { field: field.name, value, limit }) } else { Ok(()) }
}

impl Superblock {
    fn counters(&self) -> [(Field, u64); 5] {
        [
            (at::GENERATION, self.generation),
            (at::INCARNATION, self.incarnation),
            (at::MOUNT_COUNT, self.mount_count),
            (at::LAST_EPOCH, self.last_epoch.get()),
            (at::LAST_LOG_SEQUENCE, self.last_log_sequence),
        ]
    }

    /// The counter for whose sake the volume can be read but not written any more, if there is one: its name in the format, and its value.
    #[must_use]
    pub fn used_up(&self) -> Option<(&'static str, u64)> {
        self.counters().into_iter().find(|&(_, value)| value >= COUNTER_STOP).map(|(field, value)| (field.name, value))
    }

    pub(super) fn check_bounds(&self) -> Result<(), SuperblockError> {
        self.check_places()?;
        self.counters().into_iter().try_for_each(|(field, value)| at_most(field, value, COUNTER_MAX))?;
        at_most(at::NONCRITICAL_DELAY_MS, self.settings.noncritical_delay_ms, DELAY_MS_MAX)?;
        at_most(at::COMMIT_PERIOD_MS, self.settings.commit_period_ms, DELAY_MS_MAX)?;
        at_most(at::ANTICIPATION_MS, self.settings.anticipation_ms, DELAY_MS_MAX)?;
        self.check_defaults()?;
        self.check_guard()?;
        self.log_tail.as_ref().map_or(Ok(()), |log_tail| self.check_log_tail(log_tail))
    }

    fn check_defaults(&self) -> Result<(), SuperblockError> {
        let (memory, settings) = (self.settings.memory_bytes, &self.settings);
        at_most(at::MEMORY_BYTES, memory, MEMORY_BYTES_MAX)?;
        at_most(at::FULL_WAIT_S, settings.full_wait_s, FULL_WAIT_S_MAX)?;
        if memory < Accountant::BYTES_MIN {
            return Err(SuperblockError::UnknownValue { field: at::MEMORY_BYTES.name, value: memory });
        }
        let incompatible = self.features.incompatible;
        if incompatible & INCOMPATIBLE_DEFAULTS == settings.features() {
            return Ok(());
        }
        Err(SuperblockError::UnknownValue { field: at::FEATURES_INCOMPATIBLE.name, value: incompatible })
    }

    fn check_guard(&self) -> Result<(), SuperblockError> {
        let (least, most) = if self.is_guarded() { (GUARD_MS_MIN, GUARD_MS_MAX) } else { (0, 0) };
        at_most(at::GUARD_MS, self.guard_ms.into(), most.into())?;
        if self.guard_ms < least {
            return Err(SuperblockError::UnknownValue { field: at::GUARD_MS.name, value: self.guard_ms.into() });
        }
        if self.is_guarded() {
            self.geometry.leaves_room_for_guard()?;
        }
        Ok(())
    }

    fn check_places(&self) -> Result<(), SuperblockError> {
        at_most(at::RECOUNT_POSITION, self.recount_position.get(), self.geometry.data_blocks)?;
        at_most(at::ALLOCATION_CURSOR, self.allocation_cursor.get(), self.geometry.data_blocks)?;
        if let Some(scrub) = &self.scrub {
            at_most(at::SCRUB_NEXT, scrub.next, scrub.part.pieces(&self.geometry))?;
        }
        let mut places = self.log_tail.iter().flat_map(LogTail::runs);
        places.try_for_each(|run| at_most(at::LOG_TAIL, run.end().get(), self.geometry.data_blocks))?;
        if self.is_log_live() && self.log_tail.is_none() {
            return Err(SuperblockError::NoLogTail);
        }
        if self.protected.iter().any(|range| range.is_found) && !self.marks_apart() {
            return Err(SuperblockError::UnknownValue { field: at::PROTECTED.name, value: RANGE_FOUND.into() });
        }
        self.protected.iter().try_for_each(|range| {
            at_most(at::PROTECTED, range.first.get().saturating_add(u64::from(range.blocks)), self.geometry.logical_blocks)
        })
    }

    /// Checks invariants 3 and 4. The counters of the superblock are within their bounds, so the sums here are too.
    fn check_log_tail(&self, log_tail: &LogTail) -> Result<(), SuperblockError> {
        at_most(at_log_tail::SEQUENCE, log_tail.sequence, self.last_log_sequence + 1)?;
        at_most(at_log_tail::INCARNATION, log_tail.incarnation, self.incarnation)?;
        at_most(at_log_tail::EPOCH, log_tail.epoch.get(), self.last_epoch.get())?;
        let scan_end = log_tail.sequence - 1 + self.geometry.data_blocks;
        at_most(at_log_tail::FLUSHED_UPTO, log_tail.flushed_upto, scan_end)?;
        let Some(barrier) = log_tail.barrier else { return Ok(()) };
        at_most(at_log_tail::BARRIER_SEQUENCE, barrier.sequence, scan_end)?;
        at_most(at_log_tail::BARRIER_INCARNATION, barrier.incarnation, self.incarnation)
    }
}
