//! Recovery: the steps from the superblock that was chosen to a volume that serves.
//!
//! 1. The device is flushed before anything is decided from what was read (R8).
//! 2. The log is read, where there is a live one, and continues after the last unit found (`scheme/log/recover/mod.rs`, steps 3 to 6
//!    there). With that the commit scheme is chosen.
//! 3. Places are chosen for the log's next units.
//! 4. *Not clean* and the new incarnation are durable, in both pairs of superblock copies, before any other write.
//! 5. The end of the log becomes durable. In mode `ordered` the log is then emptied, and left.
//! 6. The acknowledgement journal of the last server is proved, replayed and committed (`replay.rs`); then the volume serves.

mod promised_contents;
mod replay;

use crate::answers::Answers;
use crate::format::superblock::CommitMode;
use crate::interface::{Notice, Progress};
use crate::io::{Arrived, FlushFor, Io, IoFor, Stage};
use crate::pool::{Medium, Pool, look_at_counters};
use crate::schedule::Task;
use crate::scheme::log::recover::{Damaged, Found, Opened, Opening};
use crate::scheme::log::{PLACES_LEFT_MIN, RECORDS_A_UNIT, Reserved};
use crate::scheme::{Log, Scheme};
use crate::settings::Settings;
use crate::space::Space;
use crate::tables::{Committed, Live, Tables};
use crate::units::Epoch;

/// An update that has to be in both pairs of superblock copies is written this number of times.
const UPDATES: u8 = 2;

/// The opening of a volume, until it serves.
#[derive(Default)]
pub(crate) struct Recovery {
    opening: Option<Opening>,
    /// Updates of the superblock that were begun.
    updates: u8,
}

/// The consequence of a step; or, if the log is damaged, the last epoch whose records count.
pub(crate) type StepOutcome = Result<NextStep, Epoch>;

/// The consequence of a step of the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The opening waits for an event.
    Wait,
    /// Reads are answered from now on, and, if nothing has failed, writes.
    Serve,
    /// The acknowledgement journal of the last server is replayed.
    Replay,
}

impl Recovery {
    /// Step 1.
    #[cold]
    pub fn begin(io: &mut Io, tables: &Tables, medium: &Medium) {
        io.enter(Stage::Opening);
        look_at_counters(io, medium, tables, 0);
        io.flush(FlushFor::Opening);
    }

    /// Ends step 1: a flush has covered everything in the device's cache. Step 2 begins.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn device_flushed(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> StepOutcome {
        // Without that flush the cache may still be lost: nothing that was read may be given out (R8).
        pool.io.opening_flush_ended();
        if pool.io.has_failed() {
            return Ok(NextStep::Serve);
        }
        let wanted = pool.settings.commit_mode == CommitMode::Log;
        match pool.medium.superblock.log_tail.clone() {
            Some(log_tail) if pool.medium.superblock.is_log_live() => {
                self.opening = Some(Opening::of_live_log(&pool.io, &pool.medium, log_tail));
                self.read_log(pool, scheme, answers)
            }
            Some(log_tail) if wanted => {
                let (opening, log) = Opening::of_closed_log(pool, log_tail);
                self.opening = Some(opening);
                Ok(self.log_is_read(pool, scheme, answers, Some(log)))
            }
            _ => {
                self.opening = Some(Opening::without_log(&pool.io));
                let log = wanted.then(|| begin_log(&mut pool.tables, &pool.medium));
                Ok(self.log_is_read(pool, scheme, answers, log))
            }
        }
    }

    /// Goes on with step 2.
    fn read_log(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> StepOutcome {
        let Some(opening) = &mut self.opening else { return Ok(NextStep::Wait) };
        let found = opening.read_log(pool);
        self.has_read(pool, scheme, answers, found)
    }

    fn has_read(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers, found: Opened) -> StepOutcome {
        let found = found.map_err(|Damaged { last, log }| {
            if let Some(log) = log {
                *scheme = Scheme::Log(log);
            }
            last
        });
        let Found::Log(log) = found? else { return Ok(NextStep::Wait) };
        if !self.is_end_of_log_known() {
            // It commits nothing, but holds the log while pages are written.
            *scheme = Scheme::Log(log);
            return Ok(NextStep::Wait);
        }
        answers.ack_journal.log_ends_at(log.last_sequence());
        Ok(self.log_is_read(pool, scheme, answers, Some(log)))
    }

    /// Goes on with step 2 when records of the log have been written to pages, to free memory.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn spilled(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> StepOutcome {
        if let (Scheme::Log(log), Some(opening)) = (std::mem::take(scheme), &mut self.opening) {
            opening.end_overflow(&mut pool.tables, *log);
        }
        self.read_log(pool, scheme, answers)
    }

    /// Goes on with step 2 when a block that it asked for has arrived.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn log_read_arrived(
        &mut self,
        pool: &mut Pool,
        scheme: &mut Scheme,
        answers: &mut Answers,
        what: IoFor,
        arrived: Arrived,
    ) -> StepOutcome {
        let Some(opening) = &mut self.opening else { return Ok(NextStep::Wait) };
        let found = opening.arrived(pool, what, arrived);
        self.has_read(pool, scheme, answers, found)
    }

    /// Ends step 2: the scheme is known. Step 3 begins.
    fn log_is_read(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers, log: Option<Box<Log>>) -> NextStep {
        *scheme = log.map_or_else(Scheme::default, Scheme::Log);
        look_at_counters(&mut pool.io, &pool.medium, &pool.tables, scheme.last_sequence());
        if pool.io.is_opened_to_read() {
            self.opening.iter_mut().filter_map(Opening::log_end).for_each(|end| end.keep(&mut pool.space));
            self.opening = None;
            return NextStep::Serve;
        }
        self.choose_places(pool, scheme, answers);
        NextStep::Wait
    }

    /// Step 3: chooses places for the coming units. The superblock names those that no unit names.
    pub fn choose_places(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) {
        let Some(end) = self.opening.as_mut().and_then(Opening::log_end).filter(|end| !end.is_ready) else { return };
        let least = PLACES_LEFT_MIN + answers.ack_journal.to_replay.len().div_ceil(RECORDS_A_UNIT).max(1);
        let reserved = if let Scheme::Log(log) = scheme { log.reserve_places(pool, least, Task::OpenLog) } else { Reserved::Enough };
        match reserved {
            Reserved::Enough => {}
            Reserved::Waits => return,
            Reserved::Lacks if pool.space.search_waits() => return,
            Reserved::Lacks if pool.space.is_searching() => return pool.io.schedule.push(Task::OpenLog),
            // The volume is full. To close a log one place is enough, and checkpoints then free others. For an empty log they could free
            // nothing.
            Reserved::Lacks if !pool.medium.superblock.is_log_live() => {
                forget_log(&mut pool.tables, &mut pool.space, scheme);
                pool.io.notice(Notice::NoRoomForLog);
            }
            Reserved::Lacks => {}
        }
        end.places_are_known();
        let is_closed = end.is_closed;
        self.write_superblock_of_opening(pool, scheme, is_closed);
    }

    /// Step 4: makes *not clean* and the new incarnation durable.
    fn write_superblock_of_opening(&mut self, pool: &mut Pool, scheme: &mut Scheme, is_closed: bool) {
        pool.medium.superblock.open();
        match scheme {
            Scheme::Ordered(_) => pool.medium.superblock.drop_log_tail(),
            Scheme::Log(log) => log.open_superblock(&mut pool.tables, &mut pool.medium, &pool.settings, is_closed),
        }
        self.update_superblock(pool);
    }

    /// Writes one pair of copies; a second call writes the other. Otherwise, if the newest pair were lost, or destroyed by a format that a
    /// power loss interrupts, the older one would pass for a clean volume.
    fn update_superblock(&mut self, pool: &mut Pool) {
        self.updates += 1;
        pool.write_superblock();
    }

    /// Goes on with step 4, or begins step 5, when a superblock update is durable (or the volume has failed).
    pub fn superblock_written(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> NextStep {
        if pool.io.has_failed() {
            return self.fail(&mut pool.io, scheme, answers);
        }
        if self.updates < UPDATES {
            self.update_superblock(pool);
            return NextStep::Wait;
        }
        self.write_log_end(pool, scheme, answers)
    }

    /// Step 5: writes units again that may not have been flushed, and closes the log after a crash.
    fn write_log_end(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> NextStep {
        let Some(end) = self.opening.as_mut().and_then(Opening::log_end) else { return NextStep::Wait };
        let log = if let Scheme::Log(log) = scheme { Some(&mut **log) } else { None };
        if end.write(pool, log) { self.log_is_open(pool, scheme, answers) } else { NextStep::Wait }
    }

    /// Notes that some units of step 5 are on the device.
    pub fn units_written(&mut self, io: &mut Io, scheme: &mut Scheme, answers: &Answers, units: usize) -> NextStep {
        if io.has_failed() && io.stage() == Stage::Opening {
            return self.fail(io, scheme, answers);
        }
        self.opening.iter_mut().filter_map(Opening::log_end).for_each(|end| end.units_written(io, units));
        NextStep::Wait
    }

    /// Goes on with step 5 when these units are flushed.
    pub fn units_flushed(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> NextStep {
        if pool.io.has_failed() {
            return self.fail(&mut pool.io, scheme, answers);
        }
        if let Scheme::Log(log) = scheme {
            log.is_flushed(&mut pool.tables, &mut pool.medium);
        }
        self.write_log_end(pool, scheme, answers)
    }

    /// Ends step 5, since the end of the log is durable. In mode `ordered` the log is emptied first. If it has no place left for another
    /// unit, checkpoints free some.
    fn log_is_open(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> NextStep {
        if pool.io.has_failed() {
            return self.fail(&mut pool.io, scheme, answers);
        }
        if let Scheme::Log(log) = scheme {
            let is_short = log.is_short();
            if log.is_left() {
                forget_log(&mut pool.tables, &mut pool.space, scheme);
            } else if pool.settings.commit_mode == CommitMode::Ordered || (is_short && !log.keeps_blocks()) {
                if !log.checkpoint_empties_log(&mut pool.io, &mut pool.tables, &pool.space) {
                    log.leave(&mut pool.medium);
                    self.updates = 0;
                    self.update_superblock(pool);
                }
                return NextStep::Wait;
            } else if is_short || log.is_cut_off() {
                log.begin_checkpoint(&mut pool.io, &mut pool.tables, &pool.space);
                return NextStep::Wait;
            }
        }
        self.opening = None;
        pool.io.enter(Stage::Replaying);
        NextStep::Replay
    }

    /// Goes on with step 5 if it has waited for a checkpoint, which has ended.
    pub fn checkpoint_ended(&mut self, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> NextStep {
        let waits = self.opening.as_mut().is_some_and(Opening::is_ready) && pool.io.stage() == Stage::Opening;
        if waits { self.log_is_open(pool, scheme, answers) } else { NextStep::Wait }
    }

    /// Lets the volume serve read-only after a failure. The end of its log may not be durable, and acknowledged writes may be missing: it
    /// gives no answer that the next opening might contradict (P7).
    pub fn fail(&mut self, io: &mut Io, scheme: &Scheme, answers: &Answers) -> NextStep {
        let is_durable = self.opening.as_mut().and_then(Opening::log_end).map(|end| end.is_durable);
        let is_log_open = self.opening.is_none() || is_durable == Some(true);
        if matches!(scheme, Scheme::Log(_)) && !is_log_open || !answers.ack_journal.to_replay.is_empty() {
            io.refuse_reads();
        }
        self.opening = None;
        NextStep::Serve
    }

    /// Stops reading the log, since it is damaged.
    pub fn give_up(&mut self) {
        self.opening = None;
    }

    /// Whether the last unit of the log has been found.
    fn is_end_of_log_known(&self) -> bool {
        self.opening.as_ref().is_none_or(Opening::is_end_known)
    }

    /// Whether pages are being written before the end of the log is known.
    pub fn spills(&self, scheme: &Scheme) -> bool {
        matches!(scheme, Scheme::Log(_)) && !self.is_end_of_log_known()
    }

    /// The progress of an opening that reads a log.
    pub fn progress(&self, tables: &Tables, settings: &Settings) -> Option<Progress> {
        self.opening.as_ref()?.progress(tables, settings)
    }

    /// The bytes of records that it holds, for the accountant.
    pub fn bytes(&self) -> u64 {
        self.opening.as_ref().map_or(0, Opening::bytes)
    }
}

/// Begins a log that holds nothing yet.
fn begin_log(tables: &mut Tables, medium: &Medium) -> Box<Log> {
    let (next, epoch) = (medium.superblock.last_log_sequence + 1, medium.superblock.last_epoch);
    tables.keep_records(Committed::new(Live::new(0), epoch, epoch));
    Box::new(Log::new(next))
}

/// Drops the log: no superblock leads to it any more.
fn forget_log(tables: &mut Tables, space: &mut Space, scheme: &mut Scheme) {
    *scheme = Scheme::default();
    tables.forget_records();
    space.scheme_is_gone();
}
