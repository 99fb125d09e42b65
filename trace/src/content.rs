//! The content that a request leaves in the blocks of the volume, as far as its record names it.
//!
//! 1. A block has a name only if one recorded fingerprint covers it whole, or if eight fingerprints of sectors do. Otherwise its content is
//!    unknown.
//! 2. The name of a block that was recorded by sectors is made of the names of its sectors, so equal blocks have equal names.

use crate::header::Unit;
use crate::record::{ContentName, NAME_BYTES_MAX, Op, Record};
use md5::{Digest, Md5};
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES};

/// Sectors of a block.
const SECTORS: usize = (BLOCK_BYTES / SECTOR_BYTES) as usize;

/// Lists the numbers of the volume's blocks that a record touches, each with the content that the record names for it.
pub fn blocks(record: &Record, unit: Unit) -> impl Iterator<Item = (u64, ContentName)> + '_ {
    let first = record.offset.get() / BLOCK_BYTES;
    let touched = if record.length.get() == 0 { 0 } else { record.blocks_touched() };
    (0..touched).map(move |index| (first + index, name(record, unit, (first + index) * BLOCK_BYTES)))
}

/// Returns the content that the record names for the block at byte `at`.
fn name(record: &Record, unit: Unit, at: u64) -> ContentName {
    let begin = record.offset.get();
    if record.op == Op::WriteZeroes {
        let is_whole = begin <= at && at + BLOCK_BYTES <= begin + record.length.get();
        return if is_whole { ContentName::Zero } else { ContentName::Unknown };
    }
    if at < begin || at + BLOCK_BYTES > begin + record.length.get() || (at - begin) % unit.bytes() != 0 {
        return ContentName::Unknown;
    }
    let Ok(index) = usize::try_from((at - begin) / unit.bytes()) else { return ContentName::Unknown };
    match unit {
        Unit::Block => record.blocks.get(index).map_or(ContentName::Unknown, |block| block.name),
        Unit::Sector => {
            record.blocks.get(index..index + SECTORS).map_or(ContentName::Unknown, |sectors| joined(sectors.iter().map(|s| s.name)))
        }
    }
}

fn joined(sectors: impl Iterator<Item = ContentName> + Clone) -> ContentName {
    if sectors.clone().all(|name| name == ContentName::Zero) {
        return ContentName::Zero;
    }
    let mut digest = Md5::new();
    for sector in sectors {
        match sector {
            ContentName::Zero => digest.update([0]),
            ContentName::Of(bytes) => {
                digest.update([1]);
                digest.update(bytes);
            }
            ContentName::Unknown => return ContentName::Unknown,
        }
    }
    let mut bytes = [0; NAME_BYTES_MAX];
    bytes[..16].copy_from_slice(&digest.finalize());
    ContentName::Of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Block;
    use onefold_engine::units::Bytes;

    fn record(offset: u64, length: u64, names: &[u8]) -> Record {
        let name = |byte: &u8| if *byte == 0 { ContentName::Zero } else { ContentName::Of([*byte; NAME_BYTES_MAX]) };
        let blocks = names.iter().map(|byte| Block::named(name(byte))).collect();
        Record { blocks, ..Record::new(0, Op::Write, Bytes(offset), Bytes(length)) }
    }

    fn numbers(record: &Record, unit: Unit) -> Vec<(u64, bool)> {
        blocks(record, unit).map(|(lbn, name)| (lbn, name == ContentName::Unknown)).collect()
    }

    #[test]
    fn only_what_covers_a_block_names_it() {
        assert_eq!(blocks(&record(8192, 8192, &[1, 0]), Unit::Block).last(), Some((3, ContentName::Zero)));
        assert_eq!(numbers(&record(8192, 8192, &[1, 2]), Unit::Block), [(2, false), (3, false)]);
        assert_eq!(numbers(&record(8192, 4608, &[1, 2]), Unit::Block), [(2, false), (3, true)], "the request ends inside the second block");
        assert_eq!(numbers(&record(8704, 8192, &[1, 2]), Unit::Block), [(2, true), (3, true), (4, true)], "no fingerprint covers a block");
        assert_eq!(numbers(&record(8192, 8192, &[]), Unit::Block), [(2, true), (3, true)]);
    }

    #[test]
    fn eight_sectors_name_a_block() {
        let aligned = record(4096, 8192, &[1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(numbers(&aligned, Unit::Sector), [(1, false), (2, false)]);
        assert_eq!(blocks(&aligned, Unit::Sector).last(), Some((2, ContentName::Zero)));
        let shifted = record(3584, 5120, &[9, 1, 2, 3, 4, 5, 6, 7, 0, 9]);
        assert_eq!(numbers(&shifted, Unit::Sector), [(0, true), (1, false), (2, true)]);
        assert_eq!(blocks(&shifted, Unit::Sector).nth(1), blocks(&aligned, Unit::Sector).next(), "equal blocks, equal names");
    }
}
