//! The share of writes that get their fingerprint when they are written (SmartDedup sections 3.4 and 4.4). The others are deferred: they
//! get a checksum, and their fingerprint out of line.
//!
//! 1. By duplication: when a window of writes had fewer duplicates than the windows before it, the share falls slowly; when it had more, it
//!    rises fast.
//! 2. By the allowance: the runtime knows how much of the processor, of the device and of the battery is left. The smaller share counts.
//! 3. Neither is on by default, and then no write is deferred; nor is any where nothing is done out of line, since nobody would make up
//!    for it.

use std::collections::VecDeque;

/// Blocks in a window.
const WINDOW_BLOCKS: u32 = 150;
/// Windows in the history.
const HISTORY_WINDOWS: usize = 30;
/// Per cent by which the share falls after a window, and the least share.
const FALL: u8 = 10;
const LEAST: u8 = 30;
/// Per cent by which the share rises after a window.
const RISE: u8 = 30;
/// All writes, in per cent.
pub const ALL: u8 = 100;

/// The share of deduplication that the machine can afford, in per cent of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The writes that get their fingerprint when they are written.
    pub in_line: u8,
    /// The rate of the work out of line. 0: it rests, except for what somebody has asked for.
    pub out_of_line: u8,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { in_line: ALL, out_of_line: ALL }
    }
}

/// The share of writes that get their fingerprint at once, and its reasons, in per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptationCounts {
    pub selectivity: u8,
    /// By the recent duplicates; none if that is off.
    pub by_duplication: Option<u8>,
    pub allowance: Allowance,
}

/// The present share of writes that get their fingerprint at once.
#[derive(Clone, Debug)]
pub struct Adaptation {
    may_defer: bool,
    by_duplication: bool,
    /// The share by duplication, in per cent.
    share: u8,
    allowance: Allowance,
    /// Blocks of the window under way: all, those with a fingerprint, and duplicates among these.
    blocks: u32,
    fingerprinted: u32,
    duplicates: u32,
    /// Duplicates of each window before it, in thousandths of the blocks with a fingerprint.
    history: VecDeque<u32>,
}

impl Adaptation {
    /// Begins with all writes. `may_defer`: there is work out of line.
    #[must_use]
    pub fn new(by_duplication: bool, may_defer: bool) -> Self {
        let (share, allowance, history) = (ALL, Allowance::default(), VecDeque::new());
        Self { may_defer, by_duplication, share, allowance, blocks: 0, fingerprinted: 0, duplicates: 0, history }
    }

    /// The share of writes that are to get their fingerprint at once, in per cent.
    #[must_use]
    pub fn selectivity(&self) -> u8 {
        if self.may_defer { self.share.min(self.allowance.in_line) } else { ALL }
    }

    /// The share and its reasons.
    #[must_use]
    pub fn counts(&self) -> AdaptationCounts {
        let by_duplication = self.by_duplication.then_some(self.share);
        AdaptationCounts { selectivity: self.selectivity(), by_duplication, allowance: self.allowance }
    }

    /// The share that the machine can afford.
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// Takes what the machine can afford from now on.
    pub fn allow(&mut self, Allowance { in_line, out_of_line }: Allowance) {
        self.allowance = Allowance { in_line: in_line.min(ALL), out_of_line: out_of_line.min(ALL) };
    }

    /// Notes a written block that was not all zero: whether it was a duplicate; `None` if it was deferred.
    pub fn note(&mut self, is_duplicate: Option<bool>) {
        if !self.by_duplication {
            return;
        }
        self.blocks += 1;
        self.fingerprinted += u32::from(is_duplicate.is_some());
        self.duplicates += u32::from(is_duplicate == Some(true));
        if self.blocks == WINDOW_BLOCKS {
            self.end_window();
        }
    }

    fn end_window(&mut self) {
        let seen = (self.fingerprinted > 0).then(|| self.duplicates * 1000 / self.fingerprinted);
        (self.blocks, self.fingerprinted, self.duplicates) = (0, 0, 0);
        // A window of which nothing is known changes nothing.
        let Some(seen) = seen else { return };
        if let Ok(windows @ 1..) = u32::try_from(self.history.len()) {
            let sum = self.history.iter().sum::<u32>();
            if seen * windows < sum {
                self.share = self.share.saturating_sub(FALL).max(LEAST);
            } else if seen * windows > sum {
                self.share = (self.share + RISE).min(ALL);
            }
        }
        if self.history.len() == HISTORY_WINDOWS {
            self.history.pop_front();
        }
        self.history.push_back(seen);
    }
}

/// Whether write number `n`, counted from 0, is among the `selectivity` per cent that get their fingerprint at once. They are spread
/// evenly.
#[must_use]
pub const fn is_selected(n: u64, selectivity: u8) -> bool {
    let (of_hundred, share) = (n % 100, selectivity as u64);
    (of_hundred + 1) * share / 100 > of_hundred * share / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(adaptation: &mut Adaptation, duplicates: u32) -> u8 {
        (0..WINDOW_BLOCKS).for_each(|i| adaptation.note(Some(i < duplicates)));
        adaptation.selectivity()
    }

    #[test]
    fn the_share_falls_slowly_and_rises_fast() {
        let mut adaptation = Adaptation::new(true, true);
        assert_eq!(window(&mut adaptation, 60), 100, "there is nothing to compare it with");
        assert_eq!(window(&mut adaptation, 60), 100, "as many as before");
        let falling: Vec<u8> = (0..9).map(|_| window(&mut adaptation, 0)).collect();
        assert_eq!(falling, [90, 80, 70, 60, 50, 40, 30, 30, 30]);
        let rising: Vec<u8> = (0..4).map(|_| window(&mut adaptation, 100)).collect();
        assert_eq!(rising, [60, 90, 100, 100]);
    }

    #[test]
    fn thirty_windows_are_remembered() {
        let mut adaptation = Adaptation::new(true, true);
        window(&mut adaptation, 150);
        for _ in 0..29 {
            window(&mut adaptation, 0);
        }
        assert_eq!(window(&mut adaptation, 4), 30, "a thirtieth is the average of the last thirty");
        assert_eq!(window(&mut adaptation, 4), 60, "the full window is forgotten");
    }

    #[test]
    fn only_blocks_with_a_fingerprint_show_duplicates() {
        let mut adaptation = Adaptation::new(true, true);
        window(&mut adaptation, 75);
        (0..100).for_each(|_| adaptation.note(None));
        (0..50).for_each(|i| adaptation.note(Some(i < 25)));
        assert_eq!(adaptation.selectivity(), 100, "a half, as before");
        (0..150).for_each(|_| adaptation.note(None));
        assert_eq!(adaptation.selectivity(), 100, "nothing is known of this window");
    }

    #[test]
    fn nothing_is_deferred_unless_something_is_on() {
        let mut adaptation = Adaptation::new(false, true);
        window(&mut adaptation, 100);
        assert_eq!((window(&mut adaptation, 0), adaptation.counts().by_duplication), (100, None));
        adaptation.allow(Allowance { in_line: 40, out_of_line: 0 });
        assert_eq!(adaptation.selectivity(), 40);
        let mut alone = Adaptation::new(true, false);
        alone.allow(Allowance { in_line: 0, out_of_line: 0 });
        assert_eq!(alone.selectivity(), ALL, "nobody would find the duplicates later");
    }

    #[test]
    fn the_selected_writes_are_spread_evenly() {
        for share in 0..=ALL {
            assert_eq!((0..100).filter(|&n| is_selected(n, share)).count(), usize::from(share));
        }
        let selected: Vec<u64> = (0..20).filter(|&n| is_selected(n, 30)).collect();
        assert_eq!(selected, [3, 6, 9, 13, 16, 19]);
        assert!((u64::MAX - 200..=u64::MAX).all(|n| is_selected(n, ALL) && !is_selected(n, 0)));
    }
}
