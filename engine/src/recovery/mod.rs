//! Recovery: from the superblock that was chosen to a volume that serves, step by step.
//!
//! 1. The device is flushed before anything is decided from what was read (R8).
//! 2. The log is read, where there is a live one, and goes on behind what was found (`scheme/log/recover/mod.rs`, steps 3 to 6 there). With
//!    that the commit scheme is chosen.
//! 3. Places are chosen for the log's next units.
//! 4. *Not clean* and the new incarnation are durable, in both pairs of superblock copies, before any other write.
//! 5. Where the log ends becomes durable. A log that the volume is not to have is emptied, and left.
//! 6. What the last server had promised is proved, applied and committed (`recall.rs`); then the volume serves.

mod proof;
mod recall;

use crate::answers::Answers;
use crate::format::superblock::CommitMode;
use crate::interface::{Notice, Progress};
use crate::io::{Arrived, FlushFor, IoFor, Stage};
use crate::schedule::Task;
use crate::scheme::log::recover::{Damaged, Found, Opened, Opening};
use crate::scheme::log::{PLACES_LEFT_MIN, RECORDS_A_UNIT, Reserved};
use crate::scheme::{Log, Scheme};
use crate::store::Store;
use crate::tables::{Committed, Live};
use crate::units::{Epoch, Pbn};

/// What has to be done in both pairs of superblock copies takes so many updates.
const UPDATES: u8 = 2;

/// The opening of a volume, until it serves.
#[derive(Default)]
pub(crate) struct Recovery {
    opening: Option<Opening>,
    /// Updates of the superblock that it has begun.
    updates: u8,
}

/// How far a step has come; or that the log is damaged, whose records count up to this epoch.
pub(crate) type Step = Result<Then, Epoch>;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Something has to end first.
    Wait,
    /// Reads are answered from now on, and, where nothing has failed, writes.
    Serve,
    /// Promises of the last server are recalled.
    Recall,
}

impl Recovery {
    /// Step 1.
    pub fn begin(store: &mut Store) {
        store.io.stage = Stage::Opening;
        store.look_at_counters(0);
        store.io.flush(FlushFor::Opening);
    }

    /// Step 1 is over: the device's cache holds nothing any more that no flush has covered. Step 2 begins.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn device_flushed(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers) -> Step {
        // What lies in the device's cache may yet be lost: nothing that was read from it may be given out (R8).
        store.io.unflushed = store.io.failed;
        if store.io.failed {
            return Ok(Then::Serve);
        }
        let wanted = store.settings.commit_mode == CommitMode::Log;
        match store.medium.superblock.anchor.clone() {
            Some(anchor) if store.medium.superblock.is_log_live() => {
                self.opening = Some(Opening::of_live_log(store, anchor));
                self.read_log(store, scheme, answers)
            }
            Some(anchor) if wanted => {
                let (opening, log) = Opening::of_closed_log(store, anchor);
                self.opening = Some(opening);
                Ok(self.log_is_read(store, scheme, answers, Some(log)))
            }
            _ => {
                self.opening = Some(Opening::without_log(store));
                let log = wanted.then(|| begin_log(store));
                Ok(self.log_is_read(store, scheme, answers, log))
            }
        }
    }

    /// Goes on with step 2.
    fn read_log(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers) -> Step {
        let Some(opening) = &mut self.opening else { return Ok(Then::Wait) };
        let found = opening.go_on(store);
        self.has_read(store, scheme, answers, found)
    }

    fn has_read(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, found: Opened) -> Step {
        let found = found.map_err(|Damaged { last, log }| {
            if let Some(log) = log {
                *scheme = Scheme::Log(log);
            }
            last
        });
        let Found::Log(log) = found? else { return Ok(Then::Wait) };
        if !self.is_end_of_log_known() {
            // For the time of a spill.
            *scheme = Scheme::Log(log);
            return Ok(Then::Wait);
        }
        answers.journal.log_end = Some(log.last_sequence());
        Ok(self.log_is_read(store, scheme, answers, Some(log)))
    }

    /// The pages of a spill are written: step 2 goes on.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn spilled(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &mut Answers) -> Step {
        if let (Scheme::Log(log), Some(opening)) = (std::mem::take(scheme), &mut self.opening) {
            opening.end_overflow(store, *log);
        }
        self.read_log(store, scheme, answers)
    }

    /// A block that step 2 has asked for has arrived.
    ///
    /// # Errors
    /// When the log is damaged.
    pub fn log_read_arrived(
        &mut self,
        store: &mut Store,
        scheme: &mut Scheme,
        answers: &mut Answers,
        what: IoFor,
        arrived: Arrived,
    ) -> Step {
        let Some(opening) = &mut self.opening else { return Ok(Then::Wait) };
        let found = opening.arrived(store, what, arrived);
        self.has_read(store, scheme, answers, found)
    }

    /// Step 2 is over, and the scheme known. Step 3 begins.
    fn log_is_read(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers, log: Option<Box<Log>>) -> Then {
        *scheme = log.map_or_else(Scheme::default, Scheme::Log);
        store.look_at_counters(scheme.last_sequence());
        if store.io.read_only {
            self.opening.iter_mut().filter_map(Opening::settling).for_each(|settling| settling.keep(store));
            self.opening = None;
            return Then::Serve;
        }
        self.choose_places(store, scheme, answers);
        Then::Wait
    }

    /// Step 3: places for the coming units. The superblock names them where no unit does.
    pub fn choose_places(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers) {
        let Some(settling) = self.opening.as_mut().and_then(Opening::settling).filter(|settling| !settling.is_ready) else { return };
        let least = PLACES_LEFT_MIN + answers.journal.recalled.len().div_ceil(RECORDS_A_UNIT).max(1);
        let reserved = if let Scheme::Log(log) = scheme { log.reserve_places(store, least, Task::OpenLog) } else { Reserved::Enough };
        match reserved {
            Reserved::Enough => {}
            Reserved::Waits => return,
            Reserved::Lacks if store.space.preparing.is_some() => return,
            Reserved::Lacks if store.space.fruitless <= store.space.granules() => return store.io.schedule.push(Task::OpenLog),
            // A full volume. One place is enough to close a log, and checkpoints then free others; an empty log has nothing that they could
            // free.
            Reserved::Lacks if !store.medium.superblock.is_log_live() => {
                forget_log(store, scheme);
                store.io.notice(Notice::NoRoomForLog);
            }
            Reserved::Lacks => {}
        }
        settling.is_ready = true;
        let is_closed = settling.is_closed;
        self.say_opened(store, scheme, is_closed);
    }

    /// Step 4.
    fn say_opened(&mut self, store: &mut Store, scheme: &mut Scheme, is_closed: bool) {
        let superblock = &mut store.medium.superblock;
        if !superblock.clean && !superblock.is_log_live() {
            superblock.garbage_possible = true;
            // Where another recount had come to, there may be new garbage before it.
            superblock.recount_position = Pbn(0);
        }
        superblock.clean = false;
        superblock.incarnation += 1;
        superblock.mount_count += 1;
        match scheme {
            Scheme::Ordered(_) => superblock.anchor = None,
            Scheme::Log(log) => log.open_superblock(store, is_closed),
        }
        self.update_superblock(store);
    }

    /// Writes one pair of copies, and then the other: were the newest pair lost, or destroyed by a format that is cut off, the older one
    /// would else pass for a clean volume.
    fn update_superblock(&mut self, store: &mut Store) {
        self.updates += 1;
        store.write_superblock();
    }

    /// A superblock update is durable (or the volume has failed): step 4 goes on, or 5 begins.
    pub fn superblock_written(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers) -> Then {
        if store.io.failed {
            return self.fail(store, scheme, answers);
        }
        if self.updates < UPDATES {
            self.update_superblock(store);
            return Then::Wait;
        }
        self.settle_end(store, scheme, answers)
    }

    /// Step 5: what may not have been flushed is written again, and the log closed after a crash.
    fn settle_end(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers) -> Then {
        let Some(settling) = self.opening.as_mut().and_then(Opening::settling) else { return Then::Wait };
        let log = if let Scheme::Log(log) = scheme { Some(&mut **log) } else { None };
        if settling.go_on(store, log) { self.log_is_open(store, scheme, answers) } else { Then::Wait }
    }

    /// Some of that is on the device.
    pub fn units_written(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers, units: usize) -> Then {
        if store.io.failed && store.io.stage == Stage::Opening {
            return self.fail(store, scheme, answers);
        }
        self.opening.iter_mut().filter_map(Opening::settling).for_each(|settling| settling.units_written(store, units));
        Then::Wait
    }

    /// And flushed.
    pub fn units_flushed(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers) -> Then {
        if store.io.failed {
            return self.fail(store, scheme, answers);
        }
        if let Scheme::Log(log) = scheme {
            log.is_flushed(store);
        }
        self.settle_end(store, scheme, answers)
    }

    /// The log is as it should be. In mode `ordered` it is emptied now. Where it has no place left for another unit, checkpoints give it
    /// some.
    fn log_is_open(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers) -> Then {
        if store.io.failed {
            return self.fail(store, scheme, answers);
        }
        if let Scheme::Log(log) = scheme {
            let is_short = log.is_short();
            if log.is_left() {
                forget_log(store, scheme);
            } else if store.settings.commit_mode == CommitMode::Ordered || (is_short && !log.keeps_blocks()) {
                if !log.checkpoint_empties_log(store) {
                    log.leave(store);
                    self.updates = 0;
                    self.update_superblock(store);
                }
                return Then::Wait;
            } else if is_short || log.is_cut_off() {
                log.begin_checkpoint(store);
                return Then::Wait;
            }
        }
        self.opening = None;
        store.io.stage = Stage::Recalling;
        Then::Recall
    }

    /// A checkpoint has ended: step 5 may have waited for it.
    pub fn checkpoint_ended(&mut self, store: &mut Store, scheme: &mut Scheme, answers: &Answers) -> Then {
        let waits = self.opening.as_mut().is_some_and(Opening::is_ready) && store.io.stage == Stage::Opening;
        if waits { self.log_is_open(store, scheme, answers) } else { Then::Wait }
    }

    /// The volume opens read-only. Where its log ends may not be settled, and what was promised is not there: no answer that the next
    /// opening might contradict (P7).
    pub fn fail(&mut self, store: &mut Store, scheme: &Scheme, answers: &Answers) -> Then {
        let is_settled = self.opening.as_mut().and_then(Opening::settling).map(|settling| settling.is_settled);
        let is_log_open = self.opening.is_none() || is_settled == Some(true);
        store.io.unflushed |= matches!(scheme, Scheme::Log(_)) && !is_log_open || !answers.journal.recalled.is_empty();
        self.opening = None;
        Then::Serve
    }

    /// The log is damaged: nothing more of it is read.
    pub fn give_up(&mut self) {
        self.opening = None;
    }

    /// Whether no unit is left to be found that could say more.
    fn is_end_of_log_known(&self) -> bool {
        self.opening.as_ref().is_none_or(Opening::is_end_known)
    }

    /// Whether pages are being written before the end of the log is known.
    pub fn spills(&self, scheme: &Scheme) -> bool {
        matches!(scheme, Scheme::Log(_)) && !self.is_end_of_log_known()
    }

    /// How far an opening is that reads a log.
    pub fn progress(&self, store: &Store) -> Option<Progress> {
        self.opening.as_ref()?.progress(store)
    }

    /// Bytes of records that it holds, for the account of memory.
    pub fn bytes(&self) -> u64 {
        self.opening.as_ref().map_or(0, Opening::bytes)
    }
}

/// A log that holds nothing yet.
fn begin_log(store: &mut Store) -> Box<Log> {
    let (next, epoch) = (store.medium.superblock.last_log_sequence + 1, store.medium.superblock.last_epoch);
    store.tables.committed = Some(Committed::new(Live::new(0), epoch, epoch));
    Box::new(Log::new(next))
}

/// No superblock leads to the log any more.
fn forget_log(store: &mut Store, scheme: &mut Scheme) {
    *scheme = Scheme::default();
    store.tables.committed = None;
    store.space.scheme_is_gone();
}
