//! Reclaim: blocks that only their fingerprint keeps become free, by whole fingerprint pages.
//!
//! 1. The entry is removed from the page in memory and from the index at once, so no write links to the block any more.
//! 2. Step 1 of a commit writes the page together with the refs pages. The removal is durable after the flush of that step.
//! 3. Only then does the count fall, and only then may the block be reused (R3, R4).
//! 4. In mode `log` the removal is a record of the open epoch, and the page changes with its commit.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{PageId, Region};
use crate::index::Index;
use crate::io::Io;
use crate::schedule::Task;
use crate::tables::{Access, Removals, Tables};
use crate::units::{Pbn, count, index};

/// The least number of kept blocks of a granule that is reclaimed for the stock: its pages are written for them.
const WORTH_BLOCKS: u64 = 64;
/// The most fingerprint pages that one commit writes for reclaim.
pub(super) const PAGES_A_COMMIT: usize = 64;

impl Space {
    /// Lets the granules in which nothing could be reclaimed be chosen again.
    pub fn wake_granules(&mut self) {
        self.kept.wake();
    }

    /// Notes that the removals in a granule are durable.
    pub fn reclaimed(&mut self, granule: u64) {
        self.kept.reclaimed(granule);
    }

    /// Whether reclaim is under way.
    pub fn is_reclaiming(&self, removals: &Removals) -> bool {
        self.kept.chosen() > 0 || !removals.unsent.is_empty() || removals.sent > 0
    }

    /// Keeps a little more free than the reserve, and no more: a kept block may still be found as a duplicate.
    pub fn reclaim_if_low(&mut self, io: &mut Io, removals: &Removals) {
        let low = self.geometry.reserve_blocks.min(self.geometry.data_blocks / 16).max(8);
        if !self.scan_complete() || io.has_failed() || io.is_opened_to_read() {
            return;
        }
        if self.census.free + removals.under_way() < low {
            self.choose_granules(io, removals, low + low / 4 - self.census.free);
        } else if let Some(wanted) = self.lacks_in_stock(removals.under_way()) {
            let room = self.room_for_granules(removals);
            if self.kept.choose_most(room, wanted, WORTH_BLOCKS) > 0 {
                io.schedule.push(Task::Reclaim);
            }
        }
    }

    /// Chooses granules for the writers that wait. Whether it chose any.
    pub fn reclaim_for_waiters(&mut self, io: &mut Io, removals: &Removals) -> bool {
        self.choose_granules(io, removals, count(self.waiters.len()).max(GRANULE_BLOCKS))
    }

    /// Reclaims granules with at least `least` kept blocks in which nothing has changed since that second. Whether there were any.
    pub(super) fn reclaim_unused(&mut self, io: &mut Io, removals: &Removals, since_s: u32, least: u32) -> bool {
        let room = self.room_for_granules(removals);
        let found = self.kept.choose_unused(since_s, least, room);
        if found {
            io.schedule.push(Task::Reclaim);
        }
        found
    }

    fn room_for_granules(&self, removals: &Removals) -> usize {
        PAGES_A_COMMIT.saturating_sub(self.kept.chosen() + removals.unsent.len())
    }

    /// Chooses the granules with the most kept blocks, until they have `wanted` of them. Whether it chose any.
    pub(super) fn choose_granules(&mut self, io: &mut Io, removals: &Removals, wanted: u64) -> bool {
        let room = self.room_for_granules(removals);
        let before = self.kept.chosen();
        let expected = self.kept.choose_most(room, wanted, 0);
        if expected == 0 && self.census.kept > removals.under_way() {
            self.kept.choose_trials(room);
        }
        let chosen = self.kept.chosen() > before;
        if chosen {
            io.schedule.push(Task::Reclaim);
        }
        chosen
    }

    /// Removes the entries of kept blocks in chosen granules whose pages are in memory. At most `room` of the removals are records of the
    /// open epoch. Returns the carriers among these blocks.
    pub fn reclaim(&mut self, io: &mut Io, tables: &mut Tables, index_: &mut Index, mut room: usize) -> Vec<Pbn> {
        let chosen = self.kept.take_chosen();
        let mut carriers = Vec::new();
        if !io.stage().commits() {
            // The volume closes with exact counts, and a removal from now on would come after the last flush that lets a count fall.
            return carriers;
        }
        for granule in chosen {
            let first = Pbn(granule * GRANULE_BLOCKS);
            let names = PageId { region: Region::Fingerprints, index: granule };
            let (refs, at) = self.geometry.refs_of(first);
            let missing = [names, refs].into_iter().find(|&id| matches!(tables.ensure(io, id), Access::Loading));
            if let Some(id) = missing {
                tables.wait(io, id, Task::Reclaim);
                self.kept.choose_again(granule);
                continue;
            }
            if tables.pages.get(names).is_none() || tables.pages.get(refs).is_none() {
                self.kept.rest(granule);
                continue;
            }
            let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
            let unlinked = tables.blocks_with(1, refs, at, first, blocks);
            let entries = &tables.pages.expect(names).content;
            index_.warm(unlinked.iter().map(|&pbn| entries.fingerprint(index(pbn - first)).value));
            for pbn in unlinked {
                let Some(entry) = self.remove_entry(io, tables, (names, index(pbn - first)), pbn, &mut room) else { continue };
                match entry.kind {
                    Kind::Fingerprint => {
                        index_.remove(&entry.value, pbn);
                    }
                    Kind::Carrier => carriers.push(pbn),
                    Kind::None | Kind::Checksum => {}
                }
            }
            let removes = tables.removals.unsent.contains_key(&names) || tables.open.removed.range(first..first + blocks).next().is_some();
            if !removes {
                self.kept.rest(granule);
            }
        }
        carriers
    }

    /// Removes a block's entry. Returns it, or none if there is none or it has to stay.
    fn remove_entry(
        &self,
        io: &mut Io,
        tables: &mut Tables,
        (names, at): (PageId, usize),
        pbn: Pbn,
        room: &mut usize,
    ) -> Option<FingerprintEntry> {
        let entry = tables.pages.expect(names).content.fingerprint(at);
        if entry.is_none() || self.is_busy(pbn) || *room == 0 {
            return None;
        }
        if tables.committed.is_some() {
            // Its record is the removal, so it counts as sent at once.
            tables.open.seal_within(io.now(), self.policy.commit_period_ms);
            if !tables.open.removed.insert(pbn) {
                return None;
            }
            *room -= 1;
            tables.removals.are_sent(1);
        } else {
            tables.pages.touch(names, io.now()).content.set_fingerprint(at, FingerprintEntry::NONE);
            tables.removals.unsent.entry(names).or_default().push(pbn);
        }
        io.ledger.reclaimed();
        Some(entry)
    }
}
