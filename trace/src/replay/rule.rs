//! Dependencies that a replay keeps (`docs/evaluating.md`, "Quantities"): which requests may be sent while which are unanswered.
//!
//! 1. A flush is sent when every change before it is answered; no later request is sent before the flush is answered.
//! 2. A FUA write is sent together with the requests before it; no later request is sent before all of these and the FUA write are
//!    answered. The FUA write stands for the flush that was recorded after it.
//! 3. Under strong persistence, and live, at most `changes_max` changes are unanswered at a time.
//! 4. A change does not overlap any unanswered request, and a read does not overlap an unanswered change: unanswered requests have no
//!    order.

use crate::replay::planned::PlannedRequest;
use onefold_engine::interface::{Op, RequestId};

/// A request that was sent and is not answered.
#[derive(Clone, Debug)]
pub struct Sent {
    pub id: RequestId,
    pub op: Op,
    pub fua: bool,
    pub at_ns: u64,
    first: u64,
    end: u64,
}

impl Sent {
    fn changes(&self) -> bool {
        !matches!(self.op, Op::Read | Op::Extents)
    }

    /// Returns the kind that latencies are grouped by.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match (self.op, self.fua) {
            (Op::Write, true) => "fua",
            (Op::Write, false) => "write",
            (Op::Read | Op::Extents, _) => "read",
            (Op::Flush, _) => "flush",
            (Op::Discard | Op::WriteZeroes, _) => "discard",
        }
    }
}

/// The unanswered requests, and the rule for the next one.
#[derive(Debug, Default)]
pub struct Rule {
    /// The number of changes that may be unanswered at a time; none for as many as memory allows.
    pub changes_max: Option<usize>,
    unanswered: Vec<Sent>,
    changes: usize,
    /// Whether a flush or FUA write was sent and it, or a request before it, is unanswered.
    barrier: bool,
}

impl Rule {
    /// Makes a rule with nothing unanswered.
    #[must_use]
    pub fn new(changes_max: Option<usize>) -> Self {
        Self { changes_max, ..Self::default() }
    }

    /// Returns whether the next request may be sent now.
    #[must_use]
    pub fn allows(&self, ask: &PlannedRequest) -> bool {
        if self.barrier {
            return false;
        }
        match ask.op {
            Op::Flush => self.changes == 0,
            Op::Read | Op::Extents => self.is_apart(ask),
            _ => self.changes_max.is_none_or(|most| self.changes < most) && self.is_apart(ask),
        }
    }

    fn is_apart(&self, ask: &PlannedRequest) -> bool {
        let (first, end) = (ask.offset, ask.offset + ask.length);
        self.unanswered.iter().all(|s| s.end <= first || end <= s.first || !(s.changes() || ask.changes()))
    }

    /// Notes that a request was sent.
    pub fn sent(&mut self, id: RequestId, ask: &PlannedRequest, at_ns: u64) {
        let sent = Sent { id, op: ask.op, fua: ask.fua, at_ns, first: ask.offset, end: ask.offset + ask.length };
        self.changes += usize::from(sent.changes());
        self.barrier |= ask.op == Op::Flush || ask.fua;
        self.unanswered.push(sent);
    }

    /// Notes that a request was answered, and returns it.
    pub fn answered(&mut self, id: RequestId) -> Option<Sent> {
        let at = self.unanswered.iter().position(|s| s.id == id)?;
        let sent = self.unanswered.swap_remove(at);
        self.changes -= usize::from(sent.changes());
        self.barrier &= self.changes > 0;
        Some(sent)
    }

    /// Returns the number of unanswered requests.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(op: Op, fua: bool, first: u64, blocks: u64) -> PlannedRequest {
        PlannedRequest { op, fua, ..PlannedRequest::read(first * 4096, blocks * 4096) }
    }

    #[test]
    fn nothing_passes_a_flush() {
        let mut rule = Rule::new(None);
        rule.sent(RequestId(1), &ask(Op::Write, false, 0, 1), 0);
        let flush = ask(Op::Flush, false, 0, 0);
        assert!(!rule.allows(&flush), "a change before it is unanswered");
        rule.answered(RequestId(1));
        assert!(rule.allows(&flush));
        rule.sent(RequestId(2), &flush, 0);
        for op in [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes] {
            assert!(!rule.allows(&ask(op, false, 7, 1)), "{op:?} passed a flush");
        }
        assert!(rule.answered(RequestId(2)).is_some() && rule.allows(&ask(Op::Read, false, 7, 1)));
    }

    #[test]
    fn a_fua_write_goes_with_what_is_before_it_and_holds_what_is_after() {
        let mut rule = Rule::new(None);
        rule.sent(RequestId(1), &ask(Op::Write, false, 0, 1), 0);
        let fua = ask(Op::Write, true, 5, 1);
        assert!(rule.allows(&fua));
        rule.sent(RequestId(2), &fua, 0);
        rule.answered(RequestId(2));
        assert!(!rule.allows(&ask(Op::Write, false, 9, 1)), "the flush after the FUA write covers the first write too");
        rule.answered(RequestId(1));
        assert!(rule.allows(&ask(Op::Write, false, 9, 1)));
    }

    #[test]
    fn changes_are_limited_and_reads_are_not() {
        let mut rule = Rule::new(Some(32));
        for n in 0..32 {
            let write = ask(Op::Write, false, n, 1);
            assert!(rule.allows(&write), "write {n}");
            rule.sent(RequestId(n), &write, 0);
        }
        assert!(!rule.allows(&ask(Op::Write, false, 99, 1)) && !rule.allows(&ask(Op::Discard, false, 99, 1)));
        assert!(rule.allows(&ask(Op::Read, false, 99, 1)));
        rule.answered(RequestId(5));
        assert!(rule.allows(&ask(Op::Write, false, 99, 1)));
    }

    #[test]
    fn overlapping_requests_wait() {
        let mut rule = Rule::new(None);
        rule.sent(RequestId(1), &ask(Op::Write, false, 10, 4), 0);
        rule.sent(RequestId(2), &ask(Op::Read, false, 20, 4), 0);
        assert!(!rule.allows(&ask(Op::Write, false, 13, 1)) && !rule.allows(&ask(Op::Read, false, 8, 3)));
        assert!(!rule.allows(&ask(Op::Discard, false, 23, 9)) && rule.allows(&ask(Op::Read, false, 20, 1)));
        assert!(rule.allows(&ask(Op::Write, false, 14, 6)));
    }
}
