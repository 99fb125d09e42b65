//! Fingerprints that leave memory one by one, the least recently used first; and the full index, from which none leaves.
//!
//! - `lru`: SmartDedup's index with single fingerprints (section 4.2), over the same groups on the medium: each eviction reads and writes
//!   one.
//! - `b-tree`: Dmdedup's. A node of 4 KiB is full to 69 % (ln 2) with random keys; an entry has 24 bytes. Inner nodes, the order of use and
//!   the rest of its cache are not counted. It has no level behind it in line.

use super::groups;
use super::interface::{Index, IndexIo, Skipped};
use super::known::Known;
use super::recency::Recency;
use super::stored::{Pbn, Stored};
use super::table::Table;
use super::writes::Content;

/// The bytes of an entry of a B-tree: 24 ÷ ln 2.
const B_TREE_BYTES: u64 = 35;

/// An index of single fingerprints.
#[derive(Debug)]
pub struct Recent {
    entries_max: u64,
    known: Known,
    order: Option<Recency>,
    table: Option<Table>,
}

impl Recent {
    /// Makes an index with room for everything.
    #[must_use]
    pub fn unbounded(contents: u32) -> Self {
        Self { entries_max: u64::MAX, known: Known::new(contents), order: None, table: None }
    }

    /// Makes an index like [`groups::Groups`], but for the single evictions.
    #[must_use]
    pub fn with_groups_on_medium(bytes: u64, blocks: u64, contents: u32) -> Self {
        let (entries_max, prefix_bits) = groups::room(bytes);
        let (order, table) = (Some(Recency::new(contents)), Some(Table::new(prefix_bits, blocks)));
        Self { entries_max, known: Known::new(contents), order, table }
    }

    /// Makes a B-tree in memory.
    #[must_use]
    pub fn b_tree(bytes: u64, contents: u32) -> Self {
        Self { entries_max: bytes / B_TREE_BYTES, order: Some(Recency::new(contents)), ..Self::unbounded(contents) }
    }

    fn touch(&mut self, content: Content) {
        if let Some(order) = &mut self.order {
            order.touch(content);
        }
    }
}

impl Index for Recent {
    fn look_up(&mut self, content: Content, _lbn: u32, _stored: &Stored) -> Option<Pbn> {
        let pbn = self.known.get(content)?;
        self.touch(content);
        Some(pbn)
    }

    fn insert(&mut self, content: Content, pbn: Pbn, _lbn: u32, _stored: &Stored) {
        self.known.put(content, pbn);
        self.touch(content);
        while self.known.len() > self.entries_max {
            let oldest = self.order.as_mut().and_then(Recency::pop).expect("an index that is full has an oldest entry");
            let gone = self.known.take(oldest);
            if let Some(table) = &mut self.table {
                table.merge(table.group(oldest), gone.into_iter());
            }
        }
    }

    fn remove(&mut self, content: Content, pbn: Pbn) {
        if self.known.get(content) == Some(pbn) {
            self.known.take(content);
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
        groups::find_all(|_, content| self.known.get(content), table, skipped, stored)
    }

    fn io(&self) -> IndexIo {
        self.table.as_ref().map_or_else(IndexIo::default, |table| table.io)
    }

    fn resident(&self) -> u64 {
        self.known.len()
    }
}
