//! What the checkers know of a volume: where things lie and how contents are named.

use crate::content::{Content, Shared};
use crate::disk::to_index;
use onefold_engine::fingerprint::{Digest, Fingerprint, Fingerprinter};
use onefold_engine::format::authenticator::Authenticator;
use onefold_engine::format::superblock::Superblock;
use onefold_engine::format::{Geometry, PageId, Region, unit};
use onefold_engine::units::{BLOCK_BYTES, Pbn};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// What a block of the device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Superblock,
    Page(PageId),
    Data(u64),
    Unused,
}

/// A volume, seen from outside.
pub struct Volume {
    pub uuid: [u8; 16],
    pub geometry: Geometry,
    pub fingerprinter: Fingerprinter,
    authenticator: Authenticator,
    places: Vec<Place>,
    digests: RefCell<FxHashMap<u64, Digest>>,
    superblocks: RefCell<FxHashMap<(usize, u64), Option<State>>>,
}

/// What a copy of the superblock says of the volume's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub generation: u64,
    pub clean: bool,
    pub garbage_possible: bool,
}

impl Volume {
    /// The volume with this geometry.
    #[must_use]
    pub fn new(superblock: &Superblock) -> Self {
        let Superblock { uuid, geometry, .. } = superblock.clone();
        let (fingerprinter, authenticator) = (superblock.fingerprinter(), superblock.authenticator());
        let blocks = geometry.device_bytes.get() / BLOCK_BYTES;
        let mut places = vec![Place::Unused; to_index(blocks)];
        for at in [0, 1, blocks - 2, blocks - 1] {
            places[to_index(at)] = Place::Superblock;
        }
        for region in Region::ALL {
            for index in 0..geometry.pages(region) {
                let id = PageId { region, index };
                places[to_index(geometry.page_at(id).get() / BLOCK_BYTES)] = Place::Page(id);
            }
        }
        for pbn in 0..geometry.data_blocks {
            places[to_index(geometry.block_at(Pbn(pbn)).get() / BLOCK_BYTES)] = Place::Data(pbn);
        }
        Self { uuid, geometry, fingerprinter, authenticator, places, digests: RefCell::default(), superblocks: RefCell::default() }
    }

    /// What a block of the device is for.
    #[must_use]
    pub fn place(&self, block: u64) -> Place {
        self.places.get(to_index(block)).copied().unwrap_or(Place::Unused)
    }

    /// Whether a content is the carrier with this authenticator, in its place.
    #[must_use]
    pub fn is_carrier(&self, pbn: u64, content: &Content, authenticator: Fingerprint) -> bool {
        unit::is_authentic(&self.authenticator, Pbn(pbn), content.bytes()) && unit::claims(content.bytes()) == authenticator
    }

    /// The block of the device that holds a PBN.
    #[must_use]
    pub fn block_of(&self, pbn: u64) -> u64 {
        self.geometry.block_at(Pbn(pbn)).get() / BLOCK_BYTES
    }

    /// The block of the device that holds a page.
    #[must_use]
    pub fn block_of_page(&self, id: PageId) -> u64 {
        self.geometry.page_at(id).get() / BLOCK_BYTES
    }

    /// The block of the device where data begin.
    #[must_use]
    pub fn data_from(&self) -> u64 {
        self.block_of(0)
    }

    /// What a content says as copy `copy` of this volume's superblock; none where it is not one. Decoded once for each.
    #[must_use]
    pub fn superblock(&self, copy: usize, content: &Shared) -> Option<State> {
        let mut known = self.superblocks.borrow_mut();
        if known.len() > 100_000 {
            known.clear();
        }
        *known.entry((copy, content.id())).or_insert_with(|| {
            let s = Superblock::decode(content.bytes(), copy).ok().filter(|s| s.uuid == self.uuid)?;
            Some(State { generation: s.generation, clean: s.clean, garbage_possible: s.garbage_possible })
        })
    }

    /// The digest of a content, computed once for each.
    #[must_use]
    pub fn digest(&self, content: &Shared) -> Digest {
        let mut known = self.digests.borrow_mut();
        if known.len() > 100_000 {
            known.clear();
        }
        *known.entry(content.id()).or_insert_with(|| self.fingerprinter.digest(content.bytes()))
    }
}
