//! Whether the volume is full.

use crate::units::Time;
use std::ops::Range;

/// Whether the volume is full, and what is to be done about it.
#[derive(Default)]
pub(crate) struct Full {
    pub since: Option<Time>,
    /// No write waits any more.
    pub waiting_is_over: bool,
    /// Its owner has heard that writes fail.
    pub fails: bool,
    /// How often senders are still to be asked, and when last.
    pub retries: u8,
    pub retried: Time,
    /// Blocks kept by their fingerprint alone when nothing was found: of more, some may be free soon.
    pub kept: u64,
    /// Where a journal is being written.
    pub journal: Range<u64>,
}
