//! Growing a volume with a crash at any moment: it opens as it was or grown, with the same content, and is used on.
//!
//! 1. A life comes first. It ends with a clean close, with a power loss, or with a kill, after which the device's cache and the
//!    acknowledgement journal survive: so an attached volume grows.
//! 2. Until the first write of a superblock the volume opens as it was; from the end of the first pair on it opens as grown.
//! 3. Whatever a crash leaves of a growth, growing again makes the grown volume.
//! 4. The device holds rubbish where it is new.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{IoOutcome, SimDisk};
use crate::device::power_loss::{PowerLossStates, state_name};
use crate::device::superblock::superblock_of;
use crate::device::traffic::Step;
use crate::device::volume::Volume;
use crate::explorer::explore::Explorer;
use crate::explorer::life::{JournalFate, LifeEnd, journal_fate};
use crate::explorer::opening::open_engine;
use crate::explorer::options::Options;
use crate::explorer::plan::Plan;
use crate::explorer::setting::Setting;
use crate::explorer::states::{Crash, CrashPoint};
use crate::explorer::world::World;
use crate::ground::content::{Content, Shared};
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::format::{FormatStep, Growth};
use onefold_engine::interface::IoId;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use std::rc::Rc;

/// The first number of the operations of a growth; the engine's numbers are far below.
const FIRST_IO: u64 = 1 << 40;
/// The flush after which the volume has to open as grown: those before are of what was there, and of new pages.
const FLUSHES_TO_GROW: u32 = 3;

/// A volume before and after its growth.
struct Volumes {
    old: Setting,
    new: Setting,
    oracle: Oracle,
    journal: JournalFate,
    /// The number of logical blocks that is asked for.
    logical_blocks: Option<u64>,
}

/// Grows a volume after a life, crashing on the way, and lives on.
///
/// # Errors
/// Returns the first violation.
pub fn run(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    let prepared = explorer.prepared(options.shape);
    let old = prepared.setting(Rc::new(options));
    let machine = open_engine(&prepared.disk, &old, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(old.clone(), prepared.disk.clone(), prepared.oracle.clone(), machine, rng.fork());
    let events = rng.u64(0..400);
    world.run_until(true, |w| w.traffic.events >= events)?;
    let (mut disk, journal) = match rng.u8(0..4) {
        0 => (world.disk.kill(rng), journal_fate(&world, rng)),
        end => {
            if end == 1 {
                world.close()?;
            }
            let left = PowerLossStates::of(&world.disk, &old.volume).choices(&world.disk, 1, rng).pop().unwrap_or_default();
            (world.disk.cut(&left), JournalFate::None)
        }
    };
    let mut oracle = world.oracle;
    oracle.reopen();
    let rubbish: [u8; BLOCK_SIZE] = std::array::from_fn(|_| rng.u8(..));
    let content = [Content::zero(), Content::of(&[0xff; BLOCK_SIZE]), Content::of(&rubbish)];
    disk.lengthen(rng.u64(24..160), &content[rng.usize(0..3)]);
    let logical = old.volume.geometry.logical_blocks;
    let logical_blocks = [None, Some(logical + rng.u64(0..2000))][rng.usize(0..2)];
    let Some(growth) = growth_of(&disk, logical_blocks, rng)? else { return Ok(()) };
    record!("--- grows to {} blocks, {} logical ones", disk.blocks(), growth.superblock().geometry.logical_blocks);
    let new = Setting { volume: Rc::new(Volume::new(growth.superblock())), stretches: longer(&old, &growth), ..old.clone() };
    grow_crashing(explorer, &Volumes { old, new, oracle, journal, logical_blocks }, disk, rng)
}

/// The stretches of a volume, and one across the end of its logical blocks as they were.
fn longer(old: &Setting, growth: &Growth) -> Rc<Vec<(u64, u64)>> {
    let (before, after) = (old.volume.geometry.logical_blocks, growth.superblock().geometry.logical_blocks);
    let mut stretches = (*old.stretches).clone();
    let free_from = stretches.iter().map(|(first, blocks)| first + blocks).max().unwrap_or(0);
    let first = before.saturating_sub(2).max(free_from);
    if after >= first + 4 {
        stretches.push((first, 4));
    }
    Rc::new(stretches)
}

fn growth_of(disk: &SimDisk, logical_blocks: Option<u64>, rng: &mut Rng) -> Result<Option<Growth>, Violation> {
    let chosen = superblock_of(disk, rng).map_err(|e| violation!("P1: the volume that is to grow does not open: {e}"))?;
    Growth::plan(chosen, Bytes(disk.blocks() * BLOCK_BYTES), logical_blocks)
        .map_err(|e| violation!("growth: the volume does not grow: {e}"))
}

fn steps_of(growth: &Growth, disk: &SimDisk, rng: &mut Rng) -> Result<Vec<FormatStep>, Violation> {
    let page = |at: Bytes, rng: &mut Rng| Box::new(*disk.read(at.get() / BLOCK_BYTES, rng).bytes());
    let shared: Vec<_> = growth.shared_pages().map(|id| page(growth.place_of(id), rng)).collect();
    Ok(growth.steps(&shared).map_err(|e| violation!("growth: {e}"))?.collect())
}

/// The operations of a growth; the blocks of each step complete in any order, up to the next flush.
struct Grower {
    io: u64,
    flushes: u32,
    in_flight: Vec<IoId>,
}

impl Grower {
    fn write(&mut self, disk: &mut SimDisk, block: u64, content: &Shared) -> Result<(), Violation> {
        self.io += 1;
        record!("growth: write block {block}");
        disk.write(IoId(self.io), block, std::slice::from_ref(content))?;
        self.in_flight.push(IoId(self.io));
        Ok(())
    }

    fn zero(&mut self, disk: &mut SimDisk, at: Bytes, length: Bytes) -> Result<(), Violation> {
        let blocks = length.get() / BLOCK_BYTES;
        (0..blocks).try_for_each(|block| self.write(disk, at.get() / BLOCK_BYTES + block, &Content::zero()))
    }
}

fn grow_crashing(explorer: &mut Explorer, volumes: &Volumes, mut disk: SimDisk, rng: &mut Rng) -> Result<(), Violation> {
    let Some(growth) = growth_of(&disk, volumes.logical_blocks, rng)? else { return Ok(()) };
    let mut grower = Grower { io: FIRST_IO, flushes: 0, in_flight: Vec::new() };
    for step in steps_of(&growth, &disk, rng)? {
        match step {
            FormatStep::Zero { at, length } => grower.zero(&mut disk, at, length)?,
            FormatStep::Write { at, page } => grower.write(&mut disk, at.get() / BLOCK_BYTES, &Content::of(&page))?,
            FormatStep::Flush => {
                while !grower.in_flight.is_empty() {
                    crash_here(explorer, volumes, &disk, grower.flushes, rng)?;
                    let at = rng.usize(0..grower.in_flight.len());
                    disk.finish(grower.in_flight.swap_remove(at), IoOutcome::Done);
                }
                grower.io += 1;
                disk.flush(IoId(grower.io));
                crash_here(explorer, volumes, &disk, grower.flushes, rng)?;
                disk.finish(IoId(grower.io), IoOutcome::Done);
                grower.flushes += 1;
                record!("growth: flush {}", grower.flushes);
            }
        }
        if explorer.is_late() {
            return Ok(());
        }
    }
    crash_here(explorer, volumes, &disk, grower.flushes, rng)?;
    let LifeEnd { oracle, journal, .. } = volumes.end(disk.clone());
    let mut plan = Plan::new(volumes.new.clone());
    (plan.stops, plan.check_sets) = ([4, 1, 1], rng.bool());
    plan.events = [1, rng.u64(60..400), rng.u64(10..60), 20];
    explorer.live(&plan, LifeEnd { disk, oracle, journal }, 1, rng)
}

impl Volumes {
    /// The end of the life before, on this device.
    fn end(&self, disk: SimDisk) -> LifeEnd {
        LifeEnd { disk, oracle: self.oracle.clone(), journal: self.journal.clone() }
    }

    /// The volume that a crash after this number of flushes has left.
    fn left_on(&self, disk: &SimDisk, flushes: u32, rng: &mut Rng) -> Result<&Setting, Violation> {
        let chosen = superblock_of(disk, rng).map_err(|e| violation!("P1: after {flushes} flushes of a growth: {e}"))?;
        let geometry = chosen.superblock.geometry;
        if geometry == self.new.volume.geometry && flushes + 1 >= FLUSHES_TO_GROW {
            return Ok(&self.new);
        }
        if geometry == self.old.volume.geometry && flushes < FLUSHES_TO_GROW {
            return Ok(&self.old);
        }
        Err(violation!("P1: after {flushes} flushes of a growth the volume has {} blocks", geometry.data_blocks))
    }
}

/// Crashes here: the power is lost, or the process that grows the volume is killed.
fn crash_here(explorer: &mut Explorer, volumes: &Volumes, disk: &SimDisk, flushes: u32, rng: &mut Rng) -> Result<(), Violation> {
    if rng.u8(..) > 60 || explorer.is_late() {
        return Ok(());
    }
    let at = CrashPoint { step: Step::Grow, beside: None };
    if rng.u8(..) < 160 {
        let before = record::mark();
        record!("--- killed after {flushes} flushes of the growth");
        let after = disk.kill(rng);
        explorer.coverage.count(at, Crash::Kill, 0, std::iter::empty(), after.media() ^ u64::from(flushes) << 60);
        // Nothing of the cache is lost, so the next server begins where this one was.
        let grown = grow_again(volumes, after, rng)?;
        explorer.live_a_little(&volumes.new, volumes.end(grown), rng)?;
        record::forget(before);
    }
    let volume = &volumes.new.volume;
    for choice in PowerLossStates::of(disk, volume).choices(disk, 4, rng) {
        let before = record::mark();
        record!("--- power cut after {flushes} flushes of the growth: {choice:?}");
        let after = disk.cut(&choice);
        let name = state_name(disk, &choice, &after, volume) ^ (u64::from(flushes) << 60);
        explorer.coverage.count(at, Crash::Power, 0, std::iter::empty(), name);
        let setting = volumes.left_on(&after, flushes, rng)?;
        if rng.bool() {
            explorer.live_a_little(setting, LifeEnd::new(after, volumes.oracle.clone()), rng)?;
        } else {
            let grown = grow_again(volumes, after, rng)?;
            explorer.live_a_little(&volumes.new, LifeEnd::new(grown, volumes.oracle.clone()), rng)?;
        }
        record::forget(before);
    }
    Ok(())
}

/// Begins the growth again, and carries it out; one that was done already makes sure that it is durable.
fn grow_again(volumes: &Volumes, mut disk: SimDisk, rng: &mut Rng) -> Result<SimDisk, Violation> {
    let steps = match growth_of(&disk, volumes.logical_blocks, rng)? {
        Some(growth) => steps_of(&growth, &disk, rng)?,
        None => vec![FormatStep::Flush],
    };
    let mut grower = Grower { io: 2 * FIRST_IO, flushes: 0, in_flight: Vec::new() };
    for step in steps {
        match step {
            FormatStep::Zero { at, length } => grower.zero(&mut disk, at, length)?,
            FormatStep::Write { at, page } => grower.write(&mut disk, at.get() / BLOCK_BYTES, &Content::of(&page))?,
            FormatStep::Flush => {
                grower.in_flight.drain(..).for_each(|io| drop(disk.finish(io, IoOutcome::Done)));
                grower.io += 1;
                disk.flush(IoId(grower.io));
                disk.finish(IoId(grower.io), IoOutcome::Done);
            }
        }
    }
    let found = superblock_of(&disk, rng).map_err(|e| violation!("P1: after growing again: {e}"))?.superblock.geometry;
    if found == volumes.new.volume.geometry { Ok(disk) } else { Err(violation!("growth: growing again makes {found:?}")) }
}
