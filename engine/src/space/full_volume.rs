//! The state of a full volume.

use crate::units::Time;
use std::ops::Range;

/// The state of a full volume, and of the writes that wait for room.
#[derive(Default)]
pub(crate) struct FullVolume {
    /// The time since which the volume is full.
    pub since: Option<Time>,
    /// The owner was informed that the volume itself is full, and that its store has no room.
    pub reported: [bool; 2],
    /// No write waits for room any more.
    pub waiting_is_over: bool,
    /// The owner was informed that writes fail.
    pub fails: bool,
    /// The number of retries still to ask for, and the time of the last one.
    pub retries: u8,
    pub retried: Time,
    /// The number of blocks that only their fingerprint kept when no block was found. If there are more now, some may soon be free.
    pub kept: u64,
    /// The LBNs at which a journal is being written.
    pub journal: Range<u64>,
}
