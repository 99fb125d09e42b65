//! Reads of pages ahead of a background job, which takes the pages of a region in their order.
//!
//! 1. Neighbours on the device are read at once, by one read. Each of them then arrives as if it had been read alone.
//! 2. If such a read fails, each page is tried again alone, so a bad sector takes only its own page away.
//! 3. A read never covers a page that is in memory already, since that page may be being written.

use super::Tables;
use crate::format::page::PageId;
use crate::io::Io;
use crate::units::{BLOCK_BYTES, count, index};

/// The most pages that are asked for at once, and so the most in one read.
const PAGES_AHEAD: u64 = 16;
/// The pages of a read that count as one read where reads are limited to a rate. So 64 KiB count as four reads; they take flash 2.3 to 3.3
/// times as long as 4 KiB do (OrderMergeDedup section 4.1).
const PAGES_A_READ: usize = 4;

impl Tables {
    /// Begins to read the pages that a job takes next, unless the first of them is in memory or being read: those that are neither, nor
    /// known to be blank, as many as the cache has room for. Returns how many reads that is, where reads are limited to a rate.
    pub fn load_ahead(&mut self, io: &mut Io, pages: impl Iterator<Item = PageId>) -> u64 {
        let mut pages = pages.take(index(PAGES_AHEAD.min(self.pages.ahead_max()).max(1))).peekable();
        if pages.peek().is_none_or(|&first| self.pages.holds(first)) {
            return 0;
        }
        let mut wanted = Vec::new();
        let mut reads = 0;
        for id in pages {
            if self.pages.holds(id) || self.is_blank(io, id) {
                continue;
            }
            if self.begin_load(io, id) {
                wanted.push(id);
            } else {
                // It is read alone after the page with its bit.
                reads += 1;
            }
        }
        wanted.sort_unstable();
        let geometry = self.geometry.clone();
        // A region may have several extents, and they lie anywhere.
        let are_neighbours = |a: &PageId, b: &PageId| a.index + 1 == b.index && geometry.page_at(*a) + BLOCK_BYTES == geometry.page_at(*b);
        for run in wanted.chunk_by(are_neighbours) {
            self.read_pages(io, run[0], run.len());
            reads += count(run.len().div_ceil(PAGES_A_READ));
        }
        reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::geometry::{Extent, Geometry};
    use crate::format::page::Region;
    use crate::interface::Action;
    use crate::memory::Accountant;
    use crate::tables::page_io::blank_page;
    use crate::tables::pages::PageState;
    use crate::units::{Bytes, Epoch, Time};
    use std::sync::Arc;

    /// The fingerprint pages before the seam.
    const SEAM: u64 = 20;

    /// A geometry whose fingerprints lie in two extents.
    fn with_a_seam(geometry: &Geometry) -> Geometry {
        let mut extents = geometry.extents.clone();
        let rest = extents[2].pages() - SEAM;
        extents[2].length = Bytes(SEAM * BLOCK_BYTES);
        extents[4].length = Bytes(extents[4].length.get() - rest * BLOCK_BYTES);
        let offset = extents[4].offset + extents[4].length.get();
        let first_entry = SEAM * Region::Fingerprints.entries_per_page();
        extents.push(Extent { first_entry, offset, length: Bytes(rest * BLOCK_BYTES), ..extents[2] });
        Geometry::of_extents(geometry.device_bytes, geometry.logical_blocks - 64, geometry.reserve_blocks, extents)
            .expect("nothing overlaps")
    }

    /// Tables with the page of bits in memory, none of which is set, and I/O for them.
    fn tables(memory_bytes: u64) -> (Tables, Io) {
        let parts = crate::test_kit::parts();
        let geometry = Arc::new(with_a_seam(&parts.pool.geometry));
        let mut tables = Tables::new(geometry, [7; 16], Accountant::divided(memory_bytes, true), Epoch(1), Time(0), 1000);
        let bits = PageId { region: Region::Written, index: 0 };
        tables.pages.put(bits, PageState::Ready(Box::new(blank_page())));
        (tables, parts.pool.io)
    }

    fn page(index: u64) -> PageId {
        PageId { region: Region::Fingerprints, index }
    }

    /// Returns the reads under way: the first page of each, and how many it brings.
    fn reads(tables: &Tables, io: &mut Io) -> Vec<(u64, usize)> {
        let page_of = |at| (0..tables.geometry.pages(Region::Fingerprints)).find(|&index| tables.geometry.page_at(page(index)) == at);
        let out = io.take_actions();
        let reads =
            out.iter().filter_map(|action| if let Action::Read { at, buffer, .. } = action { Some((*at, buffer.blocks())) } else { None });
        reads.map(|(at, blocks)| (page_of(at).expect("it begins with a page"), blocks)).collect()
    }

    #[test]
    fn neighbours_are_read_at_once_in_either_order() {
        let (mut tables, mut io) = tables(64 << 20);
        assert_eq!(tables.load_ahead(&mut io, (2..40).map(page)), 4);
        assert_eq!(reads(&tables, &mut io), [(2, 16)]);
        assert_eq!(tables.load_ahead(&mut io, (2..40).map(page)), 0, "it is being read");
        assert_eq!(tables.load_ahead(&mut io, [1, 0, 40, 39, 38, 37, 36].into_iter().map(page)), 1 + 2);
        assert_eq!(reads(&tables, &mut io), [(0, 2), (36, 5)]);
    }

    #[test]
    fn no_read_crosses_a_seam() {
        let (mut tables, mut io) = tables(64 << 20);
        assert_eq!(tables.load_ahead(&mut io, (SEAM - 6..40).map(page)), 2 + 3);
        assert_eq!(reads(&tables, &mut io), [(SEAM - 6, 6), (SEAM, 10)]);
    }

    #[test]
    fn pages_that_need_no_read_are_not_read() {
        let (mut tables, mut io) = tables(64 << 20);
        tables.pages.put(page(3), PageState::Ready(Box::new(blank_page())));
        tables.ensure(&mut io, page(5));
        assert_eq!(reads(&tables, &mut io), [(5, 1)]);
        assert_eq!(tables.load_ahead(&mut io, (0..8).map(page)), 3);
        assert_eq!(reads(&tables, &mut io), [(0, 3), (4, 1), (6, 2)]);
        tables.bits_exact = true;
        let (bits, at) = tables.geometry.written_of(page(11));
        tables.pages.expect(bits).content.set_bit(at, true);
        assert_eq!(tables.load_ahead(&mut io, (8..16).map(page)), 1);
        assert_eq!(reads(&tables, &mut io), [(11, 1)], "the others are blank");
    }

    #[test]
    fn pages_whose_bits_are_not_in_memory_count_as_a_read_each() {
        let (mut tables, mut io) = tables(64 << 20);
        tables.pages.evict_clean();
        assert_eq!(tables.load_ahead(&mut io, (0..5).map(page)), 5);
    }

    /// The frames of a read take as much memory as the pages that arrive in them, and both are there at once.
    #[test]
    fn with_little_memory_fewer_pages_are_read_at_once() {
        let (mut tables, mut io) = tables(Accountant::BYTES_MIN);
        tables.load_ahead(&mut io, (0..20).map(page));
        assert_eq!(reads(&tables, &mut io), [(0, 5)], "a sixteenth of 92 pages");
    }
}
