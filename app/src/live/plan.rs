//! How a trace is to be replayed on a device.

use crate::device::Method;
use std::time::Duration;

/// How to replay.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Changes that may wait for their answers.
    pub outstanding_max: usize,
    /// Wait as long between requests as was recorded.
    pub think: bool,
    /// Wait so long where a phase begins, and in the end.
    pub idle: Duration,
    /// Compare what the trace reads, and in the end everything that it wrote.
    pub verify: bool,
    pub method: Method,
    /// Memory of requests that are under way.
    pub memory_bytes: u64,
}
