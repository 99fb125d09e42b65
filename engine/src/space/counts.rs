//! Counts change: in the tables, and with them in the census.

use super::Space;
use crate::format::entry::REFS_UNKNOWN;
use crate::interface::Notice;
use crate::io::Io;
use crate::tables::Tables;
use crate::units::Pbn;

impl Space {
    /// Adds to a block's count, on its page in memory or, where pages hold nothing that is not committed, beside it; and to the census. The page is in
    /// memory.
    ///
    /// A count that would leave 0..=254 is a wrong one, or a block has more links than it can: the medium is damaged. It is not known from then on.
    pub fn change_refs(&mut self, io: &mut Io, tables: &mut Tables, pbn: Pbn, by: i16) {
        let (id, at) = self.geometry.refs_of(pbn);
        let before = tables.refs_now(pbn);
        let stands_beside = tables.committed.is_some();
        if stands_beside {
            tables.beside.add(pbn, 1, by);
        }
        if before == REFS_UNKNOWN {
            return;
        }
        let after = u8::try_from(i16::from(before) + by).unwrap_or(REFS_UNKNOWN);
        if after == REFS_UNKNOWN {
            io.notice(Notice::Damage { what: "a block's count does not agree with its links", at: pbn.0 });
        }
        if !stands_beside {
            tables.pages.expect(id).content.set_refs(at, after);
            tables.pages.touch(id, io.now);
        }
        self.counted(id.index, pbn, before, after, self.is_of_scheme(pbn));
        if after == 0 {
            self.freed(pbn);
        }
    }

    /// A block's count fell to zero: it may be handed out again.
    pub fn freed(&mut self, pbn: Pbn) {
        self.changes += 1;
        self.fruitless = 0;
        self.trials_left = self.granules();
        if self.policy.discard_freed {
            self.freed.insert(pbn);
        }
    }
}
