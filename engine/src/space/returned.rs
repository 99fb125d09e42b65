//! Counts that a recount has lowered, until that is durable: a crash may bring back the excess of a page, and what records count is added to it. So what was
//! returned is no room for links yet, and a block without room for a new one is kept out of use.

use super::Space;
use crate::format::entry::{REFS_MAX, SLOT_MAX};
use crate::io::Io;
use crate::tables::Tables;
use crate::units::Pbn;

/// What a block counts at most when it begins, unless it is told how much room there is: a link for each slot of a pack, and one for its name.
const NEW_COUNT_MAX: u8 = SLOT_MAX + 1;

/// What was returned.
#[derive(Default)]
pub(crate) struct Returned {
    /// The most that was taken from one count, while that is not durable.
    most: u8,
    /// Blocks that stay pinned until then, because their counts have no room.
    kept: Vec<Pbn>,
    /// The recount is finished, and the superblock does not say so yet.
    pub is_unsaid: bool,
}

impl Space {
    /// The most links, with its name, that a block may have for one more to be made.
    pub fn link_limit(&self, tables: &Tables) -> u8 {
        let may_come_back = if tables.has_records() { self.returned.most } else { 0 };
        self.policy.refs_limit.min(REFS_MAX - may_come_back)
    }

    /// A recount takes so much from a block's count. What no record made, none unmakes: it leaves the page itself, whatever stands beside.
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
        let content = &mut tables.pages.expect(id).content;
        let less = |refs: u8| refs.checked_sub(excess).expect("an excess is part of the count");
        content.set_refs(at, less(content.refs(at)));
        tables.pages.touch(id, io.now);
        let after = less(before);
        self.counted(id.index, pbn, before, after, self.is_of_scheme(pbn));
        if after == 0 {
            self.freed(pbn);
        }
    }

    /// All that was returned is durable.
    pub fn returns_are_durable(&mut self) {
        let kept = std::mem::take(&mut self.returned).kept;
        kept.into_iter().for_each(|pbn| self.unpin(pbn));
    }
}
