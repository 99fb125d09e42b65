//! Anticipation: sealing waits a little longer where further writes are likely to come in that time (section 2.2).
//!
//! 1. The period that is set, where more than one further write has come within it lately. A lone client that waits for its flush sends
//!    nothing more, and waiting for it would be loss.
//! 2. Else a quarter of what a commit takes lately, at most the period, where one such wait in four has brought a write; else a sixteenth,
//!    where one in sixteen has. So all that are in vain together cost as much as the commits that are saved, at the most.
//! 3. Writes come in patterns: content, then the journal, then the block that commits it. So what is likely is told by what came before:
//!    whether nothing was asked for since a commit's time, and whether a write followed the last two times.

use crate::units::Time;

/// The shares of a commit's time that may be waited: the longer, the more likely a write has to be.
const SHARES: [u64; 2] = [4, 16];
/// One, in moving averages.
const ONE: u32 = 256;
/// Outcomes that tell the next one.
const OUTCOMES: usize = 2;
/// What may have come before: the outcomes, and whether there was a pause.
const CONTEXTS: usize = 2 << OUTCOMES;

/// A moving average: the newest counts for one of so many parts.
const fn average(before: u32, newest: u32, parts: u32) -> u32 {
    (before * (parts - 1) + newest * ONE) / parts
}

/// How many writes come within the period, lately, after an epoch came to be wanted.
#[derive(Debug, Default)]
struct Followers {
    within_ns: u64,
    /// Since it was wanted.
    seen: u32,
    average: u32,
}

/// Whether a write comes within a share of a commit's time.
#[derive(Debug, Default)]
struct Likely {
    within_ns: u64,
    is_seen: bool,
    /// By what came before.
    averages: [u32; CONTEXTS],
}

/// What the recent past says of further writes.
#[derive(Debug, Default)]
pub(crate) struct Anticipation {
    /// When an epoch came to be wanted last.
    since: Option<Time>,
    in_period: Followers,
    in_share: [Likely; SHARES.len()],
    /// What came before the open epoch was wanted: the newest outcome is the lowest bit, a pause the highest.
    context: usize,
    /// When an epoch was sealed last, and when one was durable.
    sealed: Time,
    ended: Time,
    /// What a commit takes: a moving average.
    commit_ns: u64,
    /// Sealing waits until then.
    pub until: Option<Time>,
}

impl Anticipation {
    /// A write has come in.
    pub fn arrived(&mut self, now: Time) {
        let Some(since) = self.since else { return };
        self.in_period.seen += u32::from(now - since <= self.in_period.within_ns);
        for likely in &mut self.in_share {
            likely.is_seen |= now - since <= likely.within_ns;
        }
    }

    /// Somebody waits for the open epoch, the first who does: sealing may wait for so long.
    pub fn wanted(&mut self, now: Time, period_ms: u64) {
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
        let is_likely = |(share, likely): &(u64, &Likely)| u64::from(likely.averages[self.context]) * share > u64::from(ONE);
        let wait_ns = if self.in_period.average > ONE {
            period_ns
        } else {
            SHARES.into_iter().zip(&self.in_share).find(is_likely).map_or(0, |(_, likely)| likely.within_ns)
        };
        self.until = (wait_ns > 0).then_some(Time(now.0 + wait_ns));
    }

    /// What came since the epoch before was wanted.
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

    /// The open epoch begins to commit.
    pub fn sealed(&mut self, now: Time) {
        self.until = None;
        self.sealed = now;
    }

    /// It is durable.
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

    /// Epochs that are wanted every second, with writes so many ns later, and committed in so long. How long the last one waited.
    fn waits(writes_after_ns: &[u64], commit_ns: u64) -> Option<u64> {
        let mut anticipation = Anticipation::default();
        let mut waited = None;
        for i in 1..50 {
            let wanted = Time(i * 1000 * MS);
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
    fn one_that_comes_soon_is_worth_a_quarter_of_a_commit() {
        let share = waits(&[20_000], 3 * MS).expect("it comes within 750 us");
        assert!((740_000..=750_000).contains(&share), "{share}");
        assert_eq!(waits(&[20_000], 100 * MS), Some(MS), "at most the period");
        assert_eq!(waits(&[20_000], 4 * 19_000), None, "a commit that is quick is not worth it");
        assert_eq!(waits(&[20_000], 0), None);
    }

    /// Epochs after each other, every 10 ms, of a commit of 3 ms: what follows each of them so many ns later. How long the last ones
    /// waited.
    fn waits_of(turn: &[Option<u64>], last: usize) -> Vec<Option<u64>> {
        let mut anticipation = Anticipation::default();
        let mut waited = Vec::new();
        for (i, follower) in (1..200).zip(turn.iter().cycle()) {
            let wanted = Time(i * 10 * MS);
            anticipation.wanted(wanted, PERIOD_MS);
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
                anticipation.wanted(wanted, PERIOD_MS);
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
            anticipation.wanted(Time(i * MS), 0);
            (0..5).for_each(|_| anticipation.arrived(Time(i * MS)));
            anticipation.durable(Time(i * MS + MS / 2));
            assert_eq!(anticipation.until, None);
        }
    }
}
