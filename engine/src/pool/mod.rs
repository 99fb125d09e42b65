//! The pool: the device, and everything on it that volumes would share.
//!
//! Each part owns its state and takes what it needs of another by its arguments. [`Pool`] has the methods that need several of its parts;
//! [`Parts`] has those that need the volume, too.

mod blocks_read;
mod counters;
mod duplicates;
mod expected;
mod fingerprints;
mod keys;
mod mapping;
mod medium;
mod parts;
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
pub(crate) use expected::ExpectedContent;
pub(crate) use keys::Keys;
pub(crate) use medium::Medium;
pub(crate) use parts::Parts;
pub(crate) use remap::Remapped;
pub(crate) use slot::{BlockCondition, Place, in_slot, slot_of};
pub(crate) use volume::Volume;

use crate::buffer::Home;
use crate::charge::Memory;
use crate::contents::Contents;
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::format::superblock::Superblock;
use crate::index::{Index, Prefetched};
use crate::io::Io;
use crate::memory::{Accountant, Part};
use crate::policy::Stream;
use crate::settings::Settings;
use crate::space::by_block::ByBlock;
use crate::space::{PendingBlock, Policy, Space};
use crate::tables::{RECORD_COST_BYTES, Settle, Tables};
use crate::units::{Epoch, Pbn, Time, count};
use shares::{IndexShares, share_of_prefetched};
use std::sync::Arc;

/// The parts that all volumes on a device would share.
pub(crate) struct Pool {
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
    pub prefetched: Prefetched,
    pub settle: Settle,
}

impl Pool {
    fn new(
        superblock: Superblock,
        settings: Settings,
        shares: &IndexShares,
        home: Arc<dyn Home>,
        accountant: Arc<Accountant>,
        now: Time,
    ) -> Self {
        let (geometry, newest) = (Arc::new(superblock.geometry.clone()), superblock.allocation_cursor);
        let index = Index::new(shares.entries, geometry.data_blocks);
        let used = index.bytes() + shares.out_of_line();
        let prefetched = Prefetched::new(share_of_prefetched(&accountant, used));
        accountant.take(Part::Index, used + prefetched.bytes());
        let (next, delay_ms) = (superblock.last_epoch + 1, settings.noncritical_delay_ms);
        let mut tables = Tables::new(geometry.clone(), superblock.origin, accountant.clone(), next, now, delay_ms);
        if superblock.keeps_counts() && !superblock.garbage_possible {
            // After a crash some bits are out of date, until the recount has visited every page and set them.
            tables.bits_are_exact();
        }
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
            prefetched,
        }
    }

    /// Gives the index this much memory, but no more than its share. It is empty then, and to be rebuilt.
    pub fn resize_index(&mut self, bytes: u64) {
        self.settings.knobs.limit_index(bytes);
        let shares = IndexShares::of(&self.settings, &self.memory.accountant, &self.geometry);
        self.memory.accountant.give(Part::Index, self.index.bytes());
        // The old entries go before the new ones take their room.
        self.index = Index::new(0, 0);
        self.index = Index::new(shares.entries, self.geometry.data_blocks);
        self.memory.accountant.take(Part::Index, self.index.bytes());
    }

    /// The memory for candidates that are set aside on free blocks; none on a small volume.
    pub fn sieve_bytes(&self) -> u64 {
        IndexShares::of(&self.settings, &self.memory.accountant, &self.geometry).sieve
    }

    /// Bytes charged for the open epoch's records and for pending blocks. Scattered pending blocks also take the memory of their
    /// neighbours.
    pub fn open_bytes(&self) -> u64 {
        // Pending blocks are charged like records, unless they are scattered. The assertion is here because Rust 1.85 reports what only a
        // `const _` uses as dead.
        const { assert!(ByBlock::<PendingBlock>::BYTES_IN_A_RUN <= RECORD_COST_BYTES) };
        let new_blocks = (count(self.space.pending.len()) * RECORD_COST_BYTES).max(self.space.pending.bytes());
        count(self.tables.open.records()) * RECORD_COST_BYTES + new_blocks
    }

    /// Whether too many removed links of earlier commits wait for their refs pages, so that no further ones may be unmapped.
    pub fn is_behind(&self) -> bool {
        count(self.settle.records()) * RECORD_COST_BYTES > self.memory.accountant.limit(Part::Dirty)
    }

    /// Notes that the counts that a recount has lowered are durable.
    pub fn recount_is_durable(&mut self) {
        self.space.returns_are_durable();
        self.medium.counts_are_exact();
    }

    /// The number of carriers on the volume; none while it is unknown.
    pub fn carriers(&self) -> Option<u64> {
        if self.medium.superblock.has_slots() { self.space.carriers.all() } else { Some(0) }
    }

    /// Warns the owner of a thin volume that it fills.
    pub fn warn_when_filling(&mut self) {
        let carriers = self.carriers();
        self.space.warn_when_filling(&mut self.io, carriers);
    }

    /// Removes the fingerprints of chosen blocks that nothing else keeps. The open epoch has `room` for records of that.
    pub fn reclaim(&mut self, room: usize) {
        let carriers = self.space.reclaim(&mut self.io, &mut self.tables, &mut self.index, room);
        carriers.into_iter().for_each(|pbn| self.space.carriers.changed(pbn, false));
    }

    /// Takes a free block if one is ready; its refs page is in memory. `Err`: that page has to be loaded first.
    pub fn take_free_block(&mut self) -> Result<Option<Pbn>, PageId> {
        let taken = self.space.take_free_block(&mut self.io, &mut self.tables, &mut self.contents.cache, Stream::UNKNOWN, true)?;
        taken.into_iter().for_each(|pbn| self.contents.suspects.forget(pbn));
        Ok(taken)
    }

    /// Serves only what is proved from now on, since flushed records are missing; records are valid up to this epoch.
    pub fn serve_only_proved(&mut self, last: Epoch) {
        self.tables.lack_records(last);
        self.settings.verify_all_reads();
    }
}
