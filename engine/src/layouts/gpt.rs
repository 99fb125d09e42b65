//! GPT: the header and the table of partitions.
//!
//! 1. A header counts only where it says that it lies, in the second sector, so that its place gives the size of a sector.
//! 2. Header and table count only with a CRC-32 that is right.

use super::bytes::{array, crc32, le32, le64, part};
use crate::units::{count, index};
use std::ops::Range;

/// The bytes of a header that are looked at.
pub(super) const HEADER_BYTES: usize = 512;
/// The sizes of sectors of which a volume may have been partitioned.
pub(super) const SECTOR_BYTES: [u64; 2] = [512, 4096];

const MAGIC: [u8; 8] = *b"EFI PART";
const CHECKSUM_AT: usize = 16;
/// A table usually has 16 KiB.
const TABLE_BYTES_MAX: u64 = 128 << 10;

/// The header of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    table_first: u64,
    entries: u32,
    entry_bytes: u32,
    table_sum: u32,
    sector_bytes: u64,
}

impl Header {
    /// Reads the header in the second sector of a volume with sectors of this size, or returns `None` if these bytes are not a sound one.
    pub(super) fn parse(bytes: &[u8], sector_bytes: u64) -> Option<Self> {
        let header_bytes = usize::try_from(le32(bytes, 12)).ok()?;
        if bytes.len() < HEADER_BYTES || array(bytes, 0) != MAGIC || !(92..=HEADER_BYTES).contains(&header_bytes) {
            return None;
        }
        let sum = crc32(crc32(!0, part(bytes, 0..CHECKSUM_AT)), &[0; 4]);
        let sum = !crc32(sum, part(bytes, CHECKSUM_AT + 4..header_bytes));
        let header = Self {
            table_first: le64(bytes, 72).checked_mul(sector_bytes)?,
            entries: le32(bytes, 80),
            entry_bytes: le32(bytes, 84),
            table_sum: le32(bytes, 88),
            sector_bytes,
        };
        let is_sound = le32(bytes, CHECKSUM_AT) == sum
            && le64(bytes, 24) == 1
            && header.table_first >= 2 * sector_bytes
            && header.entry_bytes >= 128
            && header.entry_bytes.is_power_of_two()
            && (1..=TABLE_BYTES_MAX).contains(&header.table_bytes());
        is_sound.then_some(header)
    }

    fn table_bytes(&self) -> u64 {
        u64::from(self.entries) * u64::from(self.entry_bytes)
    }

    /// Bytes of a sector, and so the header's first byte.
    pub(super) fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    /// The table, in bytes of the volume, or `None` if it reaches beyond all numbers.
    pub(super) fn table(&self) -> Option<Range<u64>> {
        Some(self.table_first..self.table_first.checked_add(self.table_bytes())?)
    }

    /// The header and the sectors before it, in bytes of the volume.
    pub(super) fn head(&self) -> Range<u64> {
        0..2 * self.sector_bytes
    }

    /// The partitions of a table, in bytes of the volume, or `None` if these bytes are not the header's table.
    pub(super) fn partitions(&self, table: &[u8]) -> Option<Vec<Range<u64>>> {
        if count(table.len()) != self.table_bytes() || !crc32(!0, table) != self.table_sum {
            return None;
        }
        let used = table.chunks_exact(index(u64::from(self.entry_bytes))).filter(|entry| array::<16>(entry, 0) != [0; 16]);
        let range = |entry| {
            let (first, last) = (le64(entry, 32), le64(entry, 40));
            let end = last.checked_add(1)?.checked_mul(self.sector_bytes)?;
            (first <= last).then(|| first * self.sector_bytes..end)
        };
        Some(used.filter_map(range).collect())
    }
}
