//! Opening: what the log holds is read, and the log goes on behind it.
//!
//! 1. The walk is read, its end found (L2), what may not have been flushed compared (L5); then its records are live, and pages are put right as
//!    they are loaded. Nothing else is read before that.
//! 2. The new incarnation is durable before any unit of it (L3).
//! 3. After a crash the new incarnation's first unit is written and flushed before the first write is admitted and before any page is written
//!    (L4): it says where the log ended and what was dropped. A log that ends so already gets none, so that crashes of recoveries do not fill it:
//!    the superblock says then that nothing from before this opening counts behind.
//! 4. What counts and may not have been flushed, units and content, is written again, and flushed before the closing unit says that it is: a block
//!    that the device was told to forget, and whose write was lost, may read as its new content once, and as something else the next time.
//! 5. Of a log with damage only what is proved is served (`damaged.rs`), and the volume is read-only.
//! 6. Records that are more than memory is meant for enter pages while the walk is read, as far as they count for certain (`spill.rs`).

use super::places::{RECORDS_A_UNIT, Reserved};
use super::progress::Telling;
use super::units::PLACES_LEFT_MIN;
use super::walk::{Ended, Limits, Taken, Walk};
use super::{Log, Segments, Walked};
use crate::Map;
use crate::buffer::{BufferMut, Slice};
use crate::engine::Engine;
use crate::format::anchor::Barrier;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::PageId;
use crate::format::record::Record;
use crate::format::superblock::CommitMode;
use crate::format::unit::{UnitKind, UnitWriter, open};
use crate::interface::{Class, IoFailure, Notice};
use crate::io::FlushFor;
use crate::io::IoFor;
use crate::io::Stage;
use crate::io::Which;
use crate::schedule::Task;
use crate::space::Fresh;
use crate::space::Use;
use crate::tables::{Committed, Epoch, Live, Unchained};
use crate::units::{Bytes, Epoch as Number, Pbn, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Reads under way at once.
pub(super) const READS_MAX: usize = 64;
/// Failed reads of one block that are tried again.
pub(crate) const READ_RETRIES: u8 = 2;

/// A log that is being opened.
pub(crate) struct Opening {
    pub(super) walk: Option<Walk>,
    /// Units that were read.
    pub(super) units_read: u64,
    pub(super) telling: Telling,
    /// What was read so far and counts for certain.
    pub(crate) live: Option<Unchained>,
    /// Records that entered pages, and how many were left when some did the last time (`spill.rs`).
    pub(super) spilled: u64,
    pub(super) records_left: u64,
    pub(super) ended: Option<Ended>,
    pub(super) reads: usize,
    /// New blocks whose content is to be compared, and what it should be.
    pub(super) doubts: Vec<(Pbn, FingerprintEntry)>,
    pub(super) wrong: BTreeSet<Pbn>,
    /// Pages that could say that nothing is to be dropped for that (`doubts.rs`).
    pub(super) witnesses: Vec<PageId>,
    /// What the first unit has to say, if one is needed.
    closing: Option<Record>,
    /// The log was closed after a crash before, and nothing counts behind.
    is_closed: bool,
    /// Blocks of it, or of what was found, that are not written yet.
    blocks_left: usize,
    /// Units behind the last that is known to be flushed, by sequence.
    units: BTreeMap<u64, (Pbn, Slice)>,
    /// What was found and counts, though nobody knows that it was flushed: to be written again.
    pub(super) again: Vec<(Pbn, Slice)>,
    /// Failed reads, by where the block lies.
    failures: BTreeMap<Bytes, u8>,
    /// The places are chosen.
    is_ready: bool,
    /// Where the log ends is durable.
    is_settled: bool,
}

impl Opening {
    fn new(now: Time) -> Self {
        Self {
            walk: None,
            units_read: 0,
            telling: Telling::from(now),
            live: None,
            spilled: 0,
            records_left: 0,
            ended: None,
            reads: 0,
            doubts: Vec::new(),
            wrong: BTreeSet::new(),
            witnesses: Vec::new(),
            closing: None,
            is_closed: false,
            blocks_left: 0,
            units: BTreeMap::new(),
            again: Vec::new(),
            failures: BTreeMap::new(),
            is_ready: false,
            is_settled: false,
        }
    }
}

impl Engine {
    /// The device is flushed: the log comes next, where there is one.
    pub(crate) fn open_log(&mut self) {
        let wanted = self.store.settings.commit_mode == CommitMode::Log;
        self.recovery.opening = Some(Opening::new(self.store.io.now));
        match self.store.medium.superblock.anchor.clone() {
            Some(anchor) if self.store.medium.superblock.is_log_live() => {
                self.log_opening().walk = Some(Walk::new(anchor, Limits::of(&self.store.medium.superblock)));
                self.log_opening().live = Some(Unchained::default());
                self.read_walk();
            }
            Some(anchor) if wanted => {
                let ended = Walk::new(anchor, Limits::of(&self.store.medium.superblock)).end();
                self.log_opening().live = Some(Unchained::default());
                self.adopt(ended, &BTreeSet::new(), false);
            }
            _ => {
                if wanted {
                    let (next, epoch) = (self.store.medium.superblock.last_log_sequence + 1, self.store.medium.superblock.last_epoch);
                    self.scheme.log = Some(Log::new(next));
                    self.store.tables.committed = Some(Committed::new(Live::new(0), epoch, epoch));
                }
                self.log_is_read();
            }
        }
    }

    pub(super) fn log_opening(&mut self) -> &mut Opening {
        self.recovery.opening.as_mut().expect("the log is being opened")
    }

    pub(super) fn read_walk(&mut self) {
        let spills = self.is_spill_due();
        while self.log_opening().reads < READS_MAX && !spills {
            let opening = self.log_opening();
            let Some((which, pbn)) = opening.walk.as_mut().and_then(Walk::ask) else { break };
            opening.reads += 1;
            let at = self.store.geometry.block_at(pbn);
            self.store.io.read(IoFor::WalkRead { which, pbn }, at, 1, false, Class::Log);
        }
        let opening = self.log_opening();
        if opening.reads > 0 {
            return;
        }
        if spills {
            self.begin_spill();
        } else if opening.walk.as_ref().is_some_and(Walk::is_done) {
            self.walk_is_read();
        }
    }

    pub(crate) fn walk_arrived(&mut self, which: Which, pbn: Pbn, buffer: BufferMut, result: Result<(), IoFailure>) {
        if result.is_err() {
            return self.opening_read_failed(IoFor::WalkRead { which, pbn }, self.store.geometry.block_at(pbn), false, Class::Log);
        }
        let unit = open(&self.store.keys.authenticator, pbn, buffer.block(0));
        let Some(opening) = self.recovery.opening.as_mut() else { return };
        opening.reads -= 1;
        opening.units_read += 1;
        if let (Which::Log(sequence), Some(unit)) = (which, unit.as_ref().filter(|unit| unit.header.kind == UnitKind::Log)) {
            let flushed_upto = unit.header.flushed_upto;
            opening.units.insert(sequence, (pbn, buffer.freeze().slice(0, 1)));
            opening.units.retain(|&sequence, _| sequence > flushed_upto);
        }
        if let (Some(walk), Some(live)) = (&mut opening.walk, &mut opening.live) {
            walk.arrived(which, pbn, unit, &mut |epoch, effect| live.push(epoch, effect));
        }
        self.tell_progress();
        self.read_walk();
    }

    /// Whether no unit is left to be found that could say more.
    pub(crate) fn end_of_log_is_known(&self) -> bool {
        self.recovery.opening.as_ref().is_none_or(|opening| opening.walk.is_none())
    }

    fn walk_is_read(&mut self) {
        let ended = self.log_opening().walk.take().expect("it was read").end();
        let damage = |what, at| Notice::Damage { what, at };
        let found = [
            ended.condensed_missing.map(|pbn| damage("a condensed unit of the log is not there", pbn.0)),
            ended.missing.map(|unit| damage("a unit of the log that was flushed is not there", unit)),
            ended.outside.map(|unit| damage("a unit of the log names what the volume does not have", unit)),
            ended.twice().map(|pbn| damage("a block is two places of the log", pbn.0)),
        ];
        if let Some(found) = found.into_iter().flatten().next() {
            self.store.io.notice(found);
            return self.adopt_damaged(ended);
        }
        let opening = self.log_opening();
        opening.doubts = ended.doubtful();
        opening.ended = Some(ended);
        self.read_doubts();
    }

    /// A read failed: it is tried again, twice for each block. What cannot be read may be what was acknowledged last, so it is no end.
    pub(super) fn opening_read_failed(&mut self, what: IoFor, at: Bytes, digest: bool, class: Class) {
        let Some(opening) = self.recovery.opening.as_mut() else { return };
        let failures = opening.failures.entry(at).or_default();
        *failures += 1;
        if *failures > READ_RETRIES {
            self.store.io.notice(Notice::Damage { what: "the log cannot be read", at: at.0 });
            // Nothing is replayed: what cannot be read may be anything.
            return self.log_is_damaged(Number(0));
        }
        self.store.io.read(what, at, 1, digest, class);
    }

    /// What the walk found is what the log holds.
    pub(super) fn adopt(&mut self, mut ended: Ended, wrong: &BTreeSet<Pbn>, crashed: bool) {
        let units = std::mem::take(&mut self.log_opening().units);
        let beyond = units.into_iter().filter(|(sequence, (pbn, _))| *sequence > ended.flushed && ended.place_of(*sequence) == Some(*pbn));
        self.log_opening().again.extend(beyond.map(|(_, unit)| unit));
        self.journal.log_end = Some(ended.end);
        let mut log = Log::new(ended.end + 1);
        let mut live = self.log_opening().live.take().expect("what was read is live");
        ended.replay(wrong, &mut |epoch, effect| live.push(epoch, effect));
        let mut live = live.chained();
        log.has_spilled = self.log_opening().spilled > 0;
        let (since, before) =
            self.store.medium.superblock.anchor.as_ref().map_or((0, Number(0)), |anchor| (anchor.condensed.since, anchor.epoch));
        live.condensed_upto(before);
        log.walk = ended.units.iter().map(|&Taken { pbn, incarnation, epoch, .. }| Walked { pbn, incarnation, epoch }).collect();
        log.segments = Segments::read(since, ended.condensed.clone());
        log.places = ended.come.iter().copied().collect();
        let used = |unit: &Taken| (unit.pbn, if unit.is_carrier { Use::Carrier } else { Use::Plain });
        let mut blocks: Map<Pbn, Use> = ended.units.iter().map(used).collect();
        blocks.extend(log.segments.places.iter().map(|&pbn| (pbn, Use::Plain)));
        blocks.extend(ended.come.iter().map(|&pbn| (pbn, Use::Plain)));
        self.store.space.of_scheme = blocks;
        // A log that says nothing needs it too: what lies at its next place may be no unit now, and one the next time.
        // Where no place is named there is no next one.
        log.is_cut_off = ended.come.is_empty();
        let needs_closing = crashed && !ended.is_closed() && !log.is_cut_off;
        let vouched = if needs_closing { ended.epoch } else { ended.vouched };
        self.store.tables.committed = Some(Committed::new(live, ended.epoch, vouched));
        self.log_opening().closing = needs_closing.then(|| ended.closing(wrong));
        self.log_opening().is_closed = ended.is_closed();
        let last = self.store.medium.superblock.last_epoch.max(ended.epoch_seen);
        self.store.medium.superblock.last_epoch = last;
        self.store.tables.open = Epoch::new(last + 1);
        self.scheme.log = Some(log);
        self.look_at_counters();
        self.log_is_read();
    }

    fn log_is_read(&mut self) {
        if self.store.io.read_only {
            self.keep_what_was_compared();
            self.recovery.opening = None;
            return self.serve();
        }
        self.choose_places();
    }

    /// An opening that may not write reads from memory what another would write again (invariant 4).
    fn keep_what_was_compared(&mut self) {
        for (pbn, content) in std::mem::take(&mut self.log_opening().again) {
            let fresh = Fresh { kind: Kind::None, fingerprint: FingerprintEntry::NONE.value, epoch: 0, held: Some(content), waits: false };
            self.store.space.fresh.insert(pbn, fresh);
        }
    }

    /// Places for the coming units: the superblock names them where no unit does.
    pub(crate) fn choose_places(&mut self) {
        if self.recovery.opening.as_ref().is_none_or(|opening| opening.is_ready) {
            return;
        }
        let least = PLACES_LEFT_MIN + self.journal.recalled.len().div_ceil(RECORDS_A_UNIT).max(1);
        let reserved = if self.scheme.log.is_some() { self.reserve_places(least, Task::OpenLog) } else { Reserved::Enough };
        if reserved == Reserved::Waits || (reserved == Reserved::Lacks && self.store.space.preparing.is_some()) {
            return;
        }
        if reserved == Reserved::Lacks {
            if self.store.space.fruitless <= self.store.space.granules() {
                return self.store.io.schedule.push(Task::OpenLog);
            }
            // A full volume. One place is enough to close a log, and checkpoints then free others; an empty log has nothing that they could free.
            if !self.store.medium.superblock.is_log_live() {
                self.forget_log();
                self.store.io.notice(Notice::NoRoomForLog);
            }
        }
        self.log_opening().is_ready = true;
        self.say_opened();
    }

    /// Where this opening found the log closed already: nothing from before it counts behind.
    pub(super) fn barrier(&self) -> Option<Barrier> {
        let log = self.scheme.log.as_ref().filter(|_| self.recovery.opening.as_ref().is_some_and(|opening| opening.is_closed))?;
        Some(Barrier { sequence: log.next - 1, incarnation: self.store.medium.superblock.incarnation })
    }

    /// The superblock says that the volume is open: what was found behind the last unit known to be flushed is written again, and then the first
    /// unit may follow.
    pub(crate) fn settle_end(&mut self) {
        let Some(opening) = self.recovery.opening.as_mut() else { return };
        let again = std::mem::take(&mut opening.again);
        if again.is_empty() {
            return self.write_closing();
        }
        opening.blocks_left = again.len();
        self.write_units(again, false);
    }

    /// All that counts is flushed: the closing unit may say so.
    fn write_closing(&mut self) {
        let Some(closing) = self.log_opening().closing.take() else {
            return self.log_is_open();
        };
        self.log_opening().blocks_left = 1;
        let number = self.store.tables.open.number;
        self.store.tables.open.number = Number(number.0 + 1);
        let mut writer = UnitWriter::new(self.places_behind(0, false));
        let rest = writer.push(closing);
        assert!(rest.is_none(), "the new blocks of a small epoch fit a unit");
        let (pbn, block, _) = self.next_unit(writer, number, (0, 1), true);
        let log = self.scheme.log.as_mut().expect("only a log is closed");
        log.is_cut_off = log.places.is_empty();
        self.store.tables.committed().epoch = number;
        self.write_units(vec![(pbn, block)], false);
    }

    /// What was written again, or the closing unit, may be on the device now.
    pub(super) fn opening_units_written(&mut self, units: usize) {
        if self.store.io.failed && self.store.io.stage == Stage::Opening {
            return self.log_is_open();
        }
        let Some(opening) = self.recovery.opening.as_mut().filter(|opening| opening.blocks_left > 0) else { return };
        opening.blocks_left -= units;
        if opening.blocks_left == 0 {
            self.store.io.flush(FlushFor::OpeningUnits);
        }
    }

    pub(crate) fn opening_units_flushed(&mut self) {
        if self.store.io.failed {
            return self.log_is_open();
        }
        let log = self.scheme.log.as_mut().expect("it was read");
        log.flushed = log.next - 1;
        self.store.medium.superblock.last_epoch = self.store.medium.superblock.last_epoch.max(self.store.tables.committed().epoch);
        self.write_closing();
    }

    /// The log is as it should be. In mode `ordered` it is emptied now. Where it has no place left for another unit, checkpoints give it some.
    fn log_is_open(&mut self) {
        if self.store.io.failed {
            return self.opening_failed();
        }
        self.log_opening().is_settled = true;
        let Some(log) = &self.scheme.log else { return self.begin_recalling() };
        let is_short = log.places.len() < PLACES_LEFT_MIN;
        if log.is_left {
            self.forget_log();
        } else if self.store.settings.commit_mode == CommitMode::Ordered || (is_short && !log.keeps_blocks()) {
            if self.checkpoint_empties_log() {
                return;
            }
            return self.leave_log();
        } else if is_short || log.is_cut_off {
            return self.begin_checkpoint();
        }
        self.begin_recalling();
    }

    /// The volume opens read-only. Where its log ends may not be settled, and what was promised is not there: no answer that the next opening might
    /// contradict (P7).
    pub(crate) fn opening_failed(&mut self) {
        let is_settled = self.recovery.opening.as_ref().is_none_or(|opening| opening.is_settled);
        self.state.unflushed |= self.scheme.log.is_some() && !is_settled || !self.journal.recalled.is_empty();
        self.recovery.opening = None;
        self.serve();
    }

    fn begin_recalling(&mut self) {
        self.recovery.opening = None;
        self.store.io.stage = Stage::Recalling;
        self.go_on_recalling();
    }

    /// A checkpoint has ended: an opening or a closing may have waited for it.
    pub(super) fn after_checkpoint(&mut self) {
        if self.recovery.opening.as_ref().is_some_and(|opening| opening.is_ready) && self.store.io.stage == Stage::Opening {
            return self.log_is_open();
        }
        if self.store.io.stage.is_closing() {
            self.go_on_closing();
        }
    }
}
