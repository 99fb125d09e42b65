//! Reclaim: blocks that only their fingerprint holds become free, by whole fingerprint pages.
//!
//! 1. The entry goes from the page in memory, and from the index, at once; nobody links to the block any more.
//! 2. The page is written in some commit's step 1, with the refs pages, and covered by its flush: only then is the removal durable.
//! 3. Only after that the count falls, and only then may the block be reused (R3, R4).
//! 4. In the log's mode the removal is a record of the open epoch, and the page changes with its commit.

use super::Space;
use super::granules::GRANULE_BLOCKS;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{PageId, Region};
use crate::index::Index;
use crate::io::Io;
use crate::schedule::Task;
use crate::tables::{Access, Removals, Tables};
use crate::units::{Pbn, count, index};

/// The most fingerprint pages that one commit takes along.
pub(super) const PAGES_A_COMMIT: usize = 64;

impl Space {
    /// Whether blocks are on their way to be free.
    pub fn is_reclaiming(&self, removals: &Removals) -> bool {
        !self.chosen.is_empty() || !removals.unsent.is_empty() || removals.sent > 0
    }

    /// Keeps a little more free than the reserve, lazily: what is kept may yet be found as a duplicate.
    pub fn reclaim_if_low(&mut self, io: &mut Io, removals: &Removals) {
        let low = self.geometry.reserve_blocks.min(self.geometry.data_blocks / 16).max(8);
        if !self.scan_complete() || io.failed || io.read_only || self.census.free + removals.under_way() >= low {
            return;
        }
        self.choose_granules(io, removals, low + low / 4 - self.census.free);
    }

    /// For writers that wait: true if something was chosen.
    pub fn reclaim_for_waiters(&mut self, io: &mut Io, removals: &Removals) -> bool {
        self.choose_granules(io, removals, count(self.waiters.len()).max(GRANULE_BLOCKS))
    }

    /// Granules in which nothing was done since that second.
    pub(super) fn reclaim_unused(&mut self, io: &mut Io, removals: &Removals, since_s: u32) {
        let room = self.room_for_granules(removals);
        let unused = self.take_unused(since_s, room);
        if !unused.is_empty() {
            self.chosen.extend(unused);
            io.schedule.push(Task::Reclaim);
        }
    }

    fn room_for_granules(&self, removals: &Removals) -> usize {
        PAGES_A_COMMIT.saturating_sub(self.chosen.len() + removals.unsent.len())
    }

    pub(super) fn choose_granules(&mut self, io: &mut Io, removals: &Removals, wanted: u64) -> bool {
        let room = self.room_for_granules(removals);
        let before = self.chosen.len();
        let mut expected = 0;
        for _ in 0..room {
            if expected >= wanted {
                break;
            }
            let Some((blocks, granule)) = self.take_most_kept() else { break };
            expected += u64::from(blocks);
            self.chosen.push(granule);
        }
        if expected == 0 && self.census.kept > removals.under_way() {
            let trials: Vec<u64> = (0..room).filter_map(|_| self.next_trial()).collect();
            self.chosen.extend(trials);
        }
        let chosen = self.chosen.len() > before;
        if chosen {
            io.schedule.push(Task::Reclaim);
        }
        chosen
    }

    /// Takes the entries of chosen granules away, where their pages are in memory, and as far as the open epoch has room for such records.
    /// The carriers among them.
    pub fn reclaim(&mut self, io: &mut Io, tables: &mut Tables, index_: &mut Index, mut room: usize) -> Vec<Pbn> {
        let chosen = std::mem::take(&mut self.chosen);
        let mut carriers = Vec::new();
        if !io.stage.commits() {
            // Closing writes exact pages: a removal now would come after the last flush that lets its count fall.
            return carriers;
        }
        for granule in chosen {
            let first = Pbn(granule * GRANULE_BLOCKS);
            let names = PageId { region: Region::Fingerprints, index: granule };
            let (refs, at) = self.geometry.refs_of(first);
            let missing = [names, refs].into_iter().find(|&id| matches!(tables.ensure(io, id), Access::Loading));
            if let Some(id) = missing {
                tables.wait(io, id, Task::Reclaim);
                self.chosen.push(granule);
                continue;
            }
            if tables.pages.get(names).is_none() || tables.pages.get(refs).is_none() {
                self.fruitless_granule(granule);
                continue;
            }
            let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
            let counts = tables.counts(refs, at, first, blocks);
            let unlinked: Vec<u64> = counts.into_iter().filter(|&(_, refs)| refs == 1).map(|(pbn, _)| pbn - first).collect();
            let entries = &tables.pages.expect(names).content;
            index_.warm(unlinked.iter().map(|&i| entries.fingerprint(index(i)).value));
            for i in unlinked {
                let Some(entry) = self.remove_name(io, tables, (names, index(i)), first + i, &mut room) else { continue };
                match entry.kind {
                    Kind::Fingerprint => index_.remove(&entry.value, first + i),
                    Kind::Carrier => carriers.push(first + i),
                    Kind::None | Kind::Checksum => {}
                }
            }
            let removes = tables.removals.unsent.contains_key(&names) || tables.open.removed.range(first..first + blocks).next().is_some();
            if !removes {
                self.fruitless_granule(granule);
            }
        }
        carriers
    }

    /// Takes a block's entry away. The entry, if it was there and may go.
    fn remove_name(
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
            // Counted as sent at once: its record is its removal.
            tables.open.opened.get_or_insert(io.now);
            if !tables.open.removed.insert(pbn) {
                return None;
            }
            *room -= 1;
            tables.removals.sent += 1;
        } else {
            tables.pages.expect(names).content.set_fingerprint(at, FingerprintEntry::NONE);
            tables.pages.touch(names, io.now);
            tables.removals.unsent.entry(names).or_default().push(pbn);
        }
        io.ledger.reclaimed_blocks += 1;
        Some(entry)
    }
}
