//! Anticipation: sealing waits a little longer where further writes are likely to come in that time (section 2.2).
//!
//! 1. The period that is set, where more than one further write has come within it lately. A lone client that waits for its flush sends nothing more,
//!    and waiting for it would be loss.
//! 2. Else a sixteenth of what a commit takes lately, where one such wait in sixteen has brought a write: all that are in vain together cost as much
//!    as the commit that is saved.

use crate::units::Time;

/// The share of a commit's time that is waited.
const SHARE: u64 = 16;
/// One, in moving averages.
const ONE: u32 = 256;

/// How many writes come within a time, lately, after an epoch came to be wanted.
#[derive(Debug, Default)]
struct Followers {
    within_ns: u64,
    /// Since it was wanted.
    seen: u32,
    /// A moving average, in 1/256.
    average: u32,
}

impl Followers {
    fn arrived(&mut self, after_ns: u64) {
        self.seen += u32::from(after_ns <= self.within_ns);
    }

    fn wanted_again(&mut self) {
        self.average = (self.average * 3 + self.seen * ONE) / 4;
        self.seen = 0;
    }
}

/// What the recent past says of further writes.
#[derive(Debug, Default)]
pub(crate) struct Anticipation {
    /// When an epoch came to be wanted last.
    since: Option<Time>,
    in_period: Followers,
    in_share: Followers,
    /// When an epoch was sealed last.
    sealed: Time,
    /// What a commit takes: a moving average.
    commit_ns: u64,
    /// Sealing waits until then.
    pub until: Option<Time>,
}

impl Anticipation {
    /// A write has come in.
    pub fn arrived(&mut self, now: Time) {
        if let Some(since) = self.since {
            self.in_period.arrived(now - since);
            self.in_share.arrived(now - since);
        }
    }

    /// Somebody waits for the open epoch, the first who does: sealing may wait for so long.
    pub fn wanted(&mut self, now: Time, period_ms: u64) {
        if self.since.replace(now).is_some() {
            self.in_period.wanted_again();
            self.in_share.wanted_again();
        }
        let period_ns = period_ms * 1_000_000;
        self.in_period.within_ns = period_ns;
        self.in_share.within_ns = period_ns.min(self.commit_ns / SHARE);
        let wait_ns = if self.in_period.average > ONE {
            period_ns
        } else if u64::from(self.in_share.average) * SHARE > u64::from(ONE) {
            self.in_share.within_ns
        } else {
            0
        };
        self.until = (wait_ns > 0).then_some(Time(now.0 + wait_ns));
    }

    /// The open epoch begins to commit.
    pub fn sealed(&mut self, now: Time) {
        self.until = None;
        self.sealed = now;
    }

    /// It is durable.
    pub fn durable(&mut self, now: Time) {
        self.commit_ns = (self.commit_ns * 7 + (now - self.sealed)) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_MS: u64 = 1;
    const MS: u64 = 1_000_000;

    /// Epochs that are wanted every 10 ms, with writes so many ns later, and committed in so long. How long the last one waited.
    fn waits(writes_after_ns: &[u64], commit_ns: u64) -> Option<u64> {
        let mut anticipation = Anticipation::default();
        let mut waited = None;
        for i in 1..50 {
            let wanted = Time(i * 10 * MS);
            anticipation.wanted(wanted, PERIOD_MS);
            waited = anticipation.until.map(|until| until - wanted);
            writes_after_ns.iter().for_each(|after| anticipation.arrived(Time(wanted.0 + after)));
            anticipation.sealed(Time(wanted.0 + waited.unwrap_or(0)));
            anticipation.durable(Time(wanted.0 + waited.unwrap_or(0) + commit_ns));
        }
        waited
    }

    #[test]
    fn a_lone_client_is_not_waited_for() {
        assert_eq!(waits(&[], 3 * MS), None);
        assert_eq!(waits(&[5 * MS, 6 * MS], 3 * MS), None, "that comes too late");
    }

    #[test]
    fn more_than_one_within_the_period_is_waited_for_that_long() {
        assert_eq!(waits(&[MS / 2, MS / 2 + 1], 3 * MS), Some(MS));
    }

    #[test]
    fn one_that_comes_soon_is_worth_a_share_of_a_commit() {
        let share = waits(&[20_000], 3 * MS).expect("it comes within 187 us");
        assert!((180_000..=188_000).contains(&share), "{share}");
        assert_eq!(waits(&[20_000], 16 * 19_000), None, "a commit that is quick is not worth it");
        assert_eq!(waits(&[20_000], 0), None);
    }

    #[test]
    fn the_period_of_zero_turns_it_off() {
        let mut anticipation = Anticipation::default();
        for i in 1..50 {
            anticipation.wanted(Time(i * MS), 0);
            (0..5).for_each(|_| anticipation.arrived(Time(i * MS)));
            anticipation.durable(Time((i + 10) * MS));
            assert_eq!(anticipation.until, None);
        }
    }
}
