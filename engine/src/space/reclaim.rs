//! Reclaim: blocks that only their fingerprint holds become free, by whole fingerprint pages.
//!
//! 1. The entry goes from the page in memory, and from the index, at once; nobody links to the block any more.
//! 2. The page is written in some commit's step 1, with the refs pages, and covered by its flush: only then is the removal durable.
//! 3. Only after that the count falls, and only then may the block be reused (R3, R4).
//! 4. In the log's mode the removal is a record of the open epoch, and the page changes with its commit.

use crate::engine::Engine;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::{PageId, Region};
use crate::schedule::Task;
use crate::space::GRANULE_BLOCKS;
use crate::tables::Got;
use crate::tables::Removals;
use crate::units::{Pbn, count, index};

/// The most fingerprint pages that one commit takes along.
pub(super) const PAGES_A_COMMIT: usize = 64;

/// Removals under way.
#[derive(Default)]
pub(crate) struct Reclaim {
    /// Granules that were chosen and wait for their pages.
    chosen: Vec<u64>,
}

impl Reclaim {
    /// Whether blocks are on their way to be free.
    pub fn in_progress(&self, removals: &Removals) -> bool {
        !self.chosen.is_empty() || !removals.unsent.is_empty() || removals.sent > 0
    }
}

impl Engine {
    /// Keeps a little more free than the reserve, lazily: what is kept may yet be found as a duplicate.
    pub(crate) fn reclaim_if_low(&mut self) {
        let low = self.geometry.reserve_blocks.min(self.geometry.data_blocks / 16).max(8);
        if !self.space.scan_complete() || self.io.failed || self.io.read_only || self.space.census.free + self.reclaim_under_way() >= low {
            return;
        }
        self.choose_granules(low + low / 4 - self.space.census.free);
    }

    pub(super) fn reclaim_under_way(&self) -> u64 {
        count(self.tables.removals.unsent.values().map(Vec::len).sum::<usize>()) + self.tables.removals.sent
    }

    /// For writers that wait: true if something was chosen.
    pub(crate) fn reclaim_for_waiters(&mut self) -> bool {
        self.choose_granules(count(self.space.waiters.len()).max(GRANULE_BLOCKS))
    }

    /// Granules in which nothing was done since that second.
    pub(super) fn reclaim_unused(&mut self, since_s: u32) {
        let room = PAGES_A_COMMIT.saturating_sub(self.space.reclaim.chosen.len() + self.tables.removals.unsent.len());
        let unused = self.space.take_unused(since_s, room);
        if !unused.is_empty() {
            self.space.reclaim.chosen.extend(unused);
            self.io.schedule.push(Task::Reclaim);
        }
    }

    pub(super) fn choose_granules(&mut self, wanted: u64) -> bool {
        let room = PAGES_A_COMMIT.saturating_sub(self.space.reclaim.chosen.len() + self.tables.removals.unsent.len());
        let before = self.space.reclaim.chosen.len();
        let mut expected = 0;
        for _ in 0..room {
            if expected >= wanted {
                break;
            }
            let Some((blocks, granule)) = self.space.take_most_kept() else { break };
            expected += u64::from(blocks);
            self.space.reclaim.chosen.push(granule);
        }
        if expected == 0 && self.space.census.kept > self.reclaim_under_way() {
            let trials: Vec<u64> = (0..room).filter_map(|_| self.space.next_trial()).collect();
            self.space.reclaim.chosen.extend(trials);
        }
        let chosen = self.space.reclaim.chosen.len() > before;
        if chosen {
            self.io.schedule.push(Task::Reclaim);
        }
        chosen
    }

    /// Takes the entries of chosen granules away, where their pages are in memory.
    pub(crate) fn reclaim(&mut self) {
        let chosen = std::mem::take(&mut self.space.reclaim.chosen);
        if !self.state.stage.commits() {
            // Closing writes exact pages: a removal now would come after the last flush that lets its count fall.
            return;
        }
        for granule in chosen {
            let first = Pbn(granule * GRANULE_BLOCKS);
            let names = PageId { region: Region::Fingerprints, index: granule };
            let (refs, at) = self.geometry.refs_of(first);
            let missing = [names, refs].into_iter().find(|&id| self.tables.ensure(&mut self.io, id) == Got::Wait);
            if let Some(id) = missing {
                self.tables.wait(&mut self.io, id, Task::Reclaim);
                self.space.reclaim.chosen.push(granule);
                continue;
            }
            if self.tables.pages.get(names).is_none() || self.tables.pages.get(refs).is_none() {
                self.space.fruitless_granule(granule);
                continue;
            }
            let blocks = GRANULE_BLOCKS.min(self.geometry.data_blocks - first.0);
            let counts = self.tables.counts(refs, at, first, blocks);
            let unlinked: Vec<u64> = counts.into_iter().filter(|&(_, refs)| refs == 1).map(|(pbn, _)| pbn - first).collect();
            let entries = &self.tables.pages.expect(names).content;
            self.index.warm(unlinked.iter().map(|&i| entries.fingerprint(index(i)).value));
            unlinked.into_iter().for_each(|i| self.remove_name(names, index(i), first + i));
            let removes =
                self.tables.removals.unsent.contains_key(&names) || self.tables.open.removed.range(first..first + blocks).next().is_some();
            if !removes {
                self.space.fruitless_granule(granule);
            }
        }
        self.find_space_for_waiters();
    }

    fn remove_name(&mut self, names: PageId, i: usize, pbn: Pbn) {
        let entry = self.tables.pages.expect(names).content.fingerprint(i);
        if entry.is_none() || self.busy(pbn) || self.log_room() == 0 {
            return;
        }
        if self.scheme.log.is_some() {
            // Counted as sent at once: its record is its removal.
            self.tables.open.opened.get_or_insert(self.io.now);
            if !self.tables.open.removed.insert(pbn) {
                return;
            }
            self.tables.removals.sent += 1;
        } else {
            self.tables.pages.expect(names).content.set_fingerprint(i, FingerprintEntry::NONE);
            self.tables.pages.touch(names, self.io.now);
            self.tables.removals.unsent.entry(names).or_default().push(pbn);
        }
        match entry.kind {
            Kind::Fingerprint => self.index.remove(&entry.value, pbn),
            Kind::Carrier => self.background.refill.carrier_changed(pbn, false),
            Kind::None | Kind::Checksum => {}
        }
        self.io.ledger.reclaimed_blocks += 1;
    }
}
