//! The acknowledgement journal: acknowledgements of weak writes outlive the server if the device that its clients hold does
//! (`docs/ordering.md`).
//!
//! 1. With `keeps_journal`, a weak write is acknowledged when the journal holds a promise of it that the next server finds
//!    ([`Action::Remember`] precedes the reply). The promise names the block once its content is on the device. If the content is held
//!    back, or its carrier may not be durable, the promise has the content itself. If the journal has no room for the content, the write is
//!    acknowledged when it is durable. Unmapped ranges are promised as soon as they are applied.
//! 2. Of two promises for one LBN the one that was applied later counts, regardless of the order of acknowledgements.
//! 3. An epoch's promises are forgotten when the epoch is durable ([`Action::Forget`]), before anything that its commit allows. So a block
//!    is not reused while a promise names it.
//! 4. Each promise belongs to an epoch that has records: what is durable already is not promised, and what the committing epoch maps is
//!    promised for that epoch. So a commit that makes room in the journal always follows.
//! 5. What an epoch defers to the next is promised again, for the next, before the epoch's own promises are forgotten.
//! 6. A content gives its room in the journal back when a later promise for its LBN is there. So it is promised again by its block as soon
//!    as it is on the device, in a block of its own or in a pack.
//! 7. Replayed promises (`recovery/replay.rs`) are committed before the first request is served. A promise of a block has the fingerprint
//!    or checksum that proves its content, and the end of an epoch is sent with the trace that the epoch left on the medium
//!    (`recovery/promised_contents.rs`).

mod promised_contents;

pub(crate) use promised_contents::{BlockInTables, PromisedContents};

use crate::buffer::Slice;
use crate::format::entry::{FingerprintEntry, MapEntry};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, SECTORS};
use crate::interface::{Action, Promise, Promised, Trace, Traces};
use crate::io::{Io, Stage};
use crate::map::Map;
use crate::pool::{Medium, Pool};
use crate::settings::Settings;
use crate::space::Space;
use crate::tables::Tables;
use crate::units::{Epoch, Lbn, Pbn, count, index};
use std::collections::VecDeque;

/// The promises of this server, and those of the last server that are still to be replayed.
#[derive(Default)]
pub(crate) struct AckJournal {
    /// The number of operations that were applied, which orders them.
    order: u64,
    open: EpochPromises,
    committing: EpochPromises,
    /// Promises of the last server that are still to be applied.
    pub to_replay: VecDeque<Promised>,
    /// Traces of which the store has to show one before any of these promises counts.
    traces: Traces,
    /// Whether the store has shown none of the traces.
    is_set_back: bool,
    /// The contents that prove single promises.
    pub contents: PromisedContents,
    /// The number of promises that could not be kept.
    broken: u64,
    /// Held content that is under way to a block, by block: the LBNs that are mapped to it, and the slots in which it will be.
    on_the_way: Map<Pbn, Vec<SlotContent>>,
    /// The end of the log, if one was read.
    log_end: Option<u64>,
    /// The trace that the last durable epoch left on the medium.
    trace: Option<Trace>,
    /// Acknowledged writes are lost, and the next flush fails for it.
    lost: bool,
}

/// The promises of one epoch.
#[derive(Default)]
struct EpochPromises {
    /// The order of the latest promise, or of the latest discard, for each LBN.
    orders: Map<Lbn, u64>,
    /// The number of promises in the journal.
    records: u64,
    /// The number of contents that count among them, including those that are still to be remembered.
    contents: u64,
    /// The LBNs whose content is in the journal.
    by_content: Map<Lbn, ()>,
    /// The number of promises that name a slot of a pack which no durable epoch names yet.
    in_doubt: u64,
}

/// The slot of a block that holds the content of an LBN.
pub(crate) struct SlotContent {
    pub lbn: Lbn,
    pub slot: u8,
    pub name: FingerprintEntry,
}

/// The content of a block, with its fingerprint, or with its checksum where it was deferred.
#[derive(Clone, Copy)]
pub(crate) struct NamedContent<'a> {
    pub slice: &'a Slice,
    pub name: FingerprintEntry,
}

/// A promise of a request that is not acknowledged yet.
pub(crate) struct PendingPromise {
    pub order: u64,
    pub promise: Promise,
}

impl AckJournal {
    /// An empty journal. `lost`: the promises of the last server are lost.
    pub fn new(lost: bool) -> Self {
        Self { lost, ..Self::default() }
    }

    /// Notes that the open epoch was sealed.
    pub fn sealed(&mut self) {
        self.committing = std::mem::take(&mut self.open);
    }

    /// The promises of an epoch in memory.
    fn of(&mut self, epoch: Epoch, open: Epoch) -> &mut EpochPromises {
        if epoch == open { &mut self.open } else { &mut self.committing }
    }

    /// The numbers of promises in the journal for the open epoch, and for both epochs.
    pub fn records(&self) -> (u64, u64) {
        (self.open.records, self.open.records + self.committing.records)
    }

    /// Takes over what the last server has left.
    pub fn take_over(&mut self, promises: Vec<Promised>, traces: Traces, geometry: &Geometry) {
        self.contents = PromisedContents::of(&promises, geometry);
        self.traces = traces;
        self.to_replay = promises.into();
    }

    /// Notes the sequence of the last unit of the log that an opening has read.
    pub fn log_ends_at(&mut self, sequence: u64) {
        self.log_end = Some(sequence);
    }

    /// Identifies the store by this trace, until an epoch of this server is durable.
    pub fn identify_by(&mut self, trace: Trace) {
        self.trace = Some(trace);
    }

    /// Notes that the store has shown one of the traces: it is the one that the last server left.
    pub fn trace_is_found(&mut self) {
        self.traces = [None; 2];
    }

    /// Notes a promise that cannot be kept.
    pub fn breaks_one(&mut self) {
        self.broken += 1;
    }

    /// Takes the number of promises that could not be kept, if there are any. The next flush fails for them.
    pub fn take_broken(&mut self) -> Option<u64> {
        let writes = std::mem::take(&mut self.broken);
        self.lost |= writes > 0;
        (writes > 0).then_some(writes)
    }

    /// Forgets the contents that prove promises, since all have been replayed.
    pub fn forget_proofs(&mut self) {
        self.contents = PromisedContents::default();
    }

    /// Drops all promises: the store is not the one that the last server left. The next flush fails.
    pub fn refuse(&mut self) {
        (self.lost, self.is_set_back) = (true, true);
        self.traces = [None; 2];
        self.to_replay.clear();
        self.contents = PromisedContents::default();
    }

    /// The number of the next operation, which orders it.
    pub fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Whether the journal takes one more content of this epoch. It counts from now on.
    pub fn takes_content(&mut self, epoch: Epoch, open: Epoch, contents_max: u64) -> bool {
        let of_epoch = self.of(epoch, open);
        let takes = of_epoch.contents < contents_max;
        of_epoch.contents += u64::from(takes);
        takes
    }

    /// Notes that an operation of this order unmaps these LBNs, so that older promises for them no longer count.
    pub fn overtake_all(&mut self, lbns: Vec<Lbn>, order: u64) {
        self.open.orders.extend(lbns.into_iter().map(|lbn| (lbn, order)));
    }
}

impl EpochPromises {
    /// Frees the room of the content of an LBN, for which there is a later promise.
    fn give_back(&mut self, lbn: Lbn) {
        self.contents -= u64::from(self.by_content.remove(&lbn).is_some());
    }
}

impl AckJournal {
    /// Whether this is a slot of a carrier or pack that no durable epoch names yet.
    pub fn is_in_doubt(space: &Space, medium: &Medium, pbn: Pbn, slot: u8) -> bool {
        slot > 0 && space.pending.get(pbn).is_some_and(|block| block.epoch > medium.superblock.last_epoch.0)
    }

    /// Notes that held content is under way to these slots of a block.
    pub fn content_goes_to(&mut self, settings: &Settings, pbn: Pbn, slots: Vec<SlotContent>) {
        if settings.facts.keeps_journal {
            self.on_the_way.insert(pbn, slots);
        }
    }

    /// The content of a block is on the device, if `is_good`. Promises that have the content in the journal are made again by the block.
    pub fn content_lies_there(&mut self, pool: &mut Pool, pbn: Pbn, is_good: bool) {
        let Some(slots) = self.on_the_way.remove(&pbn).filter(|_| is_good) else { return };
        let (epoch, open) = (pool.tables.open.number, &self.open);
        let by_block = |SlotContent { lbn, slot, name: proof }: SlotContent| {
            let means_it = pool.tables.open.points.get(lbn) == Some(MapEntry::Block { pbn, slot });
            let order = open.orders.get(&lbn).filter(|_| means_it && open.by_content.contains_key(&lbn))?;
            Some(PendingPromise { order: *order, promise: Promise { epoch, what: Promised::Link { lbn, pbn, slot, proof } } })
        };
        let promises = slots.into_iter().filter_map(by_block).collect();
        self.remember(pool, promises);
    }

    /// Whether the journal has little room for further contents, and content that is being written will free some.
    pub fn waits_for_content(&self, settings: &Settings) -> bool {
        self.is_filling(settings) && !self.on_the_way.is_empty()
    }

    /// Whether the journal has little room for further contents, and no content is under way. Each LBN has a content of its own in the
    /// journal, so a few blocks with many LBNs fill it.
    pub fn wants_packs(&self, settings: &Settings) -> bool {
        self.is_filling(settings) && self.on_the_way.is_empty()
    }

    /// The other half is left to a request of many blocks: what finds no room for its content cannot be packed.
    fn is_filling(&self, settings: &Settings) -> bool {
        settings.facts.keeps_journal && self.open.contents * 2 > self.contents_max(settings)
    }

    /// Whether there is a journal, whose traces identify the store. A server that makes no promises takes over the journal of the last one
    /// until it closes.
    pub fn has_journal(&self, settings: &Settings) -> bool {
        settings.facts.keeps_journal || self.trace.is_some()
    }

    /// Forgets the promises of an epoch that is durable. `trace`: the trace that the epoch left on the medium, if any.
    pub fn promises_are_kept(&mut self, io: &mut Io, space: &mut Space, epoch: Epoch, trace: Option<Trace>) {
        self.committing = EpochPromises::default();
        self.trace = trace.or(self.trace);
        // Free blocks were kept for these promises.
        space.has_changed();
        io.act(Action::Forget { epoch, traces: [self.trace, None] });
    }

    /// A page of the map is about to be written. If that changes the trace of the last durable epoch, both traces are valid from now on.
    pub fn trace_changes(&self, io: &mut Io, tables: &mut Tables, medium: &Medium, id: PageId) {
        let Some(Trace::Map { sector, .. }) = self.trace else { return };
        if sector / count(SECTORS) == id.index {
            let sum = tables.pages.expect(id).content.sum(index(sector % count(SECTORS)));
            let traces = [self.trace, Some(Trace::Map { sector, sum })];
            io.act(Action::Forget { epoch: medium.superblock.last_epoch, traces });
        }
    }

    /// Whether the journal, if there is one, has room for one more content of the open epoch.
    pub fn may_promise_content(&self, pool: &Pool) -> bool {
        !pool.settings.facts.keeps_journal
            || self.open.contents < self.contents_max(&pool.settings) && self.content_has_block(&pool.io, &pool.tables, &pool.space)
    }

    /// The number of contents in the journal, and of those that it names in packs. The next server, whose index is empty, may need a free
    /// block for each, although the content is a duplicate here, or lies in a slot (docs/decisions/0076, 8).
    pub fn contents_promised(&self, io: &Io, tables: &Tables) -> u64 {
        if io.stage() == Stage::Replaying {
            return 0;
        }
        let blocks = |of_epoch: &EpochPromises| of_epoch.contents + of_epoch.in_doubt;
        let of_open = if tables.open.is_empty() { 0 } else { blocks(&self.open) };
        of_open + if tables.committing.is_some() { blocks(&self.committing) } else { 0 }
    }

    /// Whether one more content would find a block when it is replayed.
    pub fn content_has_block(&self, io: &Io, tables: &Tables, space: &Space) -> bool {
        space.census.free > self.contents_promised(io, tables)
    }

    /// The most contents in the journal of one epoch; two epochs are in memory at once.
    pub fn contents_max(&self, settings: &Settings) -> u64 {
        settings.facts.journal_contents_max / 2
    }

    /// Promises the ranges that the sealed epoch has deferred to the open one, since the promises of the sealed epoch are forgotten when it
    /// is durable. During replay all promises stay until the last is durable; a range promised again would undo promises that are not
    /// applied yet.
    pub fn promise_again(&mut self, pool: &mut Pool) {
        if !pool.settings.facts.keeps_journal || pool.io.stage() == Stage::Replaying {
            return;
        }
        let (order, epoch) = (self.order, pool.tables.open.number);
        let put_off = pool.tables.open.ranges.iter().map(|(&first, &end)| Promised::Unmap { first, end });
        let promises = put_off.map(|what| PendingPromise { order, promise: Promise { epoch, what } }).collect();
        self.remember(pool, promises);
    }

    /// A discard in the open epoch has unmapped an LBN: earlier promises for it no longer count.
    pub fn overtake(&mut self, settings: &Settings, lbn: Lbn) {
        if settings.facts.keeps_journal {
            self.open.orders.insert(lbn, self.order);
        }
    }

    /// Puts the promises of a request into the journal, before the request is acknowledged.
    pub fn remember(&mut self, pool: &mut Pool, pending: Vec<PendingPromise>) {
        let mut promises = Vec::with_capacity(pending.len());
        for PendingPromise { order, promise } in pending {
            if promise.epoch <= pool.medium.superblock.last_epoch {
                continue;
            }
            if let Promised::Link { lbn, .. } | Promised::Content { lbn, .. } | Promised::Zero { lbn } = promise.what {
                let later = |of_epoch: &EpochPromises| of_epoch.orders.get(&lbn).is_some_and(|&o| o > order);
                let is_overtaken = later(&self.open) || later(&self.committing);
                let in_doubt =
                    matches!(promise.what, Promised::Link { pbn, slot, .. } if Self::is_in_doubt(&pool.space, &pool.medium, pbn, slot));
                let is_content = matches!(promise.what, Promised::Content { .. });
                let of_epoch = self.of(promise.epoch, pool.tables.open.number);
                if is_overtaken {
                    of_epoch.contents -= u64::from(is_content);
                    continue;
                }
                of_epoch.orders.insert(lbn, order);
                of_epoch.in_doubt += u64::from(in_doubt);
                self.open.give_back(lbn);
                self.committing.give_back(lbn);
                if is_content {
                    self.of(promise.epoch, pool.tables.open.number).by_content.insert(lbn, ());
                }
            }
            self.of(promise.epoch, pool.tables.open.number).records += 1;
            promises.push(promise);
        }
        if !promises.is_empty() {
            pool.io.act(Action::Remember(promises));
        }
    }

    /// The traces of which the store has to show one.
    pub fn traces(&self) -> Traces {
        self.traces
    }

    /// Whether the store has shown one of them, or none had to be shown, or it has shown none.
    pub fn is_checked(&self) -> bool {
        self.traces == [None; 2]
    }

    /// Whether the store has shown none of the traces.
    pub fn is_set_back(&self) -> bool {
        self.is_set_back
    }

    /// The trace that the last durable epoch left on the medium.
    pub fn trace(&self) -> Option<Trace> {
        self.trace
    }

    /// The sequence of the last unit of the log, if one was read.
    pub fn log_end(&self) -> Option<u64> {
        self.log_end
    }

    /// Whether acknowledged writes are lost, which no flush has reported yet.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// Whether that is so. It is reported only once.
    pub fn tells_of_loss(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }
}
