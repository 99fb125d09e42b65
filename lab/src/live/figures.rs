//! The counts of a live replay's own requests.

use onefold_trace::info::Duplication;
use onefold_trace::replay::latency::Latency;
use onefold_trace::replay::truth::WriteCounts;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Latencies in nanoseconds by kind of request.
pub type Latencies = BTreeMap<&'static str, Vec<u64>>;

/// The requests that were sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub writes: u64,
    pub flushes: u64,
    pub fua: u64,
    pub reads: u64,
    pub discards: u64,
    pub seen: WriteCounts,
}

/// The figures of one part of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The time from the first request to the last answer, with think times, without idling.
    pub seconds: f64,
    pub client_units: u64,
    pub client_writes: u64,
    /// Flushes that are requests of their own.
    pub client_flushes: u64,
    /// Writes that are each followed by a flush.
    pub client_fua: u64,
    pub client_reads: u64,
    pub client_discards: u64,
    pub duplication: Duplication,
    pub latency_us: BTreeMap<&'static str, Latency>,
}

impl Figures {
    /// Returns the figures between two moments.
    #[must_use]
    pub fn between(then: &Sent, now: &Sent, time: Duration, latencies: Latencies) -> Self {
        let seen = now.seen.since(then.seen);
        Self {
            seconds: time.as_secs_f64(),
            client_units: seen.units,
            client_writes: now.writes - then.writes,
            client_flushes: now.flushes - then.flushes,
            client_fua: now.fua - then.fua,
            client_reads: now.reads - then.reads,
            client_discards: now.discards - then.discards,
            duplication: seen.duplication(),
            latency_us: latencies.into_iter().map(|(kind, ns)| (kind, Latency::of(ns))).collect(),
        }
    }

    /// Whether anything was sent.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        self.client_writes + self.client_flushes + self.client_reads + self.client_discards > 0
    }
}

/// Returns the processor time that this process has used.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
