//! Anticipation: the engine delays sealing a little if further writes are likely in that time (section 2.2).
//!
//! 1. It waits for the configured period if lately more than one further write came within it. A lone client that waits for its flush sends
//!    nothing more, so waiting for it would be a loss.
//! 2. Otherwise it waits for a quarter of a commit's recent duration, at most the period, if one such wait in four has brought a write;
//!    otherwise for a sixteenth, if one in sixteen has. So all vain waits together cost at most as much as the saved commits.
//! 3. Writes come in patterns: content, then the journal, then the block that commits it. So the estimate depends on what came before:
//!    whether there was a pause as long as a commit, and whether a write followed the last two times.

use crate::units::Time;

/// The fractions of a commit's duration that sealing may wait. The longer the wait, the more likely a write has to be.
const SHARES: [u64; 2] = [4, 16];
/// The fixed-point value of one in moving averages.
const ONE: u32 = 256;
/// The number of earlier outcomes on which the estimate depends.
const OUTCOMES: usize = 2;
/// The number of contexts. A context is the earlier outcomes, and whether there was a pause.
const CONTEXTS: usize = 2 << OUTCOMES;

/// A moving average in which the newest value counts for one of `parts`.
const fn average(before: u32, newest: u32, parts: u32) -> u32 {
    (before * (parts - 1) + newest * ONE) / parts
}

/// The average number of writes that come within the period after a client begins to wait for an epoch.
#[derive(Debug, Default)]
struct PeriodEstimate {
    within_ns: u64,
    /// The number of such writes so far in this epoch.
    seen: u32,
    average: u32,
}

/// The estimate whether a write comes within a share of a commit's duration.
#[derive(Debug, Default)]
struct ShareEstimate {
    within_ns: u64,
    is_seen: bool,
    /// Moving averages by context.
    averages: [u32; CONTEXTS],
}

/// The estimates, and the wait that follows from them.
#[derive(Debug, Default)]
pub(crate) struct Anticipation {
    /// The time at which a client last began to wait for an epoch.
    since: Option<Time>,
    in_period: PeriodEstimate,
    in_share: [ShareEstimate; SHARES.len()],
    /// The context of the open epoch: the newest outcome is the lowest bit, a pause the highest.
    context: usize,
    /// The times at which an epoch was last sealed, and last became durable.
    sealed: Time,
    ended: Time,
    /// The moving average of a commit's duration.
    commit_ns: u64,
    /// The time until which sealing waits.
    pub until: Option<Time>,
}

impl Anticipation {
    /// Notes a write that has come in.
    pub fn arrived(&mut self, now: Time) {
        let Some(since) = self.since else { return };
        self.in_period.seen += u32::from(now - since <= self.in_period.within_ns);
        for likely in &mut self.in_share {
            likely.is_seen |= now - since <= likely.within_ns;
        }
    }

    /// Decides how long sealing waits, when the first request waits for the open epoch: for the period, for a share of a commit if it may
    /// wait `by_shares`, or not at all.
    pub fn wanted(&mut self, now: Time, period_ms: u64, by_shares: bool) {
        if self.since.replace(now).is_some() {
            self.learn();
        }
        let has_paused = self.sealed <= self.ended && now - self.ended > self.commit_ns;
        self.context |= usize::from(has_paused) << OUTCOMES;
        let period_ns = period_ms * 1_000_000;
        self.in_period.within_ns = period_ns;
        for (share, likely) in SHARES.into_iter().zip(&mut self.in_share) {
            likely.within_ns = period_ns.min(self.commit_ns / share);
        }
        let is_likely = |(share, likely): &(u64, &ShareEstimate)| u64::from(likely.averages[self.context]) * share > u64::from(ONE);
        let wait_ns = if self.in_period.average > ONE {
            period_ns
        } else if !by_shares {
            0
        } else {
            SHARES.into_iter().zip(&self.in_share).find(is_likely).map_or(0, |(_, likely)| likely.within_ns)
        };
        self.until = (wait_ns > 0).then_some(Time(now.0 + wait_ns));
    }

    /// Updates the estimates by the writes since a client began to wait for the previous epoch.
    fn learn(&mut self) {
        let seen = std::mem::take(&mut self.in_period.seen);
        self.in_period.average = average(self.in_period.average, seen, 4);
        let has_come = self.in_share[0].is_seen;
        for likely in &mut self.in_share {
            let before = &mut likely.averages[self.context];
            *before = average(*before, u32::from(std::mem::take(&mut likely.is_seen)), 8);
        }
        self.context = ((self.context << 1) | usize::from(has_come)) % (1 << OUTCOMES);
    }

    /// Notes that the open epoch begins to commit.
    pub fn sealed(&mut self, now: Time) {
        self.until = None;
        self.sealed = now;
    }

    /// Notes that the epoch is durable.
    pub fn durable(&mut self, now: Time) {
        self.ended = now;
        self.commit_ns = (self.commit_ns * 7 + (now - self.sealed)) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_MS: u64 = 1;
    const MS: u64 = 1_000_000;

    /// Lets clients wait for an epoch every second; writes and the commit follow after the given times. Returns the wait of the last epoch.
    fn waits(writes_after_ns: &[u64], commit_ns: u64) -> Option<u64> {
        let mut anticipation = Anticipation::default();
        let mut waited = None;
        for i in 1..50 {
            let wanted = Time(i * 1000 * MS);
            anticipation.wanted(wanted, PERIOD_MS, true);
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
    fn one_that_comes_soon_is_worth_a_quarter_of_a_commit() {
        let share = waits(&[20_000], 3 * MS).expect("it comes within 750 us");
        assert!((740_000..=750_000).contains(&share), "{share}");
        assert_eq!(waits(&[20_000], 100 * MS), Some(MS), "at most the period");
        assert_eq!(waits(&[20_000], 4 * 19_000), None, "a commit that is quick is not worth it");
        assert_eq!(waits(&[20_000], 0), None);
    }

    /// Lets clients wait for an epoch every 10 ms, with a commit of 3 ms; `turn` has the delays of the write that follows each. Returns the
    /// waits of the `last` epochs.
    fn waits_of(turn: &[Option<u64>], last: usize) -> Vec<Option<u64>> {
        let mut anticipation = Anticipation::default();
        let mut waited = Vec::new();
        for (i, follower) in (1..200).zip(turn.iter().cycle()) {
            let wanted = Time(i * 10 * MS);
            anticipation.wanted(wanted, PERIOD_MS, true);
            waited.push(anticipation.until.map(|until| until - wanted));
            follower.iter().for_each(|after| anticipation.arrived(Time(wanted.0 + after)));
            anticipation.sealed(wanted);
            anticipation.durable(Time(wanted.0 + 3 * MS));
        }
        waited.split_off(waited.len() - last)
    }

    #[test]
    fn one_in_sixteen_is_worth_a_sixteenth() {
        let mut turn = [None; 7];
        turn[3] = Some(20_000);
        let waited = waits_of(&turn, 7);
        assert!(waited.iter().all(|wait| wait.is_none_or(|wait| wait < 190_000)), "{waited:?}");
        assert!(waited.iter().any(Option::is_some), "{waited:?}");
    }

    #[test]
    fn a_pattern_is_known_by_what_came_before() {
        let waited = waits_of(&[Some(300_000), None, None], 6);
        assert_eq!(waited.iter().filter(|wait| wait.is_some()).count(), 2, "only those that a write follows: {waited:?}");
    }

    #[test]
    fn a_pause_begins_what_is_followed() {
        let mut anticipation = Anticipation::default();
        let mut waited = Vec::new();
        // After a pause two in three are followed; right after a commit none is.
        for i in 1..200 {
            for (soon, at) in [(false, i * 100 * MS), (true, i * 100 * MS + 4 * MS)] {
                let wanted = Time(at);
                anticipation.wanted(wanted, PERIOD_MS, true);
                waited.push((soon, anticipation.until.is_some()));
                if !soon && i % 3 > 0 {
                    anticipation.arrived(Time(wanted.0 + 300_000));
                }
                anticipation.sealed(wanted);
                anticipation.durable(Time(wanted.0 + 3 * MS));
            }
        }
        let lately = &waited[300..];
        assert!(lately.iter().all(|&(soon, waits)| !(soon && waits)));
        assert!(lately.iter().filter(|&&(_, waits)| waits).count() > 40);
    }

    #[test]
    fn the_period_of_zero_turns_it_off() {
        let mut anticipation = Anticipation::default();
        for i in 1..50 {
            anticipation.wanted(Time(i * MS), 0, true);
            (0..5).for_each(|_| anticipation.arrived(Time(i * MS)));
            anticipation.durable(Time(i * MS + MS / 2));
            assert_eq!(anticipation.until, None);
        }
    }
}
