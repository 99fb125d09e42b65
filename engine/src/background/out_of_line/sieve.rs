//! The sieve: on a large volume many candidates are compared with the fingerprint table at once, since each sweep reads all of it.
//!
//! 1. Candidates that do not fit into memory are set aside on free blocks, until there are enough for one pass over the table. It begins
//!    when they are durable.
//! 2. A filter of their keys lets those entries of the table through that may have the content of a candidate. They are written to free
//!    blocks, too, and a filter with another salt takes most of those away that came through by chance.
//! 3. The pairs that are left are loaded, as many as fit, and joined with the candidates. The block that a candidate itself was written to
//!    is left out, so that only content that lies elsewhere, too, costs reads. Where short runs are filtered, it is not left out: a
//!    candidate that lies there alone stays there.
//! 4. What was found is compared and mapped as after a sweep (`sweep.rs`): whatever led there is advice. Where the pairs fill their room,
//!    the rest of the table comes after that.
//! 5. Carriers of many slots have short tags, which say little on a volume of this size. They are left to sweeps of smaller volumes.
//! 6. What is skipped meanwhile is set aside for later passes, whatever the work does.
//! 7. When the volume is full, the blocks are given back at once, and the candidates are gathered again.

mod filter;
mod join;
mod pages;
mod pass;

use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region};
use crate::format::unit;
use crate::index::{NamedLbn, TagLayout};
use crate::io::Io;
use crate::pool::Pool;
use crate::schedule::Blocked;
use crate::space::{GRANULE_BLOCKS, Space};
use crate::units::{Epoch, Pbn, index};
use filter::Filter;
use pages::{Former, Pages};

/// The bits of a fingerprint's head by which the sieve knows it.
const KEY_BITS: u32 = 27;
/// The bytes of a candidate: its LBN with a tag, and the low half of the block it was written to.
const CANDIDATE_BYTES: usize = 12;
/// The bytes of a pair: a block with a tag.
const PAIR_BYTES: usize = 8;
/// Two filters with fewer bits for each candidate would let too many blocks through. In ninths of a bit for each bit of memory.
const CANDIDATE_NINTHS: u64 = 2;
/// The part of the memory that the list of the blocks of what is set aside may take.
const LIST_PART: u64 = 2;
/// A pass begins with this number of candidates for each three pages of the table, if there is memory for a filter of them.
const CANDIDATES_FOR_3_PAGES: u64 = 2;
/// The most pages of pairs, and the part of the table's pages that they may be.
const PAIR_PAGES_MAX: u64 = 1024;
const PAIR_PAGES_PART: u64 = 16;
/// The pages of pairs that a page of the table may bring: each block of three slots.
const PAIR_PAGES_A_PAGE: usize = 3;

/// The step of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This epoch and those before it, which have the candidates, are to be durable.
    Await(Epoch),
    /// The keys of the candidates on this page enter the filter.
    Fill { page: usize },
    /// The table is sieved.
    Table,
    /// The pairs on this page are sieved again.
    Again { page: usize },
    /// The pairs on this page are loaded.
    Load { page: usize },
    /// The candidates on this page are joined with the pairs that are loaded.
    Join { page: usize },
    /// The blocks that were found are compared, from this place on. The candidates on the next page are joined after that.
    Compare { at: usize, page: usize },
}

/// The way on of a pass after a step.
pub(super) enum Sifted {
    /// It goes on at once.
    Goes,
    /// The candidates are not durable yet.
    Commits,
    /// This page is being read, by one of this number of reads.
    Page(PageId, u64),
    /// Pages of the sieve are read, which count as this number of reads.
    Reads(u64),
    /// Pages of the sieve are being written.
    Writes,
    /// There is no free block.
    NoRoom,
    /// Blocks are to be compared.
    Found,
    /// The pass is over.
    Over,
}

/// The candidates that were set aside, and how far a pass over the table is.
pub(super) struct Sieve {
    /// Its memory: for a filter, or for pairs that are loaded.
    bytes: u64,
    /// The layout of pairs: a block, and whether it is a carrier.
    layout: TagLayout,
    /// The layout of candidates.
    layout_of_candidates: TagLayout,
    /// The step of the pass that is under way.
    step: Option<Step>,
    /// The candidates that were set aside for later passes, and the number of the oldest ones, which are of regions that are under way.
    aside: Pages<CANDIDATE_BYTES>,
    awaited: u64,
    /// Those of the pass that is under way.
    candidates: Pages<CANDIDATE_BYTES>,
    pairs: Pages<PAIR_BYTES>,
    /// The pairs before they were sieved again.
    former: Option<Former>,
    filter: Filter,
    round: u64,
    /// The first block whose entry was not sieved yet.
    table: Pbn,
    loaded: Vec<NamedLbn>,
    /// The first page of pairs that was not loaded yet.
    load_from: usize,
    /// Blocks that may have a candidate's content, and these candidates.
    found: Vec<(Pbn, NamedLbn)>,
    blocks: Vec<Pbn>,
    /// The pages that have arrived, from this block on.
    arrived: Option<(Pbn, Vec<u8>)>,
    writing: u64,
}

impl Sieve {
    /// A sieve with this much memory: none on a small volume.
    pub fn new(bytes: u64, geometry: &Geometry) -> Self {
        Self {
            bytes,
            layout: TagLayout::new(geometry.data_blocks * 2),
            layout_of_candidates: TagLayout::new(geometry.logical_blocks),
            step: None,
            aside: Pages::default(),
            awaited: 0,
            candidates: Pages::default(),
            pairs: Pages::default(),
            former: None,
            filter: Filter::default(),
            round: 0,
            table: Pbn(0),
            loaded: Vec::new(),
            load_from: 0,
            found: Vec::new(),
            blocks: Vec::new(),
            arrived: None,
            writing: 0,
        }
    }

    /// Whether the volume is large enough for it.
    pub const fn has_memory(&self) -> bool {
        self.bytes > 0
    }

    /// The candidates of the pass that is under way.
    pub fn candidates(&self) -> u64 {
        self.candidates.entries()
    }

    /// The candidates that were set aside for later passes.
    pub fn aside(&self) -> u64 {
        self.aside.entries()
    }

    /// Whether more candidates may be set aside.
    pub fn takes_more(&self) -> bool {
        self.aside.list_bytes() < self.bytes / LIST_PART
    }

    /// Notes that all that was set aside is of regions that are under way.
    pub fn await_all(&mut self) {
        self.awaited = self.aside();
    }

    /// Those that are of regions that are under way.
    pub const fn awaited(&self) -> u64 {
        self.awaited
    }

    /// The free blocks that are in use.
    pub fn blocks(&self) -> u64 {
        self.aside.blocks() + self.candidates.blocks() + self.pairs.blocks()
    }

    /// The pages of the table that were sieved.
    pub fn sieved_pages(&self) -> u64 {
        self.table.0 / GRANULE_BLOCKS
    }

    /// The most candidates of a pass: as many as memory has a filter for.
    pub const fn candidates_max(&self) -> u64 {
        self.bytes * 8 * CANDIDATE_NINTHS / 9
    }

    /// A pass is worth it from this number of candidates on.
    pub fn candidates_wanted(&self, geometry: &Geometry) -> u64 {
        let wanted = geometry.pages_of_blocks(Region::Fingerprints) * CANDIDATES_FOR_3_PAGES / 3;
        self.candidates_max().min(wanted).max(1)
    }

    fn pair_pages_max(geometry: &Geometry) -> usize {
        let part = geometry.pages_of_blocks(Region::Fingerprints) / PAIR_PAGES_PART;
        index(part.min(PAIR_PAGES_MAX)).max(2 * PAIR_PAGES_A_PAGE)
    }

    fn loaded_max(&self) -> usize {
        index(self.bytes / PAIR_BYTES as u64).max(Pages::<PAIR_BYTES>::A_PAGE)
    }

    /// Whether pages are being written. Until they are, their blocks are in use (R7).
    pub const fn is_writing(&self) -> bool {
        self.writing > 0
    }

    /// Sets a candidate aside, of which a block was written or is meant.
    ///
    /// # Errors
    /// When a page has to be loaded first, or there is no room.
    pub fn set_aside(&mut self, pool: &mut Pool, candidate: NamedLbn, low: u32) -> Result<(), Blocked> {
        self.aside.reserve(pool, 1)?;
        let mut entry = [0; CANDIDATE_BYTES];
        entry[..8].copy_from_slice(&candidate.bits().to_le_bytes());
        entry[8..].copy_from_slice(&low.to_le_bytes());
        self.writing += u64::from(self.aside.add(&mut pool.io, &pool.geometry, entry));
        Ok(())
    }

    /// Ends a pass, and gives its blocks back. Its candidates are forgotten.
    pub fn end_pass(&mut self, space: &mut Space) {
        self.candidates.give_back(space);
        self.pairs.give_back(space);
        (self.step, self.filter, self.former, self.arrived, self.table) = (None, Filter::default(), None, None, Pbn(0));
        (self.loaded, self.found, self.blocks) = Default::default();
    }

    /// Ends the pass that is under way, and forgets what was set aside for later ones.
    pub fn give_up(&mut self, space: &mut Space) {
        self.end_pass(space);
        self.aside.give_back(space);
        self.awaited = 0;
    }

    fn add_pair(&mut self, io: &mut Io, geometry: &Geometry, pbn: Pbn, is_carrier: bool, head: u64) {
        let pair = self.layout.entry_of_head(pbn.0 << 1 | u64::from(is_carrier), head);
        self.writing += u64::from(self.pairs.add(io, geometry, pair.bits().to_le_bytes()));
    }

    /// Sieves the entry of a block.
    fn sieve(&mut self, io: &mut Io, geometry: &Geometry, pbn: Pbn, entry: &FingerprintEntry) {
        match entry.kind {
            Kind::Fingerprint if self.filter.lets_through(key(entry.value.head())) => {
                self.add_pair(io, geometry, pbn, false, entry.value.head());
            }
            Kind::Carrier => {
                let tells = |heads: &std::ops::RangeInclusive<u64>| heads.end() - heads.start() <= u64::MAX >> KEY_BITS;
                for heads in unit::heads_of_slots(&entry.value).filter(tells) {
                    if self.filter.lets_through(key(*heads.start())) {
                        self.add_pair(io, geometry, pbn, true, *heads.start());
                    }
                }
            }
            _ => {}
        }
    }
}

/// The key of a fingerprint with this head.
fn key(head: u64) -> u64 {
    head >> (u64::BITS - KEY_BITS)
}

impl Sieve {
    fn arrived(&self) -> Option<(Pbn, &[u8])> {
        self.arrived.as_ref().map(|(first, bytes)| (*first, &bytes[..]))
    }
}

/// A candidate or a pair, from its bytes.
fn named(entry: &[u8]) -> NamedLbn {
    NamedLbn::of_bits(entry.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}
