//! Changes of the mapping, from the open epoch on.

use super::Pool;
use crate::format::entry::MapEntry;
use crate::policy::Stream;
use crate::schedule::Blocked;
use crate::units::{Lbn, Pbn};

impl Pool {
    /// Allocates a block for new content of `lbn`, which a stream writes; `promised` free blocks are kept for others. The refs page of the
    /// block is in memory.
    pub fn allocate(&mut self, lbn: Lbn, stream: Stream, promised: u64) -> Result<Pbn, Blocked> {
        let pbn = self.space.allocate(&mut self.io, &mut self.tables, &mut self.contents.cache, (lbn, stream), promised)?;
        self.contents.suspects.forget(pbn);
        Ok(pbn)
    }

    /// Maps `lbn` to `entry`, from the open epoch on.
    pub fn set_point(&mut self, lbn: Lbn, entry: MapEntry) {
        self.set_point_within(lbn, entry, self.settings.commit_period_ms);
    }

    /// The same; the open epoch is sealed within this time.
    pub fn set_point_within(&mut self, lbn: Lbn, entry: MapEntry, ms: u64) {
        self.tables.open.seal_within(self.io.now(), ms);
        self.tables.partial_writes.overtake(lbn, lbn + 1);
        if let Some(MapEntry::Block { pbn, .. }) = self.tables.open.points.insert(lbn, entry) {
            self.cancel(pbn);
        }
    }

    /// Unmaps a range, from the open epoch on. Returns the LBNs of it that this epoch had mapped.
    pub fn unmap(&mut self, first: Lbn, end: Lbn) -> Vec<Lbn> {
        self.tables.open.seal_within(self.io.now(), self.settings.commit_period_ms);
        self.tables.partial_writes.overtake(first, end);
        let points = self.tables.open.unmap(first, end);
        points.iter().filter_map(|(_, entry)| entry.pbn()).for_each(|pbn| self.cancel(pbn));
        points.into_iter().map(|(lbn, _)| lbn).collect()
    }

    /// Cancels a link that was made in the open epoch. No map sector ever held it, so its increment is taken back at once; or after the
    /// epoch's commit, where promises may name the block until then.
    fn cancel(&mut self, pbn: Pbn) {
        let (page, _) = self.geometry.refs_of(pbn);
        if self.settings.facts.keeps_journal || self.tables.pages.get(page).is_none() {
            self.tables.open.cancelled.push(pbn);
            return;
        }
        let is_new_now = self.space.pending.get(pbn).is_some_and(|f| f.waits && f.epoch == self.tables.open.number.0);
        let dies = is_new_now && self.tables.refs_now(pbn) == 2;
        self.space.change_refs(&mut self.io, &mut self.tables, pbn, if dies { -2 } else { -1 });
        if dies {
            self.drop_fingerprint(pbn);
        }
        if is_new_now && !dies {
            self.tables.open.new_block_loses_a_link();
        }
    }
}
