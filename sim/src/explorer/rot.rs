//! Damage stays known: blocks of a closed volume rot, one life finds it, and the next one writes the right content anew.
//!
//! 1. What is lost is found out first, on a copy: the LBNs whose blocks have rotted.
//! 2. No other LBN is ever lost: neither the work out of line nor a write of a client gives up a sound copy for a block that is known to
//!    have rotted, or that it has not read.
//! 3. Once a life has found the damage, by reads or by a scrub, no end of it takes that back. Whoever writes the right content anew, in
//!    place or elsewhere, with or without another look before, reads it from then on, in this life and in every later one.
//! 4. Blocks that only their entries keep stay sound: no read finds their damage, and content that is written later may be linked to them.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{Choice, SimDisk};
use crate::device::power_loss::PowerLossStates;
use crate::device::volume::BlockUse;
use crate::explorer::explore::Explorer;
use crate::explorer::life::LifeEnd;
use crate::explorer::opening::open_engine;
use crate::explorer::options::{Options, Shape};
use crate::explorer::setting::Setting;
use crate::explorer::spoil::{flip, life_before};
use crate::explorer::world::World;
use crate::ground::content::Content;
use crate::ground::record::{self, record};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::interface::{Deduplicate, Event, Notice, ScrubOrder};
use onefold_engine::units::{BLOCK_BYTES, Lbn};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The volumes of a run, and the damages of each.
const VOLUMES: usize = 4;
const DAMAGES: usize = 6;
/// The most blocks that rot at once.
const BLOCKS_MAX: usize = 3;
/// The most device events of the clients of a life.
const EVENTS: u64 = 60;
/// The steps in which the work out of line, or a scrub, comes to its end.
const STEPS: usize = 3000;

/// Lets blocks of several volumes rot, and lives on.
///
/// # Errors
/// Returns the first violation.
pub fn run(explorer: &mut Explorer, options: &Options, rng: &mut Rng) -> Result<(), Violation> {
    let mark = record::mark();
    for _ in 0..VOLUMES {
        let mut options = options.clone();
        options.settings.verify_reads = true;
        let prepared = explorer.prepared(options.shape);
        let setting = prepared.setting(Rc::new(options));
        let left = LifeEnd::new(prepared.disk.clone(), prepared.oracle.clone());
        let sound = life_before(&setting, left, rng)?;
        for _ in 0..DAMAGES {
            let before = record::mark();
            rot(explorer, &setting, &sound, rng)?;
            record::forget(before);
            if explorer.is_late() {
                return Ok(());
            }
        }
        record::forget(mark);
    }
    Ok(())
}

fn rot(explorer: &mut Explorer, setting: &Setting, sound: &LifeEnd, rng: &mut Rng) -> Result<(), Violation> {
    let mut disk = sound.disk.clone();
    let is_data =
        |&block: &u64| matches!(setting.volume.place(block), BlockUse::Data(_)) && disk.cell(block).durable().id() != Content::zero().id();
    let data: Vec<u64> = (0..disk.blocks()).filter(is_data).collect();
    if data.is_empty() {
        return Ok(());
    }
    let rotten: Vec<u64> = (0..rng.usize(1..=BLOCKS_MAX)).map(|_| data[rng.usize(0..data.len())]).collect();
    for &block in &rotten {
        flip(&mut disk, block, &format!("{:?}", setting.volume.place(block)), rng);
    }
    let (lost, found) = lost_at_first(setting, &disk, &sound.oracle, rng)?;
    record!("lost: {lost:?}");
    let are_found = |found: &[Notice]| {
        let is_found = |pbn: u64| found.iter().any(|notice| matches!(notice, Notice::Damage { at, .. } if *at == pbn));
        rotten.iter().all(|&block| matches!(setting.volume.place(block), BlockUse::Data(pbn) if is_found(pbn)))
    };
    if lost.is_empty() || !are_found(&found) {
        return Ok(());
    }
    explorer.coverage.count_spoilt(true);
    let mut world = open(explorer, setting, LifeEnd::new(disk, sound.oracle.clone()), rng)?;
    if rng.bool() {
        dedup(&mut world)?;
    }
    find(&mut world, &lost, rng)?;
    if !are_found(&world.notices) {
        // The work out of line has mapped its LBNs to sound blocks before.
        return Ok(());
    }
    let events = world.traffic.events + rng.u64(0..EVENTS);
    world.run_until(true, |w| w.traffic.events >= events)?;
    if rng.bool() {
        world.settle()?;
        is_within(&mut world, &lost)?;
    }
    let mut left = end(world, rng)?;
    for life in 0..3 {
        let mut world = open(explorer, setting, left, rng)?;
        if life == 0 && !heals(&mut world, &lost, &sound.oracle, rng)? {
            return Ok(());
        }
        is_within(&mut world, &BTreeSet::new())?;
        if rng.bool() {
            dedup(&mut world)?;
        }
        let events = world.traffic.events + rng.u64(0..EVENTS);
        world.run_until(true, |w| w.traffic.events >= events)?;
        if rng.bool() {
            world.settle()?;
            is_within(&mut world, &BTreeSet::new())?;
        }
        left = end(world, rng)?;
    }
    is_clean(explorer, setting, left, rng)
}

/// Opens the volume for a life in which damage may be met.
fn open(explorer: &Explorer, setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<World, Violation> {
    record!("--- another life");
    let setting = explorer.in_another_life(setting, rng);
    let machine =
        open_engine(&left.disk, &setting, rng).map_err(|e| violation!("P1: blocks have rotted, and the volume does not open: {e}"))?;
    let mut world = World::new(setting, left.disk, left.oracle, machine, rng.fork());
    world.faults.errors = true;
    Ok(world)
}

/// The LBNs whose content has rotted, as a server that only reads finds them, and what it reports.
fn lost_at_first(setting: &Setting, disk: &SimDisk, oracle: &Oracle, rng: &mut Rng) -> Result<(BTreeSet<u64>, Vec<Notice>), Violation> {
    let mut options = (*setting.options).clone();
    options.settings.read_only = true;
    let setting = Setting { options: Rc::new(options), ..setting.clone() };
    let machine = open_engine(disk, &setting, rng).map_err(|e| violation!("P1: blocks have rotted, and the volume does not open: {e}"))?;
    let mut world = World::new(setting, disk.clone(), oracle.clone(), machine, rng.fork());
    world.faults.errors = true;
    Ok((lost(&mut world)?, world.notices))
}

/// Reads every LBN that clients use by itself. Returns those that cannot be read.
fn lost(world: &mut World) -> Result<BTreeSet<u64>, Violation> {
    world.client.take_unreadable();
    for (first, blocks) in world.setting.stretches.clone().iter() {
        for lbn in *first..first + blocks {
            let read = world.client.read(lbn * BLOCK_BYTES, BLOCK_BYTES, &mut world.oracle);
            world.send(read)?;
        }
        world.run_until(false, |w| w.client.waiting() == 0)?;
    }
    Ok(world.client.take_unreadable())
}

/// Checks that nothing else is lost.
fn is_within(world: &mut World, expected: &BTreeSet<u64>) -> Result<(), Violation> {
    let found = lost(world)?;
    match found.difference(expected).next() {
        Some(lbn) => {
            Err(violation!("P6: LBN {lbn} cannot be read, though its content was sound, or was written anew after the damage was found"))
        }
        None => Ok(()),
    }
}

/// Finds the damage.
fn find(world: &mut World, lost: &BTreeSet<u64>, rng: &mut Rng) -> Result<(), Violation> {
    if rng.bool() {
        return is_within(world, lost);
    }
    world.feed(Event::Scrub(ScrubOrder::Begin { kib_per_second: 1 << 20 }))?;
    let is_over = |world: &World| world.notices.iter().any(|notice| matches!(notice, Notice::Scrubbed { .. }));
    work_until(world, is_over)?;
    if is_over(world) { Ok(()) } else { is_within(world, lost) }
}

/// Has all duplicates looked for.
fn dedup(world: &mut World) -> Result<(), Violation> {
    world.feed(Event::Deduplicate(Deduplicate::Range { first: Lbn(0), end: Lbn(u64::MAX) }))?;
    work_until(world, |_| false)
}

/// Lets the background work, until that is done or there is nothing to do.
fn work_until(world: &mut World, done: impl Fn(&World) -> bool) -> Result<(), Violation> {
    for _ in 0..STEPS {
        if done(world) || !world.step(false)? && !world.pass_time()? {
            break;
        }
    }
    Ok(())
}

/// Ends a life in any way, at any moment.
fn end(mut world: World, rng: &mut Rng) -> Result<LifeEnd, Violation> {
    let disk = match rng.u8(0..4) {
        0 => {
            world.close()?;
            world.oracle.promised_by_flush().into_iter().for_each(|mark| world.oracle.raise(mark));
            world.disk.cut(&Choice::new())
        }
        1 => {
            record!("--- killed");
            world.disk.kill(rng)
        }
        _ => {
            let states = PowerLossStates::of(&world.disk, &world.setting.volume);
            let choices = states.choices(&world.disk, 4, rng);
            let choice = choices.get(rng.usize(0..choices.len().max(1))).cloned().unwrap_or_default();
            record!("--- power cut: {choice:?}");
            world.disk.cut(&choice)
        }
    };
    let mut oracle = world.oracle;
    oracle.reopen();
    Ok(LifeEnd::new(disk, oracle))
}

/// Writes what was lost anew, with its right content, and makes it durable. Returns whether there was room for all of it.
fn heals(world: &mut World, lost: &BTreeSet<u64>, sound: &Oracle, rng: &mut Rng) -> Result<bool, Violation> {
    if rng.bool() {
        // The index may have to be rebuilt before it leads to a block that has rotted.
        work_until(world, |_| false)?;
    }
    let all: Vec<u64> = world.setting.stretches.iter().flat_map(|&(first, blocks)| first..first + blocks).collect();
    let refused = world.client.refused_writes;
    for &lbn in lost {
        let content = sound.newest(lbn);
        for lbn in [lbn, all[rng.usize(0..all.len())]] {
            if lost.contains(&lbn) && sound.newest(lbn).id() != content.id() {
                continue;
            }
            let write = world.client.write(lbn, std::slice::from_ref(&content), false, &mut world.oracle);
            world.send(write)?;
            world.run_until(false, |w| w.client.waiting() == 0)?;
        }
    }
    let flush = world.client.flush(&world.oracle);
    world.send(flush)?;
    world.run_until(false, |w| w.client.waiting() == 0)?;
    Ok(world.client.refused_writes == refused)
}

/// Closes the volume, and checks that no entry says anything wrong any more.
fn is_clean(explorer: &Explorer, setting: &Setting, left: LifeEnd, rng: &mut Rng) -> Result<(), Violation> {
    let mut world = open(explorer, setting, left, rng)?;
    is_within(&mut world, &BTreeSet::new())?;
    world.close()?;
    if matches!(setting.options.shape, Shape::Linked | Shape::Spread) {
        // The content of LBNs that no client uses may have rotted, too, and nobody writes it anew.
        return Ok(());
    }
    let mut oracle = world.oracle.clone();
    oracle.promised_by_flush().into_iter().for_each(|mark| oracle.raise(mark));
    crate::checkers::audit::audit(&world.disk, &world.setting.volume, &oracle, rng)
}
