//! The state machine: one [`Engine`] for an open volume, fed with events, giving actions.
//!
//! 1. [`Engine::step`] is the only way in. A step runs until everything that can go on has gone on.
//! 2. What waits for a page, a read or a free block is an operation in a slab; a [`Task`] names it when its turn comes.
//! 3. A failed write or flush is sticky (A5): no write of any kind is issued after it.

use crate::Map;
use crate::admit::{Pending, WriteOp};
use crate::buffer::{BufferMut, Home, Slice};
use crate::by_block::ByBlock;
use crate::cache::ReadCache;
use crate::commit::{Anticipation, Commit, Durability, Settle, Stage, Updates};
use crate::epoch::{Epoch, RECORD_COST_BYTES};
use crate::fingerprint::{Digest, Fingerprint, Fingerprinter};
use crate::format::authenticator::Authenticator;
use crate::format::entry::Kind;
use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::interface::{Action, Class, Event, Failure, IoFailure, IoId, Notice, Reply, Request, RequestId};
use crate::io::IoFor;
use crate::link::Run;
use crate::log::{CountsBeside, Log, Opening, Unchained};
use crate::memory::{Accountant, Part};
use crate::pages::{Pages, Task};
use crate::part::Parts;
use crate::promise::Promises;
use crate::read::ReadOp;
use crate::recover::{Recount, Refill};
use crate::settings::Settings;
use crate::space::{Full, Reclaim, Space};
use crate::stats::Ledger;
use crate::units::{Blocks, Bytes, Pbn, Time, count};
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// A block whose birth is not finished: its content is on its way, or its fingerprint is not in the table yet.
pub(crate) struct Fresh {
    pub kind: Kind,
    pub fingerprint: Fingerprint,
    /// The epoch whose commit allows the fingerprint into the table.
    pub epoch: u64,
    /// The content, until its write has completed.
    pub held: Option<Slice>,
    /// The fingerprint still waits for the table. False once it is there, or when the block died unborn.
    pub waits: bool,
}

/// A deduplicating volume, open.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) geometry: Geometry,
    pub(crate) superblock: Superblock,
    pub(crate) fingerprinter: Fingerprinter,
    pub(crate) authenticator: Authenticator,
    pub(crate) accountant: Arc<Accountant>,
    pub(crate) home: Arc<dyn Home>,

    pub(crate) now: Time,
    pub(crate) out: Vec<Action>,
    pub(crate) ready: VecDeque<Task>,
    pub(crate) stage: Stage,
    pub(crate) failed: bool,
    /// A counter of the volume is used up (`counters.rs`).
    pub(crate) used_up: bool,
    /// The flush of the opening failed.
    pub(crate) unflushed: bool,
    /// The log is a damaged one: its last epoch that counts.
    pub(crate) log_counts_upto: Option<crate::units::Epoch>,

    ios: Map<IoId, IoFor>,
    io_next: u64,
    pub(crate) durability: Durability,
    pub(crate) superblock_writes: u32,
    pub(crate) superblock_busy: bool,
    pub(crate) superblock_updates: Updates,
    pub(crate) opening_updates: u8,
    pub(crate) page_writes: usize,
    /// When pages whose delay has passed are looked for next.
    pub(crate) writeback_at: Time,
    pub(crate) anticipation: Anticipation,
    pub(crate) close_asked: bool,
    /// Something in the background could go on at once.
    pub(crate) more_background: bool,
    pub(crate) scan_waits: bool,
    pub(crate) filling_warned: u64,
    pub(crate) damage_seen: bool,
    pub(crate) promises: Promises,
    pub(crate) promises_lost: bool,

    pub(crate) requests: Map<RequestId, Pending>,
    pub(crate) admission: VecDeque<Request>,
    pub(crate) writes: Slab<WriteOp>,
    pub(crate) parts: Parts,
    /// Those that wait for a stored block to be compared with, by block: one read is under way for all of them.
    pub(crate) comparing: Map<Pbn, Vec<usize>>,
    pub(crate) reads: Slab<ReadOp>,
    pub(crate) reads_queued: VecDeque<Request>,
    /// Bytes of the reads in progress.
    pub(crate) reads_bytes: u64,
    /// Blocks whose content was found wrong in this run: never linked to again.
    pub(crate) suspects: std::collections::BTreeSet<Pbn>,
    pub(crate) space_waiters: VecDeque<usize>,
    pub(crate) full: Full,
    pub(crate) run: Option<Run>,

    pub(crate) pages: Pages,
    pub(crate) index: Index,
    pub(crate) cache: ReadCache,
    pub(crate) space: Space,
    pub(crate) fresh: ByBlock<Fresh>,
    pub(crate) pins: Map<Pbn, u32>,
    /// Writes of content under way.
    pub(crate) content_in_flight: u64,
    /// Requests answered once the content of a block is on the device (`Settings::keeps_promises`).
    pub(crate) content_waiters: Map<Pbn, Vec<RequestId>>,

    pub(crate) open: Epoch,
    pub(crate) commit: Option<Commit>,
    pub(crate) settle: Settle,
    pub(crate) reclaim: Reclaim,
    pub(crate) refill: Refill,
    pub(crate) recount: Recount,

    /// The carried log, in its mode, and while a live one is emptied.
    pub(crate) log: Option<Log>,
    pub(crate) log_opening: Option<Opening>,
    /// In the log's mode: what epochs in memory add to the counts on the pages.
    pub(crate) pending: CountsBeside,

    pub(crate) dirty_charged: u64,
    log_charged: u64,
    held_charged: u64,
    pub(crate) ledger: Ledger,
    wake: Option<Time>,
}

impl Engine {
    /// Opens a volume whose superblock was read and verified. The first [`Event`] may follow at once; requests are answered when the opening
    /// is durable (R8).
    #[must_use]
    pub fn open(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        let geometry = superblock.geometry.clone();
        let index = Index::new(accountant.limit(Part::Index), geometry.data_blocks);
        accountant.take(Part::Index, index.capacity() * 8);
        let (fingerprinter, authenticator) = (superblock.fingerprinter(), superblock.authenticator());
        // A crash in the log's mode leaves nothing to recount.
        let cleanly = superblock.clean || superblock.is_log_live();
        let promises_lost = settings.promises_lost;
        let mut engine = Self {
            space: Space::new(&geometry, superblock.allocation_cursor, accountant.limit(Part::Work)),
            refill: Refill::new(superblock.allocation_cursor, geometry.pages_of_blocks(Region::Fingerprints)),
            recount: Recount::new(superblock.garbage_possible || !cleanly, if cleanly { superblock.recount_position } else { Pbn(0) }),
            pages: Pages::new(accountant.clone()),
            cache: ReadCache::new(accountant.clone()),
            open: Epoch::new(superblock.last_epoch + 1),
            ledger: Ledger::default(),
            settings,
            geometry,
            superblock,
            fingerprinter,
            authenticator,
            accountant,
            home,
            now,
            out: Vec::new(),
            ready: VecDeque::new(),
            stage: Stage::Created,
            failed: false,
            used_up: false,
            unflushed: false,
            log_counts_upto: None,
            ios: Map::default(),
            io_next: 1,
            durability: Durability::default(),
            superblock_writes: 0,
            superblock_busy: false,
            superblock_updates: Updates::default(),
            opening_updates: 0,
            page_writes: 0,
            writeback_at: now,
            anticipation: Anticipation::default(),
            close_asked: false,
            more_background: false,
            scan_waits: false,
            filling_warned: 0,
            damage_seen: false,
            promises: Promises::default(),
            promises_lost,
            requests: Map::default(),
            admission: VecDeque::new(),
            writes: Slab::new(),
            parts: Parts::default(),
            comparing: Map::default(),
            reads: Slab::new(),
            reads_queued: VecDeque::new(),
            reads_bytes: 0,
            suspects: std::collections::BTreeSet::new(),
            space_waiters: VecDeque::new(),
            full: Full::default(),
            run: None,
            index,
            fresh: ByBlock::default(),
            pins: Map::default(),
            content_in_flight: 0,
            content_waiters: Map::default(),
            commit: None,
            settle: Settle::default(),
            reclaim: Reclaim::default(),
            log: None,
            log_opening: None,
            pending: CountsBeside::default(),
            dirty_charged: 0,
            log_charged: 0,
            held_charged: 0,
            wake: None,
        };
        // After a crash some bits are late; the recount comes by every page and sets them.
        engine.space.bits_exact = cleanly && !engine.superblock.garbage_possible;
        engine
    }

    /// Takes in one event and appends what is to be done to `out`.
    pub fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        std::mem::swap(&mut self.out, out);
        if self.stage == Stage::Created {
            self.begin_opening();
        }
        self.space.wake_granules();
        match event {
            Event::Request(request) => self.admit(request),
            Event::Read { io, buffer, digests, result } => self.on_read(io, buffer, digests, result),
            Event::Written { io, result } => self.on_written(io, result),
            Event::Flushed { io, result } => self.on_flushed(io, result),
            Event::Discarded { io, .. } => self.on_discarded(io),
            Event::Digested { io, digest } => {
                if let Some(IoFor::DigestForWrite { op }) = self.ios.remove(&io) {
                    self.write_digested(op, digest);
                }
            }
            Event::Compressed { io, data } => {
                if let Some(IoFor::Compress { pbn }) = self.ios.remove(&io) {
                    self.compressed(io, pbn, data);
                }
            }
            Event::Tick => self.wake = None,
            Event::StoreRoom(room) => self.store_has(room),
            Event::Ousted => self.fail_with(Notice::Ousted),
            Event::GuardFailed => self.fail("a read or write of the guard block"),
            Event::EndWaiting => self.end_waiting(),
            Event::Close => self.begin_closing(),
        }
        self.run();
        std::mem::swap(&mut self.out, out);
    }

    /// Goes on with everything that can go on.
    fn run(&mut self) {
        let mut background = true;
        loop {
            while let Some(task) = self.ready.pop_front() {
                self.perform(task);
            }
            self.drain_admission();
            if self.ready.is_empty() && std::mem::take(&mut background) {
                self.background();
            }
            if !self.ready.is_empty() {
                continue;
            }
            self.close_if_asked();
            self.serve_when_recalled();
            self.feed_log();
            self.commit_if_due();
            self.write_back();
            if self.ready.is_empty() {
                break;
            }
        }
        if !self.pages.shrink() || self.pages.too_dirty() {
            self.write_back_early();
        }
        self.charge_dirty();
        self.retry_if_due();
        self.set_wake();
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Write(op) => self.go_on_writing(op),
            Task::Read(op) => self.go_on_reading(op),
            Task::Commit => self.go_on_committing(),
            Task::Settle => self.settle(),
            Task::Allocate => {
                self.prepare_free_blocks();
                self.choose_places();
            }
            Task::Reclaim => self.reclaim(),
            Task::Refill => self.refill_index(),
            Task::Recount => self.recount(),
            Task::Scan => {
                self.scan_waits = false;
                self.scan_refs();
            }
            Task::Bits => self.set_written_bits(),
            Task::Load(id) => self.load_page(id),
            Task::Recall => self.go_on_recalling(),
            Task::Admit => self.drain_admission(),
            Task::Checkpoint => self.go_on_with_checkpoint(),
            Task::OpenLog => self.choose_places(),
        }
    }

    fn on_read(&mut self, io: IoId, buffer: BufferMut, digests: Vec<Digest>, result: Result<(), IoFailure>) {
        match self.ios.remove(&io) {
            Some(IoFor::PageLoad(id)) => self.page_loaded(id, &buffer, result),
            Some(IoFor::Read { op, run }) => self.read_arrived(op, run, buffer, digests, result),
            Some(IoFor::ReadForWrite { op, pbn }) => self.write_base_arrived(op, pbn, buffer, &digests, result),
            Some(IoFor::ReadForProof { first, known }) => self.proof_arrived(first, known, buffer, &digests, result),
            Some(IoFor::ReadForRecall { pbn, slot, lbn }) => self.copy_arrived(lbn, pbn, slot, buffer, &digests, result),
            Some(IoFor::ReadForName { first }) => self.unnamed_arrived(first, &buffer, &digests, result),
            Some(IoFor::ReadForIndex { pbn, authenticator }) => self.carrier_arrived(pbn, authenticator, buffer, result),
            Some(IoFor::WalkRead { which, pbn }) => self.walk_arrived(which, pbn, buffer, result),
            Some(IoFor::DoubtRead { pbn, name }) => self.doubt_arrived(pbn, name, buffer, &digests, result),
            Some(IoFor::SuperblockRead) => self.superblock_read(&buffer, result),
            Some(IoFor::WitnessRead(id)) => self.witness_arrived(id, &buffer, result),
            _ => debug_assert!(false, "a read that nobody asked for ended"),
        }
    }

    fn on_written(&mut self, io: IoId, result: Result<(), IoFailure>) {
        let Some(what) = self.ios.remove(&io) else {
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
        let stamp = self.durability.completed(result.is_ok());
        match what {
            IoFor::Content { first, blocks } => self.content_written(io, first, blocks, stamp, result),
            IoFor::ProvedContent(blocks) => self.proved_written(blocks),
            IoFor::PageWrite { id, removed } => self.page_written(id, removed, stamp, result),
            IoFor::Units { units, carriers, .. } => self.units_written(units, carriers, result.is_ok()),
            IoFor::CondensedUnits { units } => self.copies_written(units),
            IoFor::Superblock => {
                self.superblock_writes -= 1;
                self.superblock_written();
            }
            _ => debug_assert!(false, "the end of a write names something else"),
        }
    }

    fn on_flushed(&mut self, io: IoId, result: Result<(), IoFailure>) {
        if let Some(IoFor::Flush { why, mark }) = self.ios.remove(&io) {
            if result.is_err() {
                self.fail("a flush");
            } else {
                self.durability.flushed(mark);
                self.after_any_flush();
            }
            self.flushed(why);
        }
    }

    fn on_discarded(&mut self, io: IoId) {
        // A discard that failed has discarded nothing: that is allowed.
        if let Some(IoFor::Discard { first, blocks }) = self.ios.remove(&io) {
            self.space.discards -= 1;
            (0..blocks).for_each(|i| self.unpin(first + i));
        }
    }

    /// Registers a device operation.
    pub(crate) fn io(&mut self, what: IoFor) -> IoId {
        let io = IoId(self.io_next);
        self.io_next += 1;
        self.ios.insert(io, what);
        io
    }

    /// The number that the next device operation gets.
    pub(crate) fn io_horizon(&self) -> IoId {
        IoId(self.io_next)
    }

    /// Sends a write to the device. The one place where the ledger counts writes.
    pub(crate) fn write_out(&mut self, what: IoFor, at: Bytes, data: Vec<Slice>, class: Class) {
        debug_assert!(!self.failed, "no write after a failure");
        let bytes = data.iter().map(Slice::length).sum();
        let fua = matches!(what, IoFor::Units { fua: true, .. });
        self.ledger.wrote(class, bytes);
        self.ledger.device_fua_writes += u64::from(fua);
        let io = self.io(what);
        self.out.push(Action::Write { io, at, data, class, fua });
    }

    /// Sends a read of whole blocks to the device.
    pub(crate) fn read_in(&mut self, what: IoFor, at: Bytes, blocks: usize, digest: bool, class: Class) {
        let buffer = self.home.clone().take(blocks);
        self.ledger.read(class, count(blocks));
        let io = self.io(what);
        self.out.push(Action::Read { io, at, buffer, digest, class });
    }

    pub(crate) fn reply(&mut self, request: RequestId, reply: Reply) {
        self.out.push(Action::Reply { request, reply });
    }

    pub(crate) fn fail_request(&mut self, request: RequestId, failure: Failure) {
        match failure {
            Failure::Full => self.send_back(request),
            _ => self.reply(request, Reply::Failed(failure)),
        }
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.out.push(Action::Notice(notice));
    }

    /// Goes read-only (A5).
    pub(crate) fn fail(&mut self, what: &'static str) {
        self.fail_with(Notice::WentReadOnly { what });
    }

    /// Goes read-only for the reason that the notice gives.
    pub(crate) fn fail_with(&mut self, notice: Notice) {
        if self.failed {
            return;
        }
        self.failed = true;
        self.notice(notice);
        self.fail_writers();
        // An opening may wait for it.
        self.ready.push_back(Task::Checkpoint);
    }

    pub(crate) fn pin(&mut self, pbn: Pbn) {
        *self.pins.entry(pbn).or_insert(0) += 1;
    }

    pub(crate) fn unpin(&mut self, pbn: Pbn) {
        let left = self.pins.get_mut(&pbn).expect("only what was pinned is unpinned");
        *left -= 1;
        if *left == 0 {
            self.pins.remove(&pbn);
            self.space.no_longer_busy();
        }
    }

    /// Whether a block is in use by something in flight, or by the log, so that it must not be reused (R7).
    pub(crate) fn busy(&self, pbn: Pbn) -> bool {
        let in_flight = self.pins.contains_key(&pbn) || self.fresh.contains(pbn);
        in_flight || self.log.as_ref().is_some_and(|log| log.has(pbn)) || self.promises.named.contains_key(&pbn)
    }

    /// Bytes charged for the open epoch's records and for births. Births that lie scattered take the room of their neighbours too.
    pub(crate) fn open_bytes(&self) -> u64 {
        // Births are charged as records are, but for those that lie scattered. Asserted here: Rust 1.85 takes what only a `const _` uses for dead.
        const { assert!(ByBlock::<Fresh>::BYTES_IN_A_RUN <= RECORD_COST_BYTES) };
        let births = (count(self.fresh.len()) * RECORD_COST_BYTES).max(self.fresh.bytes());
        count(self.open.records()) * RECORD_COST_BYTES + births
    }

    fn charge_dirty(&mut self) {
        let held = self.log.as_ref().map_or(0, Log::held_records);
        let records = self.commit.as_ref().map_or(0, |c| c.epoch.records()) + self.settle.records() + held;
        let bytes = self.open_bytes() + count(records) * RECORD_COST_BYTES;
        if bytes > self.dirty_charged {
            self.accountant.take(Part::Dirty, bytes - self.dirty_charged);
        } else {
            self.accountant.give(Part::Dirty, self.dirty_charged - bytes);
        }
        self.dirty_charged = bytes;
        // Held content is what requests brought: among the records it would hold back writes, and nobody would seal for its sake.
        let held = self.held_bytes();
        if held > self.held_charged {
            self.accountant.take(Part::Requests, held - self.held_charged);
        } else {
            self.accountant.give(Part::Requests, self.held_charged - held);
        }
        self.held_charged = held;
        let opening = self.log_opening.as_ref().and_then(|opening| opening.live.as_ref()).map_or(0, Unchained::bytes);
        let live = opening + self.log.as_ref().map_or(0, |log| log.live.bytes());
        if live > self.log_charged {
            self.accountant.take(Part::Log, live - self.log_charged);
        } else {
            self.accountant.give(Part::Log, self.log_charged - live);
        }
        self.log_charged = live;
    }

    fn set_wake(&mut self) {
        let at = self.next_deadline();
        if at != self.wake {
            self.wake = at;
            if let Some(at) = at {
                self.out.push(Action::Wake { at });
            }
        }
    }

    /// What the volume is doing for its own consistency, in one word: for reports, and for the explorer's table.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        self.stage.name().unwrap_or_else(|| self.commit.as_ref().map_or("idle", |c| c.step.name()))
    }

    /// The geometry of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Blocks that the client may address.
    pub(crate) fn logical(&self) -> Blocks {
        Blocks(self.geometry.logical_blocks)
    }
}
