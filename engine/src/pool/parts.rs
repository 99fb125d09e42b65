//! The pool, and the one volume on it.

use super::shares::IndexShares;
use super::{Pool, Volume};
use crate::buffer::Home;
use crate::format::superblock::Superblock;
use crate::memory::Accountant;
use crate::settings::Settings;
use crate::units::Time;
use std::sync::Arc;

/// The parts that requests and commits use: the pool, and what belongs to the volume alone.
pub(crate) struct Parts {
    pub pool: Pool,
    pub volume: Volume,
}

impl Parts {
    pub fn new(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        let shares = IndexShares::of(&settings, &accountant, &superblock.geometry);
        let volume = Volume::new(&superblock, &settings, &shares, now);
        Self { pool: Pool::new(superblock, settings, &shares, home, accountant, now), volume }
    }
}
