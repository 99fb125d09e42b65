//! Whether to wait a moment for a client that is about to send more.
//!
//! A client that keeps many requests open answers a burst of replies with a burst of requests, one system call each. Taking the first of them
//! at once costs both sides a wake-up for each request; taking all of them together costs one for all.
//!
//! 1. A client that waits for each reply, or whose requests wait at the device, is never kept waiting: few or none of them are in its hands.
//! 2. A wait that brings nothing teaches that the client keeps fewer requests open than was thought.

use std::time::Duration;

/// Fewer than this in the client's hands are not worth a wait, whose own cost is that of a few wake-ups.
const IN_HAND_MIN: u64 = 8;
/// About what it takes a client to send one request.
const NAP_PER_REQUEST: Duration = Duration::from_nanos(1000);
/// The longest wait.
const NAP_MAX: Duration = Duration::from_micros(40);

/// What is known of how many requests a client keeps open at once.
#[derive(Debug, Default)]
pub struct Pace {
    open_at_once: u64,
}

impl Pace {
    /// How long to wait when `open` requests have come and are not answered yet. `None`: not at all.
    #[must_use]
    pub fn nap(&self, open: u64) -> Option<Duration> {
        let in_hand = self.open_at_once.saturating_sub(open);
        // When most of them are here already the few others are not worth the delay of all.
        if in_hand < IN_HAND_MIN || in_hand < self.open_at_once / 4 {
            return None;
        }
        Some(NAP_MAX.min(NAP_PER_REQUEST * u32::try_from(in_hand).unwrap_or(u32::MAX)))
    }

    /// A wait has ended: so many were open before and after it.
    pub fn waited(&mut self, before: u64, after: u64) {
        if after <= before {
            self.open_at_once = before;
        }
    }

    /// So many are open now.
    pub fn saw(&mut self, open: u64) {
        self.open_at_once = self.open_at_once.max(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_one_request_at_a_time_never_waits() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            assert_eq!(pace.nap(1), None);
            pace.saw(1);
        }
    }

    #[test]
    fn a_burst_is_waited_for_as_long_as_it_takes_to_send() {
        let mut pace = Pace::default();
        pace.saw(32);
        assert_eq!(pace.nap(2), Some(NAP_PER_REQUEST * 30));
        pace.saw(1000);
        assert_eq!(pace.nap(2), Some(NAP_MAX));
    }

    #[test]
    fn requests_that_wait_at_the_device_are_not_waited_for() {
        let mut pace = Pace::default();
        pace.saw(32);
        assert_eq!(pace.nap(28), None);
        pace.saw(256);
        assert_eq!(pace.nap(240), None);
    }

    #[test]
    fn a_vain_wait_happens_once() {
        let mut pace = Pace::default();
        pace.saw(32);
        assert!(pace.nap(3).is_some());
        pace.waited(3, 3);
        assert_eq!(pace.nap(3), None);
        assert_eq!(pace.nap(1), None);
    }
}
