//! The beginnings of phases, which come from another thread and have their place among the requests by their time.

use onefold_engine::units::Bytes;
use onefold_observer::Watch;
use onefold_trace::record::{Op, Record};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A way in for the beginnings of phases. Its clones are one.
#[derive(Clone, Default)]
pub struct Marks(Arc<Mutex<VecDeque<(u64, String)>>>);

/// Marks that are to be recorded, in the order of their times.
pub(super) struct MarkQueue {
    marks: VecDeque<(u64, String)>,
    origin_ns: u64,
}

impl Marks {
    /// Notes that a phase begins now.
    pub fn add(&self, phase: String) {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The clock is read under the lock, so that their order is that of their times.
        marks.push_back((Watch::now_ns(), phase));
    }

    /// Takes those that have come, for a trace that began at this time.
    pub(super) fn take(&self, origin_ns: u64) -> MarkQueue {
        let marks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        MarkQueue { marks, origin_ns }
    }
}

impl MarkQueue {
    /// Takes those that come before a request of this time since the trace began.
    pub fn before(&mut self, time_ns: u64) -> impl Iterator<Item = Record> {
        let origin_ns = self.origin_ns;
        let since = move |at: u64| at.saturating_sub(origin_ns);
        let first_after = self.marks.partition_point(|(at, _)| since(*at) <= time_ns);
        self.marks
            .drain(..first_after)
            .map(move |(at, phase)| Record { note: Some(phase.into()), ..Record::new(since(at), Op::Mark, Bytes(0), Bytes(0)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_before_the_requests_that_are_later() {
        let marks = Marks::default();
        let began = Watch::now_ns();
        marks.add("one".to_owned());
        marks.clone().add("two".to_owned());
        let mut queue = marks.take(began);
        let times: Vec<u64> = queue.marks.iter().map(|(at, _)| at - began).collect();
        let notes = |queue: &mut MarkQueue, time_ns| queue.before(time_ns).map(|mark| mark.note.unwrap().to_string()).collect::<Vec<_>>();
        assert!(times[0] <= times[1] && marks.take(began).marks.is_empty());
        queue.marks[1].0 += 1;
        assert_eq!(notes(&mut queue, times[0]), ["one"]);
        assert!(notes(&mut queue, times[1]).is_empty());
        assert_eq!(notes(&mut queue, times[1] + 1), ["two"]);
    }
}
