//! The scan of the refs pages, in the background: how many blocks are free, and where blocks are kept for dedup alone.

use super::Space;
use crate::format::page::{PageId, Region};
use crate::format::unit::SLOTS_MAX;
use crate::interface::{Notice, Unpacked};
use crate::io::Io;
use crate::schedule::Task;
use crate::tables::{Access, Tables};
use crate::units::count;

/// Pages counted in one step, before the engine attends to other things.
const PAGES_A_STEP: u64 = 32;
/// A thin volume says how full it is from here on, and at every so many percent more.
const FILLING_PERCENT: u64 = 80;
const FILLING_STEP_PERCENT: u64 = 5;

impl Space {
    /// Counts some refs pages.
    pub fn scan_refs(&mut self, io: &mut Io, tables: &mut Tables) {
        for _ in 0..PAGES_A_STEP {
            let Some(number) = self.scan_next() else { return };
            let id = PageId { region: Region::Refs, index: number };
            match tables.ensure(io, id) {
                Access::Loading => {
                    tables.wait(io, id, Task::Scan);
                    self.scan_waits = true;
                    return;
                }
                Access::Unreadable => {
                    self.scan_blind = true;
                    self.scanned_page(number, &[]);
                }
                Access::Ready(_) => {
                    let first = self.geometry.first_pbn(id);
                    let blocks = Region::Refs.entries_per_page().min(self.geometry.data_blocks - first.0);
                    self.scanned_page(number, &tables.counts(id, 0, first, blocks));
                }
            }
        }
        io.schedule.more_background = true;
    }

    /// Links from the map, where all counts are known.
    pub fn map_links(&self) -> Option<u64> {
        (self.scan_complete() && !self.scan_blind && self.census.unknown == 0).then_some(self.census.links)
    }

    /// The blocks that clients' content would take if none of it lay in slots of these carriers; none where too little is known of it.
    pub fn unpacked(&self, carriers: Option<u64>) -> Option<Unpacked> {
        if !self.scan_complete() || self.scan_blind || self.census.unknown > 0 {
            return None;
        }
        let carriers = carriers?;
        let least = self.census.unique + self.census.shared;
        // A carrier that is in use holds one block at least, and no more than it has slots; nor are there more blocks than links.
        let most = (least + carriers * (count(SLOTS_MAX) - 1)).min(self.census.links.max(least));
        Some(Unpacked { least, most, of: self.geometry.data_blocks })
    }

    /// Tells the owner of a thin volume, with so many carriers, that it fills.
    pub fn warn_when_filling(&mut self, io: &mut Io, carriers: Option<u64>) {
        if !self.is_thin() || !self.scan_complete() {
            return;
        }
        let used = self.geometry.data_blocks - self.census.free - self.census.kept;
        let percent = used * 100 / self.geometry.data_blocks;
        let step = percent - percent % FILLING_STEP_PERCENT;
        if step >= FILLING_PERCENT && step > self.filling_warned {
            io.notice(Notice::Filling { percent: step, unpacked: self.unpacked(carriers) });
        }
        self.filling_warned = if step >= FILLING_PERCENT { step } else { 0 };
    }
}
