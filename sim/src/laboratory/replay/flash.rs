//! The figures of the flash below a replay.

use crate::laboratory::flash::{Flash, FlashCounts, Wear};
use serde::{Deserialize, Serialize};

/// The time from sending a request to its answer, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub count: u64,
    pub mean: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Response {
    /// Summarizes times in nanoseconds, given in any order.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // the precision is enough for a report
    pub fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let percentile = |percent: usize| ns.get((ns.len() * percent).div_ceil(100).saturating_sub(1)).map_or(0.0, |&ns| ns as f64 / 1e3);
        let mean = ns.iter().map(|&ns| ns as f64).sum::<f64>() / ns.len().max(1) as f64 / 1e3;
        Self { count: ns.len() as u64, mean, p95: percentile(95), p99: percentile(99), max: percentile(100) }
    }
}

/// A flash at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlashAccount {
    pub counts: FlashCounts,
    pub wear: Wear,
}

impl FlashAccount {
    /// Takes the account of a flash.
    #[must_use]
    pub fn of(flash: &Flash) -> Self {
        Self { counts: flash.counts(), wear: flash.wear() }
    }
}

/// The figures of a flash over one stretch of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlashFigures {
    #[serde(flatten)]
    pub counts: FlashCounts,
    pub amplification: f64,
    /// The wear since the flash was last made as it is at the beginning of the measured phase.
    pub wear: Wear,
    /// The response times of the client's requests of every kind together.
    pub response_us: Response,
}

impl FlashFigures {
    /// Computes the figures between two moments. The response times are left empty.
    #[must_use]
    pub fn between(then: Option<&FlashAccount>, now: &FlashAccount) -> Self {
        let counts = now.counts.since(&then.map_or(FlashCounts::default(), |then| then.counts));
        Self { counts, amplification: counts.amplification(), wear: now.wear, response_us: Response::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_times() {
        let of = Response::of((1..=1000).rev().map(|n| n * 1000).collect());
        assert_eq!((of.count, of.mean, of.p95, of.p99, of.max), (1000, 500.5, 950.0, 990.0, 1000.0));
        assert_eq!(Response::of(Vec::new()), Response::default());
    }
}
