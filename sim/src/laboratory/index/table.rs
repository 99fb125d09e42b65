//! SmartDedup's level on the medium (sections 3.2 and 3.3): groups of fingerprints that share a prefix, as an account of units.
//!
//! 1. An entry has 24 bytes: MD5 and a PBN of 64 bits. A group lies in blocks of its own.
//! 2. Entries of blocks that are free now leave with the group's next write, for nothing: the paper writes them at once.

use super::interface::IndexIo;
use super::stored::{Pbn, Stored};
use super::writes::{Content, fingerprint};

const ENTRY_BYTES: u64 = 24;
const ENTRIES_A_UNIT: u64 = 4096 / ENTRY_BYTES;

/// The groups on the medium.
#[derive(Debug)]
pub struct Table {
    prefix_bits: u32,
    /// The entries of each group.
    sizes: Vec<u32>,
    /// Whether the fingerprint of a block is on the medium, by PBN.
    has: Vec<bool>,
    pub io: IndexIo,
}

impl Table {
    /// Makes an empty table.
    #[must_use]
    pub fn new(prefix_bits: u32, blocks: u64) -> Self {
        let blocks = usize::try_from(blocks).expect("a volume of the lab");
        Self { prefix_bits, sizes: vec![0; 1 << prefix_bits], has: vec![false; blocks], io: IndexIo::default() }
    }

    /// Returns the group of a content.
    #[must_use]
    pub const fn group(&self, content: Content) -> usize {
        // At most 2^18 groups.
        (fingerprint(content) >> (64 - self.prefix_bits)) as usize
    }

    fn units(&self, group: usize) -> u64 {
        u64::from(self.sizes[group]).div_ceil(ENTRIES_A_UNIT)
    }

    /// Merges fingerprints into their group: one read of it if it is there, and one write.
    pub fn merge(&mut self, group: usize, entries: impl Iterator<Item = Pbn>) {
        self.io.read += self.units(group);
        for pbn in entries {
            let has = &mut self.has[pbn as usize];
            self.sizes[group] += u32::from(!*has);
            *has = true;
        }
        self.io.written += self.units(group);
    }

    /// Returns another block than `pbn` with this content whose fingerprint is on the medium. It reads the group if there is one, and if it
    /// is not the one that was `read` just before.
    pub fn find(&mut self, content: Content, pbn: Pbn, stored: &Stored, read: &mut Option<usize>) -> Option<Pbn> {
        let group = self.group(content);
        if read.replace(group) != Some(group) {
            self.io.looked_up += self.units(group);
        }
        stored.holders(content).find(|&other| other != pbn && self.has[other as usize])
    }

    /// Forgets the fingerprint of a block.
    pub fn remove(&mut self, content: Content, pbn: Pbn) {
        let group = self.group(content);
        let has = &mut self.has[pbn as usize];
        self.sizes[group] -= u32::from(*has);
        *has = false;
    }
}
