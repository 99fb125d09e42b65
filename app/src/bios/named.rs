//! Content that comes before its request, and gets names.

use super::leisure::Leisure;
use crate::runtime::recording::entry::NAME_BYTES;
use onefold_engine::fingerprint::{Digest, Fingerprinter};
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, index};
use onefold_observer::{BioName, Operation, Request};
use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX};
use onefold_trace::size::size_of;
use std::collections::HashMap;

/// The most blocks whose content is copied out of the ring before it is named.
pub const ROUND_BLOCKS: usize = 64;
/// The most bios whose content may wait for its request. Their requests may be lost.
const BIOS_MAX: usize = 1024;

/// Content that has no name yet, up to [`ROUND_BLOCKS`].
pub(super) struct Blocks {
    fingerprinter: Fingerprinter,
    content: Vec<[u8; BLOCK_SIZE]>,
    places: Vec<(BioName, u64)>,
}

/// The names of blocks, by the bio that they belong to.
#[derive(Default)]
pub(super) struct Named {
    bios: HashMap<BioName, Vec<(u64, Block)>>,
}

impl Blocks {
    pub fn new(fingerprinter: Fingerprinter) -> Self {
        Self { fingerprinter, content: Vec::with_capacity(ROUND_BLOCKS), places: Vec::with_capacity(ROUND_BLOCKS) }
    }

    pub const fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }

    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Adds a block at `at` bytes.
    pub fn add(&mut self, bio: BioName, at: u64, content: &[u8; BLOCK_SIZE]) {
        self.content.push(*content);
        self.places.push((bio, at));
    }

    /// Names all that is there, and finds out the compressed sizes for which there is time.
    pub fn name(&mut self, named: &mut Named, leisure: &mut Leisure) {
        let blocks: Vec<&[u8; BLOCK_SIZE]> = self.content.iter().collect();
        let digests = self.fingerprinter.digests(&blocks);
        for (((bio, at), content), digest) in self.places.drain(..).zip(&self.content).zip(digests) {
            let compressed = leisure.take_block().then(|| size_of(content));
            leisure.pause();
            named.add(bio, at, Block { name: name_of(&digest), compressed });
        }
        self.content.clear();
    }
}

fn name_of(digest: &Digest) -> ContentName {
    match digest {
        Digest::Of(fingerprint) => {
            let mut bytes = [0; NAME_BYTES_MAX];
            bytes[..NAME_BYTES].copy_from_slice(&fingerprint.0[..NAME_BYTES]);
            ContentName::Of(bytes)
        }
        Digest::Zero => ContentName::Zero,
        Digest::Partial | Digest::Checksum(_) => ContentName::Unknown,
    }
}

impl Named {
    fn add(&mut self, bio: BioName, at: u64, block: Block) {
        if self.bios.len() >= BIOS_MAX && !self.bios.contains_key(&bio) {
            self.bios.clear();
        }
        self.bios.entry(bio).or_default().push((at, block));
    }

    /// Takes the blocks of a request: one for each that it touches, unknown where nothing was seen. None for a write that begins within a
    /// block, whose blocks a trace does not tell apart.
    pub fn blocks_of(&mut self, request: &Request) -> Vec<Block> {
        let mut seen = self.bios.remove(&request.bio).unwrap_or_default();
        if request.observation.operation != Operation::Write || request.offset % BLOCK_BYTES != 0 || seen.is_empty() {
            return Vec::new();
        }
        seen.sort_unstable_by_key(|(at, _)| *at);
        let mut blocks = vec![Block::named(ContentName::Unknown); index(request.blocks())];
        for (at, block) in seen {
            let place = at.checked_sub(request.offset).map(|behind| index(behind / BLOCK_BYTES));
            if let Some(known) = place.and_then(|place| blocks.get_mut(place)) {
                *known = block;
            }
        }
        blocks
    }
}
