//! Blocks that are in use although the tables do not record it. They are not allocated.
//!
//! 1. New content has a block from the start. The block is pending until its content is on the device and its fingerprint in the table.
//! 2. A block that an operation in flight reads, compares or discards is pinned (R7).
//! 3. The commit scheme has blocks of its own, whatever their count (L8). The count of a plain one is 0; a carrier's is that of its slots'
//!    links and of its entry. When the scheme no longer needs a plain block, the block is free. A carrier then is ordinary data, or free if
//!    its count is 0; for that its refs page has to be in memory.

use super::Space;
use super::block_kinds::SchemeBlock;
use crate::map::Map;
use crate::tables::Tables;
use crate::units::Pbn;

impl Space {
    /// Whether a block is in use, so that it must not be reused.
    pub fn is_busy(&self, pbn: Pbn) -> bool {
        self.pins.contains_key(&pbn) || self.pending.contains(pbn) || self.is_of_scheme(pbn) || self.promised.contains_key(&pbn)
    }

    /// Keeps a block from being allocated while an operation in flight uses it.
    pub fn pin(&mut self, pbn: Pbn) {
        *self.pins.entry(pbn).or_insert(0) += 1;
    }

    /// Takes back one [`Self::pin`].
    ///
    /// # Panics
    /// When the block was not pinned.
    pub fn unpin(&mut self, pbn: Pbn) {
        let left = self.pins.get_mut(&pbn).expect("only what was pinned is unpinned");
        *left -= 1;
        if *left == 0 {
            self.pins.remove(&pbn);
            self.no_longer_busy();
        }
    }

    /// A block is no longer pending.
    pub fn forget_pending(&mut self, pbn: Pbn) {
        self.pending.remove(pbn);
        self.no_longer_busy();
    }

    /// Whether a block belongs to the scheme.
    pub fn is_of_scheme(&self, pbn: Pbn) -> bool {
        self.of_scheme.contains_key(&pbn)
    }

    /// Gives a free block to the scheme.
    pub fn joins_scheme(&mut self, pbn: Pbn) {
        self.of_scheme.insert(pbn, SchemeBlock::Plain);
        self.belongs_to_scheme(self.geometry.refs_of(pbn).0.index, 0, true);
    }

    /// The scheme no longer needs a block. Returns whether the block leaves it only once its refs page is in memory.
    ///
    /// # Panics
    /// When the block does not belong to the scheme.
    #[must_use]
    pub fn leaves_scheme(&mut self, pbn: Pbn) -> bool {
        let what = self.of_scheme.get_mut(&pbn).expect("only what is the scheme's leaves it");
        if *what == SchemeBlock::Plain {
            self.has_left_scheme(pbn, 0);
            return false;
        }
        *what = SchemeBlock::Leaving;
        true
    }

    /// Lets a block leave the scheme that waited for its refs page, which is in memory.
    pub fn let_leave_scheme(&mut self, tables: &mut Tables, pbn: Pbn) {
        if self.of_scheme.get(&pbn) == Some(&SchemeBlock::Leaving) {
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

    /// The scheme gives up all of its blocks. The carriers' counts say which of them are in use.
    pub fn scheme_is_gone(&mut self) {
        let all = std::mem::take(&mut self.of_scheme);
        all.into_iter().filter(|(_, is)| *is == SchemeBlock::Plain).for_each(|(pbn, _)| self.freed(pbn));
        self.no_longer_busy();
    }

    /// Keeps blocks that promises of the last server name out of use.
    pub fn promise(&mut self, blocks: impl Iterator<Item = Pbn>) {
        self.promised = blocks.map(|pbn| (pbn, ())).collect();
    }

    /// Takes over the blocks that belong to the scheme, as an opening has found them.
    pub fn adopt_scheme_blocks(&mut self, blocks: Map<Pbn, SchemeBlock>) {
        self.of_scheme = blocks;
    }

    /// The number of pins.
    pub fn pins(&self) -> u64 {
        self.pins.values().copied().map(u64::from).sum()
    }

    pub fn is_pinned(&self, pbn: Pbn) -> bool {
        self.pins.contains_key(&pbn)
    }

    /// Lets blocks that promises named be used again.
    pub fn forget_promised(&mut self) {
        self.promised.clear();
    }

    /// The role of a block for the scheme, if it belongs to it.
    pub fn scheme_block(&self, pbn: Pbn) -> Option<SchemeBlock> {
        self.of_scheme.get(&pbn).copied()
    }

    /// The number of blocks of the scheme that hold nothing of clients.
    pub fn plain_blocks_of_scheme(&self) -> usize {
        self.of_scheme.values().filter(|is| **is == SchemeBlock::Plain).count()
    }

    /// Gives a block to the scheme, as a carrier.
    pub fn becomes_carrier(&mut self, pbn: Pbn) {
        self.of_scheme.insert(pbn, SchemeBlock::Carrier);
    }
}
