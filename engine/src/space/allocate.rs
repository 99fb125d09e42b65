//! Allocation of free blocks.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use super::supply::{Ground, READY_BLOCKS, granules_without};
use crate::contents::ReadCache;
use crate::format::page::{PageId, Region};
use crate::interface::Notice;
use crate::io::{Io, Stage};
use crate::policy::Stream;
use crate::schedule::{Blocked, Task};
use crate::tables::{Access, Tables};
use crate::units::{Lbn, Pbn, index};

/// The first new blocks of an epoch, this many, are written where the host has written before: most epochs that somebody waits for have no
/// more.
const SMALL_BLOCKS_MAX: usize = 64;
/// The number of granules that one step examines before the engine attends to other things.
const GRANULES_A_STEP: u64 = 64;

impl Space {
    /// Allocates a block for new content of `lbn`, which a stream writes; `promised` free blocks are kept for others. The refs page of the
    /// block is in memory.
    pub fn allocate(
        &mut self,
        io: &mut Io,
        tables: &mut Tables,
        cache: &mut ReadCache,
        (lbn, stream): (Lbn, Stream),
        promised: u64,
    ) -> Result<Pbn, Blocked> {
        if self.store_is_out(io.stage()) || !self.may_take_from_reserve(io, tables, lbn)? {
            return Err(Blocked::Space);
        }
        // A commit ends the promises, so it comes first.
        if promised > 0 && self.census.free <= promised {
            return Err(Blocked::Space);
        }
        let is_small = tables.open.new_blocks.len() < SMALL_BLOCKS_MAX;
        let pbn = self.take_free_block(io, tables, cache, stream, is_small).map_err(Blocked::Page)?.ok_or(Blocked::Space)?;
        self.store_left = self.store_left.saturating_sub(1);
        self.found_room(io);
        Ok(pbn)
    }

    /// Takes a free block for a stream if one is ready; its refs page is in memory. `is_small`: it is for the log, or a small epoch
    /// (`stock.rs`). `Err`: that page has to be loaded first.
    pub fn take_free_block(
        &mut self,
        io: &mut Io,
        tables: &mut Tables,
        cache: &mut ReadCache,
        stream: Stream,
        is_small: bool,
    ) -> Result<Option<Pbn>, PageId> {
        let has_grounds = !self.unwritten.is_empty();
        let ground = if !has_grounds || is_small || self.has_more_than_stock() { Ground::Written } else { Ground::Unwritten };
        if stream != Stream::UNKNOWN {
            let found = self.take_from_container(io, tables, cache, (ground, stream))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        match self.take_from(io, tables, cache, ground)? {
            None if has_grounds => self.take_from(io, tables, cache, ground.other()),
            found => Ok(found),
        }
    }

    fn take_from(&mut self, io: &mut Io, tables: &mut Tables, cache: &mut ReadCache, ground: Ground) -> Result<Option<Pbn>, PageId> {
        if self.supply(ground).ready.len() < READY_BLOCKS / 2 {
            self.prepare_free_blocks(io, tables);
        }
        self.take_ready(io, tables, cache, ground, Stream::UNKNOWN)
    }

    /// Takes the first block that is still free of those that are ready for a stream: those of its container, or those for all.
    pub(super) fn take_ready(
        &mut self,
        io: &mut Io,
        tables: &mut Tables,
        cache: &mut ReadCache,
        ground: Ground,
        stream: Stream,
    ) -> Result<Option<Pbn>, PageId> {
        for _ in 0..self.supply(ground).ready_of(stream).len() {
            let Some(&pbn) = self.supply(ground).ready_of(stream).front() else { break };
            let (page, at) = self.geometry.refs_of(pbn);
            let committed = match tables.ensure(io, page) {
                Access::Loading => return Err(page),
                Access::Unreadable => {
                    self.supply(ground).ready_of(stream).pop_front();
                    continue;
                }
                Access::Ready(resident) => resident.page().content.refs(at),
            };
            self.supply(ground).ready_of(stream).pop_front();
            if tables.with_pending(pbn, committed) != 0 {
                continue;
            }
            if self.is_busy(pbn) {
                self.supply(ground).ready_of(stream).push_back(pbn);
                continue;
            }
            // The block is not pinned, so reads of its former content are over.
            cache.forget(pbn);
            self.newest = pbn;
            return Ok(Some(pbn));
        }
        Ok(None)
    }

    /// Whether `lbn` may take a block of the reserve. The last blocks of a thin volume are for overwrites, which free as much as they take
    /// once they are committed.
    fn may_take_from_reserve(&mut self, io: &mut Io, tables: &mut Tables, lbn: Lbn) -> Result<bool, Blocked> {
        if io.stage() == Stage::Replaying {
            // Replayed writes were admitted before, when there was room.
            return Ok(true);
        }
        if self.has_more_than_reserve() {
            return Ok(true);
        }
        match tables.lookup(io, lbn) {
            Ok(entry) => Ok(entry.is_some_and(|e| e.pbn().is_some()) || self.may_journal_take_from_reserve(lbn)),
            Err(page) => Err(Blocked::Page(page)),
        }
    }

    /// Fills the lists of ready blocks, as far as pages in memory allow.
    pub fn prepare_free_blocks(&mut self, io: &mut Io, tables: &mut Tables) {
        let written = self.prepare(io, tables, Ground::Written);
        let unwritten = self.unwritten.is_empty() || self.prepare(io, tables, Ground::Unwritten);
        if written && unwritten {
            self.wake_waiters(io);
        }
    }

    /// Fills the list of ready blocks of one kind. Returns whether nothing is left to do: otherwise a page has to be loaded first, or the
    /// engine attends to other things.
    fn prepare(&mut self, io: &mut Io, tables: &mut Tables, ground: Ground) -> bool {
        let granules = self.granules();
        let mut looked = 0;
        while self.supply(ground).ready.len() < READY_BLOCKS && self.supply(ground).fruitless <= granules {
            let granule = match self.supply(ground).preparing {
                Some(granule) => granule,
                None => {
                    looked += 1;
                    if looked > GRANULES_A_STEP {
                        return false;
                    }
                    let granule = self.supply(ground).cursor % granules;
                    let without =
                        if self.unwritten.is_empty() { 0 } else { granules_without(&self.unwritten, &self.geometry, ground, granule) };
                    let supply = self.supply(ground);
                    supply.cursor = granule + without.max(1);
                    supply.fruitless += without.max(1);
                    let page = self.geometry.refs_of(Pbn(granule * GRANULE_BLOCKS)).0;
                    if without > 0 || self.known_full(page.index) {
                        continue;
                    }
                    self.supply(ground).preparing = Some(granule);
                    granule
                }
            };
            if !self.look_at_granule(io, tables, ground, granule) {
                return false;
            }
            self.supply(ground).preparing = None;
        }
        // The last free blocks may lie in containers.
        let supply = self.supply(ground);
        if supply.ready.is_empty() && supply.containers.give_up() {
            supply.fruitless = 0;
            return self.prepare(io, tables, ground);
        }
        true
    }

    /// Adds the free blocks of a kind in a granule to the ready ones. False: a page has to be loaded first.
    fn look_at_granule(&mut self, io: &mut Io, tables: &mut Tables, ground: Ground, granule: u64) -> bool {
        let first = Pbn(granule * GRANULE_BLOCKS);
        let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
        let free = match self.free_blocks(io, tables, ground, (first, blocks)) {
            Ok(free) => free,
            Err(page) => {
                tables.wait(io, page, Task::Allocate);
                return false;
            }
        };
        // A granule comes round again only when the volume is nearly full, so few of its blocks, if any, are ready already.
        let supply = self.supply(ground);
        let ready: Vec<Pbn> = supply.ready.iter().copied().filter(|pbn| pbn.0 / GRANULE_BLOCKS == granule).collect();
        for pbn in free {
            let supply = self.supply(ground);
            if !ready.contains(&pbn) && !supply.containers.have(pbn) {
                supply.ready.push_back(pbn);
                supply.fruitless = 0;
                self.changes += 1;
            }
        }
        true
    }

    /// The free blocks of a kind among these of one granule. None where a page cannot be read. `Err`: that page has to be loaded first.
    pub(super) fn free_blocks(
        &mut self,
        io: &mut Io,
        tables: &mut Tables,
        ground: Ground,
        (first, blocks): (Pbn, u64),
    ) -> Result<Vec<Pbn>, PageId> {
        let (refs, at) = self.geometry.refs_of(first);
        match tables.ensure(io, refs) {
            Access::Loading => return Err(refs),
            Access::Unreadable => return Ok(Vec::new()),
            Access::Ready(_) => {}
        }
        let mut free = tables.blocks_with(0, refs, at, first, blocks);
        if free.is_empty() {
            return Ok(free);
        }
        let granule = first.0 / GRANULE_BLOCKS;
        let names = PageId { region: Region::Fingerprints, index: granule };
        match tables.ensure(io, names) {
            Access::Loading => return Err(names),
            Access::Unreadable => return Ok(Vec::new()),
            Access::Ready(_) => {}
        }
        free.retain(|&pbn| {
            if self.ground_of(pbn) != ground {
                return false;
            }
            if self.is_busy(pbn) {
                self.supply(ground).passed_over = true;
                return false;
            }
            let is_nameless = tables.pages.expect(names).content.fingerprint(index(pbn.0 % GRANULE_BLOCKS)).is_none();
            if !is_nameless {
                io.notice(Notice::Damage { what: "a free block has a fingerprint", at: pbn.0 });
            }
            is_nameless
        });
        Ok(free)
    }

    /// Wakes the writers that wait for a block, once after each change that may help them: a free block may be kept for overwrites.
    pub fn wake_waiters(&mut self, io: &mut Io) {
        if self.changes == self.changes_tried {
            return;
        }
        self.changes_tried = self.changes;
        io.schedule.extend(self.waiters.drain(..).map(Task::Write));
    }
}
