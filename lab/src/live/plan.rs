//! The plan of a trace's replay on a device.

use onefold::device::Method;
use std::time::Duration;

/// The plan of a replay.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The largest number of changes that wait for their answers.
    pub outstanding_max: usize,
    /// Wait as long between requests as was recorded.
    pub think: bool,
    /// Wait this long where a phase begins, and in the end.
    pub idle: Duration,
    /// Compare what the trace reads, and in the end everything that it wrote.
    pub verify: bool,
    pub method: Method,
    /// The memory of requests that are under way.
    pub memory_bytes: u64,
}
