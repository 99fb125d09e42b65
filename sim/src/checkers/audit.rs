//! An offline audit of a whole device on which no write is undecided: it reads the volume by the format alone, without the engine.

use crate::checkers::oracle::Oracle;
use crate::device::disk::{SimDisk, to_index};
use crate::device::squeeze::in_slot;
use crate::device::superblock::superblock_of;
use crate::device::tables::{self, FINGERPRINTS, MAP, REFS, Target};
use crate::device::volume::Volume;
use crate::ground::content::{Content, Shared};
use crate::ground::violation::{Violation, violation};
use fastrand::Rng;
use onefold_engine::fingerprint::Digest;
use onefold_engine::format::{Kind, PageId, REFS_UNKNOWN, Region, Superblock};
use onefold_engine::units::Lbn;

/// Compares every LBN with the oracle, every count with the links, and every fingerprint with its content.
///
/// # Errors
/// Returns the first difference. Refs above the number of links are a difference only if *garbage possible* is not set.
pub fn audit(disk: &SimDisk, volume: &Volume, oracle: &Oracle, rng: &mut Rng) -> Result<(), Violation> {
    let superblock = superblock_of(disk, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?.superblock;
    let mut audit = Audit { disk, volume, links: vec![0; to_index(volume.geometry.data_blocks)] };
    audit.blank_lbns(oracle)?;
    audit.map(oracle)?;
    audit.fingerprints(&superblock)?;
    audit.refs(&superblock)
}

/// The audit of one device.
struct Audit<'a> {
    disk: &'a SimDisk,
    volume: &'a Volume,
    /// The links to each PBN that were found so far.
    links: Vec<u32>,
}

impl<'a> Audit<'a> {
    /// Lists the sectors of a region, each with its number, its page and its place there.
    fn sectors(&self, region: Region) -> impl Iterator<Item = (u64, Shared, usize)> + use<'a> {
        let (disk, volume) = (self.disk, self.volume);
        (0..volume.geometry.pages(region)).flat_map(move |index| {
            let id = PageId { region, index };
            let content = disk.cell(volume.block_of_page(id)).durable().clone();
            (0..8).map(move |s| (id.sector(s), content.clone(), s))
        })
    }

    /// Looks up the blocks that must not be zero one by one: blank sectors of the map are skipped.
    fn blank_lbns(&self, oracle: &Oracle) -> Result<(), Violation> {
        let Self { disk, volume, .. } = self;
        let blank = Content::zero().sector_id(0);
        for lbn in oracle.not_zero() {
            let (page, at) = volume.geometry.map_of(Lbn(lbn));
            let is_blank = disk.cell(volume.block_of_page(page)).durable().sector_id(at / MAP) == blank;
            if is_blank && !oracle.may_survive(lbn, Content::zero().id()) {
                return Err(violation!("P1: on the medium LBN {lbn} is blank, allowed are {}", oracle.describe(lbn)));
            }
        }
        Ok(())
    }

    fn map(&mut self, oracle: &Oracle) -> Result<(), Violation> {
        let (disk, volume) = (self.disk, self.volume);
        let blank = Content::zero().sector_id(0);
        for (number, content, s) in self.sectors(Region::Map).filter(|(_, content, s)| content.sector_id(*s) != blank) {
            let table = tables::map(volume, content.sector(s), number, false)?;
            for (lbn, target) in (number * MAP as u64..volume.geometry.logical_blocks).zip(table.targets) {
                let id = match target {
                    Target::Zeros => Content::zero().id(),
                    Target::Lost => return Err(violation!("P1: LBN {lbn} is lost")),
                    Target::Block(pbn) => {
                        self.links[to_index(pbn)] += 1;
                        disk.cell(volume.block_of(pbn)).durable().id()
                    }
                    Target::Slot(pbn, slot) => {
                        self.links[to_index(pbn)] += 1;
                        let carrier = disk.cell(volume.block_of(pbn)).durable();
                        in_slot(carrier, slot).ok_or_else(|| violation!("P2: LBN {lbn} is slot {slot} of PBN {pbn}, which has none"))?
                    }
                };
                if !oracle.may_survive(lbn, id) {
                    return Err(violation!(
                        "P2: on the medium LBN {lbn} is {target:?} with content {id:016x}, allowed are {}",
                        oracle.describe(lbn)
                    ));
                }
            }
        }
        Ok(())
    }

    fn fingerprints(&mut self, superblock: &Superblock) -> Result<(), Violation> {
        let (disk, volume) = (self.disk, self.volume);
        for (number, content, s) in self.sectors(Region::Fingerprints) {
            let table = tables::fingerprints(volume, content.sector(s), number, false)?;
            for (pbn, entry) in (number * FINGERPRINTS as u64..volume.geometry.data_blocks).zip(table) {
                if entry.is_none() {
                    continue;
                }
                let linked = self.links[to_index(pbn)];
                if entry.is_apart() && linked > 1 {
                    return Err(violation!("hints: PBN {pbn} is to stay apart, and {linked} LBNs mean it"));
                }
                if entry.is_apart() && !superblock.marks_apart() {
                    return Err(violation!("hints: PBN {pbn} is marked as apart, and the superblock does not say that blocks are"));
                }
                self.links[to_index(pbn)] += 1;
                let content = disk.cell(volume.block_of(pbn)).durable();
                if entry.kind == Kind::Fingerprint && volume.digest(content) != Digest::Of(entry.value) {
                    return Err(violation!("P4: on the medium the fingerprint of PBN {pbn} names content that differs from {content:?}"));
                }
                if entry.kind == Kind::Carrier && !entry.is_suspect() && !volume.is_carrier(pbn, content, entry.value) {
                    return Err(violation!("P4: on the medium PBN {pbn} is not the carrier that its entry says: {content:?}"));
                }
            }
        }
        Ok(())
    }

    fn refs(&self, superblock: &Superblock) -> Result<(), Violation> {
        let volume = self.volume;
        for (number, content, s) in self.sectors(Region::Refs) {
            let table = tables::refs(volume, content.sector(s), number, false)?;
            for (pbn, refs) in (number * REFS as u64..volume.geometry.data_blocks).zip(table) {
                let links = self.links[to_index(pbn)];
                if refs != REFS_UNKNOWN && u32::from(refs) < links {
                    return Err(violation!("P3: on the medium refs of PBN {pbn} are {refs}, its links {links}"));
                }
                if u32::from(refs) > links && superblock.clean && !superblock.garbage_possible {
                    return Err(violation!(
                        "P5: the volume is clean and says that it has no garbage, but refs of PBN {pbn} are {refs}, its links {links}"
                    ));
                }
            }
        }
        Ok(())
    }
}
