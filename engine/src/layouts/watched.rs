//! Structures whose content decides about the layout, block by block, each with an identity of what matters in it.
//!
//! 1. The identity of a whole structure is what its parser reads, and none if the parser refuses it.
//! 2. The identity of a part, where a structure begins in one block and ends in the next, is a digest of the bytes in it that change only
//!    when the layout does.

use super::{boot_record, btrfs, ext, f2fs, gpt, xfs};
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, Lbn, count, index};
use std::ops::Range;
use twox_hash::XxHash3_128;

/// A structure that decides about the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    BootRecord,
    /// With the bytes of a sector.
    GptHeader(u64),
    /// With its length in bytes.
    GptTable(usize),
    Ext,
    F2fs,
    Xfs,
    Btrfs,
}

/// The content of a structure, as far as it decides about the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Digest(u128),
    GptHeader(gpt::Header),
    Ext(ext::Superblock),
    F2fs(f2fs::Superblock),
    Xfs(xfs::Superblock),
    Btrfs(btrfs::Superblock),
}

/// The part of a structure that lies in one block.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    lbn: Lbn,
    structure: Structure,
    /// The first byte of the structure, in bytes of the volume.
    first: u64,
    identity: Option<Identity>,
}

impl Structure {
    fn length(self) -> usize {
        match self {
            Self::BootRecord => boot_record::RECORD_BYTES,
            Self::GptHeader(_) => gpt::HEADER_BYTES,
            Self::GptTable(length) => length,
            Self::Ext => ext::SUPERBLOCK_BYTES,
            Self::F2fs => f2fs::SUPERBLOCK_BYTES,
            Self::Xfs => xfs::FIELDS_BYTES,
            Self::Btrfs => btrfs::SUPERBLOCK_BYTES,
        }
    }

    /// The identity of all its bytes.
    fn of_whole(self, bytes: &[u8]) -> Option<Identity> {
        match self {
            Self::BootRecord => boot_record::table(bytes).map(|table| Identity::Digest(XxHash3_128::oneshot(table))),
            Self::GptHeader(sector_bytes) => gpt::Header::parse(bytes, sector_bytes).map(Identity::GptHeader),
            Self::GptTable(_) => Some(Identity::Digest(XxHash3_128::oneshot(bytes))),
            Self::Ext => ext::Superblock::parse(bytes).map(Identity::Ext),
            Self::F2fs => f2fs::Superblock::parse(bytes).map(Identity::F2fs),
            Self::Xfs => xfs::Superblock::parse(bytes).map(Identity::Xfs),
            Self::Btrfs => btrfs::Superblock::parse(bytes).map(Identity::Btrfs),
        }
    }

    /// The identity of the bytes in `range`, a part of it.
    fn of_part(self, range: &Range<usize>, bytes: &[u8]) -> Option<Identity> {
        let all = 0..self.length();
        let stable = match self {
            Self::Ext => ext::STABLE,
            Self::F2fs => f2fs::STABLE,
            Self::Btrfs => btrfs::STABLE,
            Self::BootRecord | Self::GptHeader(_) | Self::GptTable(_) | Self::Xfs => std::slice::from_ref(&all),
        };
        let within = stable.iter().map(|stable| stable.start.max(range.start)..stable.end.min(range.end));
        let parts: Vec<&[u8]> =
            within.filter_map(|part| bytes.get(part.start.checked_sub(range.start)?..part.end.checked_sub(range.start)?)).collect();
        Some(Identity::Digest(XxHash3_128::oneshot(&parts.concat())))
    }
}

impl Watched {
    /// The parts of a structure that begins at byte `first` of the volume and has this content, which ends early where a block could not be
    /// read.
    pub(super) fn parts(structure: Structure, first: u64, content: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let end = first + count(structure.length());
        (first / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |lbn| {
            let mut part = Self { lbn: Lbn(lbn), structure, first, identity: None };
            part.identity = content.get(part.range()).and_then(|bytes| part.identity_of(bytes));
            part
        })
    }

    pub(super) fn lbn(&self) -> Lbn {
        self.lbn
    }

    /// The bytes of the structure that lie in the block.
    fn range(&self) -> Range<usize> {
        let block = self.lbn.0 * BLOCK_BYTES;
        let end = count(self.structure.length()).min(block + BLOCK_BYTES - self.first);
        index(block.saturating_sub(self.first))..index(end)
    }

    fn identity_of(&self, bytes: &[u8]) -> Option<Identity> {
        let range = self.range();
        if bytes.len() == self.structure.length() { self.structure.of_whole(bytes) } else { self.structure.of_part(&range, bytes) }
    }

    /// Whether it is part of the structure of this kind that begins at byte `first` of the volume.
    pub(super) fn is_of(&self, structure: Structure, first: u64) -> bool {
        self.structure == structure && self.first == first
    }

    /// Drops the identity, so that the next sound structure in its place changes the layout.
    pub(super) fn forget(&mut self) {
        self.identity = None;
    }

    /// Whether this content of the block is another structure, or another state of it that decides otherwise. Remembers the new one.
    pub(super) fn changes(&mut self, block: &[u8; BLOCK_SIZE]) -> bool {
        let at = index(self.first.saturating_sub(self.lbn.0 * BLOCK_BYTES));
        let identity = block.get(at..at + self.range().len()).and_then(|bytes| self.identity_of(bytes));
        let changes = identity != self.identity;
        self.identity = identity;
        changes
    }
}
