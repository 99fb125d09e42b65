//! The background scan of the refs pages: it counts the free blocks and finds the blocks that only their fingerprint keeps.

use super::Space;
use crate::format::page::{PageId, Region};
use crate::format::unit::SLOTS_MAX;
use crate::interface::{Notice, Unpacked};
use crate::io::Io;
use crate::schedule::Task;
use crate::tables::{Access, Tables};
use crate::units::count;

/// The number of pages that one step counts before the engine attends to other things.
const PAGES_A_STEP: u64 = 32;
/// From this percentage on a thin volume reports how full it is, each time that it has risen by a step.
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
                    self.scanned_page(number, []);
                }
                Access::Ready(_) => {
                    let first = self.geometry.first_pbn(id);
                    let blocks = Region::Refs.entries_per_page().min(self.geometry.data_blocks - first.0);
                    self.scanned_page(number, tables.counts(id, 0, first, blocks));
                }
            }
        }
        io.schedule.ask_for_background();
    }

    /// The number of links from the map; none unless all counts are known.
    pub fn map_links(&self) -> Option<u64> {
        (self.scan_complete() && !self.scan_blind && self.census.unknown == 0).then_some(self.census.links)
    }

    /// The number of blocks that clients' content would take if none of it lay in slots of these carriers; none unless all counts are
    /// known.
    pub fn unpacked(&self, carriers: Option<u64>) -> Option<Unpacked> {
        if !self.scan_complete() || self.scan_blind || self.census.unknown > 0 {
            return None;
        }
        let carriers = carriers?;
        let least = self.census.unique + self.census.shared;
        // A carrier in use holds at least one block, and at most one for each slot; and there are at most as many blocks as links.
        let most = (least + carriers * (count(SLOTS_MAX) - 1)).min(self.census.links.max(least));
        Some(Unpacked { least, most, of: self.geometry.data_blocks })
    }

    /// Warns the owner of a thin volume that it fills. `carriers`: their number, if known.
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
