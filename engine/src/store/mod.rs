//! The store of an open volume: the pool, and what belongs to the one volume on it.
//!
//! Each part owns its state and takes what it needs of another by its arguments. `Pool` has the methods that need several of its parts;
//! `Store` has those that need the volume, too.

mod blocks_read;
mod counters;
mod duplicates;
mod fingerprints;
mod keys;
mod mapping;
mod medium;
mod pool;
mod proved;
mod remap;
mod sending;
mod settle;
mod shares;
mod skipping;
mod slot;
mod superblock;
mod suspects;
mod verify;
mod volume;

pub(crate) use blocks_read::BlocksRead;
pub(crate) use counters::look_at_counters;
pub(crate) use duplicates::{Comparison, DuplicateSearch, MappedSince};
pub(crate) use keys::Keys;
pub(crate) use medium::Medium;
pub(crate) use pool::Pool;
pub(crate) use remap::Remapped;
pub(crate) use slot::{BlockCondition, Place, in_slot, slot_of};
pub(crate) use verify::ExpectedContent;
pub(crate) use volume::Volume;

use crate::buffer::Home;
use crate::format::superblock::Superblock;
use crate::memory::Accountant;
use crate::settings::Settings;
use crate::units::Time;
use shares::IndexShares;
use std::sync::Arc;

/// The parts that requests and commits use.
pub(crate) struct Store {
    pub pool: Pool,
    pub volume: Volume,
}

impl Store {
    pub fn new(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        let shares = IndexShares::of(&settings, &accountant, &superblock.geometry);
        let volume = Volume::new(&superblock, &settings, &shares, now);
        Self { pool: Pool::new(superblock, settings, &shares, home, accountant, now), volume }
    }
}
