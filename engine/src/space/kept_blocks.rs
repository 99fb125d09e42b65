//! The granules with blocks that only their fingerprint keeps: how many of them each has, and which of them are being reclaimed.

use crate::map::Map;
use std::collections::BTreeSet;

/// The number of kept blocks of a granule, and when it changed last, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InGranule {
    blocks: u32,
    since_s: u32,
}

/// The rank by which granules are ordered. From eight kept blocks on, eight numbers share a rank, so that most changes move no granule.
fn rank(kept: u32) -> u32 {
    if kept < 8 { kept } else { 7 + kept / 8 }
}

/// The granules with kept blocks.
pub(super) struct KeptBlocks {
    /// Granules by the rank of their number, and the number by granule.
    order: BTreeSet<(u32, u64)>,
    by_granule: Map<u64, InGranule>,
    /// The most granules that are listed.
    room: usize,
    /// The granules of the volume.
    granules: u64,
    /// Granules that were chosen and wait for their pages.
    chosen: Vec<u64>,
    /// Granules whose removals are under way. They are not chosen again meanwhile.
    reclaiming: BTreeSet<u64>,
    /// Granules in which nothing could be reclaimed. They are not chosen before [`Self::wake`].
    resting: Vec<u64>,
    /// The last granule that was tried although it is not listed, and the number of granules left to try.
    trial: u64,
    trials_left: u64,
    /// The time of this step in seconds.
    clock_s: u32,
}

impl KeptBlocks {
    pub fn new(room: usize, granules: u64) -> Self {
        let (order, by_granule, chosen, reclaiming, resting) = Default::default();
        Self { order, by_granule, room, granules, chosen, reclaiming, resting, trial: 0, trials_left: granules, clock_s: 0 }
    }

    /// Takes the time of this step, in seconds.
    pub fn tell_time(&mut self, clock_s: u32) {
        self.clock_s = clock_s;
    }

    /// The second that lies this many seconds back, if the volume was open then.
    pub fn seconds_ago(&self, seconds: u32) -> Option<u32> {
        self.clock_s.checked_sub(seconds)
    }

    /// Notes that a granule has one more.
    pub fn add(&mut self, granule: u64) {
        let kept = self.of(granule);
        if kept > 0 || self.by_granule.len() < self.room {
            self.set(granule, kept, kept + 1);
        }
    }

    /// Notes that a granule has one less.
    pub fn remove(&mut self, granule: u64) {
        if let Some(InGranule { blocks, .. }) = self.by_granule.get(&granule).copied() {
            self.set(granule, blocks, blocks - 1);
        }
    }

    fn of(&self, granule: u64) -> u32 {
        self.by_granule.get(&granule).map_or(0, |kept| kept.blocks)
    }

    /// Changes the number of kept blocks of a granule from `before` to `after`.
    fn set(&mut self, granule: u64, before: u32, after: u32) {
        if after == 0 {
            self.by_granule.remove(&granule);
        } else {
            self.by_granule.insert(granule, InGranule { blocks: after, since_s: self.clock_s });
        }
        if rank(before) != rank(after) {
            self.order.remove(&(rank(before), granule));
            if after > 0 && !self.reclaiming.contains(&granule) {
                self.order.insert((rank(after), granule));
            }
        }
    }

    /// Chooses up to `most` granules with at least `least` kept blocks whose number has not changed since that second. Whether there were
    /// any.
    pub fn choose_unused(&mut self, since_s: u32, least: u32, most: usize) -> bool {
        let is_old = |(granule, kept): (&u64, &InGranule)| {
            (kept.since_s <= since_s && kept.blocks >= least && !self.reclaiming.contains(granule)).then_some(*granule)
        };
        let unused: Vec<u64> = self.by_granule.iter().filter_map(is_old).take(most).collect();
        for &granule in &unused {
            self.order.remove(&(rank(self.of(granule)), granule));
            self.reclaiming.insert(granule);
        }
        self.chosen.extend(&unused);
        !unused.is_empty()
    }

    /// Chooses up to `most` granules with the most kept blocks, and with `least` at least, until they have `wanted` of them. Returns the
    /// number of kept blocks there.
    pub fn choose_most(&mut self, most: usize, wanted: u64, least: u64) -> u64 {
        let mut expected = 0;
        for _ in 0..most {
            if expected >= wanted || self.order.last().is_none_or(|&(rank, _)| u64::from(rank) < least / 8) {
                break;
            }
            let Some((blocks, granule)) = self.take_most() else { break };
            expected += u64::from(blocks);
            self.chosen.push(granule);
        }
        expected
    }

    /// Chooses up to `most` of the granules that may have kept blocks although they are not listed.
    pub fn choose_trials(&mut self, most: usize) {
        for _ in 0..most {
            let trial = self.next_trial();
            self.chosen.extend(trial);
        }
    }

    /// Has a granule wait for its pages again.
    pub fn choose_again(&mut self, granule: u64) {
        self.chosen.push(granule);
    }

    /// The number of granules that are chosen.
    pub fn chosen(&self) -> usize {
        self.chosen.len()
    }

    /// Takes the granules that are chosen.
    pub fn take_chosen(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.chosen)
    }

    /// Takes the granule with the most kept blocks. Returns their number and the granule, which is not taken again before
    /// [`Self::reclaimed`].
    pub(super) fn take_most(&mut self) -> Option<(u32, u64)> {
        let (_, granule) = self.order.pop_last()?;
        self.reclaiming.insert(granule);
        Some((self.of(granule), granule))
    }

    /// Lets a granule rest until [`Self::wake`]: nothing could be reclaimed in it, since its blocks are in use.
    pub fn rest(&mut self, granule: u64) {
        self.resting.push(granule);
    }

    /// Lets the granules that rest be chosen again.
    pub fn wake(&mut self) {
        while let Some(granule) = self.resting.pop() {
            self.reclaimed(granule);
        }
    }

    /// Notes that the removals in a granule are durable.
    pub fn reclaimed(&mut self, granule: u64) {
        if self.reclaiming.remove(&granule) {
            let kept = self.of(granule);
            if kept > 0 {
                self.order.insert((rank(kept), granule));
            }
        }
    }

    /// Lets all granules be tried, since a block has become free.
    pub fn try_all(&mut self) {
        self.trials_left = self.granules;
    }

    /// The next granule that may have kept blocks although it is not listed.
    pub(super) fn next_trial(&mut self) -> Option<u64> {
        if self.trials_left == 0 {
            return None;
        }
        self.trials_left -= 1;
        self.trial = (self.trial + 1) % self.granules;
        (!self.reclaiming.contains(&self.trial)).then_some(self.trial)
    }
}
