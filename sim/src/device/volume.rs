//! A volume as the checkers know it: the place of everything, and the names of contents.

use crate::device::disk::to_index;
use crate::ground::content::{Content, Shared};
use onefold_engine::fingerprint::{Digest, Fingerprint, Fingerprinter};
use onefold_engine::format::authenticator::Authenticator;
use onefold_engine::format::copies::copies;
use onefold_engine::format::superblock::Superblock;
use onefold_engine::format::{FingerprintEntry, Geometry, Kind, PageId, Region, Unit, unit};
use onefold_engine::units::{BLOCK_BYTES, Pbn};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;

/// The use of a block of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
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
    places: Vec<BlockUse>,
    digests: RefCell<FxHashMap<u64, Digest>>,
    superblocks: Known<(usize, u64), Rc<Superblock>>,
    units: Known<(u64, u64), Rc<Unit>>,
    slots: Known<(u64, u8), u64>,
}

/// The results of decoding contents, some of which cannot be decoded.
type Known<K, V> = RefCell<FxHashMap<K, Option<V>>>;

/// The largest number of decoded contents that are kept.
const KNOWN_MAX: usize = 20_000;

impl Volume {
    /// Makes the volume with this geometry.
    #[must_use]
    pub fn new(superblock: &Superblock) -> Self {
        let Superblock { origin: uuid, geometry, .. } = superblock.clone();
        let (fingerprinter, authenticator) = (superblock.fingerprinter(), superblock.authenticator());
        let blocks = geometry.device_bytes.get() / BLOCK_BYTES;
        let mut places = vec![BlockUse::Unused; to_index(blocks)];
        for at in [0, 1, blocks - 2, blocks - 1] {
            places[to_index(at)] = BlockUse::Superblock;
        }
        for region in Region::ALL {
            for index in 0..geometry.pages(region) {
                let id = PageId { region, index };
                places[to_index(geometry.page_at(id).get() / BLOCK_BYTES)] = BlockUse::Page(id);
            }
        }
        for pbn in 0..geometry.data_blocks {
            places[to_index(geometry.block_at(Pbn(pbn)).get() / BLOCK_BYTES)] = BlockUse::Data(pbn);
        }
        Self {
            uuid,
            geometry,
            fingerprinter,
            authenticator,
            places,
            digests: RefCell::default(),
            superblocks: RefCell::default(),
            units: RefCell::default(),
            slots: RefCell::default(),
        }
    }

    /// Returns the use of a block of the device.
    #[must_use]
    pub fn place(&self, block: u64) -> BlockUse {
        self.places.get(to_index(block)).copied().unwrap_or(BlockUse::Unused)
    }

    /// Returns whether a content is the carrier with this authenticator, in its place.
    #[must_use]
    pub fn is_carrier(&self, pbn: u64, content: &Content, authenticator: Fingerprint) -> bool {
        unit::is_authentic(&self.authenticator, Pbn(pbn), content.bytes()) && unit::may_have_entry(&authenticator, content.bytes())
    }

    /// Returns whether an entry of kind 1 or 2 names a content.
    #[must_use]
    pub fn says(&self, entry: &FingerprintEntry, content: &Shared) -> bool {
        match (entry.kind, self.digest(content)) {
            (Kind::Fingerprint, digest) => digest == Digest::Of(entry.value),
            (Kind::Checksum, Digest::Of(value)) if [short_entry(short_of(&value)), suspect_entry(value)].contains(entry) => true,
            (Kind::Checksum, _) => {
                let checksum = self.fingerprinter.checksum(content.bytes());
                let short = short_entry(short_of(&checksum)).value;
                [checksum, apart(checksum), apart(short)].contains(&entry.value)
            }
            (Kind::None | Kind::Carrier, _) => false,
        }
    }

    /// Returns the block of the device that holds a PBN.
    #[must_use]
    pub fn block_of(&self, pbn: u64) -> u64 {
        self.geometry.block_at(Pbn(pbn)).get() / BLOCK_BYTES
    }

    /// Returns the block of the device that holds a page.
    #[must_use]
    pub fn block_of_page(&self, id: PageId) -> u64 {
        self.geometry.page_at(id).get() / BLOCK_BYTES
    }

    /// Returns the block of the device where data begin.
    #[must_use]
    pub fn data_from(&self) -> u64 {
        self.block_of(0)
    }

    /// Decodes a content as copy `copy` of this volume's superblock; none if it is not one. Each is decoded once.
    #[must_use]
    pub fn superblock(&self, copy: usize, content: &Shared) -> Option<Rc<Superblock>> {
        known(&self.superblocks, (copy, content.id()), || {
            Superblock::decode(content.bytes(), copy).ok().filter(|s| s.origin == self.uuid).map(Rc::new)
        })
    }

    /// Returns the newest superblock among the contents of a device's blocks.
    pub fn newest_superblock<'a>(&self, content: impl Fn(u64) -> &'a Shared) -> Option<Rc<Superblock>> {
        let places = copies(self.geometry.device_bytes).into_iter().enumerate();
        places.filter_map(|(copy, at)| self.superblock(copy, content(at.get() / BLOCK_BYTES))).max_by_key(|s| s.generation)
    }

    /// Decodes a content in this place as a unit of any kind; none if it is not one. Each is decoded once.
    #[must_use]
    pub fn unit(&self, pbn: u64, content: &Shared) -> Option<Rc<Unit>> {
        if content.bytes()[..unit::MAGIC.len()] != unit::MAGIC {
            return None;
        }
        known(&self.units, (pbn, content.id()), || unit::open(&self.authenticator, Pbn(pbn), content.bytes()).map(Rc::new))
    }

    /// Returns the name of the content of a slot, if it has any. Each is decompressed once.
    #[must_use]
    pub fn in_slot(&self, carrier: &Shared, slot: u8) -> Option<u64> {
        known(&self.slots, (carrier.id(), slot), || crate::device::squeeze::in_slot(carrier, slot))
    }

    /// Returns the digest of a content, which is computed once.
    #[must_use]
    pub fn digest(&self, content: &Shared) -> Digest {
        let mut known = self.digests.borrow_mut();
        if known.len() > 100_000 {
            known.clear();
        }
        *known.entry(content.id()).or_insert_with(|| self.fingerprinter.digest(content.bytes()))
    }
}

/// Returns the short name of a block with this fingerprint.
#[must_use]
pub fn short_of(fingerprint: &Fingerprint) -> u32 {
    let [a, b, c, d, ..] = fingerprint.0;
    u32::from_le_bytes([a, b, c, d]).max(1)
}

/// Returns the entry of a block that has a short name and nothing else.
#[must_use]
pub fn short_entry(short: u32) -> FingerprintEntry {
    let [a, b, c, d] = short.to_le_bytes();
    let mut value = [0; 20];
    (value[0], value[1], value[2], value[3]) = (a, b, c, d);
    FingerprintEntry { kind: Kind::Checksum, value: Fingerprint(value) }
}

/// Returns the entry of a block of a run by the name that its record has.
#[must_use]
pub fn entry_in_run(short: u32, is_apart: bool) -> FingerprintEntry {
    let entry = short_entry(short);
    if is_apart { FingerprintEntry { value: apart(entry.value), ..entry } } else { entry }
}

/// Returns the value of an entry with this checksum that says that its block stays apart.
fn apart(checksum: Fingerprint) -> Fingerprint {
    let mut value = checksum.0;
    value[19] |= 0x10;
    Fingerprint(value)
}

/// Returns the entry of a block with this fingerprint that was found damaged.
#[must_use]
pub fn suspect_entry(fingerprint: Fingerprint) -> FingerprintEntry {
    let mut value = fingerprint.0;
    value[19] |= 0x20;
    FingerprintEntry { kind: Kind::Checksum, value: Fingerprint(value) }
}

/// Returns a known result, or computes it now.
fn known<K: Eq + Hash, V: Clone>(known: &Known<K, V>, key: K, find: impl FnOnce() -> Option<V>) -> Option<V> {
    let mut known = known.borrow_mut();
    if known.len() > KNOWN_MAX {
        known.clear();
    }
    known.entry(key).or_insert_with(find).clone()
}
