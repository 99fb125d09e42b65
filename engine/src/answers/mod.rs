//! Requests that are not answered yet, with what they wait for and what their acknowledgements promise.
//!
//! 1. A request is answered once, when its last part is in its place and, if required (FUA, strong), durable.
//! 2. A request that waits for durability waits for the open epoch, or for the committing one if the open epoch is empty.

mod anticipate;
mod promise;

pub(crate) use anticipate::Anticipation;

use crate::ack_journal::{AckJournal, PendingPromise};
use crate::interface::{Failure, Reply, Request, RequestId};
use crate::io::Io;
use crate::ledger::ClientWrites;
use crate::map::Map;
use crate::pool::Pool;
use crate::schedule::Task;
use crate::settings::{Persistence, Settings};
use crate::space::Space;
use crate::tables::{Tables, Wanted};
use crate::units::{Lbn, Pbn};

/// The identifier of the writes that are replayed.
pub(crate) const REPLAYED: RequestId = RequestId(u64::MAX);

/// The identifier of the write by which a block of this LBN is moved: no client's request has it.
pub(crate) fn moving(lbn: Lbn) -> RequestId {
    RequestId(MOVING | lbn.0)
}

/// Above all LBNs, and the requests that clients ever make.
const MOVING: u64 = 1 << 62;

/// A request that waits for its parts.
pub(crate) struct Pending {
    pub left: u64,
    pub failure: Option<Failure>,
    /// The reason why it is answered only after a commit (R5), if it is.
    pub durable: Option<Wanted>,
    /// The promises that enter the journal when it is acknowledged.
    pub promises: Vec<PendingPromise>,
    /// The writes that the ledger has counted of it.
    counted: ClientWrites,
}

impl Pending {
    /// A request with one part so far.
    fn new(durable: Option<Wanted>, counted: ClientWrites) -> Self {
        Self { left: 1, failure: None, durable, promises: Vec::new(), counted }
    }
}

/// All requests that are not answered yet.
pub(crate) struct Answers {
    pending: Map<RequestId, Pending>,
    /// Requests that wait for the content of a block to be on the device (`Facts::keeps_journal`).
    content_waiters: Map<Pbn, Vec<RequestId>>,
    pub anticipation: Anticipation,
    pub ack_journal: AckJournal,
    /// The replayed write has ended: true if it is in its place.
    replayed: Option<bool>,
}

impl Answers {
    pub fn new(ack_journal: AckJournal) -> Self {
        let (pending, content_waiters, anticipation, replayed) = Default::default();
        Self { pending, content_waiters, anticipation, ack_journal, replayed }
    }

    /// Begins a request, with one part for its admission, and counts the writes in it.
    pub fn begin(&mut self, io: &mut Io, settings: &Settings, request: &Request, writes: ClientWrites) {
        let strong = settings.persistence == Persistence::Strong;
        let durable = if request.fua { Some(Wanted::Fua) } else { strong.then_some(Wanted::Strong) };
        io.ledger.arrived(writes);
        self.pending.insert(request.id, Pending::new(durable, writes));
    }

    /// Begins to move the block of an LBN, with one part.
    pub fn begin_move(&mut self, lbn: Lbn) {
        self.pending.insert(moving(lbn), Pending::new(None, ClientWrites::default()));
    }

    /// Whether the block of an LBN is being moved.
    pub fn is_moving(&self, lbn: Lbn) -> bool {
        self.pending.contains_key(&moving(lbn))
    }

    /// Begins the replay of a promise, with one part.
    pub fn begin_replay(&mut self) {
        self.pending.insert(REPLAYED, Pending::new(None, ClientWrites::default()));
    }

    /// Whether the replay of a promise is under way.
    pub fn is_replaying(&self) -> bool {
        self.pending.contains_key(&REPLAYED)
    }

    /// Ends the replay of a promise.
    pub fn end_replay(&mut self) {
        self.pending.remove(&REPLAYED);
    }

    /// Takes the outcome of a replay that has ended since the last call.
    pub fn take_replayed(&mut self) -> Option<bool> {
        self.replayed.take()
    }

    /// A request that was begun and has parts left.
    ///
    /// # Panics
    /// When the request was not begun, or has ended.
    fn pending(&mut self, request: RequestId) -> &mut Pending {
        self.pending.get_mut(&request).expect("a request is pending from its first part to its last")
    }

    /// Begins one more part of a request.
    pub fn add_part(&mut self, request: RequestId) {
        self.pending(request).left += 1;
    }

    /// Ends one part of a request, which is in its place unless there is a failure. The last part ends the request.
    pub fn finish_part(&mut self, pool: &mut Pool, request: RequestId, failure: Option<Failure>) {
        let pending = self.pending(request);
        pending.failure = pending.failure.or(failure);
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        let Some(pending) = self.pending.remove(&request) else { return };
        if request == REPLAYED {
            self.replayed = Some(pending.failure.is_none());
            return pool.io.schedule.push(Task::Replay);
        }
        if request != REPLAYED && request.0 & MOVING != 0 {
            // Nobody waits for it but the job that has begun it; its content is promised already, or durable.
            if pending.failure.is_none() {
                self.ack_journal.remember(pool, pending.promises);
            }
            return pool.io.schedule.push(Task::Part);
        }
        match (pending.failure, pending.durable) {
            (Some(failure), _) => {
                if failure == Failure::Full {
                    pool.io.ledger.sent_back(pending.counted);
                }
                pool.space.refuse(&mut pool.io, request, failure);
            }
            (None, Some(why)) => self.wait_for_commit(pool, request, why),
            (None, None) => {
                self.ack_journal.remember(pool, pending.promises);
                pool.io.reply(request, Reply::Done);
            }
        }
    }

    /// Ends the parts that wait for the content of a block. `good`: it is on the device.
    pub fn content_arrived(&mut self, pool: &mut Pool, pbn: Pbn, good: bool) {
        for request in self.content_waiters.remove(&pbn).into_iter().flatten() {
            self.finish_part(pool, request, (!good).then_some(Failure::Io));
        }
    }

    /// Lets a client's flush wait for every epoch with writes that were acknowledged before it (R5).
    pub fn flush(&mut self, pool: &mut Pool, request: RequestId) {
        pool.io.ledger.client_flushed();
        self.wait_for_commit(pool, request, Wanted::Flush);
    }

    /// Answers a request when everything before it is durable.
    fn wait_for_commit(&mut self, pool: &mut Pool, request: RequestId, why: Wanted) {
        // A write that waits only because the journal had no room for its promise did not ask for durability, so it does not report the
        // loss.
        if pool.io.has_failed() || why != Wanted::Space && self.ack_journal.tells_of_loss() {
            return pool.space.refuse(&mut pool.io, request, Failure::Io);
        }
        if !pool.tables.open.is_empty() {
            if pool.tables.open.wait(request, why) {
                self.anticipation.wanted(pool.io.now(), pool.settings.anticipation_ms, pool.settings.knobs.anticipates_by_shares);
            }
            return;
        }
        match &mut pool.tables.committing {
            Some(epoch) => epoch.waiters.push(request),
            None => pool.io.reply(request, Reply::Done),
        }
    }

    /// Fails all requests that wait for an epoch: after a failed write or flush (A5), or where they have waited long enough for room.
    pub fn fail_waiters(&mut self, io: &mut Io, tables: &mut Tables, space: &mut Space, failure: Failure) {
        let mut waiters = tables.open.take_waiting();
        if let Some(epoch) = &mut tables.committing {
            waiters.append(&mut epoch.waiters);
        }
        waiters.into_iter().for_each(|request| space.refuse(io, request, failure));
    }

    /// Fails all parts that wait for content: after a failed write or flush (A5), or where they have waited long enough for room.
    pub fn fail_content_waiters(&mut self, pool: &mut Pool, failure: Failure) {
        let waiters = std::mem::take(&mut self.content_waiters);
        waiters.into_values().flatten().for_each(|request| self.finish_part(pool, request, Some(failure)));
    }
}
