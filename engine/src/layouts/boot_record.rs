//! MBR: the table of four partitions, and the chain of tables for logical ones.
//!
//! 1. The table counts sectors and does not say how large they are: the caller reads it once for each size.
//! 2. A link of the chain is an offset from the extended partition, a logical partition one from its own table. The caller bounds the
//!    chain.

use super::bytes::{byte, le16, le32, part};
use std::ops::Range;

/// Bytes of a table with what lies before it.
pub(super) const RECORD_BYTES: usize = 512;

const ENTRIES_AT: usize = 446;
const ENTRY_BYTES: usize = 16;
const SIGNATURE: u16 = 0xaa55;
/// The partition that covers a disk with a GPT.
const KIND_PROTECTIVE: u8 = 0xee;

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// It holds a chain of tables.
    pub(super) is_extended: bool,
    /// The partition, in bytes from the place that its table counts from.
    pub(super) range: Range<u64>,
}

/// The bytes that decide where partitions lie, or `None` without the signature of a table.
pub(super) fn table(record: &[u8]) -> Option<&[u8]> {
    (record.len() >= RECORD_BYTES && le16(record, 510) == SIGNATURE).then(|| part(record, ENTRIES_AT..510))
}

/// The entries of a table in use. Where one entry cannot be one, as in the boot code of a file system, there is no table.
pub(super) fn entries(record: &[u8], sector_bytes: u64) -> Vec<Entry> {
    let Some(table) = table(record) else { return Vec::new() };
    let entries = || table.chunks_exact(ENTRY_BYTES);
    if entries().any(|entry| byte(entry, 0) & 0x7f != 0) {
        return Vec::new();
    }
    let used = entries().filter(|entry| ![0, KIND_PROTECTIVE].contains(&byte(entry, 4)) && le32(entry, 12) != 0);
    used.map(|entry| {
        let first = u64::from(le32(entry, 8)) * sector_bytes;
        let is_extended = [0x05, 0x0f, 0x85].contains(&byte(entry, 4));
        Entry { is_extended, range: first..first + u64::from(le32(entry, 12)) * sector_bytes }
    })
    .collect()
}
