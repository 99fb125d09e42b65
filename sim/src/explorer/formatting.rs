//! Formatting over an old volume with a crash at any moment: the old volume opens as it was, or there is none, or the new one opens, empty.
//!
//! 1. Before the first flush has completed, the old volume is found whole, or none is found.
//! 2. After it, and until the copies are written, there is none.
//! 3. Whatever a power loss leaves, formatting again makes the new volume.
//! 4. In the log's mode each pair of superblock copies alone leads to all that was acknowledged.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{IoOutcome, SimDisk};
use crate::device::power_loss::{PowerLossStates, state_name};
use crate::device::superblock::superblock_of;
use crate::device::traffic::{Situation, Step};
use crate::device::volume::Volume;
use crate::explorer::explore::Explorer;
use crate::explorer::life::LifeEnd;
use crate::explorer::opening::open_engine;
use crate::explorer::options::Options;
use crate::explorer::prepare::stretches;
use crate::explorer::setting::Setting;
use crate::explorer::states::{Crash, CrashPoint};
use crate::explorer::world::World;
use crate::ground::content::{Content, Shared};
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::copies::{Chosen, CopyState, OpenError, claimed_bytes, pair_of};
use onefold_engine::format::create::{FormatStep, format};
use onefold_engine::format::superblock::Superblock;
use onefold_engine::format::{CommitMode, Geometry, Wish};
use onefold_engine::interface::IoId;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_BYTES, Bytes};
use std::rc::Rc;

/// The first number of the formatter's operations; the engine's numbers are far below.
const FIRST_IO: u64 = 1 << 40;

/// The old and the new volume.
struct Volumes {
    old: (Setting, Oracle),
    new: (Setting, Oracle),
    superblock: Superblock,
}

/// Formats a volume, crashing on the way.
///
/// # Errors
/// Returns the first violation.
pub fn run(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    let prepared = explorer.prepared(options.shape);
    let old = prepared.setting(Rc::new(options.clone()));
    let machine = open_engine(&prepared.disk, &old, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(old.clone(), prepared.disk.clone(), prepared.oracle.clone(), machine, rng.fork());
    if old.options.settings.commit_mode == CommitMode::Log {
        live_from_the_older_pairs(explorer, &old, &mut world, rng)?;
    }
    let events = world.traffic.events + rng.u64(0..120);
    world.run_until(true, |w| w.traffic.events >= events)?;
    if rng.bool() {
        world.close()?;
    }
    let newest = PowerLossStates::of(&world.disk, &old.volume).choices(&world.disk, 1, rng).pop().unwrap_or_default();
    let disk = world.disk.cut(&newest);
    let mut oracle = world.oracle;
    oracle.reopen();

    let superblock = new_superblock(disk.blocks(), rng)?;
    let volume = Rc::new(Volume::new(&superblock));
    let places = Rc::new(stretches(volume.geometry.logical_blocks));
    let new = Setting { volume, options: Rc::new(options), stretches: places };
    let volumes = Volumes { old: (old, oracle), new: (new, Oracle::new(Vec::new())), superblock };
    format_crashing(explorer, &volumes, disk, rng)
}

/// Opens the volume from its older pair of superblock copies, at some moments of a life. A format may destroy the newest pair of copies
/// first and nothing else: then the other pair leads to the log.
fn live_from_the_older_pairs(explorer: &mut Explorer, setting: &Setting, world: &mut World, rng: &mut Rng) -> Result<(), Violation> {
    for _ in 0..16 {
        let events = world.traffic.events + rng.u64(1..60);
        world.run_until(true, |w| w.traffic.events >= events)?;
        let newest = PowerLossStates::of(&world.disk, &setting.volume).choices(&world.disk, 1, rng).pop().unwrap_or_default();
        let mut disk = world.disk.cut(&newest);
        let Ok(Chosen { superblock, states }) = superblock_of(&disk, rng) else { continue };
        if !superblock.is_log_live() {
            // The volume was closed in another mode, and the older pair describes its last opening: a recount is due, as after a crash
            // there.
            continue;
        }
        let copies = [0, 1, disk.blocks() - 2, disk.blocks() - 1];
        let (pair, older) = (pair_of(superblock.generation), pair_of(superblock.generation + 1));
        if older.iter().all(|&copy| !matches!(states[copy], CopyState::Sound { .. })) {
            continue;
        }
        let before = record::mark();
        record!("--- the copies of generation {} are destroyed", superblock.generation);
        pair.iter().for_each(|&copy| disk.plant(copies[copy], Content::zero()));
        let mut oracle = world.oracle.clone();
        oracle.reopen();
        explorer.live_a_little(setting, LifeEnd::new(disk, oracle), rng)?;
        record::forget(before);
    }
    Ok(())
}

fn new_superblock(blocks: u64, rng: &mut Rng) -> Result<Superblock, Violation> {
    // Sometimes it is shorter than the device, so that its end copies lie elsewhere.
    let bytes = Bytes((blocks - rng.u64(0..3)) * BLOCK_BYTES);
    let wish = Wish { logical_blocks: Some(rng.u64(30..900)), reserve_blocks: Some(2), guard: false, notes_blocks: 0 };
    let geometry = Geometry::plan_tiny(bytes, &wish).map_err(|e| violation!("kit: no geometry: {e}"))?;
    let uuid = rng.u128(..).to_le_bytes();
    Ok(Superblock::new(geometry, uuid, [rng.u8(..); 32], Algorithm::Blake3, &Settings::default()))
}

/// Lists the volume sizes that the superblocks on the device give.
fn old_volumes(disk: &SimDisk, rng: &mut Rng) -> Vec<Bytes> {
    [0, 1, disk.blocks() - 2, disk.blocks() - 1].into_iter().filter_map(|b| claimed_bytes(disk.read(b, rng).bytes())).collect()
}

/// The formatter's operations on the device; the blocks of each step complete in any order, up to the next flush.
struct Formatter {
    io: u64,
    flushes: u32,
    in_flight: Vec<IoId>,
}

fn format_crashing(explorer: &mut Explorer, volumes: &Volumes, disk: SimDisk, rng: &mut Rng) -> Result<(), Violation> {
    let steps: Vec<FormatStep> = {
        let claimed = old_volumes(&disk, rng);
        format(&volumes.superblock, Bytes(disk.blocks() * BLOCK_BYTES), &claimed).collect()
    };
    let mut disk = disk;
    let mut formatter = Formatter { io: FIRST_IO, flushes: 0, in_flight: Vec::new() };
    for step in steps {
        match step {
            FormatStep::Zero { at, length } => {
                for block in 0..length.get() / BLOCK_BYTES {
                    formatter.write(&mut disk, at.get() / BLOCK_BYTES + block, &Content::zero())?;
                }
            }
            FormatStep::Write { at, page } => formatter.write(&mut disk, at.get() / BLOCK_BYTES, &Content::of(&page))?,
            FormatStep::Flush => {
                while !formatter.in_flight.is_empty() {
                    crash_here(explorer, volumes, &disk, formatter.flushes, rng)?;
                    let at = rng.usize(0..formatter.in_flight.len());
                    disk.finish(formatter.in_flight.swap_remove(at), IoOutcome::Done);
                }
                formatter.io += 1;
                disk.flush(IoId(formatter.io));
                crash_here(explorer, volumes, &disk, formatter.flushes, rng)?;
                disk.finish(IoId(formatter.io), IoOutcome::Done);
                formatter.flushes += 1;
                record!("format: flush {}", formatter.flushes);
            }
        }
    }
    crash_here(explorer, volumes, &disk, formatter.flushes, rng)
}

impl Formatter {
    fn write(&mut self, disk: &mut SimDisk, block: u64, content: &Shared) -> Result<(), Violation> {
        self.io += 1;
        record!("format: write block {block}");
        disk.write(IoId(self.io), block, std::slice::from_ref(content))?;
        self.in_flight.push(IoId(self.io));
        Ok(())
    }
}

fn crash_here(explorer: &mut Explorer, volumes: &Volumes, disk: &SimDisk, flushes: u32, rng: &mut Rng) -> Result<(), Violation> {
    if rng.u8(..) > 80 {
        return Ok(());
    }
    let volume = &volumes.new.0.volume;
    for choice in PowerLossStates::of(disk, volume).choices(disk, 4, rng) {
        let before = record::mark();
        record!("--- power cut after {flushes} flushes of the format: {choice:?}");
        let after = disk.cut(&choice);
        let name = state_name(disk, &choice, &after, volume) ^ (u64::from(flushes) << 60);
        explorer.coverage.count(CrashPoint { step: Step::Format, beside: None }, Crash::Power, 0, std::iter::once(Situation::Format), name);
        let found = superblock_of(&after, rng).map(|c| c.superblock.uuid);
        let (new, empty) = volumes.new.clone();
        match found {
            Ok(uuid) if uuid == new.volume.uuid => explorer.live_a_little(&new, LifeEnd::new(after, empty), rng)?,
            Ok(uuid) if uuid == volumes.old.0.volume.uuid && flushes == 0 => {
                let (old, oracle) = volumes.old.clone();
                explorer.live_a_little(&old, LifeEnd::new(after, oracle), rng)?;
            }
            Ok(_) => return Err(violation!("P1: after {flushes} flushes of a format the old volume opens")),
            Err(_) if flushes >= 3 => return Err(violation!("P1: after a complete format nothing opens")),
            Err(OpenError::NotOnefold | OpenError::Damaged { .. }) => {
                let again = format_again(&volumes.superblock, after, rng)?;
                explorer.live_a_little(&new, LifeEnd::new(again, empty), rng)?;
            }
            Err(other) => return Err(violation!("P1: after a power loss during a format: {other}")),
        }
        record::forget(before);
    }
    Ok(())
}

fn format_again(superblock: &Superblock, mut disk: SimDisk, rng: &mut Rng) -> Result<SimDisk, Violation> {
    let claimed = old_volumes(&disk, rng);
    for step in format(superblock, Bytes(disk.blocks() * BLOCK_BYTES), &claimed) {
        match step {
            FormatStep::Zero { at, length } => {
                (0..length.get() / BLOCK_BYTES).for_each(|b| disk.plant(at.get() / BLOCK_BYTES + b, Content::zero()));
            }
            FormatStep::Write { at, page } => disk.plant(at.get() / BLOCK_BYTES, Content::of(&page)),
            FormatStep::Flush => {}
        }
    }
    match superblock_of(&disk, rng) {
        Ok(chosen) if chosen.superblock.uuid == superblock.uuid => Ok(disk),
        other => Err(violation!("P1: after formatting again, what opens is {:?}", other.map(|c| c.superblock.uuid))),
    }
}
