//! What every deduplicating rival shares: clients on one side, epochs that commit one after the other on the other side.
//!
//! A [`Scheme`] says what a commit writes besides content, and where; everything else is here.
//!
//! 1. Content is written as it arrives, each new block once. An epoch's changes are absolute: the last value of each entry.
//! 2. One epoch commits at a time, in order. No metadata is written for an epoch that is still open.
//! 3. A block comes back into use only after the commit of the epoch that freed it, and while no read of it is in flight.

mod changes;
mod clients;
mod commit;
mod epoch;
mod tables;

pub use changes::{Changes, PageWrite};
pub use epoch::Cause;
pub use tables::Limits;

use super::desk::Desk;
use super::reads::Reads;
use super::{Baseline, Report, Settings, name_of};
use crate::machine::Machine;
use epoch::{Epoch, Stage};
use onefold_engine::buffer::Slice;
use onefold_engine::interface::{Action, Event, Failure, IoFailure, Legacy, Notice, Reply, Request, RequestId};
use onefold_engine::units::{Bytes, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tables::Tables;

/// How a rival makes an epoch durable.
pub trait Scheme {
    const NAME: &'static str;
    const IN_MEMORY: &'static str;
    /// Whether an epoch's content must be durable before its first metadata write is issued (R1); else one flush covers both.
    const CONTENT_FIRST: bool;

    /// Where the content lies, and how it is counted.
    fn limits(&self) -> Limits;
    /// How large a device it needs.
    fn device_bytes(&self) -> Bytes;
    /// What stands on the device at the beginning.
    fn format(&self) -> Vec<PageWrite>;
    /// An epoch ends when it has so many changed entries.
    fn changes_max(&self) -> usize;
    /// Whether the next commit has a place to go to.
    fn has_room(&self, changes: &Changes) -> bool;
    /// The writes of a commit. A device flush follows them.
    fn compose(&mut self, changes: &Changes) -> Vec<PageWrite>;
    /// A commit's flush has completed.
    fn durable(&mut self, now: Time, changes: &Changes);

    /// Writes that no commit waits for, if any are due; `pressing` when a commit has no room, or at the close.
    fn work(&mut self, now: Time, pressing: bool) -> Vec<PageWrite>;
    /// All of them have completed.
    fn work_written(&mut self);
    /// A device flush has completed that was issued after [`Self::work_written`].
    fn work_flushed(&mut self);
    /// Whether such a flush is all that is missing for the work to go on.
    fn work_wants_flush(&self) -> bool;
    /// When work will be due.
    fn work_due(&self) -> Option<Time>;
    /// Whether no work is left at all, due or not.
    fn work_done(&self) -> bool;

    /// What it can tell of itself.
    fn facts(&self) -> Vec<(&'static str, u64)>;
}

/// What a device operation is for.
enum Doing {
    Content { epoch: u64, first: u64, blocks: usize },
    Page,
    Work,
    Flush,
    Read { request: RequestId, segment: usize, first: u64, blocks: usize },
}

/// What clients did.
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
    desk: Desk<Doing>,
    reads: Reads,
    /// Content on its way to the device, by physical block.
    writing: FxHashMap<u64, Slice>,
    /// Physical blocks that reads are in flight for.
    pins: FxHashMap<u64, u32>,
    filling: Epoch,
    sealed: VecDeque<Epoch>,
    committing: Option<Epoch>,
    stage: Stage,
    /// Content writes completed so far; of those, how many the last completed flush covers, and how many the one in flight will.
    completed: u64,
    durable: u64,
    flush_covers: u64,
    flush_covers_work: bool,
    work_in_flight: usize,
    work_is_written: bool,
    /// Requests that wait for space.
    stalled: VecDeque<Request>,
    wake: Option<Time>,
    serving: bool,
    closing: bool,
    failed: bool,
    counts: Counts,
    epochs: [u64; Cause::ALL.len()],
    /// One epoch for each block written, as Dmdedup commits when it is strong.
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
            desk: Desk::default(),
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
            wake: None,
            serving: false,
            closing: false,
            failed: false,
            counts: Counts::default(),
            epochs: [0; Cause::ALL.len()],
        }
    }

    /// A scheme that commits groups of writes, also when it is strong.
    #[must_use]
    pub fn grouped(settings: Settings, scheme: S) -> Self {
        Self::over(settings, scheme, false)
    }

    /// A scheme that, when it is strong, commits every block written on its own.
    #[must_use]
    pub fn one_by_one(settings: Settings, scheme: S) -> Self {
        Self::over(settings, scheme, true)
    }

    /// The scheme, for what it alone can tell.
    #[must_use]
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// Whether anything waits for a commit.
    fn busy(&self) -> bool {
        self.committing.is_some() || !self.sealed.is_empty()
    }

    fn failure(&mut self, what: &'static str, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.failed, true) {
            out.push(Action::Notice(Notice::WentReadOnly { what }));
        }
        let epochs = self.committing.iter_mut().chain(&mut self.sealed).chain(std::iter::once(&mut self.filling));
        let waiters = epochs.flat_map(|epoch| std::mem::take(&mut epoch.waiters));
        let waiters = waiters.chain(self.stalled.drain(..).map(|request| request.id));
        out.extend(waiters.map(|request| Action::Reply { request, reply: Reply::Failed(Failure::Io) }));
    }

    fn written(&mut self, doing: Doing, result: Result<(), IoFailure>, out: &mut Vec<Action>) {
        if result.is_err() {
            return self.failure("a write failed", out);
        }
        match doing {
            Doing::Content { epoch, first, blocks } => {
                (first..first + blocks as u64).for_each(|pbn| drop(self.writing.remove(&pbn)));
                self.completed += 1;
                let completed = self.completed;
                let epoch = self.epoch(epoch);
                epoch.content_left -= 1;
                epoch.content_completed = completed;
            }
            Doing::Page => self.page_written(),
            Doing::Work => {
                self.work_in_flight -= 1;
                if self.work_in_flight == 0 {
                    self.work_is_written = true;
                    self.scheme.work_written();
                }
            }
            Doing::Flush | Doing::Read { .. } => unreachable!("only writes complete so"),
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
                let doing = self.desk.done(io);
                self.written(doing, result, out);
            }
            Event::Flushed { io, result } => {
                self.desk.done(io);
                self.flushed(now, result, out);
            }
            Event::Read { io, buffer, result, .. } => {
                let Doing::Read { request, segment, first, blocks } = self.desk.done(io) else { unreachable!("only reads complete so") };
                self.unpin(first, blocks);
                out.extend(self.reads.filled(request, segment, buffer, result).map(|reply| Action::Reply { request, reply }));
            }
            Event::Close => self.closing = true,
            Event::Tick => self.wake = None,
            Event::Digested { .. }
            | Event::Compressed { .. }
            | Event::Ousted
            | Event::GuardFailed
            | Event::EndWaiting
            | Event::StoreRoom(_) => {}
        }
        self.go_on(now, out);
    }

    fn recall(&mut self, legacy: Legacy) {
        assert!(legacy.promises.is_empty(), "no ring stands before a rival");
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
