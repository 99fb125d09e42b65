//! One life of a server after another: opening, work, and an end by a crash, a failure of the device or a clean close; and what follows.

use crate::checkers::ack_journal::AckJournal;
use crate::checkers::oracle::Oracle;
use crate::device::disk::{Choice, SimDisk};
use crate::device::power_loss::{PowerLossStates, state_name};
use crate::device::superblock::superblock_of;
use crate::device::traffic::{Situation, Step};
use crate::device::volume::BlockUse;
use crate::explorer::explore::Explorer;
use crate::explorer::opening::open_engine;
use crate::explorer::plan::{Plan, odds};
use crate::explorer::setting::Setting;
use crate::explorer::states::{Crash, CrashPoint, DEPTH_MAX};
use crate::explorer::world::World;
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Legacy;
use onefold_engine::settings::Persistence;
use std::rc::Rc;

/// The odds, in 4096, of a crash while what was acknowledged early is being committed.
const ODDS_OF_JOURNAL: u32 = 100;

/// The state at the end of a life, from which the next begins.
pub struct LifeEnd {
    pub disk: SimDisk,
    pub oracle: Oracle,
    pub journal: JournalFate,
}

/// The fate of the acknowledgement journal.
#[derive(Clone, Default)]
pub enum JournalFate {
    /// There was none, or no device of a client has outlived the server.
    #[default]
    None,
    /// It survived.
    Kept(AckJournal, Legacy),
    /// It is lost, and a device of a client has outlived the server.
    Lost,
}

impl LifeEnd {
    /// Makes a state of a device alone.
    #[must_use]
    pub fn new(disk: SimDisk, oracle: Oracle) -> Self {
        Self { disk, oracle, journal: JournalFate::None }
    }
}

/// The end of a life.
struct EndedLife {
    journal: JournalFate,
    disk: SimDisk,
    crash: Crash,
    at: CrashPoint,
    /// The name of the state.
    name: u64,
    torn: Option<Situation>,
}

impl Explorer {
    fn open(&mut self, plan: &Plan, left: LifeEnd, depth: usize, rng: &mut Rng) -> Result<World, Violation> {
        let mut setting = plan.setting.clone();
        let lost = matches!(left.journal, JournalFate::Lost);
        let mut options = (*setting.options).clone();
        options.settings.facts.journal_lost |= lost;
        self.draw_attach(&mut options, rng);
        // A server under strong persistence keeps no acknowledgement journal, but replays that of a weak server before it.
        if matches!(left.journal, JournalFate::Kept(..)) && rng.u8(..) < 64 {
            (options.settings.persistence, options.settings.facts.keeps_journal) = (Persistence::Strong, false);
            record!("--- strong from here on");
        }
        let mode = options.settings.commit_mode;
        // The rules of `ordered` apply only to a medium that needs no log.
        let is_in_order = mode == CommitMode::Ordered && !has_live_log(&left.disk, rng);
        setting.options = Rc::new(options);
        let machine = open_engine(&left.disk, &setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
        let mut world = World::new(setting, left.disk, left.oracle, machine, rng.fork());
        world.faults.lost = lost;
        if let JournalFate::Kept(journal, legacy) = left.journal {
            world.take_over(journal, legacy);
        }
        world.traffic.set_recounting(depth > 0);
        if plan.check_sets && is_in_order {
            world.check_sets()?;
        }
        if plan.check_sets && mode == CommitMode::Log {
            world.check_log_sets();
        }
        Ok(world)
    }

    fn count_events(&mut self, world: &World) {
        self.coverage.count_life(world.traffic.events, world.events_checked(), world.containers_opened());
    }

    /// Opens the volume and lives on it; it is the `depth`th life in a row (from 0).
    ///
    /// # Errors
    /// Returns the violation that it found.
    pub fn live(&mut self, plan: &Plan, left: LifeEnd, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        if plan.may_crash(depth) && depth > 0 && rng.u8(..) < 48 {
            let call = rng.u64(0..60);
            return self.fail(plan, left, depth, call, rng);
        }
        self.in_a_life("", plan, left, depth, rng, |explorer, world, rng| explorer.live_in(plan, world, depth, rng))
    }

    /// Opens the volume and does a little on it, with few moments at which it may end.
    ///
    /// # Errors
    /// Returns the violation that it found.
    pub(crate) fn live_a_little(&mut self, setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<(), Violation> {
        let mut plan = Plan::new(setting.clone());
        plan.stops = [0, 1, 0];
        plan.events = [1, rng.u64(5..40), 10, 1];
        self.live(&plan, left, 1, rng)
    }

    /// Opens the volume and does something with it. The history is discarded if nothing was found.
    pub(crate) fn in_a_life(
        &mut self,
        what: &str,
        plan: &Plan,
        left: LifeEnd,
        depth: usize,
        rng: &mut Rng,
        act: impl FnOnce(&mut Self, &mut World, &mut Rng) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let before = record::mark();
        record!("--- life {depth}{what}");
        let mut world = self.open(plan, left, depth, rng)?;
        let result = act(self, &mut world, rng);
        self.count_events(&world);
        result?;
        self.no_recount(&world)?;
        record::forget(before);
        Ok(())
    }

    fn live_in(&mut self, plan: &Plan, world: &mut World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        let stops = plan.stops_of(depth, rng);
        // Recovery may be interrupted before anything is read.
        let reads_at = if depth == 0 || rng.bool() { 0 } else { rng.u64(0..12) };
        let mut has_read = false;
        let (mut seen, mut idle, mode) = (0, 0, world.setting.options.settings.commit_mode);
        while world.traffic.events < plan.events[depth] && idle < plan.idle_steps {
            if !has_read && world.traffic.events >= reads_at {
                has_read = true;
                world.send_reads()?;
            }
            idle += 1;
            if !world.step(has_read)? && !world.pass_time()? {
                break;
            }
            let events = world.traffic.events;
            if events != seen {
                if stops.iter().any(|&at| seen < at && at <= events)
                    || rng.u32(0..4096) < odds(&world.traffic, mode, depth) + plan.odds_at(world.traffic.step()) + odds_of_journal(world)
                {
                    self.crash(plan, world, depth, rng)?;
                    if self.is_late() {
                        return Ok(());
                    }
                }
                (seen, idle) = (events, 0);
            }
        }
        if !has_read || rng.u8(..) < 96 {
            world.settle()?;
            world.read_all()?;
        }
        if rng.bool() {
            self.close(plan, world, depth, rng)?;
        }
        Ok(())
    }

    /// Closes, crashing on the way; checks what a clean volume promises; and opens it again.
    fn close(&mut self, plan: &Plan, world: &mut World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        world.begin_close()?;
        let mut seen = world.traffic.events;
        while world.closed().is_none() {
            if !world.step(false)? {
                return Err(violation!("stuck: it is closing, but nothing is under way"));
            }
            if world.traffic.events != seen {
                seen = world.traffic.events;
                if rng.u8(..) < if depth == 0 { 90 } else { 8 } {
                    self.crash(plan, world, depth, rng)?;
                    if self.is_late() {
                        return Ok(());
                    }
                }
            }
        }
        if world.closed() != Some(true) {
            return Err(violation!("interface: closed, but not clean, and nothing had failed"));
        }
        // Content may be undecided in blocks that are free, and were discarded or never linked.
        let metadata = |block: &&u64| !matches!(world.setting.volume.place(**block), BlockUse::Data(_));
        if let Some(block) = world.disk.undecided().iter().find(metadata) {
            return Err(violation!("P1: closed and clean, but {:?} is not durable", world.setting.volume.place(*block)));
        }
        let mut oracle = world.oracle.clone();
        oracle.promised_by_flush().into_iter().for_each(|mark| oracle.raise(mark));
        crate::checkers::audit::audit(&world.disk, &world.setting.volume, &oracle, rng)?;
        if depth < DEPTH_MAX && rng.u8(..) < 80 {
            oracle.reopen();
            let disk = world.disk.cut(&Choice::new());
            self.live(plan, LifeEnd::new(disk, oracle), depth + 1, rng)?;
        }
        Ok(())
    }

    /// Crashes here in several ways, and lives on after each.
    fn crash(&mut self, plan: &Plan, world: &World, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        if !plan.may_crash(depth) {
            return Ok(());
        }
        let at = CrashPoint::of(world);
        // A first life rarely opens, closes, reclaims or writes refs, and few of its crashes are kills.
        let is_in = |steps: &[Step]| steps.contains(&at.step) || at.beside.is_some_and(|step| steps.contains(&step));
        let kills = match depth {
            0 if is_in(&[Step::Opening, Step::Refs, Step::Reclaim, Step::Closing]) => 170,
            _ if world.journal.has_promises() => 150,
            _ => 110,
        };
        if rng.u8(..) < kills {
            for _ in 0..4 {
                if self.is_late() {
                    break;
                }
                let disk = world.disk.kill(rng);
                // The cache is part of the state but not of its name: a kill adds only its durable medium to the distinct states.
                let name = disk.media() ^ 1;
                let death = EndedLife { journal: journal_fate(world, rng), disk, crash: Crash::Kill, at, name, torn: None };
                self.after(plan, world, death, depth, rng)?;
            }
            return Ok(());
        }
        self.cut(plan, world, Crash::Power, at, depth, plan.states >> (2 * depth), rng)
    }

    /// Loses the power here in several ways, and lives on after each.
    #[allow(clippy::too_many_arguments, reason = "each says something else, and all are used once")]
    pub(crate) fn cut(
        &mut self,
        plan: &Plan,
        world: &World,
        crash: Crash,
        at: CrashPoint,
        depth: usize,
        limit: u64,
        rng: &mut Rng,
    ) -> Result<(), Violation> {
        let power_loss = PowerLossStates::of(&world.disk, &world.setting.volume);
        if power_loss.states <= limit {
            self.coverage.count_enumerated();
        }
        let journal = if crash == Crash::Failure && world.faults.failed { journal_fate(world, rng) } else { JournalFate::None };
        let mut choices = power_loss.choices(&world.disk, limit.max(2), rng);
        if matches!(journal, JournalFate::Kept(..)) {
            // Nothing that no flush has covered survives, although all of it was promised.
            choices.insert(0, Choice::new());
        }
        for choice in choices {
            if self.is_late() {
                break;
            }
            let before = record::mark();
            let disk = world.disk.cut(&choice);
            let name = state_name(&world.disk, &choice, &disk, &world.setting.volume);
            record!("--- power cut: {}", describe(world, &choice));
            let death = EndedLife { journal: journal.clone(), disk, crash, at, name, torn: torn(world, &choice) };
            self.after(plan, world, death, depth, rng)?;
            record::forget(before);
        }
        Ok(())
    }

    fn after(&mut self, plan: &Plan, world: &World, death: EndedLife, depth: usize, rng: &mut Rng) -> Result<(), Violation> {
        plan.another_life();
        let before = record::mark();
        record!("--- {} in step {}", death.crash.name(), death.at.step.name());
        let mut oracle = world.oracle.clone();
        oracle.reopen();
        let on = Situation::ALL.into_iter().filter(|&s| match s {
            Situation::Recovery => death.at.step == Step::Opening && depth > 0,
            s if Some(s) == death.torn => true,
            _ => world.traffic.is_on(s),
        });
        self.coverage.count(death.at, death.crash, depth, on, death.name);
        let mut left = LifeEnd { disk: death.disk, oracle, journal: death.journal };
        if rng.u8(..) < 8 && matches!(left.journal, JournalFate::None) {
            left = self.look_only(plan, left, rng)?;
        }
        self.live(plan, left, depth + 1, rng)?;
        record::forget(before);
        Ok(())
    }

    /// Opens the volume a second time, read-only: it finds the same content, and writes nothing.
    fn look_only(&self, plan: &Plan, left: LifeEnd, rng: &mut Rng) -> Result<LifeEnd, Violation> {
        record!("--- opened to read only");
        let mut options = (*plan.setting.options).clone();
        options.settings.read_only = true;
        self.draw_attach(&mut options, rng);
        let setting = Setting { options: Rc::new(options), ..plan.setting.clone() };
        let machine = open_engine(&left.disk, &setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
        // A read-only opening cannot settle where the log ends: on a device that returns any content for a discarded block, the next
        // opening may find another end. So what it reads is compared, but sets no floor.
        let settles = !has_live_log(&left.disk, rng);
        let before = left.oracle.clone();
        let mut world = World::new(setting, left.disk, left.oracle, machine, rng.fork());
        world.read_all()?;
        world.close()?;
        if world.traffic.tally.units.iter().any(|&units| units != 0) || world.traffic.tally.discards != 0 {
            return Err(violation!("interface: a volume opened to read only was written: {:?}", world.traffic.tally));
        }
        let mut oracle = if settles { world.oracle } else { before };
        oracle.reopen();
        Ok(LifeEnd::new(world.disk, oracle))
    }
}

/// Returns what a power loss has torn.
fn torn(world: &World, choice: &Choice) -> Option<Situation> {
    let is_torn = |sources: &[u8; 8]| sources.iter().any(|s| *s != sources[0]);
    let of =
        |place: fn(&BlockUse) -> bool| choice.iter().any(|(block, sources)| place(&world.setting.volume.place(*block)) && is_torn(sources));
    if of(|p| *p == BlockUse::Superblock) {
        return Some(Situation::TornSuperblock);
    }
    of(|p| matches!(p, BlockUse::Page(_))).then_some(Situation::TornPage)
}

/// Returns the additional odds, in 4096, of a crash here: a part of what is promised may be on the medium.
fn odds_of_journal(world: &World) -> u32 {
    let in_part = matches!(world.traffic.step(), Step::Refs | Step::Flush1 | Step::Links | Step::Flush2);
    if in_part && world.journal.has_promises() { ODDS_OF_JOURNAL } else { 0 }
}

/// Returns whether the log may contain what no page does.
fn has_live_log(disk: &SimDisk, rng: &mut Rng) -> bool {
    superblock_of(disk, rng).is_ok_and(|found| found.superblock.is_log_live())
}

/// Returns the acknowledgement journal after a kill, or after a failure of the device; sometimes it is lost, as if the next server started
/// on another machine.
pub(crate) fn journal_fate(world: &World, rng: &mut Rng) -> JournalFate {
    let is_there = world.setting.options.settings.facts.keeps_journal || world.journal.was_inherited();
    if !is_there {
        return JournalFate::None;
    }
    if rng.u8(..) < 32 || world.faults.lost {
        return JournalFate::Lost;
    }
    let (journal, legacy) = world.journal.left(&world.oracle, world.faults.failed);
    JournalFate::Kept(journal, legacy)
}

/// Describes the blocks that a power loss decides, and how.
fn describe(world: &World, choice: &Choice) -> String {
    let one = |(block, sources): &(u64, [u8; 8])| format!("{:?} {sources:?}", world.setting.volume.place(*block));
    choice.iter().map(one).collect::<Vec<_>>().join("; ")
}
