//! The opening of a volume: the engine is made for what is on the device.

use super::setting::Setting;
use crate::device::disk::SimDisk;
use crate::device::superblock::superblock_of;
use crate::machine::{Machine, PlainHome};
use fastrand::Rng;
use onefold_engine::Engine;
use onefold_engine::format::copies::OpenError;
use onefold_engine::memory::{Accountant, Part};
use onefold_engine::units::{BLOCK_BYTES, Bytes, Time};
use std::ops::Range;
use std::sync::Arc;

/// Opens the engine on what is on the device.
///
/// # Errors
/// Fails if there is no volume.
pub fn open_engine(disk: &SimDisk, setting: &Setting, rng: &mut Rng) -> Result<Box<dyn Machine>, OpenError> {
    let superblock = superblock_of(disk, rng)?.into_service();
    let settings = setting.options.settings.clone();
    let accountant = Accountant::divided(settings.memory_bytes, settings.commit_mode.has_log());
    // The share of the smallest budget would hold every page and block of so small a volume.
    for (part, most) in [(Part::Pages, setting.options.pages), (Part::ReadCache, setting.options.cached)] {
        if let Some(blocks) = most {
            accountant.take(part, accountant.limit(part).saturating_sub(blocks * BLOCK_BYTES));
        }
    }
    let mut engine = Engine::open(superblock, settings, Arc::new(PlainHome), accountant, Time(1_000_000_000));
    if setting.options.in_file {
        // Drawn from a copy, so that a seed finds again what it has found.
        engine.take_unwritten(&unwritten(disk, &mut rng.clone()));
    }
    Ok(Box::new(engine))
}

/// Draws what the host of a file has never written. It is advice, so anything may be drawn.
fn unwritten(disk: &SimDisk, rng: &mut Rng) -> Vec<Range<Bytes>> {
    let blocks = disk.blocks();
    let mut run = || {
        let first = rng.u64(0..blocks);
        Bytes(first * BLOCK_BYTES)..Bytes((first + rng.u64(1..=blocks - first)) * BLOCK_BYTES)
    };
    (0..3).map(|_| run()).collect()
}
