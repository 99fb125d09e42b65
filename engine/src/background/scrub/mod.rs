//! The scrub: reads everything that the volume needs from the device, past all caches, and compares it with its checks, so that damage is
//! found while something can still be done about it.
//!
//! 1. It goes part by part ([`ScrubPart`]), and reads a run of neighbouring pieces at a time. If one of them is bad, the run is read again
//!    piece by piece, and a piece counts as damaged when two reads of it alone have found it so.
//! 2. The superblock has a piece before which all were looked at, so after a restart it goes on there (`place.rs`).
//! 3. A read that something has overtaken proves nothing, and is done again: a page that was written meanwhile, copies of the superblock
//!    during an update. A block keeps its content while it is read (R7).
//! 4. A damaged copy of what memory still has is written again: a page, the superblock, the records of a unit of the log (`mending.rs`).
//!    Everything else is reported, and is not served (P6).
//! 5. On sound map pages it counts the logical blocks that are lost: those of damage that was found before, and given up.
//! 6. Its reads are limited to a rate, and clients come first.
//! 7. It has ended when a superblock is durable that has its results.

mod blocks;
mod log_units;
mod mending;
mod pages;
mod place;
mod run;
mod superblocks;

use crate::format::geometry::Geometry;
use crate::format::superblock::{ScrubPart, ScrubProgress};
use crate::interface::{Class, ScrubOrder};
use crate::io::{Arrived, Io, IoFor};
use crate::pool::{Medium, Pool};
use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::stats::{DamagedPiece, ScrubCounts};
use crate::units::{BLOCK_BYTES, Bytes, Time, index};
use place::Place;
use run::{Awaited, Expects, LookResult, NextUnit, Run};

/// The most pieces in one read.
const RUN_PIECES_MAX: u64 = 16;
/// Pieces without content that one turn passes over.
const PIECES_A_STEP: u64 = 2048;
/// A piece is damaged if this many reads of it alone have found it so.
const ATTEMPTS: u8 = 2;
/// The time until something is over that makes reads prove nothing.
const AGAIN_MS: u64 = 10;
/// Damaged pieces that are listed.
const LISTED_MAX: usize = 16;

/// A scrub.
pub(crate) struct Scrub {
    place: Place,
    reading: Option<Run>,
    /// The pieces below this one are read alone, and the number of times that the next one was bad.
    alone_until: u64,
    attempts: u8,
    unit: NextUnit,
    pub waits: bool,
    /// It goes on at this time.
    pause: Option<Time>,
    /// The reason why it stays at the next piece: something is not durable yet.
    awaited: Option<Awaited>,
    /// The next piece was written again durably, and is looked at once more.
    is_written_again: bool,
    read_units: u64,
    listed: Vec<DamagedPiece>,
}

impl Scrub {
    /// The scrub of a volume that was opened: one that was under way goes on.
    pub fn new(pool: &Pool) -> Self {
        Self {
            place: Place::new(pool),
            reading: None,
            alone_until: 0,
            attempts: 0,
            unit: NextUnit::default(),
            waits: false,
            pause: None,
            awaited: None,
            is_written_again: false,
            read_units: 0,
            listed: Vec::new(),
        }
    }

    /// Does what somebody asked for.
    #[cold]
    pub fn order(&mut self, medium: &mut Medium, order: ScrubOrder) {
        match (order, self.place.progress.as_mut()) {
            (ScrubOrder::Begin { kib_per_second }, Some(progress)) => progress.go_on_at(kib_per_second.max(1)),
            (ScrubOrder::Begin { kib_per_second }, None) => {
                self.place.begin(kib_per_second.max(1));
                self.read_units = 0;
                self.listed.clear();
                self.enter_part();
            }
            (ScrubOrder::Pause | ScrubOrder::Resume, Some(progress)) => progress.pause(order == ScrubOrder::Pause),
            (ScrubOrder::Cancel, Some(_)) => self.place.cancel(),
            (_, None) => return,
        }
        self.place.ordered(medium);
        self.pause = None;
    }

    fn enter_part(&mut self) {
        (self.alone_until, self.attempts, self.unit) = (0, 0, NextUnit::default());
        (self.awaited, self.is_written_again) = (None, false);
    }

    /// Whether it has nothing to do now, or waits for something.
    pub fn rests(&self, io: &Io, medium: &Medium) -> bool {
        !self.place.is_due(io, medium) && (self.waits || !self.is_running(io))
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self, io: &Io, medium: &Medium) -> Option<Time> {
        if self.place.is_due(io, medium) {
            return Some(io.now());
        }
        if self.is_running(io) && !self.waits { self.pause } else { None }
    }

    /// Whether there is a scrub that may go on.
    fn is_running(&self, io: &Io) -> bool {
        self.place.progress.is_some_and(|progress| !progress.is_paused) && !io.has_failed()
    }

    pub fn counts(&self, io: &Io, medium: &Medium, geometry: &Geometry) -> ScrubCounts {
        ScrubCounts { read_units: self.read_units, listed: self.listed.clone(), ..self.place.counts(io, medium, geometry) }
    }

    /// Has the next opening go on where it is: the volume closes, and everything is flushed.
    pub fn closes(&self, medium: &mut Medium) {
        self.place.closes(medium);
    }

    /// Does a little of it.
    pub fn scrub_some(&mut self, pool: &mut Pool, scheme: &mut Scheme) {
        self.waits = self.reading.is_some();
        self.place.save_or_report(pool, scheme);
        if self.rests(&pool.io, &pool.medium) || self.pause.is_some_and(|until| pool.io.now() < until) {
            return;
        }
        self.pause = None;
        if self.go_on_waiting(pool, scheme) {
            self.pause = Some(pool.io.now().plus_ms(AGAIN_MS));
            return;
        }
        let Some(progress) = self.place.progress else { return };
        match progress.part {
            ScrubPart::Superblocks => self.read_superblock(&mut pool.io, &pool.medium, &pool.geometry, progress.next),
            ScrubPart::Data => self.read_blocks(pool, progress.next),
            ScrubPart::Log => self.read_unit(&mut pool.io, &mut pool.space, &pool.geometry, scheme),
            part => part
                .region()
                .into_iter()
                .for_each(|region| self.read_pages(&mut pool.io, &mut pool.tables, &pool.geometry, region, progress.next)),
        }
    }

    /// The most pieces of the next run, which begins with this one.
    fn run_max(&self, next: u64) -> u64 {
        if next < self.alone_until { 1 } else { RUN_PIECES_MAX }
    }

    /// Reads a run, which lies at `at`.
    fn read(&mut self, io: &mut Io, run: Run, at: Bytes, class: Class) {
        let has_content = matches!(run.expects, Expects::Blocks(_));
        io.read(IoFor::ReadForScrub, at, index(run.pieces), has_content, class);
        self.read_units += run.pieces;
        let rate = self.place.progress.map_or(1, |progress| u64::from(progress.kib_per_second.max(1)));
        self.pause = Some(io.now().plus_ns((run.pieces * (BLOCK_BYTES / 1024) * 1_000_000_000).div_ceil(rate)));
        self.reading = Some(run);
        self.waits = true;
    }

    /// Takes what was read.
    pub fn arrived(&mut self, pool: &mut Pool, scheme: &mut Scheme, arrived: &Arrived) {
        pool.io.schedule.push(Task::Scrub);
        let Some(run) = self.reading.take() else { return };
        let verdict = match &run.expects {
            Expects::Superblock { generation } => Self::judge_superblock(&pool.medium, run.first, *generation, arrived),
            Expects::Pages { written } => Self::judge_pages(&pool.tables, written, arrived),
            Expects::Blocks(entries) => Self::judge_blocks(&mut pool.space, &pool.keys, run.first, entries, arrived),
            Expects::Unit(unit) => Self::judge_unit(&mut pool.space, &pool.keys, *unit, arrived),
        };
        let is_next = |progress: ScrubProgress| (progress.part, progress.next) == (run.part, run.first);
        // Somebody may have ended the scrub, and begun another.
        if !self.place.progress.is_some_and(is_next) {
            return;
        }
        match verdict {
            LookResult::Sound => {
                self.count_lost(&pool.tables, &run, run.pieces, arrived);
                if self.is_written_again {
                    self.is_mended(&mut pool.io, &pool.geometry, &run);
                }
                self.advance(&mut pool.io, &pool.geometry, run.first + run.pieces);
            }
            LookResult::Unproved(i) => {
                self.count_lost(&pool.tables, &run, i, arrived);
                self.advance_if_any(&mut pool.io, &pool.geometry, run.first, run.first + i);
                self.pause = self.pause.max(Some(pool.io.now().plus_ms(AGAIN_MS)));
            }
            LookResult::Bad(i) if run.pieces > 1 => {
                self.count_lost(&pool.tables, &run, i, arrived);
                self.advance_if_any(&mut pool.io, &pool.geometry, run.first, run.first + i);
                self.alone_until = run.first + run.pieces;
            }
            LookResult::Bad(_) if self.attempts + 1 < ATTEMPTS => self.attempts += 1,
            LookResult::Bad(_) => self.is_damaged(pool, scheme, &run, arrived.result.is_err()),
        }
    }

    /// Counts a damaged piece, mended or not.
    fn found(&mut self, run: &Run, is_mended: bool) {
        self.place.found(is_mended);
        if self.listed.len() < LISTED_MAX {
            self.listed.push(DamagedPiece { part: run.part, number: run.number(), is_mended });
        }
    }

    /// Advances if there is nothing to read before piece `first`.
    fn advance_if_any(&mut self, io: &mut Io, geometry: &Geometry, next: u64, first: u64) {
        if first > next {
            self.advance(io, geometry, first);
        }
    }

    /// Goes on with a piece: all before it were looked at.
    fn advance(&mut self, io: &mut Io, geometry: &Geometry, next: u64) {
        (self.attempts, self.is_written_again) = (0, false);
        if self.place.progress.is_some_and(|progress| progress.part == ScrubPart::Log) {
            self.unit.step();
        } else if self.place.advance(geometry, next) {
            self.enter_part();
        }
        io.schedule.ask_for_background();
    }

    /// Ends it: everything was looked at.
    fn end(&mut self, io: &mut Io) {
        self.place.end(io);
        io.schedule.ask_for_background();
    }

    /// Notes that what it waited for is there.
    pub fn is_called(&mut self) {
        self.waits = false;
    }
}
