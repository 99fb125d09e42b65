//! Entries of one size that do not fit into memory: they lie on free blocks.
//!
//! 1. Nothing refers to these blocks. They belong to the scheme while they are in use, so nobody else is given them, and a crash forgets
//!    them.
//! 2. What is read back is advice. A page that is not the one that was written has no entries.
//! 3. The last page stays in memory until it is full.

use crate::format::geometry::Geometry;
use crate::format::sieve_page::{HEADER_BYTES, header};
use crate::interface::Class;
use crate::io::{Io, IoFor};
use crate::pool::Pool;
use crate::schedule::Blocked;
use crate::space::Space;
use crate::units::{BLOCK_SIZE, Pbn, count, index};

/// The most pages of one read.
const RUN_PAGES_MAX: usize = 8;

/// Entries of `BYTES` bytes, in the order in which they were added.
pub(super) struct Pages<const BYTES: usize> {
    /// The blocks of the pages. Those behind the written pages are kept for later ones.
    blocks: Vec<Pbn>,
    written: usize,
    last: Vec<u8>,
    /// The number of the first page.
    first: usize,
    /// Differs from that of what these pages were before.
    generation: u32,
}

/// The entries of pages before these were begun anew: they can still be read, up to the page that is written next.
pub(super) struct Former {
    written: usize,
    last: Vec<u8>,
    generation: u32,
}

/// The entries of a page, or the blocks that have to be read for them.
pub(super) enum Page {
    Entries(Vec<u8>),
    At { first: Pbn, blocks: usize },
}

impl<const BYTES: usize> Default for Pages<BYTES> {
    fn default() -> Self {
        Self { blocks: Vec::new(), written: 0, last: Vec::new(), first: 0, generation: 0 }
    }
}

impl<const BYTES: usize> Pages<BYTES> {
    /// The entries of a whole page.
    pub const A_PAGE: usize = (BLOCK_SIZE - HEADER_BYTES) / BYTES;

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        count(self.written * Self::A_PAGE + self.last.len() / BYTES)
    }

    /// The number of pages, the last one included.
    pub fn pages(&self) -> usize {
        self.written + usize::from(!self.last.is_empty())
    }

    /// The number of blocks that it has taken.
    pub fn blocks(&self) -> u64 {
        count(self.blocks.len())
    }

    /// The bytes of the list of its blocks.
    pub fn list_bytes(&self) -> u64 {
        count(self.blocks.len() * size_of::<Pbn>())
    }

    /// Takes blocks for this number of whole pages more, so that entries can be added without a wait.
    ///
    /// # Errors
    /// When a page has to be loaded first, or there is no free block.
    pub fn reserve(&mut self, pool: &mut Pool, pages: usize) -> Result<(), Blocked> {
        while self.blocks.len() < self.written + pages {
            if pool.space.lacks_room_for_others(pool.io.stage()) {
                return Err(Blocked::Space);
            }
            let pbn = pool.take_free_block().map_err(Blocked::Page)?.ok_or(Blocked::Space)?;
            pool.space.joins_scheme(pbn);
            self.blocks.push(pbn);
        }
        Ok(())
    }

    /// Adds an entry. A page that is full then is written to a block that was reserved; returns whether one was.
    pub fn add(&mut self, io: &mut Io, geometry: &Geometry, entry: [u8; BYTES]) -> bool {
        self.last.extend_from_slice(&entry);
        if self.last.len() < Self::A_PAGE * BYTES {
            return false;
        }
        let mut buffer = io.buffer(1);
        let page = buffer.block_mut(0);
        page.fill(0);
        page[..HEADER_BYTES].copy_from_slice(&header(self.generation, self.first + self.written));
        page[HEADER_BYTES..][..self.last.len()].copy_from_slice(&self.last);
        self.last.clear();
        let at = geometry.block_at(self.blocks[self.written]);
        self.written += 1;
        io.write(IoFor::SievePage, at, vec![buffer.freeze().slice(0, 1)], Class::Data);
        true
    }

    /// A page, if it is in memory or among those that have arrived, from this block on.
    pub fn page(&self, geometry: &Geometry, at: usize, arrived: Option<(Pbn, &[u8])>) -> Page {
        self.page_of(geometry, at, self.written, &self.last, self.generation, arrived)
    }

    /// A page as it was before the pages were begun anew.
    pub fn former_page(&self, geometry: &Geometry, former: &Former, at: usize, arrived: Option<(Pbn, &[u8])>) -> Page {
        self.page_of(geometry, at, former.written, &former.last, former.generation, arrived)
    }

    fn page_of(&self, geometry: &Geometry, at: usize, written: usize, last: &[u8], generation: u32, arrived: Option<(Pbn, &[u8])>) -> Page {
        if at >= written {
            return Page::Entries(last.to_vec());
        }
        let block = self.blocks[at];
        let found = arrived.and_then(|(first, bytes)| {
            let from = index(block.0.checked_sub(first.0)?) * BLOCK_SIZE;
            bytes.get(from..from + BLOCK_SIZE)
        });
        if let Some(page) = found {
            let is_right = page[..HEADER_BYTES] == header(generation, self.first + at);
            let entries = &page[HEADER_BYTES..][..Self::A_PAGE * BYTES];
            return Page::Entries(if is_right { entries.to_vec() } else { Vec::new() });
        }
        let rest = &self.blocks[at..written];
        let run = 1 + rest.windows(2).take(RUN_PAGES_MAX - 1).take_while(|pair| geometry.are_neighbours(pair[0], pair[1])).count();
        Page::At { first: block, blocks: run }
    }

    /// Takes the oldest entries away: those of this number of whole pages, or all.
    pub fn take_oldest(&mut self, pages: usize) -> Self {
        if pages > self.written {
            let rest = Self { first: self.first + self.pages(), generation: self.generation, ..Self::default() };
            return std::mem::replace(self, rest);
        }
        let oldest = Self { blocks: self.blocks.drain(..pages).collect(), written: pages, last: Vec::new(), ..*self };
        (self.written, self.first) = (self.written - pages, self.first + pages);
        oldest
    }

    /// Begins anew, on the same blocks.
    pub fn begin_anew(&mut self) -> Former {
        let former = Former { written: self.written, last: std::mem::take(&mut self.last), generation: self.generation };
        (self.written, self.generation) = (0, self.generation.wrapping_add(1));
        former
    }

    /// Forgets all entries, and gives the blocks back.
    pub fn give_back(&mut self, space: &mut Space) {
        let _forgotten = self.begin_anew();
        for pbn in std::mem::take(&mut self.blocks) {
            // None is a carrier, so each leaves at once.
            let waits = space.leaves_scheme(pbn);
            debug_assert!(!waits, "a page of the sieve is no carrier");
        }
    }
}

impl Former {
    /// The number of pages, the last one included.
    pub fn pages(&self) -> usize {
        self.written + usize::from(!self.last.is_empty())
    }
}
