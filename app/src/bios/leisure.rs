//! The time for more than names: a part of what passes, so that others keep the processor.

use crate::runtime::recording::idle::let_others_in;
use std::time::{Duration, Instant};

/// The part of the time that may go into sizes, one in this number.
const SHARE: u32 = 16;
/// The most time that is saved up: it does for the sizes of some 5,000 blocks.
const SAVED_MAX: Duration = Duration::from_millis(50);
/// The part of the ring beyond which there is no time: it is the part at which the kernel wakes this process before its time.
const BUSY: f64 = 0.125;
/// The part of the ring beyond which this process keeps its turns.
const URGENT: f64 = 0.5;
/// Without time, the size of one block in this number is measured. To compress a block takes ten times as long as to name it.
const SAMPLE: usize = 8;

/// The time that is left for sizes.
pub struct Leisure {
    saved: Duration,
    /// The beginning of the round that is under way, or was the last one.
    began: Instant,
    fullness: f64,
}

/// Returns whether a ring that is full to this part, from 0 to 1, should be emptied before anything else is done.
pub fn is_busy(fullness: f64) -> bool {
    fullness >= BUSY
}

impl Leisure {
    pub fn new() -> Self {
        Self { saved: SAVED_MAX, began: Instant::now(), fullness: 0.0 }
    }

    /// Begins a round. The ring is full to this part, from 0 to 1.
    pub fn begin(&mut self, fullness: f64) {
        let now = Instant::now();
        self.saved = (self.saved + (now - self.began) / SHARE).min(SAVED_MAX);
        (self.began, self.fullness) = (now, fullness);
    }

    /// Ends a round: its time is spent.
    pub fn end(&mut self) {
        self.saved = self.saved.saturating_sub(self.began.elapsed());
    }

    /// Returns whether there is time for the size of the block of this number.
    pub fn is_time_for(&self, block: usize) -> bool {
        block % SAMPLE == 0 || !is_busy(self.fullness) && self.began.elapsed() < self.saved
    }

    /// Lets others have the processor between two blocks, if nothing is urgent.
    pub fn pause(&self) {
        if self.fullness < URGENT {
            let_others_in();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(saved: Duration, fullness: f64) -> Leisure {
        Leisure { saved, began: Instant::now(), fullness }
    }

    #[test]
    fn time_that_is_spent_is_saved_up_again_in_part() {
        let mut leisure = of(Duration::ZERO, 0.0);
        assert!(leisure.is_time_for(8) && !leisure.is_time_for(9));
        leisure.began = Instant::now().checked_sub(Duration::from_secs(16)).unwrap();
        leisure.begin(0.1);
        assert_eq!(leisure.saved, SAVED_MAX);
        assert!(leisure.is_time_for(9));
        leisure.began = Instant::now().checked_sub(SAVED_MAX).unwrap();
        assert!(leisure.is_time_for(8) && !leisure.is_time_for(9));
        leisure.end();
        assert_eq!(leisure.saved, Duration::ZERO);
    }

    #[test]
    fn where_content_waits_there_is_no_time() {
        let leisure = of(SAVED_MAX, 0.2);
        assert!(leisure.is_time_for(8) && !leisure.is_time_for(9));
    }
}
