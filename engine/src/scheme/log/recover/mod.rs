//! Opening: the log is read, and continues behind its end.
//!
//! 1. The log is scanned, its end found (L2), and content that may not have been flushed verified (L5). Then its records are live, and
//!    correct pages as these are loaded. Nothing else is read before that.
//! 2. The new incarnation is durable before any unit of it (L3).
//! 3. After a crash the first unit of the new incarnation is written and flushed before the first write is admitted and before any page is
//!    written (L4): it records where the log ended and what was dropped. A log that ends with such a unit already gets none, so that
//!    crashes during recoveries do not fill it: instead the superblock records that no unit from before this opening counts behind that.
//! 4. Units and content that count and may not have been flushed are written again, and flushed before the closing unit confirms them: a
//!    block that was discarded before, and whose write was lost, may be read as its new content once, and as something else the next time.
//! 5. Of a damaged log only what is proved is served (`pool/proved.rs`), and the volume is read-only.
//! 6. Records for which memory has no room enter pages during the scan, as far as they count for certain (`overflow.rs`).

mod adopt;
mod compacted;
mod damage;
mod limits;
mod log_end;
mod log_read;
mod notices;
mod overflow;
mod progress;
mod reading;
mod replay;
mod scan;
#[cfg(test)]
mod scan_tests;
mod verify;

pub(crate) use limits::Limits;
pub(crate) use log_end::LogEnd;
pub(crate) use scan::Scan;
pub(crate) use verify::holds;

use super::Log;
use crate::format::entry::Kind;
use crate::format::geometry::Geometry;
use crate::format::log_tail::LogTail;
use crate::interface::{Class, Notice};
use crate::io::Io;
use crate::io::{Arrived, IoFor, READ_RETRIES};
use crate::pool::Medium;
use crate::pool::Pool;
use crate::tables::UnlinkedRecords;
use crate::units::{Bytes, Epoch};
use adopt::adopt;
use log_read::LogRead;
use notices::ProgressReports;
use reading::{ReadResult, Reading};
use std::collections::{BTreeMap, BTreeSet};
use verify::Verification;

/// A damaged log.
pub(crate) struct Damaged {
    /// Its records count up to this epoch.
    pub last: Epoch,
    /// The rest of it, if anything is left.
    pub log: Option<Box<Log>>,
}

/// The result of a step of the reading.
pub(crate) enum Found {
    /// The reading continues when an operation has ended.
    Nothing,
    /// The log as far as it was read: its records enter pages, to free memory.
    Overflow(Box<Log>),
    /// The log as it continues, and what is left to do at its end.
    End(Box<Log>, LogEnd),
}

/// The result of a step, or the damaged log.
pub(crate) type Step = Result<Found, Damaged>;

/// The reading of a live log.
pub(crate) struct LogReader {
    state: State,
    read: LogRead,
    reports: ProgressReports,
    /// Failed reads of each block, by its offset.
    failures: BTreeMap<Bytes, u8>,
}

/// The state of the reading. The step that ends a state consumes it.
#[derive(Default)]
enum State {
    Reading(Reading),
    /// The scan stands still while pages are written.
    Overflowing(Reading),
    Verifying(Verification),
    #[default]
    Over,
}

impl LogReader {
    /// The reading of the log from this log tail on.
    pub fn new(io: &Io, medium: &Medium, log_tail: LogTail) -> Self {
        let scan = Scan::new(log_tail, Limits::of(&medium.superblock));
        let state = State::Reading(Reading::new(scan));
        Self { state, read: LogRead::default(), reports: ProgressReports::from(io.now()), failures: BTreeMap::new() }
    }

    /// Continues to read the log.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn read_log(&mut self, pool: &mut Pool) -> Step {
        match std::mem::take(&mut self.state) {
            State::Reading(mut reading) => match reading.read_some(pool) {
                ReadResult::Waits => Ok(self.wait(State::Reading(reading))),
                ReadResult::Full => Ok(Found::Overflow(self.begin_overflow(&mut pool.io, &mut pool.tables, reading))),
                ReadResult::End => self.scan_is_over(pool, reading),
            },
            State::Verifying(mut verification) => Ok(if verification.is_done(&mut pool.io, &pool.geometry) {
                let (log, end) = verification.adopt(pool, self.read);
                Found::End(log, end)
            } else {
                self.wait(State::Verifying(verification))
            }),
            state @ (State::Overflowing(_) | State::Over) => Ok(self.wait(state)),
        }
    }

    /// Keeps the state: the reading continues when an operation has ended.
    fn wait(&mut self, state: State) -> Found {
        self.state = state;
        Found::Nothing
    }

    /// Takes a block that was requested: a unit, content that may not have been flushed, or a page that may hold the epoch of such content.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn arrived(&mut self, pool: &mut Pool, what: IoFor, arrived: Arrived) -> Step {
        if arrived.result.is_err() {
            return self.read_again(&mut pool.io, &pool.geometry, what);
        }
        match (&mut self.state, what) {
            (State::Reading(reading), IoFor::ReadForScan { unit: which, pbn }) => {
                reading.arrived(&pool.keys, which, pbn, arrived.buffer);
                self.read.units += 1;
                self.report_progress(&mut pool.io, &pool.tables, &pool.settings);
            }
            (State::Verifying(verification), IoFor::ReadForVerification { pbn, name }) => {
                verification.content_arrived(&pool.keys, pbn, name, arrived)
            }
            (State::Verifying(verification), IoFor::PageForVerification(id)) => verification.page_arrived(pool, id, &arrived.buffer),
            _ => {}
        }
        self.read_log(pool)
    }

    /// Retries a failed read, twice for each block. A block that cannot be read may hold what was acknowledged last, so it is not the end
    /// of the log.
    fn read_again(&mut self, io: &mut Io, geometry: &Geometry, what: IoFor) -> Step {
        let (at, digest, class) = match &what {
            IoFor::ReadForScan { pbn, .. } => (geometry.block_at(*pbn), false, Class::Log),
            IoFor::ReadForVerification { pbn, name } => (geometry.block_at(*pbn), name.kind == Kind::Fingerprint, Class::Data),
            IoFor::PageForVerification(id) => (geometry.page_at(*id), false, id.region.into()),
            _ => return Ok(Found::Nothing),
        };
        let failures = self.failures.entry(at).or_default();
        *failures += 1;
        if *failures > READ_RETRIES {
            io.notice(Notice::Damage { what: "the log cannot be read", at: at.0 });
            // Nothing is replayed: a block that cannot be read may hold anything.
            return Err(Damaged { last: Epoch(0), log: None });
        }
        io.read(what, at, 1, digest, class);
        Ok(Found::Nothing)
    }

    /// Bytes of the records that were read and are not passed on yet, for the account of memory.
    pub fn bytes(&self) -> u64 {
        match &self.state {
            State::Reading(Reading { live, .. }) | State::Verifying(Verification { live, .. }) => live.bytes(),
            State::Overflowing(_) | State::Over => 0,
        }
    }
}

/// Takes over a log that was closed, with this log tail: there is nothing to read.
pub(crate) fn adopt_closed_log(pool: &mut Pool, log_tail: LogTail) -> (Box<Log>, LogEnd) {
    let ended = Scan::new(log_tail, Limits::of(&pool.medium.superblock)).end();
    adopt(pool, ended, UnlinkedRecords::default(), &BTreeSet::new(), Vec::new(), None)
}
