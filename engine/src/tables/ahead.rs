//! Reads of pages ahead of a background job, which takes the pages of a region in their order.
//!
//! 1. Neighbours on the device are read at once, by one read. Each of them then arrives as if it had been read alone.
//! 2. If such a read fails, each page is read alone: a bad sector takes only its own page away.
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
        let are_neighbours =
            |a: &PageId, b: &PageId| a.index + 1 == b.index && geometry.page_at(*a) + BLOCK_BYTES == geometry.page_at(*b);
        for run in wanted.chunk_by(are_neighbours) {
            self.read_pages(io, run[0], run.len());
            reads += count(run.len().div_ceil(PAGES_A_READ));
        }
        reads
    }

    /// Reads the pages of a read that failed, each alone.
    pub fn read_again(&self, io: &mut Io, first: PageId, pages: usize) {
        (0..count(pages)).for_each(|i| self.read_pages(io, first.after(i), 1));
    }
}
