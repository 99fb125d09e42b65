//! Blocks that are in use beyond what the tables say of them: nobody else may have them.
//!
//! 1. New content has a block from its first moment on; its birth is over when the content is on the device and the fingerprint in the
//!    table.
//! 2. A block that something in flight reads, compares or discards is pinned (R7).
//! 3. The commit scheme has blocks of its own, whatever their count (L8). A plain one's count is 0; a carrier's is that of its slots' links
//!    and of its entry. When the scheme needs a plain one no more, it is free. A carrier is ordinary data then, or free where nothing is
//!    left of it: its count says so, for which its refs page has to come first.

use super::Space;
use super::fresh::Use;
use crate::tables::Tables;
use crate::units::Pbn;

impl Space {
    /// Whether a block is in use, so that it must not be reused.
    pub fn is_busy(&self, pbn: Pbn) -> bool {
        self.pins.contains_key(&pbn) || self.fresh.contains(pbn) || self.is_of_scheme(pbn) || self.promised.contains_key(&pbn)
    }

    /// Something in flight holds on to a block.
    pub fn pin(&mut self, pbn: Pbn) {
        *self.pins.entry(pbn).or_insert(0) += 1;
    }

    /// The same, no longer.
    ///
    /// # Panics
    /// When it was not pinned.
    pub fn unpin(&mut self, pbn: Pbn) {
        let left = self.pins.get_mut(&pbn).expect("only what was pinned is unpinned");
        *left -= 1;
        if *left == 0 {
            self.pins.remove(&pbn);
            self.no_longer_busy();
        }
    }

    /// Nothing of a block's birth is under way any more.
    pub fn forget_fresh(&mut self, pbn: Pbn) {
        self.fresh.remove(pbn);
        self.no_longer_busy();
    }

    /// Whether a block is one of the scheme's.
    pub fn is_of_scheme(&self, pbn: Pbn) -> bool {
        self.of_scheme.contains_key(&pbn)
    }

    /// A free block becomes the scheme's.
    pub fn joins_scheme(&mut self, pbn: Pbn) {
        self.of_scheme.insert(pbn, Use::Plain);
        self.belongs_to_scheme(self.geometry.refs_of(pbn).0.index, 0, true);
    }

    /// The scheme needs a block no more, nor does anything that it knows of. Whether the block's refs page has to come first.
    ///
    /// # Panics
    /// When it was not the scheme's.
    #[must_use]
    pub fn leaves_scheme(&mut self, pbn: Pbn) -> bool {
        let what = self.of_scheme.get_mut(&pbn).expect("only what is the scheme's leaves it");
        if *what == Use::Plain {
            self.has_left_scheme(pbn, 0);
            return false;
        }
        *what = Use::Leaving;
        true
    }

    /// The refs page of a block is in memory: if it waits to be given up, it is.
    pub fn let_leave_scheme(&mut self, tables: &mut Tables, pbn: Pbn) {
        if self.of_scheme.get(&pbn) == Some(&Use::Leaving) {
            let refs = tables.refs_now(pbn);
            self.has_left_scheme(pbn, refs);
        }
    }

    fn has_left_scheme(&mut self, pbn: Pbn, refs: u8) {
        self.of_scheme.remove(&pbn);
        self.belongs_to_scheme(self.geometry.refs_of(pbn).0.index, refs, false);
        if refs == 0 {
            self.freed(pbn);
        }
        self.no_longer_busy();
    }

    /// The scheme has no blocks any more. What is left of carriers their counts will say.
    pub fn scheme_is_gone(&mut self) {
        let all = std::mem::take(&mut self.of_scheme);
        all.into_iter().filter(|(_, is)| *is == Use::Plain).for_each(|(pbn, _)| self.freed(pbn));
        self.no_longer_busy();
    }
}
