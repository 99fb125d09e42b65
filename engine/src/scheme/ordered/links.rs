//! Step 2: map pages are composed and written.

use super::super::parts::{Progress, pages_in_flight_max};
use super::{Commit, Step};
use crate::ack_journal::AckJournal;
use crate::format::entry::MapEntry;
use crate::format::page::{PageId, Region};
use crate::interface::Trace;
use crate::io::FlushFor;
use crate::pool::Pool;
use crate::tables::Tables;
use crate::units::{Lbn, Pbn, index};

impl Commit {
    pub(super) fn step_links(&mut self, pool: &mut Pool, journal: &AckJournal) -> Progress {
        let most = pages_in_flight_max(&pool.tables);
        self.map.begin_round();
        while self.map_writing.len() < most {
            let Some(id) = self.map.next(&mut pool.io, &mut pool.tables)? else { break };
            if pool.tables.pages.expect(id).writing {
                self.map.put_off(id);
            } else {
                self.compose(pool, journal, id);
            }
        }
        if !self.map.end_round() || !self.map_writing.is_empty() {
            return Ok(false);
        }
        if !self.map_written {
            return Ok(true);
        }
        self.step = Step::FlushTwo;
        pool.io.flush(FlushFor::CommitLinks);
        Ok(false)
    }

    /// Puts an epoch's ranges, then its points, on one map page, and sends it if that changed anything.
    fn compose(&mut self, pool: &mut Pool, journal: &AckJournal, id: PageId) {
        let first = pool.geometry.first_lbn(id);
        let end = Lbn((first.0 + Region::Map.entries_per_page()).min(pool.geometry.logical_blocks));
        let Tables { pages, committing: Some(epoch), window, .. } = &mut pool.tables else { return };
        let (page, number) = (pages.expect(id), epoch.number.get());
        let mut changed = None;
        let mut set = |lbn: Lbn, entry: MapEntry, unlinked: &mut Vec<Pbn>| {
            let at = index(lbn - first);
            let old = pool.geometry.known(page.content.map(at));
            // The increment of a link that existed before is taken back, like that of any link that is gone; but not where a damaged map
            // has linked to a block that was free until now, since that was never counted.
            let is_pending = |pbn| old == entry && pool.space.pending.get(pbn).is_some_and(|fresh| fresh.waits && fresh.epoch == number);
            unlinked.extend(old.pbn().filter(|&pbn| !is_pending(pbn)));
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
                set(Lbn(lbn), MapEntry::Unmapped, &mut self.unlinked);
            }
        }
        for (lbn, entry) in epoch.points.range(first, end) {
            set(lbn, entry, &mut self.unlinked);
        }
        if let Some(sector) = changed {
            self.map_written = true;
            self.map_writing.insert(id);
            if journal.has_journal(&pool.settings) {
                self.trace = Some(Trace::Map { sector: id.sector(sector), sum: pool.tables.pages.expect(id).content.sum(sector) });
                journal.trace_changes(&mut pool.io, &mut pool.tables, &pool.medium, id);
            }
            pool.tables.write_page(&mut pool.io, id);
        }
    }
}
