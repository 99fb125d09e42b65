//! The state machine: one [`Engine`] for an open volume, fed with events, giving actions.
//!
//! 1. [`Engine::step`] is the only way in. A step runs until nothing can go on without another event.
//! 2. The engine routes: it hands each event to the component that waits for it (`events.rs`), calls the tasks whose turn it is
//!    (`turn.rs`), and leads the volume through opening, service and closing (`life.rs`). A component works on what a call hands it.
//! 3. A failed write or flush is sticky (A5): no write of any kind is issued after it.

mod events;
mod jobs;
mod life;
mod report;
mod turn;

use crate::ack_journal::AckJournal;
use crate::answers::Answers;
use crate::background::{Background, IndexRebuild, Marking, OutOfLine, Parting, Recount, Scrub};
use crate::buffer::Home;
use crate::format::page::Region;
use crate::format::superblock::Superblock;
use crate::interface::{Action, Event, Legacy, Notice};
use crate::io::{Arrived, IoFor, Stage};
use crate::memory::Accountant;
use crate::pool::Parts;
use crate::recovery::{self, Phase, replay};
use crate::requests::Requests;
use crate::scheme::Scheme;
use crate::settings::Settings;
use crate::units::{Bytes, Pbn, Time};
use std::ops::Range;
use std::sync::Arc;

/// An open deduplicating volume.
pub struct Engine {
    parts: Parts,
    requests: Requests,
    answers: Answers,
    scheme: Scheme,
    phase: Phase,
    background: Background,
    /// The volume is to be closed when no request waits for an answer any more.
    close_asked: bool,
}

impl Engine {
    /// Opens a volume whose superblock was read and verified. The first [`Event`] may follow at once; requests are answered when the
    /// opening is durable (R8).
    #[must_use]
    pub fn open(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        let from = if superblock.keeps_counts() { superblock.recount_position } else { Pbn(0) };
        let recount = Recount::new(superblock.garbage_possible || !superblock.keeps_counts(), from);
        let rebuild = IndexRebuild::new(superblock.allocation_cursor, superblock.geometry.pages_of_blocks(Region::Fingerprints));
        let journal = AckJournal::new(settings.facts.journal_lost);
        let parting = Parting::new(superblock.clean);
        let parts = Parts::new(superblock, settings, home, accountant, now);
        Self {
            answers: Answers::new(journal),
            requests: Requests::default(),
            scheme: Scheme::default(),
            phase: Phase::new(),
            background: Background {
                rebuild,
                recount,
                out_of_line: OutOfLine::new(&parts),
                scrub: Scrub::new(&parts.pool),
                marking: Marking::default(),
                parting,
            },
            parts,
            close_asked: false,
        }
    }

    /// Takes over what the last server has left, before the first event.
    pub fn replay(&mut self, legacy: Legacy) {
        replay::take_journal(&self.parts.pool.io, &mut self.parts.pool.space, &self.parts.pool.geometry, &mut self.answers, legacy);
    }

    /// Takes, before the first event, the ranges of the store at which its host has never written anything. Only a store in a file has
    /// such ranges, and is treated as one from then on.
    pub fn take_unwritten(&mut self, ranges: &[Range<Bytes>]) {
        self.parts.pool.space.take_unwritten(ranges);
    }

    #[cold]
    fn resize_index(&mut self, bytes: Bytes) {
        self.parts.pool.resize_index(bytes.0);
        self.background.rebuild.start_over(&mut self.parts.pool.io, &mut self.parts.pool.space);
    }

    /// Takes one event, and appends the actions that follow from it to `out`.
    pub fn step(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let Self { parts, requests, answers, scheme, .. } = self;
        parts.pool.io.advance_to(now);
        parts.pool.io.swap_actions(out);
        if parts.pool.io.stage() == Stage::Created {
            recovery::begin(&mut parts.pool.io, &parts.pool.tables, &parts.pool.medium);
        }
        parts.pool.space.wake_granules();
        match event {
            Event::Request(request) => requests.admit(parts, scheme, answers, request),
            Event::Read { io, buffer, digests, result } => self.on_read(io, Arrived { buffer, digests, result }),
            Event::Written { io, result } => self.on_written(io, result),
            Event::Flushed { io, result } => self.on_flushed(io, result),
            Event::Discarded { io, result } => self.on_discarded(io, result),
            Event::Digested { io, digest } => {
                if let Some(IoFor::DigestForWrite { op }) = parts.pool.io.end(io) {
                    requests.write_digested(parts, scheme, answers, op, digest);
                }
            }
            Event::Compressed { io, data } => {
                if let Some(IoFor::Compress { pbn }) = parts.pool.io.end(io) {
                    scheme.compressed(&mut parts.pool, answers, io, pbn, data);
                }
            }
            Event::Tick => parts.pool.io.schedule.is_called(),
            Event::StoreRoom(room) => parts.pool.space.store_has(&mut parts.pool.io, room),
            Event::Ousted => self.fail_with(Notice::Ousted),
            Event::StoreFailed => self.fail("a read or write of the guard block or the notes"),
            Event::Deduplicate(order) => self.background.out_of_line.order(parts, order),
            Event::Protect(ranges) => self.protect(ranges),
            Event::Scrub(order) => self.background.scrub.order(&mut parts.pool.medium, order),
            Event::Allowance(allowance) => parts.volume.adaptation.allow(allowance),
            Event::IndexMemory(bytes) => self.resize_index(bytes),
            Event::SaveLedger => self.save_ledger(),
            Event::EndWaiting => parts.pool.space.end_waiting(),
            Event::Close => {
                self.close_asked = true;
                parts.pool.space.end_waiting();
            }
        }
        self.run();
        self.parts.pool.io.swap_actions(out);
    }
}
