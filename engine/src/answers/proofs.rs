//! What is known of the contents that recalled promises name (`recovery/proof.rs`).

use crate::buffer::Slice;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::unit;
use crate::interface::{Class, Promised};
use crate::io::{IoFor, READ_RETRIES};
use crate::map::Map;
use crate::store::Store;
use crate::units::{BLOCK_SIZE, Pbn, count};
use std::collections::{BTreeSet, VecDeque};

/// Blocks in one read.
const RUN_BLOCKS_MAX: u64 = 16;
/// What is known of the contents that recalled promises name.
#[derive(Default)]
pub(crate) struct Proofs {
    /// Blocks and slots that are named, with the fingerprints of what they should hold.
    pub wanted: BTreeSet<(Pbn, u8, Fingerprint)>,
    /// Runs of blocks that are still to be read.
    pub runs: VecDeque<(Pbn, u64)>,
    pub blocks_under_way: u64,
    /// What the tables said of the blocks of each read under way, by its first block.
    pub known: Map<Pbn, Vec<InTables>>,
    /// Failed reads, by block.
    pub failures: Map<Pbn, u8>,
    /// Packs that hold something wanted and that no table named, with their authenticators: their epoch did not become durable.
    pub unnamed: Map<Pbn, Fingerprint>,
    /// Those of the wanted that were found.
    pub found: BTreeSet<(Pbn, u8, Fingerprint)>,
    /// Some of what was found has been written again, and not been flushed.
    pub is_unflushed: bool,
    pub is_flushing: bool,
}

/// What the tables say of a block that is read: its fingerprint's entry, and whether it is linked for certain.
pub(crate) struct InTables {
    pub entry: FingerprintEntry,
    pub is_linked: bool,
}

impl Proofs {
    pub fn of(promises: &[Promised], data_blocks: u64) -> Self {
        let named = |what: &Promised| match *what {
            Promised::Link { pbn, slot, proof, .. } if pbn.0 < data_blocks => Some((pbn, slot, proof)),
            _ => None,
        };
        let wanted: BTreeSet<(Pbn, u8, Fingerprint)> = promises.iter().filter_map(named).collect();
        let mut runs: VecDeque<(Pbn, u64)> = VecDeque::new();
        for &(pbn, ..) in &wanted {
            match runs.back_mut() {
                Some((first, blocks)) if *first + *blocks > pbn => {}
                Some((first, blocks)) if *first + *blocks == pbn && *blocks < RUN_BLOCKS_MAX => *blocks += 1,
                _ => runs.push_back((pbn, 1)),
            }
        }
        Self { wanted, runs, ..Self::default() }
    }

    /// A block could not be read: whether it is tried again, as what an opening reads of the log is.
    pub fn is_tried_again(&mut self, pbn: Pbn) -> bool {
        let failures = self.failures.entry(pbn).or_default();
        *failures = failures.saturating_add(1);
        *failures <= READ_RETRIES
    }

    /// The authenticator of a pack that no table named when it was read.
    pub fn unnamed_pack(&self, pbn: Pbn) -> Option<Fingerprint> {
        self.unnamed.get(&pbn).copied()
    }

    /// Whether the content of a block or slot was found to be this.
    pub fn has(&self, pbn: Pbn, slot: u8, proof: &Fingerprint) -> bool {
        self.found.contains(&(pbn, slot, *proof))
    }
}

impl Proofs {
    /// Notes what a block was found to hold. Whether a promise asks for any of it.
    pub fn note_content(&mut self, store: &Store, pbn: Pbn, block: &[u8; BLOCK_SIZE], digest: Digest) -> bool {
        let authentic = store.authentic(pbn, block).is_some();
        let slots = if authentic { unit::slots(block).unwrap_or_default() } else { Vec::new() };
        let is_there = |&&(_, slot, proof): &&(Pbn, u8, Fingerprint)| match slot {
            0 => digest == Digest::Of(proof),
            _ => slots.get(usize::from(slot) - 1).is_some_and(|slot| slot.fingerprint == proof),
        };
        let of_block = self.wanted.range((pbn, 0, Fingerprint([0; 20]))..).take_while(|(of, ..)| *of == pbn);
        let found: Vec<_> = of_block.filter(is_there).copied().collect();
        let is_any = !found.is_empty();
        self.found.extend(found);
        is_any
    }

    /// Writes blocks as they were found.
    pub fn write_again(&mut self, store: &mut Store, blocks: Vec<(Pbn, Slice)>) {
        if !store.io.failed {
            self.blocks_under_way += count(blocks.len());
            store.write_blocks(blocks, Class::Data, |_, _, blocks| IoFor::ProvedContent(count(blocks)));
        }
    }
}

impl InTables {
    /// Whether the tables show that this content of a block is durable: a name enters them after what it names (R1), a link of the log with
    /// it.
    pub fn is_durable(&self, store: &Store, pbn: Pbn, block: &[u8; BLOCK_SIZE], digest: Digest) -> bool {
        match self.entry.kind {
            Kind::None => self.is_linked,
            Kind::Carrier => store.authentic(pbn, block) == Some(self.entry.value),
            Kind::Fingerprint => digest == Digest::Of(self.entry.value),
            Kind::Checksum => self.entry.is_of(&store.keys.fingerprinter, block) == Some(true),
        }
    }
}
