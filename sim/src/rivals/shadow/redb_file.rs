//! Parsing a redb file, to find the tree that a page belongs to.
//!
//! As redb's `docs/design.md` describes it (file format 2), the header has two commit slots, of which bit 0 of byte 9 selects the newer; a
//! slot holds the root of the tree of tables; that tree's leaf holds name and root of each table. Trees are copy-on-write: a page that a
//! commit did not write has no written page below it, so the search follows written pages only.

use onefold_engine::units::BLOCK_SIZE;

const PAGE: usize = BLOCK_SIZE;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
const CHECKSUM: usize = 16;
/// The bytes of a table's definition before its root: its kind, its length, whether it has a root.
const DEFINITION_ROOT: usize = 1 + 8 + 1;

/// The bytes of a redb file.
pub struct RedbFile<'a>(pub &'a [u8]);

impl RedbFile<'_> {
    fn u16(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(self.0[at..at + 2].try_into().expect("two bytes")))
    }

    fn u32(&self, at: usize) -> usize {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes")) as usize
    }

    /// Returns the byte that a page number refers to: order in its upper five bits, then region, then index among pages of that order.
    fn place(&self, at: usize) -> usize {
        let number = u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"));
        let (order, region) = (number >> 59, usize::try_from((number >> 20) & 0xf_ffff).expect("twenty bits"));
        let index = usize::try_from(number & (0xf_ffff >> order)).expect("twenty bits");
        let (header_pages, data_pages) = (self.u32(16), self.u32(20));
        PAGE + region * (header_pages + data_pages) * PAGE + header_pages * PAGE + (index << order) * PAGE
    }

    /// Returns the root of the newest commit's tree of tables.
    fn tables_root(&self) -> Option<usize> {
        let slot = 64 + 128 * usize::from(self.0[9] & 1);
        (self.0[slot + 1] != 0).then(|| self.place(slot + 8))
    }

    fn children(&self, page: usize) -> impl Iterator<Item = usize> + '_ {
        let count = if self.0[page] == BRANCH { self.u16(page + 2) + 1 } else { 0 };
        (0..count).map(move |i| self.place(page + 8 + CHECKSUM * count + 8 * i))
    }

    /// Lists the name and root of each table.
    ///
    /// # Panics
    /// Panics if there are too many tables for one page: the shadow has four.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Option<usize>)> {
        let Some(leaf) = self.tables_root() else { return Vec::new() };
        assert_eq!(self.0[leaf], LEAF, "four tables fit one leaf");
        let count = self.u16(leaf + 2);
        let (keys, values) = (leaf + 4, leaf + 4 + 4 * count);
        let end = |ends: usize, i: usize| leaf + self.u32(ends + 4 * i);
        let table = |i: usize| {
            let key_first = if i == 0 { values + 4 * count } else { end(keys, i - 1) };
            let value_first = if i == 0 { end(keys, count - 1) } else { end(values, i - 1) };
            let name = String::from_utf8_lossy(&self.0[key_first..end(keys, i)]).into_owned();
            let rooted = self.0[value_first + DEFINITION_ROOT - 1] != 0;
            (name, rooted.then(|| self.place(value_first + DEFINITION_ROOT)))
        };
        (0..count).map(table).collect()
    }

    /// Returns the page of the tree of tables.
    #[must_use]
    pub fn tables_page(&self) -> Option<usize> {
        self.tables_root()
    }

    /// Calls `found` with each page of a tree for which `written` is true.
    pub fn written_below(&self, root: usize, written: &impl Fn(usize) -> bool, found: &mut impl FnMut(usize)) {
        if written(root) {
            found(root);
            self.children(root).for_each(|child| self.written_below(child, written, found));
        }
    }

    /// Returns whether a page of a tree is a leaf.
    #[must_use]
    pub fn is_leaf(&self, page: usize) -> bool {
        self.0[page] == LEAF
    }

    /// Returns the pages from a root to the leaf that has this key, or would have it. Keys are 64-bit numbers, stored one after the other
    /// behind the children, and each child has the keys up to its own.
    #[must_use]
    pub fn path(&self, root: usize, key: u64) -> Vec<usize> {
        let (mut page, mut path) = (root, vec![root]);
        while self.0[page] == BRANCH {
            let keys = self.u16(page + 2);
            let first = page + 8 + (CHECKSUM + 8) * (keys + 1);
            let key_at = |i: usize| u64::from_le_bytes(self.0[first + 8 * i..first + 8 * i + 8].try_into().expect("eight bytes"));
            let child = (0..keys).find(|&i| key <= key_at(i)).unwrap_or(keys);
            page = self.place(page + 8 + CHECKSUM * (keys + 1) + 8 * child);
            path.push(page);
        }
        path
    }

    /// Returns the number of pages from a root to a leaf, including both.
    #[must_use]
    pub fn height(&self, root: usize) -> u64 {
        1 + self.children(root).next().map_or(0, |child| self.height(child))
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend::Recorder;
    use super::*;
    use redb::{Database, TableDefinition};

    const NUMBERS: TableDefinition<u64, u64> = TableDefinition::new("numbers");

    #[test]
    fn a_path_ends_in_the_leaf_that_has_the_key() {
        let recorder = Recorder::default();
        let db: Database = redb::Builder::new().create_with_backend(recorder.clone()).expect("redb makes a file in memory");
        let transaction = db.begin_write().expect("it is the only one");
        {
            let mut numbers = transaction.open_table(NUMBERS).expect("a new table");
            for key in 0..50_000 {
                numbers.insert(key * 7, key).expect("it writes to memory");
            }
        }
        transaction.commit().expect("it writes to memory");
        let image = recorder.image();
        let file = RedbFile(&image.bytes);
        let root = file.tables().into_iter().find(|(name, _)| name == "numbers").and_then(|(_, root)| root).expect("it has entries");
        for key in [0, 7, 7 * 255, 7 * 256, 7 * 31_000, 7 * 49_999] {
            let path = file.path(root, key);
            assert_eq!((path[0], path.len() as u64), (root, file.height(root)));
            let leaf = path[path.len() - 1];
            let has_it = (0..file.u16(leaf + 2)).any(|i| image.bytes[leaf + 4 + 8 * i..leaf + 12 + 8 * i] == key.to_le_bytes());
            assert!(file.is_leaf(leaf) && !file.is_leaf(root) && has_it, "{key}");
        }
    }
}
