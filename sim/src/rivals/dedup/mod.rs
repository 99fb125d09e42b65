//! The parts that all deduplicating rivals share: the requests of clients, and epochs that commit one after the other.
//!
//! A [`Scheme`] determines what a commit writes besides content, and where; everything else is here.
//!
//! 1. Content is written as it arrives, each new block once. An epoch's changes are absolute: the last value of each entry.
//! 2. One epoch commits at a time, in order. No metadata is written for an epoch that is still open.
//! 3. A block is reused only after the commit of the epoch that freed it, and while no read of it is in flight.
//! 4. Of hints it knows NODEDUP (policy apart: the block has no hash and no entry of the hash index) and PREFETCH.

mod changes;
mod clients;
mod commit;
mod epoch;
mod look_ups;
mod looking;
mod prefetched;
mod tables;

pub use changes::{Changes, PageRead, PageWrite};
pub use epoch::Cause;
pub use look_ups::LookUp;
pub use tables::Limits;

use super::in_flight::InFlight;
use super::reads::Reads;
use super::{Baseline, Report, Settings, name_of};
use crate::machine::Machine;
use epoch::{Epoch, Stage};
use look_ups::{LookUpCounts, Looking};
use onefold_engine::buffer::Slice;
use onefold_engine::interface::{Action, Event, Failure, IoFailure, Legacy, Notice, Reply, Request, RequestId};
use onefold_engine::units::{Bytes, Time};
use prefetched::Prefetched;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tables::Tables;

/// A rival's way to make an epoch durable.
pub trait Scheme {
    const NAME: &'static str;
    const IN_MEMORY: &'static str;
    /// Whether an epoch's content must be durable before its first metadata write is issued (R1); otherwise one flush covers both.
    const CONTENT_FIRST: bool;

    /// Returns where the content lies, and how its links are counted.
    fn limits(&self) -> Limits;
    /// Returns the size of the device that it needs.
    fn device_bytes(&self) -> Bytes;
    /// Returns the writes that format the device.
    fn format(&self) -> Vec<PageWrite>;
    /// Returns the number of changed entries at which an epoch ends.
    fn changes_max(&self) -> usize;
    /// Returns whether there is room for the next commit.
    fn has_room(&self, changes: &Changes) -> bool;
    /// Returns the writes of a commit. A device flush follows them.
    fn compose(&mut self, changes: &Changes) -> Vec<PageWrite>;
    /// Is called when a commit's flush has completed.
    fn durable(&mut self, now: Time, changes: &Changes);

    /// Returns writes that no commit waits for, if any are due; `pressing` is true if a commit has no room, and at the close.
    fn work(&mut self, now: Time, pressing: bool) -> Vec<PageWrite>;
    /// Is called when all of these writes have completed.
    fn work_written(&mut self);
    /// Is called when a device flush has completed that was issued after [`Self::work_written`].
    fn work_flushed(&mut self);
    /// Returns whether the work waits for nothing but such a flush.
    fn work_wants_flush(&self) -> bool;
    /// Returns the time at which work will be due.
    fn work_due(&self) -> Option<Time>;
    /// Returns whether no work remains, due or not.
    fn work_done(&self) -> bool;

    /// Returns the page that a look-up of this entry has to read; none if it is in memory.
    fn look_up(&mut self, _: LookUp) -> Option<PageRead> {
        None
    }

    /// Returns the counts that only this scheme keeps.
    fn facts(&self) -> Vec<(&'static str, u64)>;
}

/// The purpose of a device operation.
enum Purpose {
    Content { epoch: u64, first: u64, blocks: usize },
    Page,
    LookUp,
    Work,
    Flush,
    Read { request: RequestId, segment: usize, first: u64, blocks: usize },
}

/// Counts of what clients did.
#[derive(Clone, Copy, Default)]
struct Counts {
    new: u64,
    duplicates: u64,
    unchanged: u64,
    zeroes: u64,
    reclaimed: u64,
    stalls: u64,
    flushes: u64,
}

/// A deduplicating rival.
pub struct Dedup<S> {
    settings: Settings,
    scheme: S,
    tables: Tables,
    in_flight: InFlight<Purpose>,
    reads: Reads,
    /// Content that is being written to the device, by physical block.
    writing: FxHashMap<u64, Slice>,
    /// The number of reads in flight for each physical block.
    pins: FxHashMap<u64, u32>,
    filling: Epoch,
    sealed: VecDeque<Epoch>,
    committing: Option<Epoch>,
    stage: Stage,
    /// The number of completed content writes; of those, the number that the last completed flush covers, and that the one in flight will
    /// cover.
    completed: u64,
    durable: u64,
    flush_covers: u64,
    flush_covers_work: bool,
    work_in_flight: usize,
    work_is_written: bool,
    /// Requests that wait for space, or for the look-ups of an earlier one.
    stalled: VecDeque<Request>,
    looking: Option<Looking>,
    /// The write whose look-ups have ended, until it is admitted.
    looked: Option<RequestId>,
    prefetched: Prefetched,
    look_ups: LookUpCounts,
    wake: Option<Time>,
    serving: bool,
    closing: bool,
    failed: bool,
    counts: Counts,
    epochs: [u64; Cause::ALL.len()],
    /// Whether each written block is an epoch of its own, as Dmdedup commits under strong persistence.
    single: bool,
}

impl<S: Scheme> Dedup<S> {
    fn over(settings: Settings, scheme: S, single: bool) -> Self {
        let tables = Tables::new(&settings, scheme.limits());
        Self {
            single: single && settings.strong(),
            settings,
            scheme,
            tables,
            in_flight: InFlight::default(),
            reads: Reads::default(),
            writing: FxHashMap::default(),
            pins: FxHashMap::default(),
            filling: Epoch::new(1),
            sealed: VecDeque::new(),
            committing: None,
            stage: Stage::Idle,
            completed: 0,
            durable: 0,
            flush_covers: 0,
            flush_covers_work: false,
            work_in_flight: 0,
            work_is_written: false,
            stalled: VecDeque::new(),
            looking: None,
            looked: None,
            prefetched: Prefetched::default(),
            look_ups: LookUpCounts::default(),
            wake: None,
            serving: false,
            closing: false,
            failed: false,
            counts: Counts::default(),
            epochs: [0; Cause::ALL.len()],
        }
    }

    /// Makes a rival that commits groups of writes, also under strong persistence.
    #[must_use]
    pub fn grouped(settings: Settings, scheme: S) -> Self {
        Self::over(settings, scheme, false)
    }

    /// Makes a rival that commits every written block separately under strong persistence.
    #[must_use]
    pub fn one_by_one(settings: Settings, scheme: S) -> Self {
        Self::over(settings, scheme, true)
    }

    /// Returns the scheme, for what it alone knows.
    #[must_use]
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// Returns whether anything waits for a commit.
    fn busy(&self) -> bool {
        self.committing.is_some() || !self.sealed.is_empty()
    }

    fn failure(&mut self, what: &'static str, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.failed, true) {
            out.push(Action::Notice(Notice::WentReadOnly { what }));
        }
        let looking = self.end_look_ups().map(|request| request.id);
        let epochs = self.committing.iter_mut().chain(&mut self.sealed).chain(std::iter::once(&mut self.filling));
        let waiters = epochs.flat_map(|epoch| std::mem::take(&mut epoch.waiters));
        let waiters = waiters.chain(looking).chain(self.stalled.drain(..).map(|request| request.id));
        out.extend(waiters.map(|request| Action::Reply { request, reply: Reply::Failed(Failure::Io) }));
    }

    fn written(&mut self, purpose: Purpose, result: Result<(), IoFailure>, out: &mut Vec<Action>) {
        if result.is_err() {
            return self.failure("a write failed", out);
        }
        match purpose {
            Purpose::Content { epoch, first, blocks } => {
                (first..first + blocks as u64).for_each(|pbn| drop(self.writing.remove(&pbn)));
                self.completed += 1;
                let completed = self.completed;
                let epoch = self.epoch(epoch);
                epoch.content_left -= 1;
                epoch.content_completed = completed;
            }
            Purpose::Page => self.page_written(),
            Purpose::Work => {
                self.work_in_flight -= 1;
                if self.work_in_flight == 0 {
                    self.work_is_written = true;
                    self.scheme.work_written();
                }
            }
            Purpose::Flush | Purpose::LookUp | Purpose::Read { .. } => unreachable!("only writes complete so"),
        }
    }
}

impl<S: Scheme> Machine for Dedup<S> {
    fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.serving, true) {
            out.push(Action::Notice(Notice::Serving));
        }
        match event {
            Event::Request(request) => self.request(now, request, out),
            Event::Written { io, result } | Event::Discarded { io, result } => {
                let purpose = self.in_flight.done(io);
                self.written(purpose, result, out);
            }
            Event::Flushed { io, result } => {
                self.in_flight.done(io);
                self.flushed(now, result, out);
            }
            Event::Read { io, buffer, result, .. } => {
                match self.in_flight.done(io) {
                    Purpose::Read { request, segment, first, blocks } => {
                        self.unpin(first, blocks);
                        out.extend(self.reads.filled(request, segment, buffer, result).map(|reply| Action::Reply { request, reply }));
                    }
                    Purpose::LookUp if result.is_err() => self.failure("a read of metadata failed", out),
                    // After a failure nothing is looked up any more.
                    Purpose::LookUp if self.looking.is_none() => {}
                    Purpose::LookUp => self.read_page(out),
                    _ => unreachable!("only reads complete so"),
                }
            }
            Event::Close => self.closing = true,
            Event::Tick => self.wake = None,
            Event::Digested { .. }
            | Event::Compressed { .. }
            | Event::Ousted
            | Event::StoreFailed
            | Event::SaveLedger
            | Event::EndWaiting
            | Event::Deduplicate(_)
            | Event::Protect(_)
            | Event::Scrub(_)
            | Event::Allowance(_)
            | Event::IndexMemory(_)
            | Event::StoreRoom(_) => {}
        }
        self.go_on(now, out);
    }

    fn replay_journal(&mut self, legacy: Legacy) {
        assert!(legacy.promises.is_empty(), "a rival has no acknowledgement journal");
    }
}

impl<S: Scheme> Baseline for Dedup<S> {
    fn device_bytes(&self) -> Bytes {
        self.scheme.device_bytes()
    }

    fn format(&self) -> Vec<(Bytes, Slice)> {
        self.scheme.format().into_iter().map(|write| (write.at, write.data)).collect()
    }

    fn report(&self) -> Report {
        let c = &self.counts;
        let mut facts = vec![
            ("new blocks", c.new),
            ("duplicates", c.duplicates),
            ("unchanged blocks", c.unchanged),
            ("zero blocks", c.zeroes),
            ("blocks kept by their fingerprint alone", self.tables.kept()),
            ("blocks in use", self.tables.used()),
            ("blocks collected", c.reclaimed),
            ("waits for space", c.stalls),
            ("device flushes", c.flushes),
        ];
        facts.extend(self.look_ups.facts());
        facts.extend(self.scheme.facts());
        Report {
            scheme: S::NAME,
            persistence: name_of(self.settings.persistence),
            epochs: Cause::ALL.iter().map(|&cause| (cause.name(), self.epochs[cause as usize])).collect(),
            facts,
            in_memory: S::IN_MEMORY,
        }
    }
}
