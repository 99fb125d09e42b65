//! The time for more than names: a part of what passes, so that others keep the processor.

use crate::runtime::recording::idle::let_others_in;
use onefold_engine::units::BLOCK_SIZE;
use std::time::{Duration, Instant};

/// The part of the time that may go into sizes, one in this number.
const SHARE: u32 = 16;
/// The most time that is saved up: it does for the sizes of some 5,000 blocks.
const SAVED_MAX: Duration = Duration::from_millis(50);
/// The part of the ring beyond which there is no time: it is the part at which the kernel wakes this process before its time.
const BUSY: f64 = 1.0 / BUSY_SHARE as f64;
const BUSY_SHARE: usize = 8;
/// Without time, the size of one block in this number is measured. To compress a block takes ten times as long as to name it.
const SAMPLE: usize = 8;

/// The time that is left for sizes.
pub struct Leisure {
    saved: Duration,
    /// The beginning of the round that is under way, or was the last one.
    began: Instant,
    /// The blocks of the round that may still be taken without haste. If more come, they came meanwhile.
    calm: usize,
    blocks: usize,
}

/// Returns whether a ring that is full to this part, from 0 to 1, should be emptied before anything else is done.
pub fn is_busy(fullness: f64) -> bool {
    fullness >= BUSY
}

impl Leisure {
    pub fn new() -> Self {
        Self { saved: SAVED_MAX, began: Instant::now(), calm: 0, blocks: 0 }
    }

    /// Begins a round. The ring of this size is full to this part, from 0 to 1.
    pub fn begin(&mut self, ring_bytes: usize, fullness: f64) {
        let now = Instant::now();
        self.saved = (self.saved + (now - self.began) / SHARE).min(SAVED_MAX);
        self.calm = if is_busy(fullness) { 0 } else { ring_bytes / BUSY_SHARE / BLOCK_SIZE };
        self.began = now;
    }

    /// Ends a round: its time is spent.
    pub fn end(&mut self) {
        self.saved = self.saved.saturating_sub(self.began.elapsed());
    }

    /// Takes a block. Returns whether there is time for its size.
    pub fn take_block(&mut self) -> bool {
        self.calm = self.calm.saturating_sub(1);
        self.blocks += 1;
        self.blocks % SAMPLE == 0 || self.calm > 0 && self.began.elapsed() < self.saved
    }

    /// Lets others have the processor between two blocks, if there is no haste.
    pub fn pause(&self) {
        if self.calm > 0 {
            let_others_in();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: usize = 1 << 20;

    /// Returns how many of the next 64 blocks there is time for.
    fn measured(leisure: &mut Leisure) -> usize {
        (0..64).filter(|_| leisure.take_block()).count()
    }

    fn began(ago: Duration) -> Instant {
        Instant::now().checked_sub(ago).unwrap()
    }

    #[test]
    fn time_that_is_spent_is_saved_up_again_in_part() {
        let mut leisure = Leisure { saved: Duration::ZERO, ..Leisure::new() };
        leisure.begin(64 * RING, 0.1);
        assert_eq!(measured(&mut leisure), 8);
        leisure.began = began(Duration::from_secs(16));
        leisure.begin(64 * RING, 0.1);
        assert_eq!((leisure.saved, measured(&mut leisure)), (SAVED_MAX, 64));
        leisure.began = began(SAVED_MAX);
        assert_eq!(measured(&mut leisure), 8);
        leisure.end();
        assert_eq!(leisure.saved, Duration::ZERO);
    }

    #[test]
    fn there_is_no_time_where_content_waits_or_comes_meanwhile() {
        let mut leisure = Leisure::new();
        leisure.begin(RING, 0.2);
        assert_eq!(measured(&mut leisure), 8);
        // An eighth of the ring is 32 blocks. The first 31 are measured, and then one in eight.
        leisure.begin(RING, 0.1);
        assert_eq!(measured(&mut leisure), 31 + 5);
    }
}
