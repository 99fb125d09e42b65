//! The contents that replayed promises name, and whether they were found (`recovery/promised_contents.rs`).

use crate::buffer::Slice;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::Geometry;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::unit;
use crate::interface::{Class, Promised};
use crate::io::{IoFor, READ_RETRIES};
use crate::map::Map;
use crate::pool::{Keys, Pool};
use crate::units::{BLOCK_SIZE, Pbn, count};
use std::collections::{BTreeSet, VecDeque};

/// The most blocks in one read.
const RUN_BLOCKS_MAX: u64 = 16;

/// The contents that replayed promises name, and whether they were found.
#[derive(Default)]
pub(crate) struct PromisedContents {
    /// Blocks and slots that promises name, with the expected fingerprints or checksums.
    pub wanted: BTreeSet<(Pbn, u8, FingerprintEntry)>,
    /// Runs of blocks that are still to be read.
    pub runs: VecDeque<(Pbn, u64)>,
    pub blocks_under_way: u64,
    /// The entries of the tables for the blocks of each read under way, by its first block.
    pub known: Map<Pbn, Vec<BlockInTables>>,
    /// The number of failed reads, by block.
    pub failures: Map<Pbn, u8>,
    /// Packs with wanted content that no table named, with their authenticators. Their epoch did not become durable.
    pub unnamed: Map<Pbn, Fingerprint>,
    /// The wanted contents that were found.
    pub found: BTreeSet<(Pbn, u8, FingerprintEntry)>,
    /// Whether found content was written again and not flushed yet.
    pub is_unflushed: bool,
    pub is_flushing: bool,
}

/// The entries of the tables for a block: its fingerprint entry, and whether it is linked for certain.
pub(crate) struct BlockInTables {
    pub entry: FingerprintEntry,
    pub is_linked: bool,
}

impl PromisedContents {
    pub fn of(promises: &[Promised], geometry: &Geometry) -> Self {
        let named = |what: &Promised| match *what {
            Promised::Link { pbn, slot, proof, .. } if pbn.0 < geometry.data_blocks => Some((pbn, slot, proof)),
            _ => None,
        };
        let wanted: BTreeSet<(Pbn, u8, FingerprintEntry)> = promises.iter().filter_map(named).collect();
        let mut runs: VecDeque<(Pbn, u64)> = VecDeque::new();
        for &(pbn, ..) in &wanted {
            match runs.back_mut() {
                Some((first, blocks)) if *first + *blocks > pbn => {}
                Some((first, blocks)) if geometry.are_neighbours(*first + (*blocks - 1), pbn) && *blocks < RUN_BLOCKS_MAX => *blocks += 1,
                _ => runs.push_back((pbn, 1)),
            }
        }
        Self { wanted, runs, ..Self::default() }
    }

    /// A block could not be read. Whether the read is retried, as reads of the log are.
    pub fn is_tried_again(&mut self, pbn: Pbn) -> bool {
        let failures = self.failures.entry(pbn).or_default();
        *failures = failures.saturating_add(1);
        *failures <= READ_RETRIES
    }

    /// The authenticator of a pack that no table named when it was read.
    pub fn unnamed_pack(&self, pbn: Pbn) -> Option<Fingerprint> {
        self.unnamed.get(&pbn).copied()
    }

    /// Whether a block or slot was found to hold the content that this proves.
    pub fn has(&self, pbn: Pbn, slot: u8, proof: &FingerprintEntry) -> bool {
        self.found.contains(&(pbn, slot, *proof))
    }

    /// Begins to read the next run of blocks, of which the tables know this.
    pub fn begin_run(&mut self, first: Pbn, known: Vec<BlockInTables>) {
        self.runs.pop_front();
        self.blocks_under_way += count(known.len());
        self.known.insert(first, known);
    }

    /// Ends the read of a run. Returns what the tables knew of its blocks.
    pub fn end_run(&mut self, first: Pbn) -> Vec<BlockInTables> {
        let known = self.known.remove(&first).unwrap_or_default();
        self.blocks_under_way -= count(known.len());
        known
    }

    /// Notes that this number of blocks has been written again.
    pub fn are_written(&mut self, blocks: u64) {
        self.blocks_under_way -= blocks;
        self.is_unflushed = true;
    }

    /// Begins a flush, if something was written again. Returns whether that is so.
    pub fn begin_flush(&mut self) -> bool {
        self.is_flushing |= self.is_unflushed;
        std::mem::take(&mut self.is_unflushed)
    }

    /// Notes that the flush has ended.
    pub fn flush_ended(&mut self) {
        self.is_flushing = false;
    }
}

impl PromisedContents {
    /// Notes the contents found in a block. Whether a promise names one of them.
    pub fn note_content(&mut self, keys: &Keys, pbn: Pbn, block: &[u8; BLOCK_SIZE], digest: Digest) -> bool {
        let authentic = keys.authentic(pbn, block).is_some();
        let slots = if authentic { unit::slots(block).unwrap_or_default() } else { Vec::new() };
        let is_there = |&&(_, slot, proof): &&(Pbn, u8, FingerprintEntry)| match slot {
            0 => proof.proves(&keys.fingerprinter, digest, block),
            _ => slots.get(usize::from(slot) - 1).is_some_and(|slot| FingerprintEntry::of(slot.fingerprint) == proof),
        };
        let of_block = self.wanted.range((pbn, 0, FingerprintEntry::NONE)..).take_while(|(of, ..)| *of == pbn);
        let found: Vec<_> = of_block.filter(is_there).copied().collect();
        let is_any = !found.is_empty();
        self.found.extend(found);
        is_any
    }

    /// Writes blocks again with the content that was found.
    pub fn write_again(&mut self, pool: &mut Pool, blocks: Vec<(Pbn, Slice)>) {
        if !pool.io.has_failed() {
            self.blocks_under_way += count(blocks.len());
            pool.write_blocks(blocks, Class::Data, |_, _, blocks| IoFor::ProvedContent(count(blocks)));
        }
    }
}

impl BlockInTables {
    /// Whether the tables show that this content of a block is durable: a fingerprint enters them after its content is durable (R1), and a
    /// link of the log with its content.
    pub fn is_durable(&self, keys: &Keys, pbn: Pbn, block: &[u8; BLOCK_SIZE], digest: Digest) -> bool {
        match self.entry.kind {
            Kind::None => self.is_linked,
            Kind::Carrier => keys.authentic(pbn, block).is_some() && unit::may_have_entry(&self.entry.value, block),
            Kind::Fingerprint | Kind::Checksum => self.entry.proves(&keys.fingerprinter, digest, block),
        }
    }
}
