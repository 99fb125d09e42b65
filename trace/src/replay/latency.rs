//! Latencies of requests of one kind, summarized in a few numbers.

use serde::{Deserialize, Serialize};

/// The time from sending a request to its answer, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Latency {
    /// Summarizes latencies in nanoseconds, given in any order.
    #[must_use]
    pub fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        #[allow(clippy::cast_precision_loss)] // the precision is enough for a report
        let us = |ns: u64| ns as f64 / 1000.0;
        let percentile = |per_mille: usize| ns.get((ns.len() * per_mille).div_ceil(1000).saturating_sub(1)).map_or(0.0, |&ns| us(ns));
        let count = ns.len() as u64;
        let mean = us(ns.iter().sum::<u64>() / count.max(1));
        Self { count, mean, p50: percentile(500), p90: percentile(900), p99: percentile(990), p999: percentile(999), max: percentile(1000) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_latencies() {
        let of = Latency::of((1..=1000).rev().map(|n| n * 1000).collect());
        assert_eq!((of.count, of.p50, of.p90, of.p99, of.p999, of.max), (1000, 500.0, 900.0, 990.0, 999.0, 1000.0));
        assert_eq!(Latency::of(vec![7000]), Latency { count: 1, mean: 7.0, p50: 7.0, p90: 7.0, p99: 7.0, p999: 7.0, max: 7.0 });
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
