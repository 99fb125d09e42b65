//! The home tables: linear arrays, which memory holds as they will be written.

use super::log::Record;
use crate::rivals::Settings;
use onefold_engine::interface::Class;
use onefold_engine::units::{BLOCK_SIZE, Blocks, Bytes};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The layout of the device, in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub ring_blocks: u64,
    pub data_blocks: u64,
    map_first: u64,
    counts_first: u64,
    names_first: u64,
    pub data_first: u64,
}

const MAP_WIDTH: u64 = 8;
const COUNT_WIDTH: u64 = 2;
const NAME_WIDTH: u64 = 20;
const PAGE: u64 = BLOCK_SIZE as u64;
/// The first block of the ring, after the superblock.
const RING_FIRST: u64 = 1;

/// Returns the number of blocks of 4 KiB that mke2fs gives ext4's journal on a file system of `blocks` blocks.
pub const fn ring_blocks(blocks: u64) -> u64 {
    match blocks {
        0..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    }
}

impl Layout {
    pub fn new(settings: &Settings, ring_blocks: u64) -> Self {
        let logical = settings.logical.0;
        let data_blocks = logical + settings.reserve.0;
        let pages = |entries: u64, width: u64| entries.div_ceil(PAGE / width);
        let map_first = RING_FIRST + ring_blocks;
        let counts_first = map_first + pages(logical, MAP_WIDTH);
        let names_first = counts_first + pages(data_blocks, COUNT_WIDTH);
        let data_first = names_first + pages(data_blocks, NAME_WIDTH);
        Self { ring_blocks, data_blocks, map_first, counts_first, names_first, data_first }
    }

    pub fn device_bytes(&self) -> Bytes {
        Blocks(self.data_first + self.data_blocks).bytes()
    }

    /// Returns the device block of the journal block with this number.
    pub fn ring_block(&self, number: u64) -> u64 {
        RING_FIRST + number % self.ring_blocks
    }

    /// Returns the blocks that hold home tables.
    pub fn home(&self) -> std::ops::Range<u64> {
        self.map_first..self.data_first
    }

    pub fn class(&self, block: u64) -> Class {
        match block {
            _ if block >= self.names_first => Class::Fingerprints,
            _ if block >= self.counts_first => Class::Refs,
            _ => Class::Map,
        }
    }

    /// Returns the block and the byte of an entry.
    fn place(first: u64, width: u64, i: u64) -> (u64, usize) {
        let each = PAGE / width;
        (first + i / each, usize::try_from(i % each * width).expect("within a page"))
    }

    fn map_at(&self, lbn: u64) -> (u64, usize) {
        Self::place(self.map_first, MAP_WIDTH, lbn)
    }
}

/// The pages, and which of them differ from the device.
pub struct Home {
    pub layout: Layout,
    pages: FxHashMap<u64, Box<[u8; BLOCK_SIZE]>>,
    dirty: BTreeSet<u64>,
}

impl Home {
    pub fn new(layout: Layout) -> Self {
        Self { layout, pages: FxHashMap::default(), dirty: BTreeSet::new() }
    }

    /// Stores a page as it was read from the device.
    pub fn load(&mut self, block: u64, bytes: &[u8; BLOCK_SIZE]) {
        self.pages.insert(block, Box::new(*bytes));
    }

    /// Applies a changed entry.
    pub fn apply(&mut self, record: Record) {
        let layout = &self.layout;
        let (place, bytes): ((u64, usize), &[u8]) = match &record {
            // 0 means unmapped, so that an empty device needs no format.
            Record::Map { lbn, pbn } => (layout.map_at(*lbn), &pbn.map_or(0, |pbn| pbn + 1).to_le_bytes()),
            Record::Count { pbn, count } => (Layout::place(layout.counts_first, COUNT_WIDTH, *pbn), &count.to_le_bytes()),
            Record::Name { pbn, name } => (Layout::place(layout.names_first, NAME_WIDTH, *pbn), &name.0),
            Record::NoName { pbn } => (Layout::place(layout.names_first, NAME_WIDTH, *pbn), &[0; 20]),
        };
        let page = self.pages.entry(place.0).or_insert_with(|| Box::new([0; BLOCK_SIZE]));
        page[place.1..place.1 + bytes.len()].copy_from_slice(bytes);
        self.dirty.insert(place.0);
    }

    /// Returns the block that holds an LBN's content.
    pub fn lookup(&self, lbn: u64) -> Option<u64> {
        let (block, at) = self.layout.map_at(lbn);
        let page = self.pages.get(&block)?;
        u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes")).checked_sub(1)
    }

    /// Returns a block's links.
    pub fn count(&self, pbn: u64) -> u16 {
        let (block, at) = Layout::place(self.layout.counts_first, COUNT_WIDTH, pbn);
        self.pages.get(&block).map_or(0, |page| u16::from_le_bytes([page[at], page[at + 1]]))
    }

    /// Returns whether a block has a fingerprint.
    pub fn named(&self, pbn: u64) -> bool {
        let (block, at) = Layout::place(self.layout.names_first, NAME_WIDTH, pbn);
        self.pages.get(&block).is_some_and(|page| page[at..at + 20] != [0; 20])
    }

    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Returns the pages that differ from the device, in their present state. From now on they count as written.
    pub fn take_dirty(&mut self) -> Vec<(u64, &[u8; BLOCK_SIZE])> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|block| (block, &*self.pages[&block])).collect()
    }
}
