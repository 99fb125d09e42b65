//! The store of an open volume: the tables, the blocks and their content, the index, and the way to the device.
//!
//! Each part owns its state and takes what it needs of another by its arguments. This module has the methods that need several parts.

use crate::adaptation::Adaptation;
use crate::buffer::Home;
mod blocks_read;
mod counters;
mod duplicates;
mod fingerprints;
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
pub(crate) use duplicates::{Comparison, DuplicateSearch, MappedSince};
pub(crate) use medium::Medium;
pub(crate) use remap::Remapped;
pub(crate) use slot::{BlockCondition, Place, in_slot, slot_of};
pub(crate) use verify::ExpectedContent;

use crate::charge::Memory;
use crate::contents::Contents;
use crate::fingerprint::Fingerprinter;
use crate::format::authenticator::Authenticator;
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::format::superblock::Superblock;
use crate::index::{Index, Prefetched, Skipped, Uncompared};
use crate::interface::{Failure, Reply, RequestId};
use crate::io::Io;
use crate::memory::{Accountant, Part};
use crate::policy::Stream;
use crate::schedule::Task;
use crate::settings::Settings;
use crate::space::by_block::ByBlock;
use crate::space::{PendingBlock, Policy, Space};
use crate::tables::{RECORD_COST_BYTES, Settle, Tables};
use crate::units::{Blocks, Pbn, Time, count};
use std::sync::Arc;

/// This part of the memory for the index is for the skipped buffer: half for what is skipped, half for what is being looked up.
const SKIPPED_SHARE: u64 = 8;

/// The parts of the memory for the index that are at least and at most for what was read.
const PREFETCHED_SHARES: (u64, u64) = (256, 4);

/// The keys by which this volume makes fingerprints and authenticators.
pub(crate) struct Keys {
    pub fingerprinter: Fingerprinter,
    pub authenticator: Authenticator,
}

impl Keys {
    pub fn of(superblock: &Superblock) -> Self {
        Self { fingerprinter: superblock.fingerprinter(), authenticator: superblock.authenticator() }
    }
}

/// The bytes for the entries of the index, and those for the skipped buffer.
fn index_shares(settings: &Settings, accountant: &Accountant) -> (u64, u64) {
    let share = accountant.limit(Part::Index);
    let for_skipped = if settings.finds_out_of_line() { (share / SKIPPED_SHARE).min(settings.knobs.skipped_bytes_max) } else { 0 };
    ((share - for_skipped).min(settings.knobs.index_bytes_max), for_skipped)
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
        let (for_index, for_skipped) = index_shares(&settings, &accountant);
        let index = Index::new(for_index, geometry.data_blocks);
        let prefetched = Prefetched::new(share_of_prefetched(&accountant, index.bytes() + for_skipped));
        accountant.take(Part::Index, index.bytes() + for_skipped + prefetched.bytes());
        let uncompared = Uncompared::new(geometry.logical_blocks, superblock.uncompared, settings.knobs.skipped_save_ms);
        let mut skipped = Skipped::new(for_skipped / 2, geometry.logical_blocks);
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
        let (for_index, _) = index_shares(&self.settings, &self.memory.accountant);
        self.memory.accountant.give(Part::Index, self.index.bytes());
        // The old entries go before the new ones take their room.
        self.index = Index::new(0, 0);
        self.index = Index::new(for_index, self.geometry.data_blocks);
        self.memory.accountant.take(Part::Index, self.index.bytes());
    }

    /// The number of blocks that clients may address.
    pub fn logical(&self) -> Blocks {
        Blocks(self.geometry.logical_blocks)
    }

    /// Answers a request that fails.
    #[cold]
    pub fn refuse(&mut self, request: RequestId, failure: Failure) {
        match failure {
            Failure::Full => self.space.send_back(&mut self.io, request),
            _ => self.io.reply(request, Reply::Failed(failure)),
        }
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

    /// Schedules the commit under way, because something that it may wait for has ended.
    pub fn commit_may_go_on(&mut self) {
        if self.tables.committing.is_some() {
            self.io.schedule.push(Task::Commit);
        }
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
