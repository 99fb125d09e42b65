//! Admission: requests are checked, and held back while memory is short.
//!
//! 1. Requests that have not been answered have no order between them. A request sees the effects of all that were answered before it
//!    arrived.

use super::Requests;
use crate::answers::Answers;
use crate::interface::{Failure, Op, Request};
use crate::io::Io;
use crate::memory::Part;
use crate::pool::{Parts, Pool};
use crate::scheme::Scheme;
use crate::space::Space;
use crate::units::SECTOR_BYTES;
use std::collections::VecDeque;

/// Whether such a request changes what LBNs mean. It then takes records, which need room in memory.
fn changes(op: Op) -> bool {
    matches!(op, Op::Write | Op::Discard | Op::WriteZeroes)
}

impl Requests {
    /// Takes in a request. All requests wait until the volume serves.
    pub fn admit(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, request: Request) {
        if parts.pool.io.stage().is_before_service() {
            self.admission.push_back(request);
            return;
        }
        if changes(request.op) { self.admission.push_back(request) } else { self.dispatch(parts, scheme, answers, request) }
    }

    /// Admits the requests that memory has room for.
    pub fn drain_admission(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        if parts.pool.io.stage().is_before_service() {
            return;
        }
        if parts.pool.space.is_full() {
            self.admit_discards_when_full(parts, scheme, answers);
        }
        while let Some(request) = self.admission.front() {
            if changes(request.op) && !parts.pool.io.has_failed() && self.has_to_wait(&mut parts.pool, scheme, answers) {
                return;
            }
            let Some(request) = self.admission.pop_front() else { return };
            self.dispatch(parts, scheme, answers, request);
        }
    }

    /// Whether requests wait for memory.
    pub fn are_admissions_waiting(&self) -> bool {
        !self.admission.is_empty()
    }

    /// Refuses the writes that wait for memory, which no commit frees while the store refuses writes for want of room.
    #[cold]
    pub fn turn_away(&mut self, io: &mut Io, space: &mut Space, failure: Failure) {
        let (writes, others) = std::mem::take(&mut self.admission).into_iter().partition(|request| request.op == Op::Write);
        self.admission = others;
        let writes: VecDeque<Request> = writes;
        writes.into_iter().for_each(|request| space.refuse(io, request.id, failure));
    }

    /// Admits discards before the writes that wait for space, since only discards may bring some.
    #[cold]
    fn admit_discards_when_full(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers) {
        let mut at = 0;
        while at < self.admission.len() && !self.lacks_room_for_records(&mut parts.pool, scheme, answers) {
            if self.admission[at].op != Op::Discard {
                at += 1;
            } else if let Some(request) = self.admission.remove(at) {
                self.dispatch(parts, scheme, answers, request);
            }
        }
    }

    /// Whether a further write has to wait, for room for its records or for the writes that wait already. Writes that wait for a block do
    /// not count, since a further write may need no new block; their memory is bounded by that of requests.
    fn has_to_wait(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> bool {
        let waiting = if pool.space.is_full() { self.writes.len() - pool.space.waiters.len() } else { self.writes.len() };
        waiting >= pool.tables.pages.waiting_max() || self.lacks_room_for_records(pool, scheme, answers)
    }

    /// Whether a further write or discard has to wait until records are committed.
    fn lacks_room_for_records(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> bool {
        (pool.open_bytes() > pool.memory.accountant.limit(Part::Dirty) / 2 || !pool.memory.accountant.within(Part::Dirty))
            && (pool.tables.committing.is_some() || !pool.tables.open.is_empty())
            || scheme.is_crowded(pool, answers)
            || pool.tables.open.is_due
            || answers.ack_journal.records().1 > pool.settings.facts.journal_records_max / 2
    }

    fn dispatch(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, request: Request) {
        let fits = request.offset.0 % SECTOR_BYTES == 0
            && request.length.0 % SECTOR_BYTES == 0
            && request.offset.0.checked_add(request.length.0).is_some_and(|end| end <= parts.volume.blocks.bytes().0);
        if !fits {
            return parts.pool.space.refuse(&mut parts.pool.io, request.id, Failure::Invalid);
        }
        if parts.pool.io.refuses_reads() {
            return parts.pool.space.refuse(&mut parts.pool.io, request.id, Failure::Io);
        }
        if changes(request.op) && parts.pool.io.is_read_only() {
            return parts.pool.space.refuse(&mut parts.pool.io, request.id, Failure::ReadOnly);
        }
        match request.op {
            Op::Read => self.begin_read(&mut parts.pool, request),
            Op::Extents => self.begin_extents(&mut parts.pool, request),
            Op::Write => self.begin_write(parts, scheme, answers, &request),
            Op::Flush => answers.flush(&mut parts.pool, request.id),
            Op::Discard => self.begin_discard(&mut parts.pool, answers, &request),
            Op::WriteZeroes => self.begin_write_zeroes(parts, scheme, answers, &request),
        }
    }
}
