//! Changing a volume that nobody serves, on a device whose cache has what a killed server has written: `set` and `check --repair`, with a
//! crash at any moment. (`growing.rs` has `grow`.)
//!
//! 1. A life comes first. It ends with a kill, mostly while an update of the superblock is under way: in service, or at the close.
//! 2. A changed superblock costs nothing: whatever a power loss leaves opens, has the label from before or the new one, and has all that
//!    was flushed. When the change is said to be done, it has the new one.
//! 3. A repair needs damage: of a copy of the superblock or a page of counts or fingerprints on a volume that was closed, or of a unit of a
//!    live log. Whatever a power loss leaves opens, and the next repair goes on to a volume with nothing left to repair.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{IoOutcome, SimDisk};
use crate::device::power_loss::PowerLossStates;
use crate::device::superblock::superblock_of;
use crate::device::volume::BlockUse;
use crate::explorer::explore::Explorer;
use crate::explorer::life::LifeEnd;
use crate::explorer::opening::open_engine;
use crate::explorer::options::Options;
use crate::explorer::setting::Setting;
use crate::explorer::spoil::{flip, flushed_units, life_after};
use crate::explorer::world::World;
use crate::ground::content::{Content, SECTORS};
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::buffer::BufferMut;
use onefold_engine::check::{CheckSettings, ReadMedium};
use onefold_engine::format::{CommitMode, Region};
use onefold_engine::interface::{IoFailure, IoId};
use onefold_engine::repair::{RepairError, RepairMedium, carry_out, change_open_superblock, plan};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes};
use std::rc::Rc;

/// The first number of the operations of a command; the engine's numbers are far below.
const FIRST_IO: u64 = 1 << 41;
/// The number of volumes of a run.
const VOLUMES: usize = 8;
const EVENTS: u64 = 150;
/// The number of steps in which a superblock update is waited for.
const STEPS: u64 = 2_000;
const LABEL: &str = "changed";
const SETTINGS: CheckSettings = CheckSettings { memory_bytes: 1 << 20, data: false };

/// A device that a command has to itself. It remembers some of the moments at which it could lose its power.
struct Device {
    disk: SimDisk,
    rng: Rng,
    io: u64,
    moments: Vec<SimDisk>,
    broken: Option<Violation>,
}

impl Device {
    fn new(disk: SimDisk, rng: &mut Rng) -> Self {
        Self { disk, rng: rng.fork(), io: FIRST_IO, moments: Vec::new(), broken: None }
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.disk.blocks() * BLOCK_BYTES)
    }

    fn moment(&mut self) {
        if self.rng.u8(..) < 80 {
            self.moments.push(self.disk.clone());
        }
    }
}

impl ReadMedium for Device {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        for (block, bytes) in (at.get() / BLOCK_BYTES..).zip(buffer.chunks_mut(BLOCK_SIZE)) {
            if block >= self.disk.blocks() {
                return Err(IoFailure);
            }
            bytes.copy_from_slice(self.disk.read(block, &mut self.rng).bytes());
        }
        Ok(())
    }
}

impl RepairMedium for Device {
    fn write(&mut self, at: Bytes, block: &BufferMut) -> Result<(), IoFailure> {
        self.io += 1;
        record!("offline: write block {}", at.get() / BLOCK_BYTES);
        let written = self.disk.write(IoId(self.io), at.get() / BLOCK_BYTES, &[Content::of(block.block(0))]);
        written.map_err(|violation| {
            self.broken = Some(violation);
            IoFailure
        })?;
        self.moment();
        self.disk.finish(IoId(self.io), IoOutcome::Done);
        self.moment();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoFailure> {
        self.io += 1;
        record!("offline: flush");
        self.disk.flush(IoId(self.io));
        self.moment();
        self.disk.finish(IoId(self.io), IoOutcome::Done);
        self.moment();
        Ok(())
    }
}

/// Changes volumes after a kill, crashing on the way, and lives on. The options are those of the first.
///
/// # Errors
/// Returns the first violation.
pub fn run(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    explorer.with_volumes(VOLUMES, options, rng, |explorer, mut options, rng| {
        // A journal would keep the superblock from being changed before it was replayed.
        (options.settings.verify_reads, options.settings.facts.keeps_journal) = (true, false);
        let setting = explorer.prepared(options.shape).setting(Rc::new(options));
        change_one(explorer, &setting, rng)?;
        explorer.coverage.count_offline();
        Ok(())
    })
}

fn change_one(explorer: &mut Explorer, setting: &Setting, rng: &mut Rng) -> Result<(), Violation> {
    let prepared = explorer.prepared(setting.options.shape);
    let (disk, oracle) = (prepared.disk.clone(), prepared.oracle.clone());
    let machine = open_engine(&disk, setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(setting.clone(), disk, oracle, machine, rng.fork());
    world.oracle.remember_late();
    let events = rng.u64(20..EVENTS);
    world.run_until(true, |w| w.traffic.events >= events)?;
    let closes = rng.bool();
    if closes {
        world.begin_close()?;
    }
    stop_at_superblock(&mut world, !closes, rng)?;
    let left = world.disk.kill(rng);
    record!("--- killed");
    let mut oracle = world.oracle;
    let mut cut = oracle.clone();
    oracle.reopen();
    cut.reopen_rotten();
    if rng.bool() { set(explorer, setting, left, &oracle, rng) } else { repair(explorer, setting, left, [&oracle, &cut], rng) }
}

/// Goes on until copies of the superblock are written and not flushed, or for some time.
fn stop_at_superblock(world: &mut World, clients: bool, rng: &mut Rng) -> Result<(), Violation> {
    let is_sought = rng.u8(..) < 200;
    for _ in 0..if is_sought { STEPS } else { rng.u64(0..100) } {
        let is_unflushed = world.disk.undecided().iter().any(|&block| world.setting.volume.place(block) == BlockUse::Superblock);
        let is_here = is_sought && is_unflushed && rng.bool();
        if is_here || world.closed().is_some() || !world.step(clients)? && !world.pass_time()? {
            break;
        }
    }
    Ok(())
}

/// Lists what power losses leave at a moment. One of them tears every copy of the superblock that could be torn.
fn power_losses(disk: &SimDisk, setting: &Setting, rng: &mut Rng) -> Vec<SimDisk> {
    let mut choices = PowerLossStates::of(disk, &setting.volume).choices(disk, 4, rng);
    let copies = disk.undecided().iter().filter(|&&block| setting.volume.place(block) == BlockUse::Superblock);
    choices.push(copies.map(|&block| (block, torn(disk.cell(block).sources()))).collect());
    choices.iter().map(|choice| disk.cut(choice)).collect()
}

/// Takes the sectors of a block from the oldest and the newest of its sources in turn.
fn torn(sources: usize) -> [u8; SECTORS] {
    let newest = u8::try_from(sources - 1).expect("few versions");
    std::array::from_fn(|sector| if sector % 2 == 0 { 0 } else { newest })
}

fn set(explorer: &mut Explorer, setting: &Setting, left: SimDisk, oracle: &Oracle, rng: &mut Rng) -> Result<(), Violation> {
    record!("--- the label is changed");
    let mut device = Device::new(left, rng);
    let bytes = device.bytes();
    let changed = change_open_superblock(&mut device, bytes, |superblock| superblock.label = LABEL.to_owned());
    changed.map_err(|e| violation!("set: {e:?}, {:?}", device.broken))?;
    let Device { disk, moments, .. } = device;
    for (is_done, moment) in moments.into_iter().map(|moment| (false, moment)).chain([(true, disk)]) {
        for after in power_losses(&moment, setting, rng) {
            let mark = record::mark();
            record!("--- power lost, done: {is_done}");
            let found = superblock_of(&after, rng).map_err(|e| violation!("P1: after a superblock was changed: {e}"))?.superblock;
            if is_done && found.label != LABEL {
                return Err(violation!("set: it was done, and a power loss takes it back"));
            }
            explorer.live_a_little(setting, LifeEnd::new(after, oracle.clone()), rng)?;
            record::forget(mark);
            if explorer.is_late() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Repairs a damaged volume, crashing on the way. The second oracle is for a log that was cut off: blocks that only its missing part named
/// have what they had before.
fn repair(explorer: &mut Explorer, setting: &Setting, mut left: SimDisk, oracles: [&Oracle; 2], rng: &mut Rng) -> Result<(), Violation> {
    if !damage(setting, &mut left, rng) {
        return Ok(());
    }
    let Some((Device { disk, moments, .. }, is_cut)) = repaired(left, rng)? else { return Ok(()) };
    let oracle = oracles[usize::from(is_cut)];
    for (is_done, moment) in moments.into_iter().map(|moment| (false, moment)).chain([(true, disk)]) {
        for after in power_losses(&moment, setting, rng) {
            let mark = record::mark();
            record!("--- power lost, done: {is_done}");
            superblock_of(&after, rng).map_err(|e| violation!("P1: within a repair: {e}"))?;
            let again = repaired(after.clone(), rng)?;
            if is_done && again.is_some() {
                return Err(violation!("repair: it was done, and after a power loss there is something to repair"));
            }
            let after = if let (Some((device, _)), true) = (again, rng.bool()) { device.disk } else { after };
            life_after(explorer, setting, after.clone(), None, &LifeEnd::new(after, oracle.clone()), rng)?;
            record::forget(mark);
            if explorer.is_late() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Repairs a volume, and returns whether its log was cut off. None where there is nothing to repair, or it has to be opened first.
fn repaired(disk: SimDisk, rng: &mut Rng) -> Result<Option<(Device, bool)>, Violation> {
    let mut device = Device::new(disk, rng);
    let bytes = device.bytes();
    let planned = match plan(&mut device, bytes, &SETTINGS, &mut |_| ()) {
        Ok(planned) if planned.is_empty() => return Ok(None),
        Ok(planned) => planned,
        Err(RepairError::NotClosed) => return Ok(None),
        Err(error) => return Err(violation!("repair: no plan: {error:?}")),
    };
    record!("--- repair: {} copies, {} pages, cut {:?}", planned.superblock_copies, planned.pages, planned.cut());
    let is_cut = planned.cut().is_some();
    carry_out(&mut device, planned, &SETTINGS, &mut |_| ()).map_err(|e| violation!("repair: {e:?}, {:?}", device.broken))?;
    Ok(Some((device, is_cut)))
}

/// Damages what a repair makes whole again, on the medium. Returns false if there is nothing of the kind.
fn damage(setting: &Setting, disk: &mut SimDisk, rng: &mut Rng) -> bool {
    let place = |block: u64| setting.volume.place(block);
    let is_certain = |disk: &SimDisk, block: u64| !disk.undecided().contains(&block);
    let has_log = setting.options.settings.commit_mode == CommitMode::Log;
    let blocks: Vec<u64> = match rng.u8(0..4) {
        0 => (0..disk.blocks()).filter(|&block| place(block) == BlockUse::Superblock).collect(),
        1 | 2 if has_log => flushed_units(setting, disk).into_iter().map(|(block, _)| block).collect(),
        _ => {
            let is_made_anew =
                |block: u64| matches!(place(block), BlockUse::Page(id) if matches!(id.region, Region::Refs | Region::Fingerprints));
            let is_written = |block: u64| disk.cell(block).durable().id() != Content::zero().id();
            (0..disk.blocks()).filter(|&block| is_made_anew(block) && is_written(block)).collect()
        }
    };
    let blocks: Vec<u64> = blocks.into_iter().filter(|&block| is_certain(disk, block)).collect();
    let Some(&block) = blocks.get(rng.usize(0..blocks.len().max(1))) else { return false };
    flip(disk, block, &format!("{:?}", place(block)), rng);
    true
}
