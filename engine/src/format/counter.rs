//! Counters on the medium: epochs, sequences of log units, incarnations, attachments, and updates of the superblock.
//!
//! 1. None of them ever repeats, so none may wrap: no counter that is read is above [`COUNTER_MAX`], and none is written that is.
//! 2. A volume is written until one of its counters has come to [`COUNTER_STOP`]. From then on it can be read only. The numbers between the
//!    two are for work that is under way at that moment: an epoch to be committed, pages to be written, the volume to be closed.
//!
//! A million epochs a second come to the stop after 146,000 years: only damage, or somebody's intent, brings a volume there.

/// No counter of a volume is above this.
pub const COUNTER_MAX: u64 = 1 << 62;
/// A volume with a counter at or above this can be read, but not written.
pub const COUNTER_STOP: u64 = COUNTER_MAX - (1 << 48);

/// Delays on the medium are no longer than this, in milliseconds: a year.
pub const DELAY_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;
