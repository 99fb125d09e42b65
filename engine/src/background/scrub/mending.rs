//! Mending: a damaged piece that memory has is written again, and the scrub stays at it until that is durable.
//!
//! 1. A piece counts as mended when the medium holds it durably, and a read has found it sound. So the superblock never has a place behind
//!    a piece that a crash could leave damaged.
//! 2. A page goes out at once, or as soon as all that it holds is confirmed. If no commit flushes it, an update of the superblock does.
//! 3. A unit of the log is mended when the newest superblock leads to it no more.
//! 4. A piece that is damaged again after it was written counts as damaged: the device does not keep it.

use super::Scrub;
use super::run::{Awaited, Expects, NextUnit, Run};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::superblock::ScrubPart;
use crate::interface::Notice;
use crate::io::Io;
use crate::pool::Pool;
use crate::scheme::Scheme;
use crate::tables::{AwaitedWrite, Tables};

impl Scrub {
    /// Mends a damaged piece, if memory has what it should hold, or reports it.
    pub(super) fn is_damaged(&mut self, pool: &mut Pool, scheme: &mut Scheme, run: &Run, is_unreadable: bool) {
        let is_in_vain = std::mem::take(&mut self.is_written_again);
        let awaited = match (&run.expects, run.part.region()) {
            (Expects::Blocks(_), _) => {
                Self::report_block(pool, run.first, is_unreadable);
                Some(Awaited::Find(pool.contents.suspects.last_find()))
            }
            (_, Some(region)) if !is_in_vain => Self::mend_page(&mut pool.io, &mut pool.tables, region, run.first),
            (Expects::Superblock { .. }, _) if !is_in_vain => {
                self.place.rewrite_all();
                Some(Awaited::Superblocks)
            }
            (Expects::Unit(unit), _) => Self::mend_log(&mut pool.io, *unit),
            _ => {
                pool.io.notice(Notice::Damage { what: "what was written again is damaged again", at: address(&pool.geometry, run) });
                None
            }
        };
        if awaited.is_some() {
            self.awaited = awaited;
            self.attempts = 0;
            // The first step is taken at once.
            self.go_on_waiting(pool, scheme);
            return;
        }
        self.found(run, false);
        self.advance(&mut pool.io, &pool.geometry, run.first + 1);
    }

    /// Has a page written again, if memory has it whole.
    fn mend_page(io: &mut Io, tables: &mut Tables, region: Region, index: u64) -> Option<Awaited> {
        tables.mend(io, PageId { region, index }).then_some(Awaited::Page)
    }

    /// Has the records of a damaged unit written to their pages, if the volume may be written: then no opening needs the unit.
    fn mend_log(io: &mut Io, unit: NextUnit) -> Option<Awaited> {
        if io.is_read_only() {
            io.notice(Notice::Damage { what: "a unit of the log was damaged", at: unit.pbn.0 });
            return None;
        }
        Some(Awaited::Unit(unit))
    }

    /// Goes on with what it waits for. Returns whether it still waits.
    pub(super) fn go_on_waiting(&mut self, pool: &mut Pool, scheme: &mut Scheme) -> bool {
        let is_durable = match self.awaited {
            None => return false,
            Some(Awaited::Page) => self.go_on_with_page(pool, scheme),
            Some(Awaited::Superblocks) => self.place.has_rewritten_all(&pool.medium),
            Some(Awaited::Unit(unit)) => {
                let is_needed = scheme.needs_unit(unit.pbn);
                if is_needed {
                    scheme.empty_log(&mut pool.io, &mut pool.tables, &pool.space);
                }
                !is_needed
            }
            Some(Awaited::Find(find)) => pool.contents.suspects.are_kept_upto(find) || !pool.io.may_mark(),
        };
        if !is_durable {
            return true;
        }
        match self.awaited.take() {
            Some(Awaited::Page | Awaited::Superblocks) => self.is_written_again = true,
            Some(Awaited::Unit(unit)) => {
                let run = Run { part: ScrubPart::Log, first: 0, pieces: 1, expects: Expects::Unit(unit) };
                self.is_mended(&mut pool.io, &pool.geometry, &run);
                self.advance(&mut pool.io, &pool.geometry, 0);
            }
            Some(Awaited::Find(_)) => self.block_is_damaged(&mut pool.io, &pool.geometry),
            None => {}
        }
        false
    }

    /// Counts a damaged block, and goes on behind it.
    fn block_is_damaged(&mut self, io: &mut Io, geometry: &Geometry) {
        let Some(progress) = self.place.progress else { return };
        let run = Run { part: ScrubPart::Data, first: progress.next, pieces: 1, expects: Expects::Blocks(Vec::new()) };
        self.found(&run, false);
        self.advance(io, geometry, progress.next + 1);
    }

    /// Sends the awaited page, and has it flushed. Returns whether it is durable.
    fn go_on_with_page(&mut self, pool: &mut Pool, scheme: &mut Scheme) -> bool {
        match pool.tables.awaited_write(&mut pool.io) {
            AwaitedWrite::UnderWay => {}
            AwaitedWrite::Unconfirmed => scheme.confirm(pool),
            AwaitedWrite::Completed(stamp) if stamp <= pool.io.durability.mark() => return true,
            // An update that is under way may have sent its flush before.
            AwaitedWrite::Completed(_) if pool.medium.is_busy() => {}
            AwaitedWrite::Completed(_) => self.place.flush(),
        }
        false
    }

    /// Counts a piece that was damaged, and is durably whole again.
    pub(super) fn is_mended(&mut self, io: &mut Io, geometry: &Geometry, run: &Run) {
        let what = match run.part {
            ScrubPart::Superblocks => "a copy of the superblock was damaged",
            ScrubPart::Log => "a unit of the log was damaged",
            _ => "a metadata page had damaged sectors",
        };
        io.notice(Notice::Mended { what, at: address(geometry, run) });
        self.found(run, true);
    }
}

/// The first piece of a run as notices have it: the byte of a page, the number of a copy of the superblock, the block of a unit.
fn address(geometry: &Geometry, run: &Run) -> u64 {
    run.part.region().map_or_else(|| run.number(), |region| geometry.page_at(PageId { region, index: run.first }).0)
}
