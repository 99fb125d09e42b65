//! The limit for replacing a process that keeps dying.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of deaths that are too many, and the time within which they count.
#[derive(Clone, Copy, Debug)]
pub struct DeathLimit {
    pub deaths: usize,
    pub within: Duration,
}

impl Default for DeathLimit {
    fn default() -> Self {
        Self { deaths: 5, within: Duration::from_secs(10) }
    }
}

/// The times of deaths, as far back as the limit looks.
#[derive(Debug)]
pub struct Deaths {
    limit: DeathLimit,
    recent: VecDeque<Instant>,
}

impl Deaths {
    /// Returns an empty list.
    #[must_use]
    pub const fn new(limit: DeathLimit) -> Self {
        Self { limit, recent: VecDeque::new() }
    }

    /// Notes a death, at `now`. Returns whether the deaths are too many.
    pub fn are_too_many(&mut self, now: Instant) -> bool {
        self.recent.push_back(now);
        self.recent.retain(|&death| now.duration_since(death) <= self.limit.within);
        self.recent.len() >= self.limit.deaths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deaths_in_quick_succession_are_too_many() {
        let limit = DeathLimit { deaths: 3, within: Duration::from_secs(10) };
        let mut deaths = Deaths::new(limit);
        let start = Instant::now();
        let died = |deaths: &mut Deaths, seconds| deaths.are_too_many(start + Duration::from_secs(seconds));
        assert!(!died(&mut deaths, 0) && !died(&mut deaths, 9));
        assert!(!died(&mut deaths, 12), "the first is long ago");
        assert!(died(&mut deaths, 19));
    }
}
