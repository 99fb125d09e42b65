//! What LBNs mean from the open epoch on.

use super::Store;
use crate::format::entry::MapEntry;
use crate::schedule::Blocked;
use crate::units::{Lbn, Pbn};

impl Store {
    /// A free block for new content of `lbn`, where so many free blocks are promised to others. Its refs page is in memory.
    pub fn allocate(&mut self, lbn: Lbn, promised: u64) -> Result<Pbn, Blocked> {
        self.space.allocate(&mut self.io, &mut self.tables, &mut self.contents.cache, lbn, promised)
    }

    /// So many links to a block are made in the open epoch: they count here and now, and the epoch's commit sees to the page.
    pub fn adds_links(&mut self, pbn: Pbn, links: i16) {
        self.space.change_refs(&mut self.io, &mut self.tables, pbn, links);
        self.tables.open.refs_pages.insert(self.geometry.refs_of(pbn).0.index);
    }

    /// From the open epoch on, `lbn` means `entry`.
    pub fn set_point(&mut self, lbn: Lbn, entry: MapEntry) {
        self.tables.open.opened.get_or_insert(self.io.now);
        self.tables.partial_writes.overtake(lbn, lbn + 1);
        if let Some(MapEntry::Block { pbn, .. }) = self.tables.open.points.insert(lbn, entry) {
            self.cancel(pbn);
        }
    }

    /// Unmaps a range, from the open epoch on. The LBNs that this epoch gave a meaning before.
    pub fn unmap(&mut self, first: Lbn, end: Lbn) -> Vec<Lbn> {
        self.tables.open.opened.get_or_insert(self.io.now);
        self.tables.partial_writes.overtake(first, end);
        let points = self.tables.open.unmap(first, end);
        points.iter().filter_map(|(_, entry)| entry.pbn()).for_each(|pbn| self.cancel(pbn));
        points.into_iter().map(|(lbn, _)| lbn).collect()
    }

    /// A link made in the open epoch is unmade in it: no map sector ever held it, so its increment goes at once. Where promises name the
    /// block until the epoch is committed, the increment goes after that.
    fn cancel(&mut self, pbn: Pbn) {
        let (page, _) = self.geometry.refs_of(pbn);
        if self.settings.keeps_promises || self.tables.pages.get(page).is_none() {
            self.tables.open.cancelled.push(pbn);
            return;
        }
        let born_now = self.space.fresh.get(pbn).is_some_and(|f| f.waits && f.epoch == self.tables.open.number.0);
        let dies = born_now && self.tables.refs_now(pbn) == 2;
        self.space.change_refs(&mut self.io, &mut self.tables, pbn, if dies { -2 } else { -1 });
        if dies {
            self.end_birth(pbn);
        }
        self.tables.open.birth_lost_a_link |= born_now && !dies;
    }
}
