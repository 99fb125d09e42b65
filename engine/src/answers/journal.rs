//! Journal: acknowledgements of weak writes that outlive the server, where the device that its clients hold does (`docs/ordering.md`).
//!
//! 1. With `keeps_promises`, a weak write is acknowledged when what it means stands in a ring that the next server finds
//!    ([`Action::Remember`] goes before the reply): the block, once its content is on the device; or, where that is held back or its
//!    carrier may not be durable, the content. Content that finds no room there is acknowledged when it is durable. What is unmapped stands
//!    there as soon as it is applied.
//! 2. Of two promises for one LBN the one that was applied later counts, whichever was acknowledged first.
//! 3. An epoch's promises are forgotten when it is durable, before anything that its commit allows ([`Action::Forget`]); so a block that a
//!    promise names is not reused while the promise stands.
//! 4. A promise stands only for an epoch that has records: what the medium says already is not promised, and what the committing epoch says
//!    is promised for that one. So there is always a commit to come that makes room in the ring.
//! 5. What an epoch puts off to the next is promised again, for that one, before its own promises are forgotten.
//! 6. A content gives its room in the ring back when a later promise for its LBN stands; so it is promised again by name as soon as it lies
//!    on the device, in a block of its own or in a pack.
//! 7. Recalled promises (`recall.rs`) are committed before the first request is served. A promise of a block says by which fingerprint its
//!    content is proved, and with the end of an epoch goes what it left on the medium (`proof.rs`).

use super::Proofs;
use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::entry::MapEntry;
use crate::format::page::{PageId, SECTORS};
use crate::interface::{Action, Promise, Promised, Trace, Traces};
use crate::io::Stage;
use crate::map::Map;
use crate::store::Store;
use crate::units::{Epoch, Lbn, Pbn, count, index};
use std::collections::VecDeque;

/// What has been promised, and what is left of the last server's promises.
#[derive(Default)]
pub(crate) struct Journal {
    /// Counts the operations in the order in which they were applied.
    pub(super) order: u64,
    pub(super) open: Standing,
    committing: Standing,
    /// Those of the last server, still to be applied.
    pub recalled: VecDeque<Promised>,
    /// What the store has to show before any of them counts; then what proves each.
    pub traces: Traces,
    /// It has shown none of them.
    pub is_set_back: bool,
    pub proofs: Proofs,
    /// Those that could not be kept.
    pub broken: u64,
    /// What held content is on its way to a block, by block: who meant it, and the slot in which it will lie.
    on_the_way: Map<Pbn, Vec<Lies>>,
    /// Where the log was found to end, if one was read.
    pub log_end: Option<u64>,
    /// What the last durable epoch left on the medium.
    pub trace: Option<Trace>,
    /// Acknowledged writes are lost: the next flush says so.
    pub lost: bool,
}

/// The promises of one epoch.
#[derive(Default)]
pub(super) struct Standing {
    /// The latest order remembered (or overtaken) for an LBN.
    pub(super) orders: Map<Lbn, u64>,
    /// Records in the ring.
    records: u64,
    /// Contents among them that count, those that are still to be remembered included.
    pub(super) contents: u64,
    /// The LBNs whose content stands in the ring.
    by_content: Map<Lbn, ()>,
    /// Records that name a slot of a pack which no durable epoch names yet.
    in_doubt: u64,
}

/// Where the content of an LBN lies in a block.
pub(crate) struct Lies {
    pub lbn: Lbn,
    pub slot: u8,
    pub fingerprint: Fingerprint,
}

/// The content of a block, with its fingerprint.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub slice: &'a Slice,
    pub fingerprint: Fingerprint,
}

/// A promise of a request that is not acknowledged yet.
pub(crate) struct Unspoken {
    pub order: u64,
    pub promise: Promise,
}

impl Journal {
    /// None yet; `lost`: those of the last server are lost.
    pub fn new(lost: bool) -> Self {
        Self { lost, ..Self::default() }
    }

    /// The open epoch was sealed.
    pub fn sealed(&mut self) {
        self.committing = std::mem::take(&mut self.open);
    }

    /// Those of an epoch in memory.
    pub(super) fn of(&mut self, epoch: Epoch, open: Epoch) -> &mut Standing {
        if epoch == open { &mut self.open } else { &mut self.committing }
    }

    /// Records that the ring holds for the open epoch, and for both.
    pub fn records(&self) -> (u64, u64) {
        (self.open.records, self.open.records + self.committing.records)
    }
}

impl Standing {
    /// A later promise for an LBN stands: the ring has room for another content, if that of the LBN stood there.
    fn give_back(&mut self, lbn: Lbn) {
        self.contents -= u64::from(self.by_content.remove(&lbn).is_some());
    }
}

impl Journal {
    /// Whether a block is a carrier or pack that no durable epoch names yet, and a slot of it is meant.
    pub(super) fn is_in_doubt(store: &Store, pbn: Pbn, slot: u8) -> bool {
        slot > 0 && store.space.fresh.get(pbn).is_some_and(|fresh| fresh.epoch > store.medium.superblock.last_epoch.0)
    }

    /// Content that was held back is on its way to this block, and will lie there like this.
    pub fn content_goes_to(&mut self, store: &Store, pbn: Pbn, lies: Vec<Lies>) {
        if store.settings.keeps_promises {
            self.on_the_way.insert(pbn, lies);
        }
    }

    /// What is in this block now, if it is good, is promised by its name, if its content stands in the ring.
    pub fn content_lies_there(&mut self, store: &mut Store, pbn: Pbn, is_good: bool) {
        let Some(lies) = self.on_the_way.remove(&pbn).filter(|_| is_good) else { return };
        let (epoch, open) = (store.tables.open.number, &self.open);
        let by_name = |Lies { lbn, slot, fingerprint: proof }: Lies| {
            let means_it = store.tables.open.points.get(&lbn) == Some(&MapEntry::Block { pbn, slot });
            let order = open.orders.get(&lbn).filter(|_| means_it && open.by_content.contains_key(&lbn))?;
            Some(Unspoken { order: *order, promise: Promise { epoch, what: Promised::Link { lbn, pbn, slot, proof } } })
        };
        let by_name = lies.into_iter().filter_map(by_name).collect();
        self.remember(store, by_name);
    }

    /// Whether the ring has so little room for further contents that what is on its way to the device had better arrive first.
    pub fn ring_waits_for_content(&self, store: &Store) -> bool {
        self.ring_fills(store) && !self.on_the_way.is_empty()
    }

    /// The same, and nothing is on its way: each LBN takes a content, so where many mean one block, few blocks fill the ring.
    pub fn ring_wants_packs(&self, store: &Store) -> bool {
        self.ring_fills(store) && self.on_the_way.is_empty()
    }

    fn ring_fills(&self, store: &Store) -> bool {
        store.settings.keeps_promises && self.open.contents * 4 > self.contents_max(store) * 3
    }

    /// Whether there is a ring that tells the store by its traces: a server that makes no promises has taken over that of the last one,
    /// until it closes.
    pub fn has_ring(&self, store: &Store) -> bool {
        store.settings.keeps_promises || self.trace.is_some()
    }

    /// An epoch is durable, and left this on the medium, if anything: its promises go.
    pub fn promises_are_kept(&mut self, store: &mut Store, epoch: Epoch, trace: Option<Trace>) {
        self.committing = Standing::default();
        self.trace = trace.or(self.trace);
        // Blocks were kept for them.
        store.space.changes += 1;
        store.io.out.push(Action::Forget { epoch, traces: [self.trace, None] });
    }

    /// A page of the map is about to be written. Where the trace of the last durable epoch changes with it, either will be found there.
    pub fn trace_changes(&self, store: &mut Store, id: PageId) {
        let Some(Trace::Map { sector, .. }) = self.trace else { return };
        if sector / count(SECTORS) == id.index {
            let sum = store.tables.pages.expect(id).content.sum(index(sector % count(SECTORS)));
            let traces = [self.trace, Some(Trace::Map { sector, sum })];
            store.io.out.push(Action::Forget { epoch: store.medium.superblock.last_epoch, traces });
        }
    }

    /// Whether the ring has room for one more content of the open epoch, where one is kept.
    pub fn may_promise_content(&self, store: &Store) -> bool {
        !store.settings.keeps_promises || self.open.contents < self.contents_max(store) && self.content_has_block(store)
    }

    /// Contents that the ring holds, and those that it names in packs. The next server, whose index is empty, may need a free block for
    /// each, although it is a duplicate here, or lies in a slot (docs/decisions/0076, 8).
    pub fn contents_promised(&self, store: &Store) -> u64 {
        if store.io.stage == Stage::Recalling {
            return 0;
        }
        let blocks = |standing: &Standing| standing.contents + standing.in_doubt;
        let of_open = if store.tables.open.is_empty() { 0 } else { blocks(&self.open) };
        of_open + if store.tables.committing.is_some() { blocks(&self.committing) } else { 0 }
    }

    /// Whether a content more would find a block when it is recalled.
    pub(super) fn content_has_block(&self, store: &Store) -> bool {
        store.space.census.free > self.contents_promised(store)
    }

    /// Contents that the ring holds of one epoch: two are in memory at once.
    pub fn contents_max(&self, store: &Store) -> u64 {
        store.settings.ring_contents_max / 2
    }

    /// What the open epoch unmaps was put off from the one that is sealed, whose promises go when it is durable. While promises are
    /// recalled they all stand until the last is durable; said again, behind promises that are not applied yet, it would undo those.
    pub fn promise_again(&mut self, store: &mut Store) {
        if !store.settings.keeps_promises || store.io.stage == Stage::Recalling {
            return;
        }
        let (order, epoch) = (self.order, store.tables.open.number);
        let put_off = store.tables.open.ranges.iter().map(|(&first, &end)| Promised::Unmap { first, end });
        let promises = put_off.map(|what| Unspoken { order, promise: Promise { epoch, what } }).collect();
        self.remember(store, promises);
    }

    /// Points that a discard took away, in the open epoch: promises on their way to them have been overtaken.
    pub fn overtake(&mut self, store: &Store, lbn: Lbn) {
        if store.settings.keeps_promises {
            self.open.orders.insert(lbn, self.order);
        }
    }

    /// The request is about to be acknowledged: what it promises goes into the ring first.
    pub fn remember(&mut self, store: &mut Store, unspoken: Vec<Unspoken>) {
        let mut promises = Vec::with_capacity(unspoken.len());
        for Unspoken { order, promise } in unspoken {
            if promise.epoch <= store.medium.superblock.last_epoch {
                continue;
            }
            if let Promised::Link { lbn, .. } | Promised::Content { lbn, .. } | Promised::Zero { lbn } = promise.what {
                let later = |standing: &Standing| standing.orders.get(&lbn).is_some_and(|&o| o > order);
                let is_overtaken = later(&self.open) || later(&self.committing);
                let in_doubt = matches!(promise.what, Promised::Link { pbn, slot, .. } if Self::is_in_doubt(store, pbn, slot));
                let is_content = matches!(promise.what, Promised::Content { .. });
                let standing = self.of(promise.epoch, store.tables.open.number);
                if is_overtaken {
                    standing.contents -= u64::from(is_content);
                    continue;
                }
                standing.orders.insert(lbn, order);
                standing.in_doubt += u64::from(in_doubt);
                self.open.give_back(lbn);
                self.committing.give_back(lbn);
                if is_content {
                    self.of(promise.epoch, store.tables.open.number).by_content.insert(lbn, ());
                }
            }
            self.of(promise.epoch, store.tables.open.number).records += 1;
            promises.push(promise);
        }
        if !promises.is_empty() {
            store.io.out.push(Action::Remember(promises));
        }
    }
}
