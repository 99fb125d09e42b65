//! Changes of counts, in the tables and in the census.

use super::Space;
use crate::format::entry::{REFS_MAX, REFS_UNKNOWN, SLOT_MAX};
use crate::interface::Notice;
use crate::io::Io;
use crate::tables::Tables;
use crate::units::Pbn;

/// The highest initial count of a block for which [`Space::link_limit`] is not asked: a link for each slot of a pack, and one for its
/// fingerprint.
const NEW_COUNT_MAX: u8 = SLOT_MAX + 1;

impl Space {
    /// Adds `by` to a block's count and updates the census. The count changes on its page, which is in memory, or beside it where pages
    /// hold only what is committed.
    ///
    /// A count that would leave 0..=254 shows that the medium is damaged; the count is unknown from then on.
    pub fn change_refs(&mut self, io: &mut Io, tables: &mut Tables, pbn: Pbn, by: i16) {
        let (id, at) = self.geometry.refs_of(pbn);
        let before = tables.refs_now(pbn);
        let stands_beside = tables.committed.is_some();
        if stands_beside {
            tables.pending_counts.add(pbn, 1, by);
        }
        if before == REFS_UNKNOWN {
            return;
        }
        let after = u8::try_from(i16::from(before) + by).unwrap_or(REFS_UNKNOWN);
        if after == REFS_UNKNOWN {
            io.notice(Notice::Damage { what: "a block's count does not agree with its links", at: pbn.0 });
        }
        if !stands_beside {
            tables.pages.touch(id, io.now()).content.set_refs(at, after);
        }
        self.counted(id.index, pbn, before, after, self.is_of_scheme(pbn));
        if after == 0 {
            self.freed(pbn);
        }
    }

    /// Adds links to a block in the open epoch. They count at once, and the epoch's commit writes the page.
    pub fn add_links(&mut self, io: &mut Io, tables: &mut Tables, pbn: Pbn, links: i16) {
        self.change_refs(io, tables, pbn, links);
        tables.open.refs_pages.insert(self.geometry.refs_of(pbn).0.index);
    }

    /// A block's count fell to zero, so the block may be allocated again.
    pub fn freed(&mut self, pbn: Pbn) {
        self.changes += 1;
        self.supplies.iter_mut().for_each(|supply| supply.fruitless = 0);
        self.kept.try_all();
        if self.policy.discard_freed {
            self.freed.insert(pbn);
        }
    }

    /// The count at which a block takes no further link.
    pub fn link_limit(&self, tables: &Tables) -> u8 {
        let may_come_back = if tables.has_records() { self.returned.most } else { 0 };
        self.policy.refs_limit.min(REFS_MAX - may_come_back)
    }

    /// A recount lowers a block's count by `excess`. No record made the excess, so it is taken from the page itself, not from the counts
    /// beside it.
    pub fn return_excess(&mut self, io: &mut Io, tables: &mut Tables, pbn: Pbn, excess: u8) {
        self.returned.most = self.returned.most.max(excess);
        if !tables.has_records() {
            return self.change_refs(io, tables, pbn, -i16::from(excess));
        }
        if excess > REFS_MAX - NEW_COUNT_MAX {
            self.pin(pbn);
            self.returned.kept.push(pbn);
        }
        let (id, at) = self.geometry.refs_of(pbn);
        let before = tables.refs_now(pbn);
        let content = &mut tables.pages.touch(id, io.now()).content;
        let less = |refs: u8| refs.checked_sub(excess).expect("an excess is part of the count");
        content.set_refs(at, less(content.refs(at)));
        let after = less(before);
        self.counted(id.index, pbn, before, after, self.is_of_scheme(pbn));
        if after == 0 {
            self.freed(pbn);
        }
    }

    /// All lowered counts are durable.
    pub fn returns_are_durable(&mut self) {
        let kept = std::mem::take(&mut self.returned).kept;
        kept.into_iter().for_each(|pbn| self.unpin(pbn));
    }

    /// Notes that a recount has ended, which the superblock does not record yet.
    pub fn recount_ended(&mut self) {
        self.returned.is_unsaid = true;
    }

    /// Whether that is so.
    pub fn is_recount_unsaid(&self) -> bool {
        self.returned.is_unsaid
    }
}
