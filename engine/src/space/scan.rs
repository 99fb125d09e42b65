//! The scan of the refs pages, in the background: how many blocks are free, and where blocks are kept for dedup alone.

use crate::engine::Engine;
use crate::format::page::{PageId, Region};
use crate::format::unit::SLOTS_MAX;
use crate::interface::{Notice, Unpacked};
use crate::schedule::Task;
use crate::tables::Got;
use crate::units::count;

/// Pages counted in one step, before the engine attends to other things.
const PAGES_A_STEP: u64 = 32;
/// A thin volume says how full it is from here on, and at every so many percent more.
const FILLING_PERCENT: u64 = 80;
const FILLING_STEP_PERCENT: u64 = 5;

impl Engine {
    /// Counts some refs pages.
    pub(crate) fn scan_refs(&mut self) {
        for _ in 0..PAGES_A_STEP {
            let Some(number) = self.space.scan_next() else { return };
            let id = PageId { region: Region::Refs, index: number };
            match self.tables.ensure(&mut self.io, id) {
                Got::Wait => {
                    self.tables.wait(&mut self.io, id, Task::Scan);
                    self.space.scan_waits = true;
                    return;
                }
                Got::Unreadable => {
                    self.space.scan_blind = true;
                    self.space.scanned_page(number, std::iter::empty());
                }
                Got::Ready => {
                    let first = self.geometry.first_pbn(id);
                    let blocks = Region::Refs.entries_per_page().min(self.geometry.data_blocks - first.0);
                    let counts = self.tables.counts(id, 0, first, blocks);
                    let of_log = |pbn| self.scheme.log.as_ref().is_some_and(|log| log.has(pbn));
                    self.space.scanned_page(number, counts.into_iter().map(|(pbn, refs)| (pbn, refs, of_log(pbn))));
                }
            }
        }
        self.io.schedule.more_background = true;
    }

    /// Links from the map, where all counts are known.
    pub(crate) fn map_links(&self) -> Option<u64> {
        let census = &self.space.census;
        (self.space.scan_complete() && !self.space.scan_blind && census.unknown == 0).then_some(census.links)
    }

    /// The blocks that clients' content would take if none of it lay in slots; none where too little is known of it.
    pub(crate) fn unpacked(&self) -> Option<Unpacked> {
        let census = &self.space.census;
        if !self.space.scan_complete() || self.space.scan_blind || census.unknown > 0 {
            return None;
        }
        let carriers = if self.medium.superblock.has_slots() { self.background.refill.carriers()? } else { 0 };
        let least = census.unique + census.shared;
        // A carrier that is in use holds one block at least, and no more than it has slots; nor are there more blocks than links.
        let most = (least + carriers * (count(SLOTS_MAX) - 1)).min(census.links.max(least));
        Some(Unpacked { least, most, of: self.geometry.data_blocks })
    }

    /// Tells the owner of a thin volume that it fills.
    pub(crate) fn warn_when_filling(&mut self) {
        if !self.is_thin() || !self.space.scan_complete() {
            return;
        }
        let used = self.geometry.data_blocks - self.space.census.free - self.space.census.kept;
        let percent = used * 100 / self.geometry.data_blocks;
        let step = percent - percent % FILLING_STEP_PERCENT;
        if step >= FILLING_PERCENT && step > self.space.filling_warned {
            self.io.notice(Notice::Filling { percent: step, unpacked: self.unpacked() });
        }
        self.space.filling_warned = if step >= FILLING_PERCENT { step } else { 0 };
    }
}
