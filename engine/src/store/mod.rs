//! What the volume holds, as everything above it uses it: the tables, the blocks, their content, what is known of it; and the way to the device.
//!
//! Each part owns its state; what one needs of another comes in by its arguments. What all of them together know stands here.

use crate::buffer::Home;
mod duplicates;
mod names;
mod proved;
mod settle;
mod slot;
mod verify;

pub(crate) use duplicates::{Compared, Known, Since};
pub(crate) use settle::Settle;
pub(crate) use slot::{Judged, in_slot, slot_of};
pub(crate) use verify::Expect;

use crate::charge::Memory;
use crate::contents::Contents;
use crate::fingerprint::Fingerprinter;
use crate::format::authenticator::Authenticator;
use crate::format::geometry::Geometry;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::io::Io;
use crate::medium::Medium;
use crate::memory::{Accountant, Part};
use crate::settings::Settings;
use crate::space::{Policy, Space};
use crate::tables::Tables;
use crate::units::Time;
use std::sync::Arc;

/// What this volume makes names and authenticators with.
pub(crate) struct Keys {
    pub fingerprinter: Fingerprinter,
    pub authenticator: Authenticator,
}

impl Keys {
    pub fn of(superblock: &Superblock) -> Self {
        Self { fingerprinter: superblock.fingerprinter(), authenticator: superblock.authenticator() }
    }
}

/// The volume below requests and commits.
pub(crate) struct Store {
    pub settings: Settings,
    pub geometry: Arc<Geometry>,
    pub keys: Keys,
    pub medium: Medium,
    pub memory: Memory,
    pub io: Io,
    pub tables: Tables,
    pub space: Space,
    pub contents: Contents,
    pub index: Index,
    pub settle: Settle,
}

impl Store {
    pub fn new(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        let (geometry, newest) = (Arc::new(superblock.geometry.clone()), superblock.allocation_cursor);
        let index = Index::new(accountant.limit(Part::Index), geometry.data_blocks);
        accountant.take(Part::Index, index.capacity() * 8);
        let (next, delay_ms) = (superblock.last_epoch + 1, settings.noncritical_delay_ms);
        let mut tables = Tables::new(geometry.clone(), superblock.uuid, accountant.clone(), next, now, delay_ms);
        // After a crash some bits are late; the recount comes by every page and sets them.
        tables.bits_exact = (superblock.clean || superblock.is_log_live()) && !superblock.garbage_possible;
        Self {
            space: Space::new(geometry.clone(), newest, accountant.limit(Part::Work), Policy::of(&settings)),
            io: Io::new(home, now, settings.read_only),
            contents: Contents::new(accountant.clone()),
            memory: Memory::new(accountant),
            keys: Keys::of(&superblock),
            settle: Settle::default(),
            medium: Medium::new(superblock),
            settings,
            geometry,
            tables,
            index,
        }
    }
}
