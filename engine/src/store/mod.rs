//! The store of an open volume: the tables, the blocks and their content, the index, and the way to the device.
//!
//! Each part owns its state and takes what it needs of another by its arguments. This module has the methods that need several parts.

use crate::adaptation::Adaptation;
use crate::buffer::Home;
mod blocks_read;
mod counters;
mod duplicates;
mod fingerprints;
mod keys;
mod mapping;
mod medium;
mod proved;
mod remap;
mod sending;
mod settle;
mod slot;
mod superblock;
mod suspects;
mod verify;

pub(crate) use blocks_read::BlocksRead;
pub(crate) use counters::look_at_counters;
pub(crate) use duplicates::{Comparison, DuplicateSearch, MappedSince};
pub(crate) use keys::Keys;
pub(crate) use medium::Medium;
pub(crate) use remap::Remapped;
pub(crate) use slot::{BlockCondition, Place, in_slot, slot_of};
pub(crate) use verify::ExpectedContent;

use crate::charge::Memory;
use crate::contents::Contents;
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::format::superblock::Superblock;
use crate::index::{Index, Prefetched, Skipped, Uncompared};
use crate::io::Io;
use crate::memory::{Accountant, Part};
use crate::policy::Stream;
use crate::settings::Settings;
use crate::space::by_block::ByBlock;
use crate::space::{PendingBlock, Policy, Space};
use crate::tables::{RECORD_COST_BYTES, Settle, Tables};
use crate::units::{Blocks, Pbn, Time, count};
use std::sync::Arc;

/// This part of the memory for the index is for the skipped buffer: half for what is skipped, half for what is being looked up.
const SKIPPED_SHARE: u64 = 8;
/// The same part on a large volume, where a sweep would read more than [`PAGES_A_CANDIDATE`] pages of the fingerprint table for each LBN in
/// the buffer. An eighth of that is for what is skipped, an eighth for what is being set aside, the rest for the sieve.
const SKIPPED_SHARE_OF_LARGE: u64 = 4;
const PAGES_A_CANDIDATE: u64 = 2;
/// The bytes of the smallest buffer of a large volume, and of the smallest sieve.
const SKIPPED_BYTES_MIN: u64 = 1024;
const SIEVE_BYTES_MIN: u64 = 4096;

/// The parts of the memory for the index that are at least and at most for what was read.
const PREFETCHED_SHARES: (u64, u64) = (256, 4);

/// The shares of the memory for the index, in bytes.
#[derive(Clone, Copy)]
struct IndexShares {
    /// For the entries of the index.
    entries: u64,
    /// For each of two skipped buffers.
    skipped: u64,
    /// For the sieve: none on a small volume.
    sieve: u64,
}

impl IndexShares {
    fn of(settings: &Settings, accountant: &Accountant, geometry: &Geometry) -> Self {
        let share = accountant.limit(Part::Index);
        let knobs = &settings.knobs;
        let small = (share / SKIPPED_SHARE).min(knobs.skipped_bytes_max) / 2;
        let (skipped, sieve) = if !settings.finds_out_of_line() || small == 0 {
            (0, 0)
        } else if Self::is_large(small, geometry) || knobs.always_sieves {
            let all = (share / SKIPPED_SHARE_OF_LARGE).min(knobs.skipped_bytes_max);
            ((all / 8).max(SKIPPED_BYTES_MIN), (all / 4 * 3).max(SIEVE_BYTES_MIN))
        } else {
            (small, 0)
        };
        let entries = share.saturating_sub(2 * skipped + sieve).min(knobs.index_bytes_max);
        Self { entries, skipped, sieve }
    }

    fn is_large(skipped: u64, geometry: &Geometry) -> bool {
        let lbns = Skipped::new(skipped, geometry.logical_blocks, false).named_max();
        geometry.pages_of_blocks(crate::format::page::Region::Fingerprints) > PAGES_A_CANDIDATE * count(lbns)
    }
}

/// The bytes for what was read: what the index and the skipped buffer, which take `used`, leave of the share, within bounds.
fn share_of_prefetched(accountant: &Accountant, used: u64) -> u64 {
    let share = accountant.limit(Part::Index);
    share.saturating_sub(used).clamp(share / PREFETCHED_SHARES.0, share / PREFETCHED_SHARES.1)
}

/// The parts of an open volume that requests and commits use.
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
    pub prefetched: Prefetched,
    pub skipped: Skipped,
    pub uncompared: Uncompared,
    pub settle: Settle,
    pub adaptation: Adaptation,
}

impl Store {
    pub fn new(superblock: Superblock, settings: Settings, home: Arc<dyn Home>, accountant: Arc<Accountant>, now: Time) -> Self {
        let (geometry, newest) = (Arc::new(superblock.geometry.clone()), superblock.allocation_cursor);
        let shares = IndexShares::of(&settings, &accountant, &geometry);
        let for_skipped = 2 * shares.skipped + shares.sieve;
        let index = Index::new(shares.entries, geometry.data_blocks);
        let prefetched = Prefetched::new(share_of_prefetched(&accountant, index.bytes() + for_skipped));
        accountant.take(Part::Index, index.bytes() + for_skipped + prefetched.bytes());
        let uncompared = Uncompared::new(&superblock, settings.knobs.skipped_save_ms);
        let mut skipped = Skipped::new(shares.skipped, geometry.logical_blocks, shares.sieve > 0);
        skipped.restore(uncompared.skipped(), now);
        let (next, delay_ms) = (superblock.last_epoch + 1, settings.noncritical_delay_ms);
        let mut tables = Tables::new(geometry.clone(), superblock.origin, accountant.clone(), next, now, delay_ms);
        // After a crash some bits are out of date, until the recount has visited every page and set them.
        tables.bits_exact = superblock.keeps_counts() && !superblock.garbage_possible;
        Self {
            space: Space::new(geometry.clone(), newest, accountant.limit(Part::Work), Policy::of(&settings)),
            io: Io::new(home, now, settings.read_only),
            contents: Contents::new(accountant.clone()),
            memory: Memory::new(accountant),
            keys: Keys::of(&superblock),
            settle: Settle::default(),
            adaptation: Adaptation::new(settings.adapts_to_duplication, settings.finds_out_of_line()),
            medium: Medium::new(superblock),
            settings,
            geometry,
            tables,
            index,
            prefetched,
            skipped,
            uncompared,
        }
    }

    /// Gives the index this much memory, but no more than its share. It is empty then, and to be rebuilt.
    pub fn resize_index(&mut self, bytes: u64) {
        self.settings.knobs.index_bytes_max = bytes;
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

    /// The number of blocks that clients may address.
    pub fn logical(&self) -> Blocks {
        Blocks(self.geometry.logical_blocks)
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
        self.medium.superblock.garbage_possible = false;
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
}
