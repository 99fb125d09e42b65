//! The state machine: one [`Engine`] for an open volume, fed with events, giving actions.
//!
//! 1. [`Engine::step`] is the only way in. A step runs until everything that can go on has gone on.
//! 2. What waits for a page, a read or a free block is an operation in a slab; a [`Task`] names it when its turn comes.
//! 3. A failed write or flush is sticky (A5): no write of any kind is issued after it.

use crate::buffer::{BufferMut, Home};
use crate::fingerprint::Digest;
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::superblock::Superblock;
use crate::interface::{Action, Event, Failure, IoFailure, IoId, Notice, Reply, RequestId};
use crate::io::IoFor;
use crate::io::Stage;
use crate::log::Log;
use crate::memory::Accountant;
use crate::promise::Promises;
use crate::space::by_block::ByBlock;
mod room;
mod turn;

use crate::background::{Background, Recount, Refill};
use crate::requests::Requests;
use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::settings::Settings;
use crate::space::Fresh;
use crate::state::{Recovery, State};
use crate::store::Store;
use crate::tables::RECORD_COST_BYTES;
use crate::tables::{Epoch, Unchained};
use crate::units::{Pbn, Time, count};
use std::sync::Arc;

/// A deduplicating volume, open.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) requests: Requests,
    pub(crate) journal: Promises,
    pub(crate) scheme: Scheme,
    pub(crate) recovery: Recovery,
    pub(crate) background: Background,
    pub(crate) state: State,
}

impl Engine {
    /// Opens a volume whose superblock was read and verified. The first [`Event`] may follow at once; requests are answered when the opening
    /// is durable (R8).
    #[must_use]
    pub fn open(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        // A crash in the log's mode leaves nothing to recount.
        let cleanly = superblock.clean || superblock.is_log_live();
        let recount = Recount::new(superblock.garbage_possible || !cleanly, if cleanly { superblock.recount_position } else { Pbn(0) });
        let refill = Refill::new(superblock.allocation_cursor, superblock.geometry.pages_of_blocks(Region::Fingerprints));
        Self {
            journal: Promises::new(settings.promises_lost),
            store: Store::new(superblock, settings, home, accountant, now),
            requests: Requests::default(),
            scheme: Scheme::default(),
            recovery: Recovery::default(),
            background: Background { refill, recount },
            state: State::default(),
        }
    }

    /// Takes in one event and appends what is to be done to `out`.
    pub fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        self.store.io.now = self.store.io.now.max(now);
        std::mem::swap(&mut self.store.io.out, out);
        if self.store.io.stage == Stage::Created {
            self.begin_opening();
        }
        self.store.space.wake_granules();
        match event {
            Event::Request(request) => self.admit(request),
            Event::Read { io, buffer, digests, result } => self.on_read(io, buffer, digests, result),
            Event::Written { io, result } => self.on_written(io, result),
            Event::Flushed { io, result } => self.on_flushed(io, result),
            Event::Discarded { io, .. } => self.on_discarded(io),
            Event::Digested { io, digest } => {
                if let Some(IoFor::DigestForWrite { op }) = self.store.io.end(io) {
                    self.write_digested(op, digest);
                }
            }
            Event::Compressed { io, data } => {
                if let Some(IoFor::Compress { pbn }) = self.store.io.end(io) {
                    self.compressed(io, pbn, data);
                }
            }
            Event::Tick => self.store.io.schedule.wake = None,
            Event::StoreRoom(room) => self.store.space.store_has(&mut self.store.io, room),
            Event::Ousted => self.fail_with(Notice::Ousted),
            Event::GuardFailed => self.fail("a read or write of the guard block"),
            Event::EndWaiting => self.store.space.end_waiting(),
            Event::Close => self.begin_closing(),
        }
        self.run();
        std::mem::swap(&mut self.store.io.out, out);
    }

    /// Goes on with everything that can go on.
    fn run(&mut self) {
        let mut background = true;
        loop {
            while let Some(task) = self.store.io.schedule.ready.pop_front() {
                self.perform(task);
            }
            self.drain_admission();
            if self.store.io.schedule.ready.is_empty() && std::mem::take(&mut background) {
                self.background();
            }
            if !self.store.io.schedule.ready.is_empty() {
                continue;
            }
            self.close_if_asked();
            self.serve_when_recalled();
            self.feed_log();
            self.commit_if_due();
            if !self.store.io.failed && self.store.io.stage.commits() {
                self.store.tables.write_back(&mut self.store.io);
            }
            if self.store.io.schedule.ready.is_empty() {
                break;
            }
        }
        if !self.store.tables.pages.shrink() || self.store.tables.pages.too_dirty() {
            self.write_back_early();
        }
        self.charge_dirty();
        self.store.space.retry_if_due(&mut self.store.io);
        self.set_wake();
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Write(op) => self.go_on_writing(op),
            Task::Read(op) => self.go_on_reading(op),
            Task::Commit => self.go_on_committing(),
            Task::Settle => self.settle(),
            Task::Allocate => {
                self.store.space.prepare_free_blocks(&mut self.store.io, &mut self.store.tables);
                self.choose_places();
            }
            Task::Reclaim => self.reclaim(),
            Task::Refill => self.refill_index(),
            Task::Recount => self.recount(),
            Task::Scan => {
                self.store.space.scan_waits = false;
                self.store.space.scan_refs(&mut self.store.io, &mut self.store.tables);
            }
            Task::Bits => self.store.tables.set_written_bits(&mut self.store.io),
            Task::Load(id) => self.store.tables.load_page(&mut self.store.io, id),
            Task::Recall => self.go_on_recalling(),
            Task::Admit => self.drain_admission(),
            Task::Checkpoint => self.go_on_with_checkpoint(),
            Task::OpenLog => self.choose_places(),
        }
    }

    fn on_read(&mut self, io: IoId, buffer: BufferMut, digests: Vec<Digest>, result: Result<(), IoFailure>) {
        match self.store.io.end(io) {
            Some(IoFor::PageLoad(id)) => {
                let overtaken = self.store.tables.page_loaded(&mut self.store.io, id, &buffer, result);
                overtaken.into_iter().for_each(|last| self.log_is_damaged(last));
            }
            Some(IoFor::Read { op, run }) => self.read_arrived(op, run, buffer, digests, result),
            Some(IoFor::ReadForWrite { op, pbn }) => self.write_base_arrived(op, pbn, buffer, &digests, result),
            Some(IoFor::ReadForProof { first }) => self.proof_arrived(first, buffer, &digests, result),
            Some(IoFor::ReadForRecall { pbn, slot, lbn }) => self.copy_arrived(lbn, pbn, slot, buffer, &digests, result),
            Some(IoFor::ReadForName { first }) => self.background.refill.unnamed_arrived(&mut self.store, first, &buffer, &digests, result),
            Some(IoFor::ReadForIndex { pbn, authenticator }) => {
                self.background.refill.carrier_arrived(&mut self.store, pbn, authenticator, buffer, result)
            }
            Some(IoFor::WalkRead { which, pbn }) => self.walk_arrived(which, pbn, buffer, result),
            Some(IoFor::DoubtRead { pbn, name }) => self.doubt_arrived(pbn, name, buffer, &digests, result),
            Some(IoFor::SuperblockRead) => self.superblock_read(&buffer, result),
            Some(IoFor::WitnessRead(id)) => self.witness_arrived(id, &buffer, result),
            _ => debug_assert!(false, "a read that nobody asked for ended"),
        }
    }

    fn on_written(&mut self, io: IoId, result: Result<(), IoFailure>) {
        let Some(what) = self.store.io.end(io) else {
            debug_assert!(false, "a write that nobody asked for ended");
            return;
        };
        if result.is_err() {
            self.fail(match &what {
                IoFor::Content { .. } | IoFor::ProvedContent(_) => "a write of data",
                IoFor::Superblock => "a write of the superblock",
                IoFor::Units { .. } | IoFor::CondensedUnits { .. } => "a write of the log",
                _ => "a write of metadata",
            });
        }
        let stamp = self.store.io.durability.completed(result.is_ok());
        match what {
            IoFor::Content { first, blocks } => self.content_written(io, first, blocks, stamp, result),
            IoFor::ProvedContent(blocks) => self.proved_written(blocks),
            IoFor::PageWrite { id, removed } => {
                if self.store.tables.page_written(&mut self.store.io, id, removed, stamp, result) {
                    self.page_is_written(id, stamp);
                }
            }
            IoFor::Units { units, carriers, .. } => self.units_written(units, carriers, result.is_ok()),
            IoFor::CondensedUnits { units } => self.copies_written(units),
            IoFor::Superblock => {
                self.store.medium.writes_left -= 1;
                self.superblock_written();
            }
            _ => debug_assert!(false, "the end of a write names something else"),
        }
    }

    /// Whoever waits for the write of a page goes on.
    fn page_is_written(&mut self, id: PageId, stamp: u64) {
        self.checkpoint_page_written(id);
        self.commit_page_written(id, stamp);
        if self.store.io.stage.is_closing() {
            self.go_on_closing();
        }
    }

    /// Writes pages before their time, because too many are dirty.
    fn write_back_early(&mut self) {
        if !self.store.io.failed && !self.store.io.stage.is_before_service() && self.store.tables.write_back_early(&mut self.store.io) {
            self.vouch();
        }
    }

    /// Writes all dirty pages that may be.
    pub(crate) fn write_all_dirty(&mut self) {
        if self.store.tables.write_all_dirty(&mut self.store.io) {
            self.vouch();
        }
    }

    fn on_flushed(&mut self, io: IoId, result: Result<(), IoFailure>) {
        if let Some(IoFor::Flush { why, mark }) = self.store.io.end(io) {
            if result.is_err() {
                self.fail("a flush");
            } else {
                self.store.io.durability.flushed(mark);
                self.after_any_flush();
            }
            self.flushed(why);
        }
    }

    fn on_discarded(&mut self, io: IoId) {
        // A discard that failed has discarded nothing: that is allowed.
        if let Some(IoFor::Discard { first, blocks }) = self.store.io.end(io) {
            self.store.space.discards -= 1;
            (0..blocks).for_each(|i| self.store.space.unpin(first + i));
        }
    }

    pub(crate) fn fail_request(&mut self, request: RequestId, failure: Failure) {
        match failure {
            Failure::Full => self.store.space.send_back(&mut self.store.io, request),
            _ => self.store.io.reply(request, Reply::Failed(failure)),
        }
    }

    /// Goes read-only (A5).
    pub(crate) fn fail(&mut self, what: &'static str) {
        self.fail_with(Notice::WentReadOnly { what });
    }

    /// Goes read-only for the reason that the notice gives.
    pub(crate) fn fail_with(&mut self, notice: Notice) {
        if self.store.io.failed {
            return;
        }
        self.store.io.failed = true;
        self.store.io.notice(notice);
        self.fail_writers();
        // An opening may wait for it.
        self.store.io.schedule.push(Task::Checkpoint);
    }

    /// Bytes charged for the open epoch's records and for births. Births that lie scattered take the room of their neighbours too.
    pub(crate) fn open_bytes(&self) -> u64 {
        // Births are charged as records are, but for those that lie scattered. Asserted here: Rust 1.85 takes what only a `const _` uses for dead.
        const { assert!(ByBlock::<Fresh>::BYTES_IN_A_RUN <= RECORD_COST_BYTES) };
        let births = (count(self.store.space.fresh.len()) * RECORD_COST_BYTES).max(self.store.space.fresh.bytes());
        count(self.store.tables.open.records()) * RECORD_COST_BYTES + births
    }

    fn charge_dirty(&mut self) {
        let log = self.scheme.log.as_ref();
        let records = self.store.tables.committing.as_ref().map_or(0, Epoch::records)
            + self.store.settle.records()
            + log.map_or(0, Log::held_records);
        let dirty = self.open_bytes() + count(records) * RECORD_COST_BYTES;
        let opening = self.recovery.opening.as_ref().and_then(|opening| opening.live.as_ref()).map_or(0, Unchained::bytes);
        let live = opening + self.store.tables.committed.as_ref().map_or(0, |committed| committed.records.bytes());
        // Held content is what requests brought: among the records it would hold back writes, and nobody would seal for its sake.
        self.store.memory.charge(dirty, self.held_bytes(), live);
    }

    fn set_wake(&mut self) {
        let at = self.next_deadline();
        if at != self.store.io.schedule.wake {
            self.store.io.schedule.wake = at;
            if let Some(at) = at {
                self.store.io.out.push(Action::Wake { at });
            }
        }
    }

    /// What the volume is doing for its own consistency, in one word: for reports, and for the explorer's table.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        self.store.io.stage.name().unwrap_or_else(|| self.scheme.commit.as_ref().map_or("idle", |c| c.step.name()))
    }

    /// The geometry of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.store.geometry
    }

    /// Blocks that the client may address.
    pub(crate) fn logical(&self) -> crate::units::Blocks {
        crate::units::Blocks(self.store.geometry.logical_blocks)
    }
}
