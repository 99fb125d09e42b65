//! The use of the data region: which blocks are free, which only their fingerprint keeps, and how full the volume is.
//!
//! 1. The counts on the refs pages, with those that `tables/pending_counts.rs` keeps beside them, are the truth. This module keeps
//!    summaries of them, which a scan in the background makes and no request waits for.
//! 2. A block is allocated only if its count is 0, its fingerprint entry is none, and no operation in flight uses it (R4, R7).
//! 3. Blocks are allocated in ascending order within one fingerprint page (200 blocks), so that neighbours share metadata pages.

mod allocate;
mod block_kinds;
pub(crate) mod by_block;
mod by_stream;
mod carriers;
mod census;
mod containers;
mod counts;
mod discard;
mod full;
mod full_volume;
mod give_back;
mod granules;
mod in_use;
mod kept_blocks;
mod reclaim;
mod removed_links;
mod returned;
mod scan;
mod stock;
mod stock_level;
mod supplies;
mod supply;
mod trim;
mod unwritten;

pub(crate) use block_kinds::{PendingBlock, SchemeBlock};
pub(crate) use census::Census;
use full_volume::FullVolume;
pub(crate) use granules::GRANULE_BLOCKS;
pub use removed_links::RemovedLinks;
use returned::ReturnedExcess;

use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::interface::StoreRoom;
use crate::map::Map;
use crate::settings::{Knobs, Settings};
use crate::units::{Pbn, Time, index};
use by_block::ByBlock;
use carriers::Carriers;
use kept_blocks::KeptBlocks;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use stock_level::Stock;
use supply::Supply;
use trim::Trim;
use unwritten::Unwritten;

/// Summaries of the refs pages, and the blocks that are ready to be allocated.
pub(crate) struct Space {
    pub census: Census,
    /// The number of free blocks in each group of refs pages, as far as the scan has come.
    free_in: Vec<u32>,
    group_pages: u64,
    refs_pages: u64,
    data_blocks: u64,
    /// The refs page at which the scan begins. It goes round from there.
    scan_start: u64,
    /// The scan could not read a page.
    scan_blind: bool,
    scan_done: u64,
    /// The free blocks that are ready, by [`Ground`](supply::Ground).
    supplies: [Supply; 2],
    unwritten: Unwritten,
    stock: Stock,
    /// Counts the changes that may help a writer that waits for a block; `changes_tried` is the count when the waiting writers were woken
    /// last.
    changes: u64,
    changes_tried: u64,
    last_try: u64,
    /// The granules with blocks that only their fingerprint keeps.
    kept: KeptBlocks,
    /// The store's last report of its room.
    store: StoreRoom,
    /// The blocks of that report that are not allocated yet.
    store_left: u64,
    /// The time at which blocks were last given back to the store.
    gave_back: Time,
    trim: Trim,
    /// The number of discards under way.
    discards: u64,
    /// Freed blocks that were not discarded yet.
    freed: BTreeSet<Pbn>,
    /// The scan waits for a page.
    scan_waits: bool,
    /// The percentage that was last reported to the owner of a thin volume.
    filling_warned: u64,
    /// Writes that wait for a block.
    pub waiters: VecDeque<usize>,
    full: FullVolume,
    /// The pending blocks.
    pub pending: ByBlock<PendingBlock>,
    /// Blocks that operations in flight use, with the number of pins (R7).
    pins: Map<Pbn, u32>,
    /// Blocks that promises of the last server name. Their counts may say that they are free, but they are not allocated until the links
    /// are committed.
    promised: Map<Pbn, ()>,
    /// Blocks that belong to the commit scheme.
    of_scheme: Map<Pbn, SchemeBlock>,
    /// The block that was allocated last.
    newest: Pbn,
    pub carriers: Carriers,
    returned: ReturnedExcess,
    geometry: Arc<Geometry>,
    policy: Policy,
}

/// The settings for a volume that fills.
pub(crate) struct Policy {
    /// Whether freed blocks are discarded.
    discard_freed: bool,
    /// The number of freed blocks that makes a batch of discards worth sending.
    discard_batch_blocks: u64,
    /// The blocks of a piece of a store in a file.
    piece_blocks: u64,
    /// The blocks of a container.
    container_blocks: u64,
    commit_period_ms: u64,
    keep_ms: u64,
    trim_rest_ms: u64,
    full_wait_ms: u64,
    retries_when_full: bool,
    refs_limit: u8,
}

impl Policy {
    pub fn of(settings: &Settings) -> Self {
        let Settings { discard_freed, commit_period_ms, keep_ms, full_wait_ms, .. } = *settings;
        let (retries_when_full, trim_rest_ms) = (settings.facts.retries_when_full, settings.facts.trim_rest_ms);
        let Knobs { discard_batch_blocks, stock_piece_blocks: piece_blocks, container_blocks, refs_limit, .. } = settings.knobs;
        Self {
            discard_freed,
            discard_batch_blocks,
            piece_blocks,
            container_blocks,
            commit_period_ms,
            keep_ms,
            trim_rest_ms,
            full_wait_ms,
            retries_when_full,
            refs_limit,
        }
    }
}

impl Space {
    pub fn new(geometry: Arc<Geometry>, newest: Pbn, work_bytes: u64, policy: Policy) -> Self {
        let refs_pages = geometry.pages_of_blocks(Region::Refs);
        let group_pages = refs_pages.div_ceil((work_bytes / 4 / 4).max(1)).max(1);
        let granule = newest.0 / GRANULE_BLOCKS;
        Self {
            census: Census::default(),
            free_in: vec![0; index(refs_pages.div_ceil(group_pages))],
            group_pages,
            refs_pages,
            data_blocks: geometry.data_blocks,
            scan_start: (newest.0 / Region::Refs.entries_per_page()).min(refs_pages - 1),
            scan_blind: false,
            scan_done: 0,
            supplies: [(); 2].map(|()| Supply::from(granule, policy.container_blocks)),
            unwritten: Unwritten::default(),
            stock: Stock::of(geometry.stock_of(policy.piece_blocks)),
            changes: 0,
            changes_tried: 0,
            last_try: 0,
            kept: KeptBlocks::new(index(work_bytes / 4 / 64).max(64), geometry.data_blocks.div_ceil(GRANULE_BLOCKS)),
            store: StoreRoom::default(),
            store_left: u64::MAX,
            gave_back: Time(0),
            trim: Trim::default(),
            discards: 0,
            freed: BTreeSet::new(),
            scan_waits: false,
            filling_warned: 0,
            waiters: VecDeque::new(),
            full: FullVolume::default(),
            pending: ByBlock::default(),
            pins: Map::default(),
            promised: Map::default(),
            of_scheme: Map::default(),
            newest,
            carriers: Carriers::new(newest, geometry.pages_of_blocks(Region::Fingerprints)),
            returned: ReturnedExcess::default(),
            geometry,
            policy,
        }
    }

    /// The number of granules on the volume.
    pub fn granules(&self) -> u64 {
        self.data_blocks.div_ceil(GRANULE_BLOCKS)
    }

    pub fn scan_complete(&self) -> bool {
        self.scan_done >= self.refs_pages
    }

    /// The refs page that the scan reads next.
    pub fn scan_next(&self) -> Option<u64> {
        (!self.scan_complete()).then(|| (self.scan_start + self.scan_done) % self.refs_pages)
    }

    fn scanned(&self, refs_page: u64) -> bool {
        self.scan_complete() || (refs_page + self.refs_pages - self.scan_start) % self.refs_pages < self.scan_done
    }

    /// Whether a refs page is known to have no free block.
    pub fn known_full(&self, refs_page: u64) -> bool {
        self.scanned(refs_page) && self.free_in[self.group(refs_page)] == 0 && self.group_scanned()
    }

    /// The group that a refs page belongs to.
    fn group(&self, refs_page: u64) -> usize {
        index(if self.group_pages == 1 { refs_page } else { refs_page / self.group_pages })
    }

    fn group_scanned(&self) -> bool {
        self.group_pages == 1 || self.scan_complete()
    }

    /// Updates the summaries for a changed count of a block. `of_scheme`: whether the block belongs to the scheme.
    pub fn counted(&mut self, refs_page: u64, pbn: Pbn, before: u8, after: u8, of_scheme: bool) {
        let granule = pbn.0 / GRANULE_BLOCKS;
        match (before == 1, after == 1) {
            (false, true) => self.kept.add(granule),
            (true, false) => self.kept.remove(granule),
            _ => {}
        }
        self.moved(refs_page, (before, of_scheme), (after, of_scheme));
    }

    /// Updates the summaries for a block with this count that joins the scheme, or leaves it.
    fn belongs_to_scheme(&mut self, refs_page: u64, refs: u8, of_scheme: bool) {
        self.moved(refs_page, (refs, !of_scheme), (refs, of_scheme));
    }

    /// Moves a block from one kind to another. A kind is a count, and whether the block belongs to the scheme.
    fn moved(&mut self, refs_page: u64, before: (u8, bool), after: (u8, bool)) {
        if !self.scanned(refs_page) {
            return;
        }
        self.census.take(before.0, before.1);
        self.census.add(after.0, after.1);
        let group = self.group(refs_page);
        let group = &mut self.free_in[group];
        *group = group.saturating_sub(u32::from(before == (0, false)));
        *group += u32::from(after == (0, false));
    }

    /// Adds a refs page that the scan has read, with these counts.
    fn scanned_page(&mut self, refs_page: u64, counts: impl IntoIterator<Item = (Pbn, u8)>) {
        let group = self.group(refs_page);
        for (pbn, refs) in counts {
            let of_scheme = self.is_of_scheme(pbn);
            self.census.add(refs, of_scheme);
            self.free_in[group] += u32::from((refs, of_scheme) == (0, false));
            if refs == 1 {
                // A granule that changed before the scan came is counted twice for a while. That is harmless: the number only orders
                // granules.
                self.kept.add(pbn.0 / GRANULE_BLOCKS);
            }
        }
        self.scan_done += 1;
    }

    /// Some block is no longer in use. It may be one that the allocator skipped.
    pub fn no_longer_busy(&mut self) {
        self.changes += 1;
        self.supplies.iter_mut().for_each(Supply::no_longer_busy);
    }

    /// Notes a change that may help a writer that waits for a block.
    pub fn has_changed(&mut self) {
        self.changes += 1;
    }

    /// Whether the writers that wait may all try once more, because something has changed since they did.
    pub fn begin_last_try(&mut self) -> bool {
        if self.last_try == self.changes {
            return false;
        }
        self.changes += 1;
        self.last_try = self.changes;
        true
    }

    /// Notes that the page that the scan waits for is there.
    pub fn scan_may_go_on(&mut self) {
        self.scan_waits = false;
    }

    /// The number of changes so far that may help who waits for a block.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The block that was allocated last.
    pub fn newest(&self) -> Pbn {
        self.newest
    }

    /// Whether the scan waits for a page.
    pub fn does_scan_wait(&self) -> bool {
        self.scan_waits
    }

    #[cfg(test)]
    pub fn let_scan_wait(&mut self, waits: bool) {
        self.scan_waits = waits;
    }
}

#[cfg(test)]
mod tests;
