//! A volume in memory, built entry by entry, and the ways to harm it.

use onefold_engine::check::{CheckSettings, Finding, ReadMedium, Report, check};
use onefold_engine::fingerprint::{Algorithm, Digest, Fingerprint};
use onefold_engine::format::page::{open, seal};
use onefold_engine::format::{
    FingerprintEntry, FormatStep, Geometry, Kind, MapEntry, OpenError, PageContent, PageId, Region, Superblock, Wish, copies, format,
};
use onefold_engine::interface::IoFailure;
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes, Lbn, Pbn};
use std::collections::{BTreeMap, BTreeSet};

pub const MIB: u64 = 1 << 20;
pub type Block = [u8; BLOCK_SIZE];

/// A device in memory; blocks never written are zero.
#[derive(Clone, PartialEq)]
pub struct Medium {
    blocks: BTreeMap<u64, Box<Block>>,
    pub bytes: u64,
    unreadable: BTreeSet<u64>,
    pub longest_read: usize,
}

impl Medium {
    pub fn block(&mut self, at: Bytes) -> &mut Block {
        assert!(at.get() % 4096 == 0);
        self.blocks.entry(at.get()).or_insert_with(|| Box::new([0; BLOCK_SIZE]))
    }

    pub fn make_unreadable(&mut self, at: Bytes) {
        self.unreadable.insert(at.get());
    }

    /// A write makes it readable again.
    pub fn make_readable(&mut self, at: Bytes) {
        self.unreadable.remove(&at.get());
    }
}

impl ReadMedium for Medium {
    fn read(&mut self, at: Bytes, buffer: &mut [u8]) -> Result<(), IoFailure> {
        assert!(at.get() % 4096 == 0 && buffer.len() % BLOCK_SIZE == 0 && !buffer.is_empty());
        assert!(buffer.as_ptr().addr() % 4096 == 0, "the buffer is aligned for direct I/O");
        self.longest_read = self.longest_read.max(buffer.len());
        if at.get() + buffer.len() as u64 > self.bytes {
            return Err(IoFailure);
        }
        for (i, chunk) in buffer.chunks_mut(BLOCK_SIZE).enumerate() {
            let at = at.get() + (i * BLOCK_SIZE) as u64;
            if self.unreadable.contains(&at) {
                return Err(IoFailure);
            }
            match self.blocks.get(&at) {
                Some(block) => chunk.copy_from_slice(&block[..]),
                None => chunk.fill(0),
            }
        }
        Ok(())
    }
}

/// A volume that is consistent until something is done to it.
#[derive(Clone)]
pub struct Volume {
    pub superblock: Superblock,
    pub medium: Medium,
}

/// Returns the content of this number, which differs from that of any other.
pub fn content(n: u64) -> Block {
    let mut block = [0xc0; BLOCK_SIZE];
    block[..8].copy_from_slice(&n.to_le_bytes());
    block
}

impl Volume {
    /// A new volume, formatted as the real ones are.
    pub fn new(device_bytes: u64) -> Self {
        let geometry = Geometry::plan(Bytes(device_bytes), &Wish::default()).expect("a geometry");
        let superblock = Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default());
        let medium = Medium { blocks: BTreeMap::new(), bytes: device_bytes, unreadable: BTreeSet::new(), longest_read: 0 };
        let mut volume = Self { superblock, medium };
        for step in format(&volume.superblock.clone(), Bytes(device_bytes), &[]) {
            if let FormatStep::Write { at, page } = step {
                volume.medium.blocks.insert(at.get(), page);
            }
        }
        volume
    }

    /// Writes all copies of the changed superblock.
    pub fn change_superblock(&mut self, change: impl FnOnce(&mut Superblock)) {
        change(&mut self.superblock);
        for (copy, at) in copies(self.superblock.geometry.device_bytes).into_iter().enumerate() {
            self.superblock.encode(copy, self.medium.block(at));
        }
    }

    pub fn page_at(&self, region: Region, index: u64) -> Bytes {
        self.superblock.geometry.page_at(PageId { region, index })
    }

    /// Changes a page, seals it, and sets its bit.
    pub fn change_page(&mut self, id: PageId, change: impl FnOnce(&mut PageContent)) {
        self.rewrite(id, change);
        if id.region != Region::Written {
            let (written, bit) = self.superblock.geometry.written_of(id);
            self.rewrite(written, |page| page.set_bit(bit, true));
        }
    }

    fn rewrite(&mut self, id: PageId, change: impl FnOnce(&mut PageContent)) {
        let uuid = self.superblock.uuid;
        let at = self.superblock.geometry.page_at(id);
        let mut page = open(&uuid, id, self.medium.block(at), id.region == Region::Written).content;
        change(&mut page);
        seal(&uuid, id, &mut page, self.medium.block(at));
    }

    pub fn set_map(&mut self, lbn: u64, entry: MapEntry) {
        let (id, i) = self.superblock.geometry.map_of(Lbn(lbn));
        self.change_page(id, |page| page.set_map(i, entry));
    }

    pub fn set_refs(&mut self, pbn: u64, refs: u8) {
        let (id, i) = self.superblock.geometry.refs_of(Pbn(pbn));
        self.change_page(id, |page| page.set_refs(i, refs));
    }

    pub fn add_refs(&mut self, pbn: u64, more: u8) {
        let (id, i) = self.superblock.geometry.refs_of(Pbn(pbn));
        self.change_page(id, |page| page.set_refs(i, page.refs(i) + more));
    }

    pub fn set_fingerprint(&mut self, pbn: u64, entry: FingerprintEntry) {
        let (id, i) = self.superblock.geometry.fingerprint_of(Pbn(pbn));
        self.change_page(id, |page| page.set_fingerprint(i, entry));
    }

    /// A stored block with its entry, and its count of one for it.
    pub fn store(&mut self, pbn: u64, kind: Kind) {
        let block = content(pbn);
        *self.medium.block(self.superblock.geometry.block_at(Pbn(pbn))) = block;
        let fingerprinter = self.superblock.fingerprinter();
        let value = match (kind, fingerprinter.digest(&block)) {
            (Kind::Fingerprint, Digest::Of(fingerprint)) => fingerprint,
            (Kind::Checksum, _) => fingerprinter.checksum(&block),
            (Kind::None, _) => return,
            _ => Fingerprint([0; 20]),
        };
        self.set_fingerprint(pbn, FingerprintEntry { kind, value });
        self.add_refs(pbn, 1);
    }

    /// A stored block of which no more than its short name is known.
    pub fn store_short(&mut self, pbn: u64) {
        self.store(pbn, Kind::Fingerprint);
        let Digest::Of(name) = self.superblock.fingerprinter().digest(&content(pbn)) else { panic!("no zeros") };
        self.set_fingerprint(pbn, FingerprintEntry::of_short(name.short()));
    }

    /// Maps a logical block to a stored one, counted.
    pub fn link(&mut self, lbn: u64, pbn: u64) {
        self.set_map(lbn, MapEntry::Block { pbn: Pbn(pbn), slot: 0 });
        self.add_refs(pbn, 1);
    }

    /// Changes a page's bytes behind its checks' back.
    pub fn harm(&mut self, region: Region, index: u64, harm: impl FnOnce(&mut Block)) {
        let at = self.page_at(region, index);
        harm(self.medium.block(at));
    }

    pub fn checked_with(&mut self, settings: CheckSettings) -> (Vec<Finding>, Report) {
        let mut findings = Vec::new();
        let device_bytes = Bytes(self.medium.bytes);
        let report = check(&mut self.medium, device_bytes, &settings, &mut |finding| findings.push(finding)).expect("a volume");
        assert_eq!(report.damage + report.garbage + report.notes, findings.len() as u64);
        let blocks = {
            let c = &report.counts;
            let logical = c.mapped + c.zero + c.lost + c.unmapped;
            assert_eq!(logical, self.superblock.geometry.logical_blocks, "each logical block is counted once");
            c.unique + c.shared + c.fingerprint_only + c.garbage + c.unknown + c.free
        };
        assert_eq!(blocks, self.superblock.geometry.data_blocks, "each block is counted once");
        (findings, report)
    }

    /// The findings of a full check.
    pub fn findings(&mut self) -> Vec<Finding> {
        self.checked_with(CheckSettings { memory_bytes: 4 * MIB, data: true }).0
    }

    pub fn open_error(&mut self) -> OpenError {
        let device_bytes = Bytes(self.medium.bytes);
        let settings = CheckSettings { memory_bytes: MIB, data: false };
        check(&mut self.medium, device_bytes, &settings, &mut |_| ()).expect_err("no volume")
    }
}

/// 10 unique blocks, one shared by three, one that only its fingerprint keeps, one with a checksum, one with a short name, one without an
/// entry, some zeros.
pub fn used() -> Volume {
    let mut v = Volume::new(36 * MIB);
    for pbn in 0..10 {
        v.store(pbn, Kind::Fingerprint);
        v.link(1000 + pbn, pbn);
    }
    v.store(20, Kind::Fingerprint);
    (0..3).for_each(|i| v.link(i, 20));
    v.store(21, Kind::Fingerprint);
    v.store(22, Kind::Checksum);
    v.link(30, 22);
    v.store_short(23);
    v.link(31, 23);
    v.store(24, Kind::None);
    v.link(32, 24);
    (40..50).for_each(|lbn| v.set_map(lbn, MapEntry::Zero));
    // Far behind, in other pages.
    v.store(7000, Kind::Fingerprint);
    v.link(7500, 7000);
    v
}
