//! Damage that no crash explains (P6): one region of a volume is damaged, and after that nothing wrong is ever served.
//!
//! 1. A read finds a version that is allowed, or an error; never another block's content, never zeros that were not written.
//! 2. The volume remains usable: what is written from then on reads back, and a write repairs a block that could not be read.
//! 3. Only one thing is damaged, so that everything else can be relied upon.
//! 4. In a live log, a unit is damaged that other units say was flushed: damage to the last epoch looks like the effect of a crash (L2). If
//!    the damage is reported, a block may have returned to one of its own former versions.
//! 5. A compacted unit is damaged in the same way.
//! 6. Rot in the newest epochs may undo them: a block that they wrote may have its own former content again, never another's (L5, L6).

use crate::device::disk::{Choice, SimDisk};
use crate::device::faulty_device::{BlankDevice, DeviceFault, FullDevice, MisdirectingDevice, RottenDevice};
use crate::device::power_loss::PowerLossStates;
use crate::device::volume::{BlockUse, Volume};
use crate::explorer::explore::Explorer;
use crate::explorer::life::LifeEnd;
use crate::explorer::opening::open_engine;
use crate::explorer::options::{Modes, Options};
use crate::explorer::setting::Setting;
use crate::explorer::world::World;
use crate::ground::content::Content;
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::format::unit::parse;
use onefold_engine::format::{CommitMode, Record, Region, UnitHeader};
use onefold_engine::interface::Notice;
use std::rc::Rc;

/// The largest number of device events of the lives before and after the damage.
const EVENTS: u64 = 150;

/// The number of volumes of a run. Each takes a small part of the time of another kind of run, and what is sought shows in few of them:
/// with one volume a run, two minutes of exploration spent less than a second on this.
const VOLUMES: usize = 32;
const VOLUMES_WITH_LARGE_EPOCHS: usize = 4;

/// Uses volumes, damages each, and continues to use it. The options are those of the first.
///
/// # Errors
/// Returns the first violation.
pub fn run(explorer: &mut Explorer, options: Options, rng: &mut Rng) -> Result<(), Violation> {
    explorer.with_volumes(VOLUMES, options, rng, spoil_one)
}

/// Tests rot in large epochs: no record has the fingerprints of their content, so something else has to detect it.
///
/// # Errors
/// Returns the first violation.
pub fn run_with_large_epochs(explorer: &mut Explorer, mut options: Options, rng: &mut Rng) -> Result<(), Violation> {
    let mark = record::mark();
    for _ in 0..VOLUMES_WITH_LARGE_EPOCHS {
        options.settings.verify_reads = true;
        let prepared = explorer.prepared(options.shape);
        let left = LifeEnd::new(prepared.disk.clone(), prepared.oracle.clone());
        run_with_rot(explorer, &prepared.setting(Rc::new(options)), left, rng)?;
        record::forget(mark);
        if explorer.is_late() {
            break;
        }
        options = Options::draw_in(Modes::One(CommitMode::Log), rng).with_large_epochs(rng);
        record!("options: {options}");
    }
    Ok(())
}

fn spoil_one(explorer: &mut Explorer, mut options: Options, rng: &mut Rng) -> Result<(), Violation> {
    options.settings.verify_reads = true;
    let prepared = explorer.prepared(options.shape);
    let setting = prepared.setting(Rc::new(options));
    let left = LifeEnd::new(prepared.disk.clone(), prepared.oracle.clone());
    if setting.options.settings.commit_mode == CommitMode::Log {
        match rng.u8(0..4) {
            0 => return run_with_live_log(explorer, &setting, left, rng),
            1 | 2 => return run_with_rot(explorer, &setting, left, rng),
            _ => {}
        }
    }
    let sound = life_before(&setting, left, rng)?;
    for _ in 0..8 {
        let setting = explorer.in_another_life(&setting, rng);
        let mut disk = sound.disk.clone();
        let device_fault = if rng.bool() { Some(faulty_device(&setting, &disk, rng)) } else { None };
        if device_fault.is_none() && !spoil(&setting, &mut disk, rng) {
            continue;
        }
        life_after(explorer, &setting, disk, device_fault, &sound, rng)?;
    }
    Ok(())
}

pub(crate) fn life_before(setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<LifeEnd, Violation> {
    let machine = open_engine(&left.disk, setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(setting.clone(), left.disk, left.oracle, machine, rng.fork());
    let events = rng.u64(20..EVENTS);
    world.run_until(true, |w| w.traffic.events >= events)?;
    world.close()?;
    let mut oracle = world.oracle;
    oracle.promised_by_flush().into_iter().for_each(|mark| oracle.raise(mark));
    oracle.reopen();
    Ok(LifeEnd::new(world.disk.cut(&Choice::new()), oracle))
}

/// Opens and uses a volume, remembering what its blocks held, and makes everything durable.
fn open_and_flushed(setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<World, Violation> {
    let machine = open_engine(&left.disk, setting, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?;
    let mut world = World::new(setting.clone(), left.disk, left.oracle, machine, rng.fork());
    world.oracle.remember_all();
    let events = rng.u64(20..EVENTS);
    world.run_until(true, |w| w.traffic.events >= events)?;
    world.settle()?;
    let flush = world.client.flush(&world.oracle);
    world.send(flush)?;
    world.settle()?;
    Ok(world)
}

/// Cuts the power while a volume is in use, and lets one recently written block rot.
fn run_with_rot(explorer: &mut Explorer, setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<(), Violation> {
    let mut world = open_and_flushed(setting, left, rng)?;
    let before = world.disk.clone();
    world.oracle.remember_late();
    for _ in 0..8 {
        let events = world.traffic.events + rng.u64(1..30);
        world.run_until(true, |w| w.traffic.events >= events)?;
        for choice in PowerLossStates::of(&world.disk, &setting.volume).choices(&world.disk, 4, rng) {
            let mark = record::mark();
            let mut disk = world.disk.cut(&choice);
            let setting = &explorer.in_another_life(setting, rng);
            if rot_of_late(setting, &before, &mut disk, rng) {
                let mut oracle = world.oracle.clone();
                oracle.reopen_rotten();
                let sound = LifeEnd::new(disk.clone(), oracle);
                life_after(explorer, setting, disk, None, &sound, rng)?;
            }
            record::forget(mark);
        }
    }
    Ok(())
}

/// Flips one bit in a block of the data region that holds something else than before. Returns false if there is none.
fn rot_of_late(setting: &Setting, before: &SimDisk, disk: &mut SimDisk, rng: &mut Rng) -> bool {
    let is_new = |&block: &u64| {
        let (then, now) = (before.cell(block).durable(), disk.cell(block).durable());
        matches!(setting.volume.place(block), BlockUse::Data(_)) && now.id() != then.id() && now.id() != Content::zero().id()
    };
    let blocks: Vec<u64> = (0..disk.blocks()).filter(is_new).collect();
    // Besides its runs of blocks, a large epoch writes much else.
    let of_large: Vec<u64> = if rng.bool() { in_runs(&setting.volume, disk).filter(is_new).collect() } else { Vec::new() };
    let blocks = if of_large.is_empty() { blocks } else { of_large };
    let Some(&block) = blocks.get(rng.usize(0..blocks.len().max(1))) else { return false };
    flip(disk, block, &format!("{:?}, written recently", setting.volume.place(block)), rng);
    true
}

/// Lists the blocks that units of the log name in runs, whose fingerprints no record has.
fn in_runs<'a>(volume: &'a Volume, disk: &'a SimDisk) -> impl Iterator<Item = u64> + 'a {
    let data = (0..disk.blocks()).filter(|&block| matches!(volume.place(block), BlockUse::Data(_)));
    let records = data.filter_map(|block| parse(disk.cell(block).durable().bytes())).flat_map(|unit| unit.records);
    let runs =
        records.filter_map(|record| if let Record::Extent { pbn, shorts, .. } = record { Some((pbn.get(), shorts.len())) } else { None });
    runs.flat_map(|(pbn, blocks)| (pbn..).take(blocks)).map(|pbn| volume.block_of(pbn))
}

/// Flips a bit of a block.
pub(crate) fn flip(disk: &mut SimDisk, block: u64, what: &str, rng: &mut Rng) {
    let bit = rng.usize(0..4096 * 8);
    record!("spoilt: bit {bit} of {what}");
    let content = disk.cell(block).durable().clone();
    disk.plant(block, content.patched(bit / 8, &[content.bytes()[bit / 8] ^ (1 << (bit % 8))]));
}

/// Does the same on a volume that was not closed: its log is live, and one of the log's units is damaged.
fn run_with_live_log(explorer: &mut Explorer, setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<(), Violation> {
    let world = open_and_flushed(setting, left, rng)?;
    let mut oracle = world.oracle;
    oracle.reopen();
    let sound = LifeEnd::new(world.disk.cut(&Choice::new()), oracle);
    let units = flushed_units(setting, &sound.disk);
    for &(block, sequence) in &units {
        let setting = &explorer.in_another_life(setting, rng);
        let mut disk = sound.disk.clone();
        match rng.u8(0..3) {
            0 => {
                record!("spoilt: unit {sequence} of the log is zeros");
                disk.plant(block, Content::zero());
            }
            1 => {
                let (other, of) = units[rng.usize(0..units.len())];
                record!("spoilt: unit {sequence} of the log is unit {of}");
                disk.plant(block, disk.cell(other).durable().clone());
            }
            _ => flip(&mut disk, block, &format!("unit {sequence} of the log"), rng),
        }
        life_after(explorer, setting, disk, None, &sound, rng)?;
    }
    Ok(())
}

/// Lists some blocks with units of the log that another unit says were flushed, and their sequence numbers.
pub(crate) fn flushed_units(setting: &Setting, disk: &SimDisk) -> Vec<(u64, u64)> {
    let is_data = |block: &u64| matches!(setting.volume.place(*block), BlockUse::Data(_));
    let headers = (0..disk.blocks()).filter(is_data).filter_map(|block| Some((block, parse(disk.cell(block).durable().bytes())?.header)));
    let units: Vec<(u64, UnitHeader)> = headers.collect();
    let flushed = units.iter().map(|(_, header)| header.flushed_upto).max().unwrap_or(0);
    let mut units: Vec<(u64, u64)> = units.into_iter().map(|(block, header)| (block, header.sequence)).collect();
    units.retain(|&(_, sequence)| sequence <= flushed);
    // Take the newest: the others may precede the log tail.
    units.sort_by_key(|&(_, sequence)| std::cmp::Reverse(sequence));
    units.truncate(8);
    units
}

fn is_zero(disk: &SimDisk, block: u64) -> bool {
    disk.cell(block).durable().id() == Content::zero().id()
}

/// Returns a page of a region that holds something on the medium.
pub(crate) fn written_page(setting: &Setting, disk: &SimDisk, rng: &mut Rng) -> Option<(u64, Region)> {
    let pages: Vec<(u64, Region)> = (0..disk.blocks())
        .filter(|&b| !is_zero(disk, b))
        .filter_map(|b| if let BlockUse::Page(id) = setting.volume.place(b) { Some((b, id.region)) } else { None })
        .collect();
    if pages.is_empty() { None } else { Some(pages[rng.usize(0..pages.len())]) }
}

/// Makes a sector of a block zero.
pub(crate) fn spoilt_sector(disk: &mut SimDisk, block: u64, rng: &mut Rng) {
    let (sector, content) = (rng.usize(0..8), disk.cell(block).durable().clone());
    record!("spoilt: sector {sector} of block {block} is zeros");
    disk.plant(block, content.patched(sector * 512, &[0; 512]));
}

/// Changes something on the medium. Returns false if there is nothing to change.
fn spoil(setting: &Setting, disk: &mut SimDisk, rng: &mut Rng) -> bool {
    let Some((page, region)) = written_page(setting, disk, rng) else { return false };
    let content = disk.cell(page).durable().clone();
    let sector = rng.usize(0..8);
    match rng.u8(0..5) {
        0 => {
            record!("spoilt: sector {sector} of block {page} ({}) is zeros", region.name());
            disk.plant(page, content.patched(sector * 512, &[0; 512]));
        }
        1 => {
            record!("spoilt: block {page} ({}) is zeros", region.name());
            disk.plant(page, Content::zero());
        }
        2 => flip(disk, page, &format!("block {page} ({})", region.name()), rng),
        3 => {
            // The sector of another page of the same region is valid, but not in this place.
            let Some((other, _)) = (0..20).filter_map(|_| written_page(setting, disk, rng)).find(|&(b, r)| r == region && b != page) else {
                return false;
            };
            record!("spoilt: sector {sector} of block {page} ({}) is that of block {other}", region.name());
            let from = disk.cell(other).durable().clone();
            disk.plant(page, content.patched(sector * 512, from.sector(sector)));
        }
        _ => {
            let data: Vec<u64> =
                (0..disk.blocks()).filter(|&b| !is_zero(disk, b) && matches!(setting.volume.place(b), BlockUse::Data(_))).collect();
            let Some(&block) = data.get(rng.usize(0..data.len().max(1))) else { return false };
            flip(disk, block, &format!("{:?}", setting.volume.place(block)), rng);
        }
    }
    true
}

/// Makes a device that damages data while it is used.
fn faulty_device(setting: &Setting, disk: &SimDisk, rng: &mut Rng) -> Box<dyn DeviceFault> {
    let data_from = setting.volume.data_from();
    let block = written_page(setting, disk, rng).map_or(data_from, |(b, _)| b);
    let block = if rng.bool() { block } else { rng.u64(data_from..disk.blocks() - 2) };
    match rng.u8(0..4) {
        0 => {
            record!("a rotten device: block {block}");
            Box::new(RottenDevice { first: block, blocks: 1 })
        }
        1 => {
            record!("a blank device: block {block}");
            Box::new(BlankDevice { first: block, blocks: 1 })
        }
        2 => {
            record!("a full device: from block {block}");
            Box::new(FullDevice { from: block })
        }
        _ => {
            let countdown = rng.u64(0..20);
            record!("a misdirecting device: write {countdown} goes to block {block}");
            Box::new(MisdirectingDevice { countdown, to: block })
        }
    }
}

/// Opens a damaged volume, and uses it: nothing wrong is served, and a write repairs what cannot be read.
pub(crate) fn life_after(
    explorer: &mut Explorer,
    setting: &Setting,
    disk: SimDisk,
    device_fault: Option<Box<dyn DeviceFault>>,
    sound: &LifeEnd,
    rng: &mut Rng,
) -> Result<(), Violation> {
    let machine =
        open_engine(&disk, setting, rng).map_err(|e| violation!("P1: one thing is damaged, and the volume does not open: {e}"))?;
    let mut world = World::new(setting.clone(), disk, sound.oracle.clone(), machine, rng.fork());
    (world.faults.errors, world.faults.spoilt) = (true, true);
    world.device_fault = device_fault;
    world.read_all()?;
    let events = rng.u64(5..EVENTS);
    world.run_until(true, |w| w.traffic.events >= events || w.faults.failed)?;
    world.settle()?;
    world.read_all()?;
    explorer.coverage.count_life(world.traffic.events, 0, 0);
    let found = world.notices.iter().filter(|n| matches!(n, Notice::Damage { .. })).count();
    explorer.coverage.count_spoilt(found > 0);
    if !world.faults.failed {
        world.heal()?;
    }
    Ok(())
}
