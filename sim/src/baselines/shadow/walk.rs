//! Which tree a page of a redb file belongs to, read from the pages themselves.
//!
//! As redb's `docs/design.md` has it (file format 2): a header with two commit slots, of which bit 0 of byte 9 names the newer; a slot holds
//! the root of the tree of tables; that tree's leaf holds name and root of each table. Trees are copy-on-write: below a page that a commit
//! did not write lies none that it wrote, so the walk follows written pages only.

use onefold_engine::units::BLOCK_SIZE;

const PAGE: usize = BLOCK_SIZE;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
const CHECKSUM: usize = 16;
/// Bytes of a table's definition before its root: its kind, its length, whether it has a root.
const DEFINITION_ROOT: usize = 1 + 8 + 1;

/// A redb file.
pub struct Walk<'a>(pub &'a [u8]);

impl Walk<'_> {
    fn u16(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(self.0[at..at + 2].try_into().expect("two bytes")))
    }

    fn u32(&self, at: usize) -> usize {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes")) as usize
    }

    /// The byte where a page number points to: order in its upper five bits, then region, then index in pages of that order.
    fn place(&self, at: usize) -> usize {
        let number = u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"));
        let (order, region) = (number >> 59, usize::try_from((number >> 20) & 0xf_ffff).expect("twenty bits"));
        let index = usize::try_from(number & (0xf_ffff >> order)).expect("twenty bits");
        let (header_pages, data_pages) = (self.u32(16), self.u32(20));
        PAGE + region * (header_pages + data_pages) * PAGE + header_pages * PAGE + (index << order) * PAGE
    }

    /// Where the newest commit's tree of tables is rooted.
    fn tables_root(&self) -> Option<usize> {
        let slot = 64 + 128 * usize::from(self.0[9] & 1);
        (self.0[slot + 1] != 0).then(|| self.place(slot + 8))
    }

    fn children(&self, page: usize) -> impl Iterator<Item = usize> + '_ {
        let count = if self.0[page] == BRANCH { self.u16(page + 2) + 1 } else { 0 };
        (0..count).map(move |i| self.place(page + 8 + CHECKSUM * count + 8 * i))
    }

    /// Name and root of each table.
    ///
    /// # Panics
    /// When there are too many tables for one page: the shadow has four.
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

    /// Pages of the tree of tables.
    #[must_use]
    pub fn tables_page(&self) -> Option<usize> {
        self.tables_root()
    }

    /// Calls `found` with each page of a tree that `written` knows.
    pub fn written_below(&self, root: usize, written: &impl Fn(usize) -> bool, found: &mut impl FnMut(usize)) {
        if written(root) {
            found(root);
            self.children(root).for_each(|child| self.written_below(child, written, found));
        }
    }

    /// Pages from a root to a leaf, both counted.
    #[must_use]
    pub fn height(&self, root: usize) -> u64 {
        1 + self.children(root).next().map_or(0, |child| self.height(child))
    }
}
