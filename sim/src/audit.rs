//! An offline audit of a whole device on which no write is undecided: it reads the volume by the format alone, without the engine.

use crate::content::Content;
use crate::disk::{SimDisk, to_index};
use crate::machine::superblock_of;
use crate::oracle::Oracle;
use crate::tables::{self, FINGERPRINTS, MAP, REFS, Target};
use crate::violation::{Violation, violation};
use crate::volume::Volume;
use fastrand::Rng;
use onefold_engine::fingerprint::Digest;
use onefold_engine::format::{Kind, PageId, REFS_UNKNOWN, Region};
use onefold_engine::units::Lbn;

/// Compares every LBN with the oracle, every count with the links, and every fingerprint with its content.
///
/// # Errors
/// Returns the first difference. Refs above the number of links are a difference only if *garbage possible* is not set.
pub fn audit(disk: &SimDisk, volume: &Volume, oracle: &Oracle, rng: &mut Rng) -> Result<(), Violation> {
    let superblock = superblock_of(disk, rng).map_err(|e| violation!("P1: the volume does not open: {e}"))?.superblock;
    let sectors = |region: Region| {
        (0..volume.geometry.pages(region)).flat_map(move |index| {
            let id = PageId { region, index };
            let content = disk.cell(volume.block_of_page(id)).durable().clone();
            (0..8).map(move |s| (id.sector(s), content.clone(), s))
        })
    };
    let blocks = to_index(volume.geometry.data_blocks);
    let mut links = vec![0u32; blocks];
    // Blank sectors are skipped; the blocks that must not be zero are looked up one by one.
    let blank = Content::zero().sector_id(0);
    for lbn in oracle.not_zero() {
        let (page, at) = volume.geometry.map_of(Lbn(lbn));
        let is_blank = disk.cell(volume.block_of_page(page)).durable().sector_id(at / MAP) == blank;
        if is_blank && !oracle.may_survive(lbn, Content::zero().id()) {
            return Err(violation!("P1: on the medium LBN {lbn} is blank, allowed are {}", oracle.describe(lbn)));
        }
    }
    for (number, content, s) in sectors(Region::Map).filter(|(_, content, s)| content.sector_id(*s) != blank) {
        let table = tables::map(volume, content.sector(s), number, false)?;
        for (lbn, target) in (number * MAP as u64..volume.geometry.logical_blocks).zip(table.targets) {
            let id = match target {
                Target::Zeros => Content::zero().id(),
                Target::Lost => return Err(violation!("P1: LBN {lbn} is lost")),
                Target::Block(pbn) => {
                    links[to_index(pbn)] += 1;
                    disk.cell(volume.block_of(pbn)).durable().id()
                }
                Target::Slot(pbn, slot) => {
                    links[to_index(pbn)] += 1;
                    let carrier = disk.cell(volume.block_of(pbn)).durable();
                    tables::in_slot(carrier, slot).ok_or_else(|| violation!("P2: LBN {lbn} is slot {slot} of PBN {pbn}, which has none"))?
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
    for (number, content, s) in sectors(Region::Fingerprints) {
        let table = tables::fingerprints(volume, content.sector(s), number, false)?;
        for (pbn, entry) in (number * FINGERPRINTS as u64..volume.geometry.data_blocks).zip(table) {
            if entry.is_none() {
                continue;
            }
            let linked = links[to_index(pbn)];
            if entry.is_apart() && linked > 1 {
                return Err(violation!("hints: PBN {pbn} is to stay apart, and {linked} LBNs mean it"));
            }
            if entry.is_apart() && !superblock.marks_apart() {
                return Err(violation!("hints: PBN {pbn} is marked as apart, and the superblock does not say that blocks are"));
            }
            links[to_index(pbn)] += 1;
            let content = disk.cell(volume.block_of(pbn)).durable();
            if entry.kind == Kind::Fingerprint && volume.digest(content) != Digest::Of(entry.value) {
                return Err(violation!("P4: on the medium the fingerprint of PBN {pbn} names content that differs from {content:?}"));
            }
            if entry.kind == Kind::Carrier && !entry.is_suspect() && !volume.is_carrier(pbn, content, entry.value) {
                return Err(violation!("P4: on the medium PBN {pbn} is not the carrier that its entry says: {content:?}"));
            }
        }
    }
    for (number, content, s) in sectors(Region::Refs) {
        let table = tables::refs(volume, content.sector(s), number, false)?;
        for (pbn, refs) in (number * REFS as u64..volume.geometry.data_blocks).zip(table) {
            let links = links[to_index(pbn)];
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
