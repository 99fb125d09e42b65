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
    pub scan_blind: bool,
    pub scan_done: u64,
    /// The free blocks that are ready, by [`Ground`](supply::Ground).
    supplies: [Supply; 2],
    unwritten: Unwritten,
    stock: Stock,
    /// Counts the changes that may help a writer that waits for a block; `changes_tried` is the count when the waiting writers were woken
    /// last.
    pub changes: u64,
    pub changes_tried: u64,
    pub last_try: u64,
    /// Granules with blocks that only their fingerprint keeps: by the rank of their number, and the number by granule.
    kept_order: BTreeSet<(u32, u64)>,
    kept_in: Map<u64, KeptBlocks>,
    kept_room: usize,
    /// Granules whose removals are under way. They are not chosen again meanwhile.
    reclaiming: BTreeSet<u64>,
    /// Granules in which nothing could be reclaimed. They are not chosen before [`Space::wake_granules`].
    resting: Vec<u64>,
    /// The last granule that was tried although `kept_order` does not list it, and the number of granules left to try.
    pub trial: u64,
    pub trials_left: u64,
    /// The time of this step in seconds.
    pub clock_s: u32,
    /// The store's last report of its room.
    pub store: StoreRoom,
    /// The blocks of that report that are not allocated yet.
    pub store_left: u64,
    /// The time at which blocks were last given back to the store.
    pub gave_back: Time,
    trim: Trim,
    /// The number of discards under way.
    pub discards: u64,
    /// Freed blocks that were not discarded yet.
    pub freed: BTreeSet<Pbn>,
    /// The scan waits for a page.
    pub scan_waits: bool,
    /// The percentage that was last reported to the owner of a thin volume.
    pub filling_warned: u64,
    /// Writes that wait for a block.
    pub waiters: VecDeque<usize>,
    pub full: FullVolume,
    /// Granules that were chosen for reclaim and wait for their pages.
    chosen: Vec<u64>,
    /// The pending blocks.
    pub pending: ByBlock<PendingBlock>,
    /// Blocks that operations in flight use, with the number of pins (R7).
    pub pins: Map<Pbn, u32>,
    /// Blocks that promises of the last server name. Their counts may say that they are free, but they are not allocated until the links
    /// are committed.
    pub promised: Map<Pbn, ()>,
    /// Blocks that belong to the commit scheme.
    pub of_scheme: Map<Pbn, SchemeBlock>,
    /// The block that was allocated last.
    pub newest: Pbn,
    pub carriers: Carriers,
    pub returned: ReturnedExcess,
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

/// The number of blocks of a granule that only their fingerprint keeps, and when that changed last, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct KeptBlocks {
    blocks: u32,
    since_s: u32,
}

/// The rank by which granules are ordered. From eight kept blocks on, eight numbers share a rank, so that most changes move no granule.
fn rank(kept: u32) -> u32 {
    if kept < 8 { kept } else { 7 + kept / 8 }
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
            kept_order: BTreeSet::new(),
            kept_in: Map::default(),
            kept_room: index(work_bytes / 4 / 64).max(64),
            reclaiming: BTreeSet::new(),
            resting: Vec::new(),
            trial: 0,
            trials_left: geometry.data_blocks.div_ceil(GRANULE_BLOCKS),
            clock_s: 0,
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
            chosen: Vec::new(),
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
            (false, true) => self.add_kept(granule),
            (true, false) => self.remove_kept(granule),
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
                self.add_kept(pbn.0 / GRANULE_BLOCKS);
            }
        }
        self.scan_done += 1;
    }

    fn add_kept(&mut self, granule: u64) {
        let n = self.kept(granule);
        if n > 0 || self.kept_in.len() < self.kept_room {
            self.set_kept(granule, n, n + 1);
        }
    }

    fn remove_kept(&mut self, granule: u64) {
        if let Some(KeptBlocks { blocks, .. }) = self.kept_in.get(&granule).copied() {
            self.set_kept(granule, blocks, blocks - 1);
        }
    }

    fn kept(&self, granule: u64) -> u32 {
        self.kept_in.get(&granule).map_or(0, |kept| kept.blocks)
    }

    /// Takes up to `most` granules with at least `least` kept blocks whose number has not changed since that second. They are not taken
    /// again before [`Self::reclaimed`].
    pub fn take_unused(&mut self, since_s: u32, least: u32, most: usize) -> Vec<u64> {
        let is_old = |(granule, kept): (&u64, &KeptBlocks)| {
            (kept.since_s <= since_s && kept.blocks >= least && !self.reclaiming.contains(granule)).then_some(*granule)
        };
        let unused: Vec<u64> = self.kept_in.iter().filter_map(is_old).take(most).collect();
        for &granule in &unused {
            self.kept_order.remove(&(rank(self.kept(granule)), granule));
            self.reclaiming.insert(granule);
        }
        unused
    }

    /// Changes the number of kept blocks of a granule from `before` to `after`.
    fn set_kept(&mut self, granule: u64, before: u32, after: u32) {
        if after == 0 {
            self.kept_in.remove(&granule);
        } else {
            self.kept_in.insert(granule, KeptBlocks { blocks: after, since_s: self.clock_s });
        }
        if rank(before) != rank(after) {
            self.kept_order.remove(&(rank(before), granule));
            if after > 0 && !self.reclaiming.contains(&granule) {
                self.kept_order.insert((rank(after), granule));
            }
        }
    }

    /// Takes the granule with the most kept blocks. Returns their number and the granule, which is not taken again before
    /// [`Self::reclaimed`].
    pub fn take_most_kept(&mut self) -> Option<(u32, u64)> {
        let (_, granule) = self.kept_order.pop_last()?;
        self.reclaiming.insert(granule);
        Some((self.kept(granule), granule))
    }

    /// Nothing could be reclaimed in a granule, since its blocks are in use: it rests until [`Self::wake_granules`].
    pub fn rest_granule(&mut self, granule: u64) {
        self.resting.push(granule);
    }

    /// Some block is no longer in use. It may be one that the allocator skipped.
    pub fn no_longer_busy(&mut self) {
        self.changes += 1;
        self.supplies.iter_mut().for_each(Supply::no_longer_busy);
    }

    /// Lets the granules that rest be chosen again.
    pub fn wake_granules(&mut self) {
        while let Some(granule) = self.resting.pop() {
            self.reclaimed(granule);
        }
    }

    /// The removals in a granule are durable.
    pub fn reclaimed(&mut self, granule: u64) {
        if self.reclaiming.remove(&granule) {
            let kept = self.kept(granule);
            if kept > 0 {
                self.kept_order.insert((rank(kept), granule));
            }
        }
    }

    /// The next granule that may have kept blocks although `kept_order` does not list it.
    pub fn next_trial(&mut self) -> Option<u64> {
        if self.trials_left == 0 {
            return None;
        }
        self.trials_left -= 1;
        self.trial = (self.trial + 1) % self.granules();
        (!self.reclaiming.contains(&self.trial)).then_some(self.trial)
    }
}

#[cfg(test)]
mod tests;
