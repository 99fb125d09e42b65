//! Requests that are not answered yet: what each of them waits for, and what its acknowledgement promises.
//!
//! 1. A request is answered once, when its last part is in its place and, where it asked for that (FUA, strong), durable.
//! 2. Whoever waits for durability waits for the open epoch, or for the committing one where that holds all that came before.

mod anticipate;
mod journal;
mod promise;
mod proofs;

pub(crate) use anticipate::Anticipation;
pub(crate) use journal::{Journal, Lies, Named, Unspoken};
pub(crate) use proofs::{InTables, Proofs};

use crate::interface::{Failure, Reply, Request, RequestId};
use crate::map::Map;
use crate::schedule::Task;
use crate::settings::Persistence;
use crate::store::Store;
use crate::tables::Wanted;
use crate::units::Pbn;

/// Stands for whoever wrote what is recalled.
pub(crate) const RECALLED: RequestId = RequestId(u64::MAX);

/// A request that waits for its parts.
pub(crate) struct Pending {
    pub left: u64,
    pub failure: Option<Failure>,
    /// Answered only after a commit (R5), and why.
    pub durable: Option<Wanted>,
    /// What it promises, to be remembered with its acknowledgement.
    pub unspoken: Vec<Unspoken>,
}

impl Pending {
    /// Of one part so far.
    fn new(durable: Option<Wanted>) -> Self {
        Self { left: 1, failure: None, durable, unspoken: Vec::new() }
    }
}

/// All requests that are not answered yet.
pub(crate) struct Answers {
    pending: Map<RequestId, Pending>,
    /// Requests answered once the content of a block is on the device (`Settings::keeps_promises`).
    content_waiters: Map<Pbn, Vec<RequestId>>,
    pub anticipation: Anticipation,
    pub journal: Journal,
    /// What is recalled has found its place (true), or never will.
    recalled: Option<bool>,
}

impl Answers {
    pub fn new(journal: Journal) -> Self {
        let (pending, content_waiters, anticipation, recalled) = Default::default();
        Self { pending, content_waiters, anticipation, journal, recalled }
    }

    /// A request begins, with one part: that it was taken in.
    pub fn begin(&mut self, store: &Store, request: &Request) {
        let strong = store.settings.persistence == Persistence::Strong;
        let durable = if request.fua { Some(Wanted::Fua) } else { strong.then_some(Wanted::Strong) };
        self.pending.insert(request.id, Pending::new(durable));
    }

    /// What was promised by the last server is written, with one part.
    pub fn begin_recalled(&mut self) {
        self.pending.insert(RECALLED, Pending::new(None));
    }

    /// Whether that is under way.
    pub fn is_recalling(&self) -> bool {
        self.pending.contains_key(&RECALLED)
    }

    /// It is not, any more.
    pub fn end_recalled(&mut self) {
        self.pending.remove(&RECALLED);
    }

    /// How it ended, if it has since this was asked last.
    pub fn take_recalled(&mut self) -> Option<bool> {
        self.recalled.take()
    }

    /// A request that was begun and has parts left.
    ///
    /// # Panics
    /// When the request was not begun, or has ended.
    fn pending(&mut self, request: RequestId) -> &mut Pending {
        self.pending.get_mut(&request).expect("a request is pending from its first part to its last")
    }

    /// One more part of a request begins.
    pub fn add_part(&mut self, request: RequestId) {
        self.pending(request).left += 1;
    }

    /// One part of a request is in its place (or never will be).
    pub fn finish_part(&mut self, store: &mut Store, request: RequestId, failure: Option<Failure>) {
        let pending = self.pending(request);
        pending.failure = pending.failure.or(failure);
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        let Some(pending) = self.pending.remove(&request) else { return };
        if request == RECALLED {
            self.recalled = Some(pending.failure.is_none());
            return store.io.schedule.push(Task::Recall);
        }
        match (pending.failure, pending.durable) {
            (Some(failure), _) => store.refuse(request, failure),
            (None, Some(why)) => self.wait_for_commit(store, request, why),
            (None, None) => {
                self.journal.remember(store, pending.unspoken);
                store.io.reply(request, Reply::Done);
            }
        }
    }

    /// The content of a block is on the device, if it is good: those who wait for that go on.
    pub fn content_arrived(&mut self, store: &mut Store, pbn: Pbn, good: bool) {
        for request in self.content_waiters.remove(&pbn).into_iter().flatten() {
            self.finish_part(store, request, (!good).then_some(Failure::Io));
        }
    }

    /// A client's flush waits for every epoch that holds something acknowledged before it came (R5).
    pub fn flush(&mut self, store: &mut Store, request: RequestId) {
        store.io.ledger.client_flushes += 1;
        self.wait_for_commit(store, request, Wanted::Flush);
    }

    /// Answers a request when all that came before it is durable.
    fn wait_for_commit(&mut self, store: &mut Store, request: RequestId, why: Wanted) {
        // A write that only found no room for its promise asks for no more than others do.
        if store.io.failed || why != Wanted::Space && std::mem::take(&mut self.journal.lost) {
            return store.refuse(request, Failure::Io);
        }
        if !store.tables.open.is_empty() {
            store.tables.open.waiters.push(request);
            if store.tables.open.wanted.is_none() {
                store.tables.open.wanted = Some(why);
                self.anticipation.wanted(store.io.now, store.settings.anticipation_ms);
            }
            return;
        }
        match &mut store.tables.committing {
            Some(epoch) => epoch.waiters.push(request),
            None => store.io.reply(request, Reply::Done),
        }
    }

    /// After a failed write or flush: whoever waits for an epoch hears of it (A5).
    pub fn fail_waiters(&mut self, store: &mut Store) {
        let mut waiters = std::mem::take(&mut store.tables.open.waiters);
        if let Some(epoch) = &mut store.tables.committing {
            waiters.append(&mut epoch.waiters);
        }
        waiters.into_iter().for_each(|request| store.refuse(request, Failure::Io));
    }

    /// The same, for whoever waits for content.
    pub fn fail_content_waiters(&mut self, store: &mut Store) {
        let held: Vec<Pbn> = self.content_waiters.keys().copied().collect();
        held.into_iter().for_each(|pbn| self.content_arrived(store, pbn, false));
    }
}
