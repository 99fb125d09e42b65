//! Several traces as applications of one device.
//!
//! 1. The applications take turns, in the order of their traces, until no trace has records left. Between its turns an application stands
//!    still, like one in the background of a phone; turns of one request are a server's mix.
//! 2. Each trace has a range of the device of its own, and the order of its records is kept.
//! 3. Time goes on by the time that passes within the turns. Between two turns no time passes.

use crate::record::{Op, Record};
use onefold_engine::units::Bytes;
use std::iter::Peekable;
use std::str::FromStr;

/// The part of the device that a trace has: 2^55 bytes, so that there is room for 256 traces.
pub const RANGE_BYTES: u64 = 1 << 55;
/// The largest number of traces.
pub const TRACES_MAX: usize = 256;

/// The length of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A number of reads and writes.
    Requests(u64),
    /// Nanoseconds of the trace's own time: turns end where its time is a multiple of them.
    Time(u64),
}

impl FromStr for Turn {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let wrong = || format!("'{typed}' is no length of a turn: give requests, as 100, or seconds of the traces' time, as 60s");
        let (digits, is_time) = typed.strip_suffix('s').map_or((typed, false), |digits| (digits, true));
        let number = digits.parse::<u64>().ok().filter(|number| (1..=1_000_000_000).contains(number)).ok_or_else(wrong)?;
        Ok(if is_time { Self::Time(number * 1_000_000_000) } else { Self::Requests(number) })
    }
}

/// Returns the trace that a position on the device belongs to.
#[must_use]
pub const fn trace_at(offset: Bytes) -> usize {
    (offset.0 / RANGE_BYTES) as usize
}

/// Returns whether a record of a trace lies within the range of one.
#[must_use]
pub const fn fits(record: &Record) -> bool {
    record.offset.0 <= RANGE_BYTES && record.length.0 <= RANGE_BYTES - record.offset.0
}

struct Application<I: Iterator<Item = Record>> {
    records: Peekable<I>,
    last_ns: u64,
}

/// The records of several traces in the order of their turns.
pub struct Interleaved<I: Iterator<Item = Record>> {
    applications: Vec<Application<I>>,
    turn: Turn,
    current: usize,
    /// The requests of the turn, or the number of the turn on the trace's own clock; none before it begins.
    progress: Option<u64>,
    clock_ns: u64,
}

impl<I: Iterator<Item = Record>> Interleaved<I> {
    /// Begins with the first trace.
    ///
    /// # Panics
    /// If there are more than [`TRACES_MAX`] traces.
    #[must_use]
    pub fn new(traces: impl IntoIterator<Item = I>, turn: Turn) -> Self {
        let applications: Vec<_> = traces.into_iter().map(|records| Application { records: records.peekable(), last_ns: 0 }).collect();
        assert!(applications.len() <= TRACES_MAX, "at most 256 traces have a range of the device");
        Self { applications, turn, current: 0, progress: None, clock_ns: 0 }
    }

    /// Returns whether the next record of the current application belongs to its turn.
    fn goes_on(&mut self) -> bool {
        let Some(next) = self.applications[self.current].records.peek() else { return false };
        match (self.turn, self.progress) {
            (_, None) => true,
            // What follows the last request, as a flush, belongs to the turn, too.
            (Turn::Requests(most), Some(done)) => done < most || !is_request(next),
            (Turn::Time(length_ns), Some(number)) => next.time_ns / length_ns == number,
        }
    }

    fn take(&mut self) -> Option<Record> {
        let application = &mut self.applications[self.current];
        let mut record = application.records.next()?;
        self.progress = Some(match self.turn {
            Turn::Requests(_) => self.progress.unwrap_or(0) + u64::from(is_request(&record)),
            Turn::Time(length_ns) => self.progress.unwrap_or(record.time_ns / length_ns),
        });
        self.clock_ns += record.time_ns.saturating_sub(application.last_ns);
        application.last_ns = record.time_ns;
        record.time_ns = self.clock_ns;
        record.offset = Bytes(record.offset.0 + self.current as u64 * RANGE_BYTES);
        Some(record)
    }
}

fn is_request(record: &Record) -> bool {
    matches!(record.op, Op::Read | Op::Write)
}

impl<I: Iterator<Item = Record>> Iterator for Interleaved<I> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        for _ in 0..=self.applications.len() {
            if self.goes_on() {
                return self.take();
            }
            self.current = (self.current + 1) % self.applications.len();
            self.progress = None;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes at these seconds, to block 0, 1, 2 and so on.
    fn trace(seconds: &[u64]) -> Vec<Record> {
        let record = |(block, &second): (u64, &u64)| Record::new(second * 1_000_000_000, Op::Write, Bytes(block * 4096), Bytes(4096));
        (0..).zip(seconds).map(record).collect()
    }

    /// The trace, the block in it and the second of each record.
    fn interleaved(traces: Vec<Vec<Record>>, turn: &str) -> Vec<(usize, u64, u64)> {
        let all = Interleaved::new(traces.into_iter().map(Vec::into_iter), turn.parse().expect("a turn"));
        all.map(|record| (trace_at(record.offset), record.offset.0 % RANGE_BYTES / 4096, record.time_ns / 1_000_000_000)).collect()
    }

    #[test]
    fn turns_of_requests_go_round_until_all_have_ended() {
        let made = interleaved(vec![trace(&[5, 6, 9]), trace(&[]), trace(&[1, 2, 3, 4])], "2");
        assert_eq!(made, [(0, 0, 5), (0, 1, 6), (2, 0, 7), (2, 1, 8), (0, 2, 11), (2, 2, 12), (2, 3, 13)]);
    }

    #[test]
    fn turns_of_time_end_on_the_clock_of_each_trace() {
        let made = interleaved(vec![trace(&[0, 9, 10, 35]), trace(&[3, 19, 20])], "10s");
        let order: Vec<(usize, u64)> = made.iter().map(|&(trace, block, _)| (trace, block)).collect();
        assert_eq!(order, [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (0, 3), (1, 2)]);
        assert!(made.is_sorted_by_key(|made| made.2));
    }

    #[test]
    fn a_flush_belongs_to_the_turn_of_the_request_before_it() {
        let flush = Record::new(2_000_000_000, Op::Flush, Bytes(0), Bytes(0));
        let all = Interleaved::new([vec![trace(&[1])[0].clone(), flush], trace(&[1])].map(Vec::into_iter), Turn::Requests(1));
        assert_eq!(all.map(|record| record.op).collect::<Vec<_>>(), [Op::Write, Op::Flush, Op::Write]);
    }

    #[test]
    fn wrong_turns_are_named() {
        for typed in ["", "0", "0s", "s", "1.5s", "-1", "1m"] {
            assert!(typed.parse::<Turn>().is_err_and(|error| error.contains(&format!("'{typed}'"))));
        }
    }
}
