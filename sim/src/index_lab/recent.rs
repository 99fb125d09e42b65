//! Fingerprints that leave memory one by one, the least recently used first; and the full index, from which none leaves.
//!
//! - `lru`: SmartDedup's index with single fingerprints (section 4.2), over the same groups on the medium: each eviction reads and writes
//!   one.
//! - `b-tree`: Dmdedup's. A node of 4 KiB is full to 69 % (ln 2) with random keys; an entry has 24 bytes. Inner nodes, the order of use and
//!   the rest of its cache are not counted. It has no level behind it in line.

use super::groups;
use super::recency::Recency;
use super::stored::{Pbn, Stored};
use super::table::Table;
use super::writes::Content;
use super::{Index, IndexIo, Skipped};

/// The bytes of an entry of a B-tree: 24 ÷ ln 2.
const B_TREE_BYTES: u64 = 35;

const NONE: u32 = u32::MAX;

/// An index of single fingerprints.
#[derive(Debug)]
pub struct Recent {
    entries_max: u64,
    used: u64,
    /// The block in memory for each content.
    blocks: Vec<Pbn>,
    order: Option<Recency>,
    table: Option<Table>,
}

impl Recent {
    /// Makes an index with room for everything.
    #[must_use]
    pub fn unbounded(_blocks: u64, contents: u32) -> Self {
        Self { entries_max: u64::MAX, used: 0, blocks: vec![NONE; contents as usize], order: None, table: None }
    }

    /// Makes an index like [`groups::Groups`], but for the single evictions.
    #[must_use]
    pub fn with_groups_on_medium(bytes: u64, blocks: u64, contents: u32) -> Self {
        let (entries, prefix_bits) = groups::room(bytes);
        let table = Some(Table::new(prefix_bits, blocks));
        Self { entries_max: entries, table, order: Some(Recency::new(contents)), ..Self::unbounded(blocks, contents) }
    }

    /// Makes a B-tree in memory.
    #[must_use]
    pub fn b_tree(bytes: u64, blocks: u64, contents: u32) -> Self {
        let order = Some(Recency::new(contents));
        Self { entries_max: bytes / B_TREE_BYTES, order, ..Self::unbounded(blocks, contents) }
    }

    fn touch(&mut self, content: Content) {
        if let Some(order) = &mut self.order {
            order.touch(content);
        }
    }
}

impl Index for Recent {
    fn look_up(&mut self, content: Content, _lbn: u32, _stored: &Stored) -> Option<Pbn> {
        let pbn = Some(self.blocks[content as usize]).filter(|&pbn| pbn != NONE)?;
        self.touch(content);
        Some(pbn)
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        let before = std::mem::replace(&mut self.blocks[content as usize], pbn);
        self.used += u64::from(before == NONE);
        self.touch(content);
        while self.used > self.entries_max {
            let oldest = self.order.as_mut().and_then(Recency::pop).expect("an index that is full has an oldest entry");
            let gone = std::mem::replace(&mut self.blocks[oldest as usize], NONE);
            self.used -= 1;
            if let Some(table) = &mut self.table {
                table.merge(table.group(oldest), std::iter::once(gone));
            }
        }
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        if self.blocks[content as usize] == pbn {
            self.blocks[content as usize] = NONE;
            self.used -= 1;
            if let Some(order) = &mut self.order {
                order.remove(content);
            }
        }
        if let Some(table) = &mut self.table {
            table.remove(content, pbn);
        }
    }

    fn find_out_of_line(&mut self, skipped: &[Skipped], stored: &Stored) -> Vec<Option<Pbn>> {
        let Some(table) = &mut self.table else { return vec![None; skipped.len()] };
        skipped.iter().map(|one| groups::find(self.blocks[one.content as usize], table, one, stored)).collect()
    }

    fn io(&self) -> IndexIo {
        self.table.as_ref().map_or_else(IndexIo::default, |table| table.io)
    }

    fn resident(&self) -> u64 {
        self.used
    }
}
