//! The steps of an opening, until its log is open.

use crate::answers::Answers;
use crate::format::superblock::CommitMode;
use crate::interface::{Notice, Progress};
use crate::io::{Arrived, Io, IoFor, Stage};
use crate::pool::{Medium, Pool, look_at_counters};
use crate::schedule::Task;
use crate::scheme::log::recover::{Damaged, Found, LogEnd, LogReader, Step as Read, adopt_closed_log};
use crate::scheme::log::{PLACES_LEFT_MIN, RECORDS_A_UNIT, Reserved};
use crate::scheme::{Log, Scheme};
use crate::settings::Settings;
use crate::space::Space;
use crate::tables::{Committed, Live, Tables};
use crate::units::Epoch;

/// An update that has to be in both pairs of superblock copies is written this number of times. Otherwise, if the newest pair were lost, or
/// destroyed by a format that a power loss interrupts, the older one would pass for a clean volume.
const UPDATES: u8 = 2;

/// The events that an opening waits for.
pub(crate) enum OpeningEvent {
    DeviceFlushed,
    /// A block that the reading of the log has asked for.
    LogBlock(IoFor, Arrived),
    /// Records of the log have entered pages, to free memory.
    Overflowed,
    /// Free blocks may have been found.
    BlocksFound,
    /// An update of the superblock is durable, or the volume has failed.
    SuperblockWritten,
    /// This number of units is on the device.
    UnitsWritten(usize),
    UnitsFlushed,
    CheckpointEnded,
    /// The volume has failed, and nothing else will end.
    Failed,
}

/// The step of an opening, which waits for an event.
pub(crate) enum Opening {
    /// 1. The device is flushed.
    FlushDevice,
    /// 2. The log is read.
    ReadLog(Box<LogReader>),
    /// 3. Places for the log's next units are looked for.
    ChoosePlaces(LogEnd),
    /// 4. The superblock is written, for the time with this number.
    MarkOpen(LogEnd, u8),
    /// 5. What may not have been flushed is written again, and the log is closed after a crash.
    WriteLogEnd(LogEnd),
    /// The end of the log is durable. A checkpoint empties the log, or makes room in it.
    MakeRoom(LogEnd),
    /// The log is empty, and the superblock that forgets it is written, for the time with this number.
    LeaveLog(LogEnd, u8),
}

/// The consequence of an event.
pub(super) enum Then {
    Wait(Opening),
    Serve,
    Replay,
}

impl Opening {
    /// Takes an event, and goes on as far as it can. An event that a step does not wait for leaves it where it is.
    ///
    /// # Errors
    /// When the log is damaged.
    pub(super) fn on(self, event: OpeningEvent, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> Result<Then, Epoch> {
        Ok(match (self, event) {
            (Self::FlushDevice, OpeningEvent::DeviceFlushed) => {
                // Without that flush the cache may still be lost: nothing that was read may be given out (R8).
                pool.io.opening_flush_ended();
                let wanted = pool.settings.commit_mode == CommitMode::Log;
                match pool.medium.superblock.log_tail.clone() {
                    _ if pool.io.has_failed() => Then::Serve,
                    Some(log_tail) if pool.medium.superblock.is_log_live() => {
                        let mut reader = Box::new(LogReader::new(&pool.io, &pool.medium, log_tail));
                        let read = reader.read_log(pool);
                        Self::has_read(reader, read, pool, scheme, answers)?
                    }
                    Some(log_tail) if wanted => {
                        let (log, end) = adopt_closed_log(pool, log_tail);
                        Self::log_is_read(end, Some(log), pool, scheme, answers)
                    }
                    _ => {
                        let log = wanted.then(|| begin_log(&mut pool.tables, &pool.medium));
                        Self::log_is_read(LogEnd::default(), log, pool, scheme, answers)
                    }
                }
            }
            (opening, OpeningEvent::Failed) => opening.fail(&mut pool.io, scheme, answers),
            (opening, OpeningEvent::SuperblockWritten | OpeningEvent::UnitsWritten(_) | OpeningEvent::UnitsFlushed)
                if pool.io.has_failed() =>
            {
                opening.fail(&mut pool.io, scheme, answers)
            }
            (Self::ReadLog(mut reader), OpeningEvent::LogBlock(what, arrived)) => {
                let read = reader.arrived(pool, what, arrived);
                Self::has_read(reader, read, pool, scheme, answers)?
            }
            (Self::ReadLog(mut reader), OpeningEvent::Overflowed) => {
                if let Scheme::Log(log) = std::mem::take(scheme) {
                    reader.end_overflow(&mut pool.tables, *log);
                }
                let read = reader.read_log(pool);
                Self::has_read(reader, read, pool, scheme, answers)?
            }
            (Self::ChoosePlaces(end), OpeningEvent::BlocksFound) => Self::choose_places(end, pool, scheme, answers),
            (Self::MarkOpen(end, updates), OpeningEvent::SuperblockWritten) if updates < UPDATES => {
                pool.write_superblock();
                Then::Wait(Self::MarkOpen(end, updates + 1))
            }
            (Self::MarkOpen(end, _), OpeningEvent::SuperblockWritten) => Self::write_log_end(end, pool, scheme, answers),
            (Self::WriteLogEnd(mut end), OpeningEvent::UnitsWritten(units)) => {
                end.units_written(&mut pool.io, units);
                Then::Wait(Self::WriteLogEnd(end))
            }
            (Self::WriteLogEnd(end), OpeningEvent::UnitsFlushed) => {
                if let Scheme::Log(log) = scheme {
                    log.is_flushed(&mut pool.tables, &mut pool.medium);
                }
                Self::write_log_end(end, pool, scheme, answers)
            }
            (Self::MakeRoom(end), OpeningEvent::CheckpointEnded | OpeningEvent::SuperblockWritten) => {
                Self::log_is_open(end, pool, scheme, answers)
            }
            (Self::LeaveLog(end, updates), OpeningEvent::SuperblockWritten) if updates < UPDATES => {
                pool.write_superblock();
                Then::Wait(Self::LeaveLog(end, updates + 1))
            }
            (Self::LeaveLog(end, _), OpeningEvent::SuperblockWritten | OpeningEvent::CheckpointEnded) => {
                Self::log_is_open(end, pool, scheme, answers)
            }
            (opening, _) => Then::Wait(opening),
        })
    }

    /// Goes on with what was read of the log.
    fn has_read(reader: Box<LogReader>, read: Read, pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers) -> Result<Then, Epoch> {
        Ok(match read {
            Ok(Found::Nothing) => Then::Wait(Self::ReadLog(reader)),
            Ok(Found::Overflow(log)) => {
                // It commits nothing, but holds the log while pages are written.
                *scheme = Scheme::Log(log);
                Then::Wait(Self::ReadLog(reader))
            }
            Ok(Found::End(log, end)) => {
                answers.ack_journal.log_ends_at(log.last_sequence());
                Self::log_is_read(end, Some(log), pool, scheme, answers)
            }
            Err(Damaged { last, log }) => {
                log.into_iter().for_each(|log| *scheme = Scheme::Log(log));
                return Err(last);
            }
        })
    }

    /// Ends step 2: the scheme is known. Step 3 begins.
    fn log_is_read(mut end: LogEnd, log: Option<Box<Log>>, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> Then {
        *scheme = log.map_or_else(Scheme::default, Scheme::Log);
        look_at_counters(&mut pool.io, &pool.medium, &pool.tables, scheme.last_sequence());
        if pool.io.is_opened_to_read() {
            end.keep(&mut pool.space);
            return Then::Serve;
        }
        Self::choose_places(end, pool, scheme, answers)
    }

    /// Ends step 3, if there are places for the coming units: the superblock names those that no unit names. Step 4 begins: *not clean* and
    /// the new incarnation become durable.
    fn choose_places(end: LogEnd, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> Then {
        let least = PLACES_LEFT_MIN + answers.ack_journal.to_replay.len().div_ceil(RECORDS_A_UNIT).max(1);
        let reserved = if let Scheme::Log(log) = scheme { log.reserve_places(pool, least, Task::OpenLog) } else { Reserved::Enough };
        match reserved {
            Reserved::Enough => {}
            Reserved::Waits => return Then::Wait(Self::ChoosePlaces(end)),
            Reserved::Lacks if pool.space.search_waits() => return Then::Wait(Self::ChoosePlaces(end)),
            Reserved::Lacks if pool.space.is_searching() => {
                pool.io.schedule.push(Task::OpenLog);
                return Then::Wait(Self::ChoosePlaces(end));
            }
            // The volume is full. To close a log one place is enough, and checkpoints then free others. For an empty log they could free
            // nothing.
            Reserved::Lacks if !pool.medium.superblock.is_log_live() => {
                forget_log(&mut pool.tables, &mut pool.space, scheme);
                pool.io.notice(Notice::NoRoomForLog);
            }
            Reserved::Lacks => {}
        }
        pool.medium.superblock.open();
        match scheme {
            Scheme::Ordered(_) => pool.medium.superblock.drop_log_tail(),
            Scheme::Log(log) => log.open_superblock(&mut pool.tables, &mut pool.medium, &pool.settings, end.is_closed),
        }
        pool.write_superblock();
        Then::Wait(Self::MarkOpen(end, 1))
    }

    /// Step 5: writes units again that may not have been flushed, and closes the log after a crash.
    fn write_log_end(mut end: LogEnd, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> Then {
        let log = if let Scheme::Log(log) = scheme { Some(&mut **log) } else { None };
        let is_durable = end.write(pool, log);
        if is_durable { Self::log_is_open(end, pool, scheme, answers) } else { Then::Wait(Self::WriteLogEnd(end)) }
    }

    /// Ends step 5, since the end of the log is durable. In mode `ordered` the log is emptied first. If it has no place left for another
    /// unit, checkpoints free some.
    fn log_is_open(end: LogEnd, pool: &mut Pool, scheme: &mut Scheme, answers: &Answers) -> Then {
        if pool.io.has_failed() {
            return Self::MakeRoom(end).fail(&mut pool.io, scheme, answers);
        }
        if let Scheme::Log(log) = scheme {
            let is_short = log.is_short();
            if log.is_left() {
                forget_log(&mut pool.tables, &mut pool.space, scheme);
            } else if pool.settings.commit_mode == CommitMode::Ordered || (is_short && !log.keeps_blocks()) {
                if log.checkpoint_empties_log(&mut pool.io, &mut pool.tables, &pool.space) {
                    return Then::Wait(Self::MakeRoom(end));
                }
                log.leave(&mut pool.medium);
                pool.write_superblock();
                return Then::Wait(Self::LeaveLog(end, 1));
            } else if is_short || log.is_cut_off() {
                log.begin_checkpoint(&mut pool.io, &mut pool.tables, &pool.space);
                return Then::Wait(Self::MakeRoom(end));
            }
        }
        pool.io.enter(Stage::Replaying);
        Then::Replay
    }

    /// Lets the volume serve read-only after a failure. The end of its log may not be durable, and acknowledged writes may be missing: it
    /// gives no answer that the next opening might contradict (P7).
    fn fail(self, io: &mut Io, scheme: &Scheme, answers: &Answers) -> Then {
        let is_end_durable = matches!(self, Self::MakeRoom(_) | Self::LeaveLog(..));
        if matches!(scheme, Scheme::Log(_)) && !is_end_durable || !answers.ack_journal.to_replay.is_empty() {
            io.refuse_reads();
        }
        Then::Serve
    }

    /// The progress, if there is a log to read.
    pub(super) fn progress(&self, tables: &Tables, settings: &Settings) -> Option<Progress> {
        match self {
            Self::FlushDevice => None,
            Self::ReadLog(reader) => reader.progress(tables, settings),
            Self::ChoosePlaces(end) | Self::MarkOpen(end, _) | Self::WriteLogEnd(end) | Self::MakeRoom(end) | Self::LeaveLog(end, _) => {
                end.progress(tables)
            }
        }
    }

    /// The bytes of records that it holds, for the accountant.
    pub(super) fn bytes(&self) -> u64 {
        if let Self::ReadLog(reader) = self { reader.bytes() } else { 0 }
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
