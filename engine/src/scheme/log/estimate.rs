//! The compressibility estimate: whether packing pays. In a stream of large epochs whose packs save nothing, a run of blocks is tried now
//! and then, ever more seldom, until packs save something again.

/// Blocks that are tried where packing does not pay: at once, so that they may be packed together.
pub(super) const TRIAL_BLOCKS: usize = 16;
/// Blocks that are not compressed before the first of these trials, and the most before any: 2 MiB that would have packed is the price.
const PAUSE_BLOCKS_MIN: usize = 7 * TRIAL_BLOCKS;
const PAUSE_BLOCKS_MAX: usize = 31 * TRIAL_BLOCKS;
/// Blocks that the estimate looks back at.
const LATELY_BLOCKS: usize = 512;
/// One saved block of this many pays: 0.8 ms of the codec at most, where a tablet's flash takes 0.3 to 2.9 ms for a block.
const BLOCKS_A_SAVED_ONE: usize = 64;
/// This many blocks are seen to be noise in the time that one takes to compress.
const NOISE_A_BLOCK: usize = 8;

/// The number of blocks that were compressed for packs recently, and how many of them their packs have saved.
#[derive(Debug)]
pub struct Estimate {
    tried: usize,
    saved: usize,
    /// Blocks that looked like noise, since they were counted as one tried.
    noise: usize,
    /// Blocks that are left of the trial that has begun.
    trial_left: usize,
    /// Blocks that are not compressed before the next trial, and before the one after it.
    pause_left: usize,
    pause: usize,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { tried: 0, saved: 0, noise: 0, trial_left: 0, pause_left: PAUSE_BLOCKS_MIN, pause: PAUSE_BLOCKS_MIN }
    }
}

impl Estimate {
    /// Notes that this many more blocks were tried, and how many their packs saved.
    pub fn note(&mut self, tried: usize, saved: usize) {
        if !self.pays() && saved > 0 && saved * 4 >= tried {
            // Other content has begun.
            *self = Self::default();
        }
        self.tried += tried;
        self.saved += saved;
        while self.tried > LATELY_BLOCKS {
            self.tried /= 2;
            self.saved /= 2;
        }
        if self.pays() {
            (self.pause_left, self.pause) = (PAUSE_BLOCKS_MIN, PAUSE_BLOCKS_MIN);
        }
    }

    /// Notes a block that looked like noise.
    pub fn note_noise(&mut self) {
        self.noise += 1;
        if self.noise == NOISE_A_BLOCK {
            self.noise = 0;
            self.note(1, 0);
        }
    }

    /// Whether packing saves enough, or that is not known yet.
    pub fn pays(&self) -> bool {
        self.tried < LATELY_BLOCKS / 4 || self.saved * BLOCKS_A_SAVED_ONE >= self.tried
    }

    /// Whether the next block of a large epoch is to be compressed.
    pub fn tries_next(&mut self) -> bool {
        if self.pays() {
            return true;
        }
        if self.trial_left == 0 {
            if self.pause_left > 0 {
                self.pause_left -= 1;
                return false;
            }
            self.pause = (self.pause * 2).min(PAUSE_BLOCKS_MAX);
            (self.trial_left, self.pause_left) = (TRIAL_BLOCKS, self.pause);
        }
        self.trial_left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saves_nothing_is_seen_soon_and_so_is_what_saves_again() {
        let mut estimate = Estimate::default();
        assert!(estimate.pays(), "nothing is known");
        estimate.note(128, 1);
        assert!(!estimate.pays());
        (0..1000).for_each(|_| estimate.note(32, 1));
        assert!(estimate.pays());
        (0..1000).for_each(|_| estimate.note(16, 0));
        assert!(!estimate.pays());
        estimate.note(0, 0);
        assert!(!estimate.pays());
        estimate.note(16, 5);
        assert!(estimate.pays());
    }

    #[test]
    fn what_saves_nothing_is_tried_ever_more_seldom() {
        let mut estimate = Estimate::default();
        assert!(estimate.tries_next());
        let tried_of = |estimate: &mut Estimate, blocks: usize| (0..blocks).filter(|_| estimate.tries_next()).count();
        estimate.note(512, 0);
        // A run of sixteen follows after 112, 224, 448 blocks, then after each 496.
        assert_eq!(tried_of(&mut estimate, 112 + 16 + 224 + 16 + 448 + 16), 3 * 16);
        assert_eq!(tried_of(&mut estimate, 10 * 512), 10 * 16);
        estimate.note(16, 8);
        assert_eq!(tried_of(&mut estimate, 100), 100);
        estimate.note(512, 0);
        assert_eq!((tried_of(&mut estimate, 112), tried_of(&mut estimate, 16)), (0, 16));
    }

    #[test]
    fn noise_is_soon_looked_at_as_seldom() {
        let mut estimate = Estimate::default();
        (0..128 * 8).for_each(|_| estimate.note_noise());
        assert!(!estimate.pays());
        // Mixed with blocks that save, noise does not count for much.
        let mut estimate = Estimate::default();
        for _ in 0..100 {
            (0..90).for_each(|_| estimate.note_noise());
            estimate.note(10, 5);
        }
        assert!(estimate.pays());
    }
}
