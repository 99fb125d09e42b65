//! One sector of a metadata region, decoded for the checkers.

use crate::device::volume::Volume;
use crate::ground::violation::{Violation, violation};
use onefold_engine::format::page;
use onefold_engine::format::{FingerprintEntry, MapEntry, REFS_UNKNOWN, Region};

/// The number of entries of a map sector.
pub const MAP: usize = 100;
/// The number of entries of a refs sector.
pub const REFS: usize = 500;
/// The number of entries of a fingerprint sector.
pub const FINGERPRINTS: usize = 25;
/// The number of bits of a sector of *written*.
pub const WRITTEN_BITS: usize = 4000;

/// The target of a map entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Zeros,
    Lost,
    Block(u64),
    /// A slot of a block.
    Slot(u64, u8),
}

/// A map sector.
pub struct MapSector {
    pub targets: [Target; MAP],
    /// The PBNs among the targets, repeated as often as they are linked.
    pub blocks: Vec<u64>,
}

/// Returns the entries of a sector, which may be blank. If `lenient`, a sector that fails its check counts as damaged instead of being a
/// violation.
fn entries(volume: &Volume, region: Region, sector: u64, bytes: &[u8; 512], lenient: bool) -> Result<Entries, Violation> {
    if *bytes == [0; 512] {
        return Ok(Entries::Blank);
    }
    match page::open_sector(&volume.uuid, region, sector, bytes) {
        Some((entries, _)) => Ok(Entries::Valid(Box::new(entries))),
        None if lenient => Ok(Entries::Damaged),
        None => Err(violation!("P6: sector {sector} of the {} region may fail its check", region.name())),
    }
}

enum Entries {
    Blank,
    Damaged,
    Valid(Box<[u8; page::ENTRY_BYTES]>),
}

/// Decodes a map sector.
///
/// # Errors
/// Fails if it fails its check, or an entry is invalid in the format or names a block beyond the volume.
pub fn map(volume: &Volume, bytes: &[u8; 512], sector: u64, lenient: bool) -> Result<MapSector, Violation> {
    let mut targets = [Target::Zeros; MAP];
    match entries(volume, Region::Map, sector, bytes, lenient)? {
        Entries::Blank => {}
        Entries::Damaged => targets = [Target::Lost; MAP],
        Entries::Valid(entries) => {
            for (target, entry) in targets.iter_mut().zip(entries.chunks_exact(5)) {
                *target = match MapEntry::decode(entry.try_into().expect("five bytes")) {
                    Ok(MapEntry::Unmapped | MapEntry::Zero) => Target::Zeros,
                    Ok(MapEntry::Lost) => Target::Lost,
                    Ok(MapEntry::Block { pbn, slot: 0 }) if pbn.get() < volume.geometry.data_blocks => Target::Block(pbn.get()),
                    Ok(MapEntry::Block { pbn, slot }) if pbn.get() < volume.geometry.data_blocks => Target::Slot(pbn.get(), slot),
                    other => return Err(violation!("format: map sector {sector} holds {other:?}")),
                };
            }
        }
    }
    let blocks = targets.iter().filter_map(|t| if let Target::Block(pbn) | Target::Slot(pbn, _) = t { Some(*pbn) } else { None }).collect();
    Ok(MapSector { targets, blocks })
}

/// Decodes a refs sector.
///
/// # Errors
/// Fails if it fails its check.
pub fn refs(volume: &Volume, bytes: &[u8; 512], sector: u64, lenient: bool) -> Result<[u8; REFS], Violation> {
    Ok(match entries(volume, Region::Refs, sector, bytes, lenient)? {
        Entries::Blank => [0; REFS],
        Entries::Damaged => [REFS_UNKNOWN; REFS],
        Entries::Valid(entries) => *entries,
    })
}

/// Decodes a fingerprint sector.
///
/// # Errors
/// Fails if it fails its check, or an entry is invalid in the format.
pub fn fingerprints(volume: &Volume, bytes: &[u8; 512], sector: u64, lenient: bool) -> Result<[FingerprintEntry; FINGERPRINTS], Violation> {
    let mut table = [FingerprintEntry::NONE; FINGERPRINTS];
    if let Entries::Valid(entries) = entries(volume, Region::Fingerprints, sector, bytes, lenient)? {
        for (to, entry) in table.iter_mut().zip(entries.chunks_exact(20)) {
            *to = FingerprintEntry::decode(entry.try_into().expect("twenty bytes"))
                .map_err(|e| violation!("format: fingerprint sector {sector}: {e}"))?;
        }
    }
    Ok(table)
}

/// Returns the bits that are set in a sector of *written*, in order.
///
/// # Errors
/// Fails if it fails its check.
pub fn written(volume: &Volume, bytes: &[u8; 512], sector: u64, lenient: bool) -> Result<Vec<u32>, Violation> {
    Ok(match entries(volume, Region::Written, sector, bytes, lenient)? {
        Entries::Blank | Entries::Damaged => Vec::new(),
        Entries::Valid(entries) => {
            let bits = u32::try_from(WRITTEN_BITS).expect("bits of a sector");
            (0..bits).filter(|b| (entries[*b as usize / 8] >> (b % 8)) & 1 == 1).collect()
        }
    })
}
