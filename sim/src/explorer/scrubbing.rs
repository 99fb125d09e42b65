//! A scrub beside a kill: something rots below a volume that is served, a scrub comes to its end, over several lives if it has to, and what
//! it says is believed.
//!
//! 1. Pages of metadata, copies of the superblock and units of the log rot while memory may have what they held.
//! 2. Each life of the scrub ends with a kill or a power loss: at any moment, or when the scrub has just ended.
//! 3. A scrub that has ended without damage, of a volume on which nothing has met the damage before, confirms everything: the lives that
//!    follow may not find any.

use crate::device::disk::{Choice, SimDisk};
use crate::device::power_loss::PowerLossStates;
use crate::device::volume::BlockUse;
use crate::explorer::explore::Explorer;
use crate::explorer::life::{JournalFate, LifeEnd, journal_fate};
use crate::explorer::opening::open_engine;
use crate::explorer::options::Options;
use crate::explorer::plan::Plan;
use crate::explorer::setting::Setting;
use crate::explorer::spoil::{flip, flushed_units, spoilt_sector, written_page};
use crate::explorer::world::World;
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::{Event, Notice, ScrubOrder};
use std::rc::Rc;

/// The number of volumes of a run.
const VOLUMES: usize = 8;
/// The largest number of device events of a life, before the damage and after it.
const EVENTS: u64 = 150;
/// The number of lives in which a scrub has to come to its end; later ones are not cut short.
const LIVES: usize = 3;
/// The number of steps of a life after which the scrub is left alone.
const STEPS: u64 = 6_000;
const AT_ONCE: ScrubOrder = ScrubOrder::Begin { kib_per_second: 1 << 24 };

/// Uses volumes, damages each, scrubs it with crashes on the way, and uses it on. The options are those of the first.
///
/// # Errors
/// Returns the first violation.
pub fn run(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    explorer.with_volumes(VOLUMES, options, rng, |explorer, mut options, rng| {
        (options.settings.verify_reads, options.scrubs) = (true, 0);
        scrub_one(explorer, options, rng)
    })
}

fn scrub_one(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    let prepared = explorer.prepared(options.shape);
    let setting = prepared.setting(Rc::new(options));
    let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
    let machine = open_engine(&disk, &setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(setting.clone(), disk, oracle, machine, rng.fork());
    world.oracle.remember_all();
    let events = rng.u64(20..EVENTS);
    world.run_until(true, |w| w.traffic.events >= events)?;
    if rng.bool() {
        world.settle()?;
    }
    if !rots(&setting, &mut world.disk, rng) {
        return Ok(());
    }
    (world.faults.errors, world.faults.spoilt) = (true, true);
    world.feed(Event::Scrub(AT_ONCE))?;
    let mut is_met = false;
    for life in 0.. {
        let found = scrub_on(&mut world, life >= LIVES, rng)?;
        explorer.coverage.count_life(world.traffic.events, 0, 0);
        is_met |= found.is_met || world.faults.failed;
        if is_met && found.has_ended {
            return Ok(());
        }
        if found.has_ended {
            explorer.coverage.count_scrubbed();
            return confirmed(explorer, &world, rng);
        }
        if world.faults.failed || life > LIVES || explorer.is_late() {
            return Ok(());
        }
        world = next_life(explorer, &world, rng)?;
    }
    Ok(())
}

/// The part of the scrub that a life has shown.
struct Shown {
    has_ended: bool,
    /// Whether something has met the damage, or the scrub has found what cannot be mended.
    is_met: bool,
}

/// Lives on until the scrub has ended, or an event before that.
fn scrub_on(world: &mut World, to_the_end: bool, rng: &mut Rng) -> Result<Shown, Violation> {
    let (clients, seen) = (rng.bool(), world.notices.len());
    let last = if to_the_end || rng.bool() { u64::MAX } else { world.traffic.events + rng.u64(1..EVENTS) };
    for _ in 0..STEPS {
        let has_ended = world.notices[seen..].iter().any(|notice| matches!(notice, Notice::Scrubbed { .. }));
        if has_ended || world.faults.failed || world.traffic.events >= last {
            break;
        }
        if !world.step(clients)? && !world.pass_time()? {
            break;
        }
    }
    let notices = &world.notices[seen..];
    let has_ended = notices.iter().any(|notice| matches!(notice, Notice::Scrubbed { .. }));
    let is_found = |notice: &Notice| matches!(notice, Notice::Scrubbed { damaged, lost, .. } if damaged + lost > 0);
    let is_met = notices.iter().any(|notice| is_found(notice) || matches!(notice, Notice::Damage { .. }));
    Ok(Shown { has_ended, is_met })
}

/// Damages a page, a copy of the superblock or a unit of the log, on the medium alone. Returns false if there is nothing to damage.
fn rots(setting: &Setting, disk: &mut SimDisk, rng: &mut Rng) -> bool {
    let is_certain = |disk: &SimDisk, block: u64| !disk.undecided().contains(&block) && !disk.cell(block).trimmed();
    let what = rng.u8(0..5);
    let has_log = setting.options.settings.commit_mode == CommitMode::Log;
    let block = match what {
        0 => {
            let copies: Vec<u64> = (0..disk.blocks()).filter(|&b| setting.volume.place(b) == BlockUse::Superblock).collect();
            Some(copies[rng.usize(0..copies.len())])
        }
        1 | 2 if has_log => {
            let units = flushed_units(setting, disk);
            units.get(rng.usize(0..units.len().max(1))).map(|&(block, _)| block)
        }
        _ => written_page(setting, disk, rng).map(|(block, _)| block),
    };
    let Some(block) = block.filter(|&block| is_certain(disk, block)) else { return false };
    if what == 3 {
        spoilt_sector(disk, block, rng);
    } else {
        flip(disk, block, &format!("{:?}", setting.volume.place(block)), rng);
    }
    true
}

/// Crashes. Returns what that leaves, the acknowledgement journal included.
fn crashed(world: &World, rng: &mut Rng) -> LifeEnd {
    let mut oracle = world.oracle.clone();
    oracle.reopen();
    if rng.bool() {
        record!("--- killed");
        return LifeEnd { disk: world.disk.kill(rng), oracle, journal: journal_fate(world, rng) };
    }
    let choices = PowerLossStates::of(&world.disk, &world.setting.volume).choices(&world.disk, 4, rng);
    let choice = choices.get(rng.usize(0..choices.len().max(1))).cloned().unwrap_or_else(Choice::new);
    record!("--- power cut: {choice:?}");
    LifeEnd::new(world.disk.cut(&choice), oracle)
}

/// Opens what a crash has left of a scrub that is under way.
fn next_life(explorer: &Explorer, world: &World, rng: &mut Rng) -> Result<World, Violation> {
    let left = crashed(world, rng);
    let mut setting = explorer.in_another_life(&world.setting, rng);
    let mut options = (*setting.options).clone();
    options.settings.facts.journal_lost = matches!(left.journal, JournalFate::Lost);
    setting.options = Rc::new(options);
    let machine =
        open_engine(&left.disk, &setting, rng).map_err(|e| violation!("P1: one thing is damaged, and the volume does not open: {e}"))?;
    let mut next = World::new(setting, left.disk, left.oracle, machine, rng.fork());
    (next.faults.errors, next.faults.spoilt) = (true, true);
    next.faults.lost = matches!(left.journal, JournalFate::Lost);
    if let JournalFate::Kept(journal, legacy) = left.journal {
        next.take_over(journal, legacy);
    }
    Ok(next)
}

/// Crashes after a scrub that has found everything sound, or has mended it: nothing may be damaged any more.
fn confirmed(explorer: &mut Explorer, world: &World, rng: &mut Rng) -> Result<(), Violation> {
    record!("--- the scrub has ended without damage");
    for _ in 0..4 {
        let before = record::mark();
        let left = crashed(world, rng);
        let mut options = (*world.setting.options).clone();
        options.settings.facts.journal_lost = false;
        let mut plan = Plan::new(Setting { options: Rc::new(options), ..world.setting.clone() });
        plan.stops = [0, 1, 0];
        plan.events = [1, rng.u64(5..60), 10, 1];
        explorer.live(&plan, left, 1, rng)?;
        record::forget(before);
        if explorer.is_late() {
            break;
        }
    }
    Ok(())
}
