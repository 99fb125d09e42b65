//! The scrub: reads everything that the volume needs from the device, past all caches, and compares it with its checks, so that damage is
//! found while something can still be done about it.
//!
//! 1. It goes part by part ([`ScrubPart`]), and reads a run of neighbouring pieces at a time. If one of them is bad, the run is read again
//!    piece by piece, and a piece counts as damaged when two reads of it alone have found it so.
//! 2. The superblock has the first piece that was not looked at, so after a restart it goes on there.
//! 3. A read that something has overtaken proves nothing: a page that was written meanwhile, copies of the superblock during an update. A
//!    block keeps its content while it is read (R7).
//! 4. A damaged copy of what memory still has is written again: a page, the superblock, the records of a unit of the log. Everything else
//!    is reported, and is not served (P6).
//! 5. On sound map pages it counts the logical blocks that are lost: those of damage that was found before, and given up.
//! 6. Its reads are limited to a rate, and clients come first.

mod blocks;
mod log_units;
mod pages;
mod run;
mod superblocks;

use crate::format::geometry::Geometry;
use crate::format::superblock::{ScrubPart, ScrubProgress};
use crate::interface::{Class, Notice, ScrubOrder};
use crate::io::{Arrived, IoFor};
use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::stats::{DamagedPiece, ScrubCounts};
use crate::store::Store;
use crate::units::{BLOCK_BYTES, Bytes, Time, index};
use run::{Expects, LookResult, NextUnit, Run};

/// The most pieces in one read.
const RUN_PIECES_MAX: u64 = 16;
/// Pieces without content that one turn passes over.
const PIECES_A_STEP: u64 = 2048;
/// A piece is damaged if this many reads of it alone have found it so.
const ATTEMPTS: u8 = 2;
/// The superblock is written again when one part in this many of the volume was looked at since.
const SAVED_PARTS: u64 = 64;
/// The time until something is over that makes reads prove nothing.
const AGAIN_MS: u64 = 10;
/// Damaged pieces that are listed.
const LISTED_MAX: usize = 16;

/// A scrub, as far as the superblock does not have it.
pub(crate) struct Scrub {
    reading: Option<Run>,
    /// The pieces below this one are read alone, and the number of times that the next one was bad.
    alone_until: u64,
    attempts: u8,
    unit: NextUnit,
    pub waits: bool,
    /// It goes on at this time.
    pause: Option<Time>,
    /// The superblock does not have an order, or the progress, that it should have.
    is_unsaved: bool,
    saved_at: u64,
    /// Updates of the superblock that are due, since a copy was damaged.
    rewrites: u8,
    mended: u64,
    read_units: u64,
    damaged: u64,
    lost: u64,
    listed: Vec<DamagedPiece>,
}

impl Scrub {
    /// The scrub of a volume that was opened: one that was under way goes on.
    pub fn new(store: &Store) -> Self {
        let progress = store.medium.superblock.scrub;
        Self {
            reading: None,
            alone_until: 0,
            attempts: 0,
            unit: NextUnit::default(),
            waits: false,
            pause: None,
            is_unsaved: false,
            saved_at: progress.map_or(0, |progress| done(&progress, &store.geometry)),
            rewrites: 0,
            mended: 0,
            read_units: 0,
            damaged: progress.map_or(0, |progress| progress.damaged.into()),
            lost: progress.map_or(0, |progress| progress.lost.into()),
            listed: Vec::new(),
        }
    }

    /// Does what somebody asked for.
    #[cold]
    pub fn order(&mut self, store: &mut Store, order: ScrubOrder) {
        let under_way = &mut store.medium.superblock.scrub;
        match (order, under_way.as_mut()) {
            (ScrubOrder::Begin { kib_per_second }, Some(progress)) => {
                (progress.kib_per_second, progress.is_paused) = (kib_per_second.max(1), false);
            }
            (ScrubOrder::Begin { kib_per_second }, None) => {
                let (part, kib_per_second) = (ScrubPart::Superblocks, kib_per_second.max(1));
                *under_way = Some(ScrubProgress { part, next: 0, is_paused: false, damaged: 0, lost: 0, kib_per_second });
                (self.mended, self.read_units, self.damaged, self.lost, self.saved_at) = (0, 0, 0, 0, 0);
                self.listed.clear();
                self.enter_part();
            }
            (ScrubOrder::Pause | ScrubOrder::Resume, Some(progress)) => progress.is_paused = order == ScrubOrder::Pause,
            (ScrubOrder::Cancel, Some(_)) => *under_way = None,
            (_, None) => return,
        }
        (self.is_unsaved, self.pause) = (true, None);
    }

    fn enter_part(&mut self) {
        (self.alone_until, self.attempts, self.unit) = (0, 0, NextUnit::default());
    }

    /// Whether it has nothing to do now, or waits for something.
    pub fn rests(&self, store: &Store) -> bool {
        !self.is_save_due(store) && (self.waits || !is_running(store))
    }

    /// The time at which it goes on, if only time makes it wait.
    pub fn next_at(&self, store: &Store) -> Option<Time> {
        if self.is_save_due(store) {
            return Some(store.io.now);
        }
        if is_running(store) && !self.waits { self.pause } else { None }
    }

    fn is_save_due(&self, store: &Store) -> bool {
        (self.is_unsaved || self.rewrites > 0) && !store.medium.is_busy && !store.is_read_only()
    }

    pub fn counts(&self, store: &Store) -> ScrubCounts {
        let progress = store.medium.superblock.scrub;
        ScrubCounts {
            is_under_way: progress.is_some(),
            is_paused: progress.is_some_and(|progress| progress.is_paused),
            done: progress.map_or(0, |progress| done(&progress, &store.geometry)),
            all: pieces(&ScrubPart::ALL, &store.geometry),
            kib_per_second: progress.map_or(0, |progress| progress.kib_per_second),
            read_units: self.read_units,
            damaged: self.damaged,
            mended: self.mended,
            lost: self.lost,
            listed: self.listed.clone(),
        }
    }

    /// Does a little of it.
    pub fn go_on(&mut self, store: &mut Store, scheme: &mut Scheme) {
        self.waits = self.reading.is_some();
        if self.is_save_due(store) {
            (self.is_unsaved, self.rewrites) = (false, self.rewrites.saturating_sub(1));
            scheme.update_superblock(store);
        }
        if self.rests(store) || self.pause.is_some_and(|until| store.io.now < until) {
            return;
        }
        self.pause = None;
        let Some(progress) = store.medium.superblock.scrub else { return };
        match progress.part {
            ScrubPart::Superblocks => self.read_superblock(store, progress.next),
            ScrubPart::Data => self.read_blocks(store, progress.next),
            ScrubPart::Log => self.read_unit(store, scheme),
            part => part.region().into_iter().for_each(|region| self.read_pages(store, region, progress.next)),
        }
    }

    /// The most pieces of the next run, which begins with this one.
    fn run_max(&self, next: u64) -> u64 {
        if next < self.alone_until { 1 } else { RUN_PIECES_MAX }
    }

    /// Reads a run, which lies at `at`.
    fn read(&mut self, store: &mut Store, run: Run, at: Bytes, class: Class) {
        let has_content = matches!(run.expects, Expects::Blocks(_));
        store.io.read(IoFor::ReadForScrub, at, index(run.pieces), has_content, class);
        self.read_units += run.pieces;
        let rate = store.medium.superblock.scrub.map_or(1, |progress| u64::from(progress.kib_per_second.max(1)));
        self.pause = Some(store.io.now.plus_ns((run.pieces * (BLOCK_BYTES / 1024) * 1_000_000_000).div_ceil(rate)));
        self.reading = Some(run);
        self.waits = true;
    }

    /// Takes what was read.
    pub fn arrived(&mut self, store: &mut Store, scheme: &mut Scheme, arrived: &Arrived) {
        store.io.schedule.push(Task::Scrub);
        let Some(run) = self.reading.take() else { return };
        let verdict = match &run.expects {
            Expects::Superblock { generation } => Self::judge_superblock(store, run.first, *generation, arrived),
            Expects::Pages { written } => Self::judge_pages(store, written, arrived),
            Expects::Blocks(entries) => Self::judge_blocks(store, run.first, entries, arrived),
            Expects::Unit(unit) => Self::judge_unit(store, *unit, arrived),
        };
        let is_next = |progress: ScrubProgress| (progress.part, progress.next) == (run.part, run.first);
        // Somebody may have ended the scrub, and begun another.
        if !store.medium.superblock.scrub.is_some_and(is_next) {
            return;
        }
        match verdict {
            LookResult::Sound => {
                self.count_lost(store, &run, arrived);
                self.advance(store, run.first + run.pieces);
            }
            LookResult::Overtaken => self.pause = self.pause.max(Some(store.io.now.plus_ms(AGAIN_MS))),
            LookResult::Bad(i) if run.pieces > 1 => {
                self.advance(store, run.first + i);
                self.alone_until = run.first + run.pieces;
            }
            LookResult::Bad(_) if self.attempts + 1 < ATTEMPTS => self.attempts += 1,
            LookResult::Bad(_) => {
                let is_unreadable = arrived.result.is_err();
                let is_mended = match &run.expects {
                    Expects::Superblock { .. } => {
                        self.mend_superblock(store, run.first);
                        true
                    }
                    Expects::Pages { .. } => Self::mend_page(store, run.part, run.first),
                    Expects::Blocks(_) => Self::report_block(store, run.first, is_unreadable),
                    Expects::Unit(unit) => Self::mend_log(store, scheme, *unit),
                };
                self.found(store, &run, is_mended);
                self.advance(store, run.first + 1);
            }
        }
    }

    /// Counts a damaged piece.
    fn found(&mut self, store: &mut Store, run: &Run, is_mended: bool) {
        if is_mended {
            self.mended += 1;
        } else {
            self.damaged += 1;
            if let Some(progress) = &mut store.medium.superblock.scrub {
                progress.damaged = progress.damaged.saturating_add(1);
            }
        }
        if self.listed.len() < LISTED_MAX {
            let number = if let Expects::Unit(unit) = run.expects { unit.pbn.0 } else { run.first };
            self.listed.push(DamagedPiece { part: run.part, number, is_mended });
        }
        self.is_unsaved = true;
    }

    /// Goes on with a piece: all before it were looked at.
    fn advance(&mut self, store: &mut Store, next: u64) {
        let Some(mut progress) = store.medium.superblock.scrub else { return };
        self.attempts = 0;
        if progress.part == ScrubPart::Log {
            self.unit.step();
        } else {
            progress.next = next;
            if next >= progress.part.pieces(&store.geometry) {
                (progress.part, progress.next) = (ScrubPart::ALL[progress.part as usize + 1], 0);
                self.enter_part();
            }
        }
        let (done, all) = (done(&progress, &store.geometry), pieces(&ScrubPart::ALL, &store.geometry));
        if (done - self.saved_at.min(done)) * SAVED_PARTS >= all {
            (self.saved_at, self.is_unsaved) = (done, true);
        }
        store.medium.superblock.scrub = Some(progress);
        store.io.schedule.more_background = true;
    }

    /// Ends it: everything was looked at.
    fn end(&mut self, store: &mut Store) {
        store.medium.superblock.scrub = None;
        self.is_unsaved = true;
        store.io.schedule.more_background = true;
        store.io.notice(Notice::Scrubbed { damaged: self.damaged, mended: self.mended, lost: self.lost });
    }
}

/// Whether there is a scrub that may go on.
fn is_running(store: &Store) -> bool {
    store.medium.superblock.scrub.is_some_and(|progress| !progress.is_paused) && !store.io.failed
}

/// The pieces that it has looked at.
fn done(progress: &ScrubProgress, geometry: &Geometry) -> u64 {
    pieces(&ScrubPart::ALL[..progress.part as usize], geometry) + progress.next
}

fn pieces(parts: &[ScrubPart], geometry: &Geometry) -> u64 {
    parts.iter().map(|part| part.pieces(geometry)).sum()
}
