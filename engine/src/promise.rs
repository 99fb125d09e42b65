//! Promises: acknowledgements of weak writes that outlive the server, where the device that its clients hold does (`docs/ordering.md`).
//!
//! 1. With `ack_when_written`, a weak write is acknowledged when its content is on the device, and what it means stands in a ring that the
//!    next server finds ([`Action::Remember`] goes before the reply). What is unmapped stands there as soon as it is applied.
//! 2. Of two promises for one LBN the one that was applied later counts, whichever was acknowledged first.
//! 3. An epoch's promises are forgotten when it is durable, before anything that its commit allows ([`Action::Forget`]); so a block that a
//!    promise names is not reused while the promise stands.
//! 4. A promise stands only for an epoch that has records: what the medium says already is not promised, and what the committing epoch says is
//!    promised for that one. So there is always a commit to come that makes room in the ring.
//! 5. What an epoch puts off to the next is promised again, for that one, before its own promises are forgotten.
//! 6. Recalled promises are committed before the first request is served.

use crate::Map;
use crate::commit::Stage;
use crate::engine::Engine;
use crate::format::entry::{MapEntry, REFS_MAX};
use crate::interface::{Action, Notice, Promise, Promised, RequestId};
use crate::pages::{Got, Task};
use crate::units::{Epoch, Lbn, Pbn, count};
use std::collections::VecDeque;

/// What has been promised, and what is left of the last server's promises.
#[derive(Default)]
pub(crate) struct Promises {
    /// Counts the operations in the order in which they were applied.
    order: u64,
    /// The latest order remembered (or overtaken) for an LBN, in the open epoch and in the committing one.
    open: Map<Lbn, u64>,
    committing: Map<Lbn, u64>,
    /// Records in the ring of the open epoch, and of the committing one.
    open_records: u64,
    committing_records: u64,
    /// Those of the last server, still to be applied.
    pub recalled: VecDeque<Promised>,
    /// Blocks that these name: free, as far as counts say, and nobody's to take until the links are committed.
    pub named: Map<Pbn, ()>,
}

/// A promise of a request that is not acknowledged yet.
pub(crate) struct Unspoken {
    order: u64,
    promise: Promise,
}

impl Promises {
    /// The open epoch was sealed.
    pub fn sealed(&mut self) {
        self.committing = std::mem::take(&mut self.open);
        self.committing_records = std::mem::take(&mut self.open_records);
    }

    /// The committing epoch is durable.
    pub fn durable(&mut self) {
        self.committing.clear();
        self.committing_records = 0;
    }

    /// Records that the ring holds for the open epoch, and for both.
    pub fn records(&self) -> (u64, u64) {
        (self.open_records, self.open_records + self.committing_records)
    }
}

impl Engine {
    /// Notes what a request will promise once it is acknowledged: what this epoch, open or committing, makes durable.
    pub(crate) fn promise(&mut self, request: RequestId, epoch: Epoch, what: Promised) {
        if !self.settings.ack_when_written {
            return;
        }
        self.promises.order += 1;
        let order = self.promises.order;
        if let Promised::Unmap { first, end } = what {
            // What is still on its way to these LBNs has been overtaken, and when it is acknowledged it is for this to say what they are. So
            // this stands in the ring from now on, although its own request may wait longer (FUA, or parts of blocks that are written).
            let committing = self.commit.iter().flat_map(|c| c.epoch.points.range(first..end));
            let overtaken: Vec<Lbn> = committing.map(|(&lbn, _)| lbn).collect();
            overtaken.into_iter().for_each(|lbn| {
                self.promises.open.insert(lbn, order);
            });
            return self.remember(vec![Unspoken { order, promise: Promise { epoch, what } }]);
        }
        if let Some(pending) = self.requests.get_mut(&request).filter(|p| p.durable.is_none()) {
            pending.unspoken.push(Unspoken { order, promise: Promise { epoch, what } });
        }
    }

    /// What the open epoch unmaps was put off from the one that is sealed, whose promises go when it is durable. While promises are recalled
    /// they all stand until the last is durable; said again, behind promises that are not applied yet, it would undo those.
    pub(crate) fn promise_again(&mut self) {
        if !self.settings.ack_when_written || self.stage == Stage::Recalling {
            return;
        }
        let (order, epoch) = (self.promises.order, self.open.number);
        let put_off = self.open.ranges.iter().map(|(&first, &end)| Promised::Unmap { first, end });
        let promises = put_off.map(|what| Unspoken { order, promise: Promise { epoch, what } }).collect();
        self.remember(promises);
    }

    /// Points that a discard took away, in the open epoch: promises on their way to them have been overtaken.
    pub(crate) fn overtake(&mut self, lbn: Lbn) {
        if self.settings.ack_when_written {
            let order = self.promises.order;
            self.promises.open.insert(lbn, order);
        }
    }

    /// The request is about to be acknowledged: what it promises goes into the ring first.
    pub(crate) fn remember(&mut self, unspoken: Vec<Unspoken>) {
        let mut promises = Vec::with_capacity(unspoken.len());
        for Unspoken { order, promise } in unspoken {
            if promise.epoch <= self.superblock.last_epoch {
                continue;
            }
            if let Promised::Link { lbn, .. } | Promised::Zero { lbn } = promise.what {
                let later = |orders: &Map<Lbn, u64>| orders.get(&lbn).is_some_and(|&o| o > order);
                if later(&self.promises.open) || later(&self.promises.committing) {
                    continue;
                }
                let open = promise.epoch == self.open.number;
                let orders = if open { &mut self.promises.open } else { &mut self.promises.committing };
                orders.insert(lbn, order);
            }
            promises.push(promise);
        }
        if promises.is_empty() {
            return;
        }
        let of_open = promises.iter().filter(|p| p.epoch == self.open.number).count();
        self.promises.open_records += count(of_open);
        self.promises.committing_records += count(promises.len() - of_open);
        self.out.push(Action::Remember(promises));
    }

    /// Hands over what the last server had promised, in order, before the first event.
    pub fn recall(&mut self, promises: Vec<Promised>) {
        debug_assert!(self.stage == Stage::Created, "promises are recalled before anything else");
        let named = promises.iter().filter_map(|what| if let Promised::Link { pbn, .. } = what { Some((*pbn, ())) } else { None });
        self.promises.named = named.collect();
        self.promises.recalled = promises.into();
    }

    /// Applies recalled promises, as far as pages in memory allow.
    pub(crate) fn go_on_recalling(&mut self) {
        while let (Stage::Recalling, Some(what)) = (self.stage, self.promises.recalled.front().cloned()) {
            match what {
                Promised::Unmap { first, end } if end.0 <= self.geometry.logical_blocks => self.unmap(first, end),
                Promised::Zero { lbn } if lbn.0 < self.geometry.logical_blocks => self.set_point(lbn, MapEntry::Zero),
                Promised::Link { lbn, pbn } if lbn.0 < self.geometry.logical_blocks && pbn.0 < self.geometry.data_blocks => {
                    if !self.recall_link(lbn, pbn) {
                        return;
                    }
                }
                _ => self.break_promise(),
            }
            self.promises.recalled.pop_front();
        }
        self.serve_when_recalled();
    }

    /// False: a page has to come first.
    fn recall_link(&mut self, lbn: Lbn, pbn: Pbn) -> bool {
        match self.lookup(lbn) {
            Ok(Some(MapEntry::Block { pbn: now, slot: 0 })) if now == pbn => return true,
            Ok(_) => {}
            Err(page) => {
                self.wait(page, Task::Recall);
                return false;
            }
        }
        let (page, _) = self.geometry.refs_of(pbn);
        match self.ensure(page) {
            Got::Wait => {
                self.wait(page, Task::Recall);
                return false;
            }
            Got::Unreadable => self.break_promise(),
            Got::Ready => {
                let refs = self.refs_now(pbn);
                if refs >= REFS_MAX {
                    self.break_promise();
                } else {
                    self.change_refs(pbn, 1);
                    self.open.refs_pages.insert(page.index);
                    self.set_point(lbn, MapEntry::Block { pbn, slot: 0 });
                }
            }
        }
        true
    }

    /// Something acknowledged is lost: the next flush says so.
    fn break_promise(&mut self) {
        self.promises_lost = true;
        self.notice(Notice::Damage { what: "an acknowledged write of the last server could not be recalled", at: 0 });
    }

    /// Serves once everything recalled is durable.
    pub(crate) fn serve_when_recalled(&mut self) {
        let done = self.promises.recalled.is_empty() && self.open.is_empty() && self.commit.is_none();
        if self.stage != Stage::Recalling || !(done || self.failed) {
            return;
        }
        if !self.failed {
            self.out.push(Action::Recalled);
        }
        self.promises.named.clear();
        self.serve();
    }
}
