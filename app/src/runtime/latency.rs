//! The time that requests take, by kind: from their arrival, before any digest is made, until their answer is ready.

use super::tally::OPS;
use onefold_engine::interface::Op;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The upper bounds of the classes, in microseconds. What takes longer is in a last class.
pub const BOUNDS_US: [u64; 6] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const CLASSES: usize = BOUNDS_US.len() + 1;

/// The time that the requests of one kind have taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub what: String,
    /// The numbers of requests by [`BOUNDS_US`], and of those that took longer; each request counts once.
    pub requests: Vec<u64>,
    /// The time of all of them, in nanoseconds.
    pub ns: u64,
}

/// Counts requests by their time, from any thread.
#[derive(Debug, Default)]
pub struct Latencies([OfOp; OPS.len()]);

#[derive(Debug, Default)]
struct OfOp {
    requests: [AtomicU64; CLASSES],
    ns: AtomicU64,
}

impl Latencies {
    /// Counts one more. Questions about extents are not counted.
    pub fn count(&self, op: Op, time: Duration) {
        let Some(of) = self.0.get(op as usize) else { return };
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let class = BOUNDS_US.iter().position(|&bound| us <= bound).unwrap_or(BOUNDS_US.len());
        of.requests[class].fetch_add(1, Ordering::Relaxed);
        of.ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts requests that are answered now, by their arrival, and leaves the list empty.
    pub fn count_all(&self, answered: &mut Vec<(Op, Instant)>) {
        let now = Instant::now();
        answered.drain(..).for_each(|(op, since)| self.count(op, now.saturating_duration_since(since)));
    }

    /// Returns all of them.
    #[must_use]
    pub fn all(&self) -> Vec<Latency> {
        let latency = |&(op, name): &(Op, &str)| {
            let of = &self.0[op as usize];
            let requests = of.requests.iter().map(|class| class.load(Ordering::Relaxed)).collect();
            Latency { what: name.to_owned(), requests, ns: of.ns.load(Ordering::Relaxed) }
        };
        OPS.iter().map(latency).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_in_the_first_class_that_has_room_for_its_time() {
        let latencies = Latencies::default();
        for us in [0, 100, 101, 10_000_000, 10_000_001] {
            latencies.count(Op::Write, Duration::from_micros(us));
        }
        latencies.count(Op::Extents, Duration::from_secs(1));
        let all = latencies.all();
        let writes = all.iter().find(|latency| latency.what == "writes").unwrap();
        assert_eq!(writes.requests, [2, 1, 0, 0, 0, 1, 1]);
        assert_eq!(writes.ns, 20_000_202_000);
        assert!(all.iter().filter(|latency| latency.what != "writes").all(|latency| latency.ns == 0), "{all:?}");
    }
}
