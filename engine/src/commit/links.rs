//! Step 2: map pages are composed and written. In the log's mode they are only looked at (`log/gather.rs`).

use crate::commit::Step;
use crate::engine::Engine;
use crate::format::entry::MapEntry;
use crate::format::page::{PageId, Region};
use crate::interface::Trace;
use crate::io::FlushFor;
use crate::schedule::Task;
use crate::tables::Got;
use crate::tables::Tables;
use crate::units::{Lbn, index};

/// The most map pages loading, and the most being written, at once.
const PAGES_IN_FLIGHT_MAX: usize = 64;

impl Engine {
    pub(super) fn step_links(&mut self) {
        let per_commit = PAGES_IN_FLIGHT_MAX.min(self.store.tables.pages.waiting_max());
        let mut loading = std::mem::take(&mut self.scheme.commit.as_mut().expect("a step belongs to a commit").map_loading);
        loop {
            let commit = self.scheme.commit.as_mut().expect("it is there");
            if commit.map_writing.len() >= per_commit {
                break;
            }
            let Some(number) = loading.pop().or_else(|| commit.map_due.pop_front()) else { break };
            let id = PageId { region: Region::Map, index: number };
            match self.store.tables.ensure(&mut self.store.io, id) {
                Got::Ready if self.scheme.log.is_some() => self.gather(id),
                Got::Ready if self.store.tables.pages.expect(id).writing => {
                    self.scheme.commit.as_mut().expect("it is there").map_loading.push(number)
                }
                Got::Ready => self.compose(id),
                Got::Unreadable => return self.fail("a read of a map page that has to change"),
                Got::Wait => {
                    self.store.tables.wait(&mut self.store.io, id, Task::Commit);
                    let commit = self.scheme.commit.as_mut().expect("it is there");
                    commit.map_loading.push(number);
                    if commit.map_loading.len() >= per_commit {
                        break;
                    }
                }
            }
        }
        let commit = self.scheme.commit.as_mut().expect("it is there");
        commit.map_loading.append(&mut loading);
        if !commit.map_due.is_empty() || !commit.map_loading.is_empty() || !commit.map_writing.is_empty() {
            return;
        }
        if self.scheme.log.is_some() {
            return self.records_are_gathered();
        }
        if commit.map_written {
            commit.step = Step::FlushTwo;
            self.store.io.flush(FlushFor::CommitLinks);
        } else {
            self.epoch_is_durable();
        }
    }

    /// Lays an epoch's ranges, then its points, over one map page, and sends it if that changed anything.
    fn compose(&mut self, id: PageId) {
        let has_ring = self.has_ring();
        let commit = self.scheme.commit.as_mut().expect("a step belongs to a commit");
        let first = self.store.geometry.first_lbn(id);
        let end = Lbn((first.0 + Region::Map.entries_per_page()).min(self.store.geometry.logical_blocks));
        let Tables { pages, committing: Some(epoch), window, .. } = &mut self.store.tables else { return };
        let (page, number) = (pages.expect(id), epoch.number.get());
        let mut changed = None;
        let mut set = |lbn: Lbn, entry: MapEntry, unlinked: &mut Vec<crate::units::Pbn>| {
            let at = index(lbn - first);
            let old = self.store.geometry.known(page.content.map(at));
            // The increment of a link that was there already goes again, like that of any link that is gone; but not where a damaged map has linked to
            // a block that was free until now, for that was never counted.
            let is_newborn =
                |pbn| old == entry && self.store.space.fresh.get(pbn).is_some_and(|fresh| fresh.waits && fresh.epoch == number);
            unlinked.extend(old.pbn().filter(|&pbn| !is_newborn(pbn)));
            if old != entry {
                page.content.set_map(at, entry);
                changed = Some(at / index(Region::Map.entries_per_sector()));
            }
            window.relinked(lbn, old.pbn(), entry.pbn());
        };
        let before = epoch.ranges.range(..first).next_back().map(|(&f, &e)| (f, e));
        let within = epoch.ranges.range(first..end).map(|(&f, &e)| (f, e));
        for (range_first, range_end) in before.into_iter().chain(within) {
            for lbn in range_first.max(first).0..range_end.min(end).0 {
                set(Lbn(lbn), MapEntry::Unmapped, &mut commit.unlinked);
            }
        }
        for (&lbn, &entry) in epoch.points.range(first..end) {
            set(lbn, entry, &mut commit.unlinked);
        }
        if let Some(sector) = changed {
            commit.map_written = true;
            commit.map_writing.insert(id);
            if has_ring {
                commit.trace = Some(Trace::Map { sector: id.sector(sector), sum: page.content.sum(sector) });
                self.trace_changes(id);
            }
            self.store.tables.write_page(&mut self.store.io, id);
        }
    }
}
