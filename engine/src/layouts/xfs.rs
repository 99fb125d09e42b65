//! XFS: the headers of the first allocation group.
//!
//! Each allocation group begins with a copy of the superblock and with the headers of its free space, its inodes and its free list, a
//! sector each. Those of group 0 are protected: then each copy is another block.
//!
//! 1. A superblock counts if its numbers agree with each other, and if its checksum is right.
//! 2. Before version 5 there is no checksum: then the second sector has to be the header of group 0's free space, with the same numbers.

use super::bytes::{array, be16, be32, be64, byte, part};
use crate::units::index;
use std::ops::Range;

/// The bytes of a superblock that are looked at first: its fields, whatever the size of a sector is.
pub(super) const FIELDS_BYTES: usize = 512;
/// The headers of an allocation group: superblock, free space, inodes, free list.
const HEADERS: u64 = 4;

const MAGIC: u32 = 0x5846_5342;
const FREE_SPACE_MAGIC: u32 = 0x5841_4746;
const CHECKSUM_AT: usize = 224;

/// The numbers of a superblock that decide where the copies lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    block_bytes: u64,
    blocks: u64,
    group_blocks: u64,
    groups: u64,
    sector_bytes: u64,
    version: u16,
    uuid: [u8; 16],
}

impl Superblock {
    /// Reads the fields of a superblock, or returns `None` if they do not agree with each other. The checksum is not compared: see
    /// [`Superblock::confirms`].
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // A file system that is still being made is not yet one.
        if bytes.len() < FIELDS_BYTES || be32(bytes, 0) != MAGIC || byte(bytes, 126) != 0 {
            return None;
        }
        let superblock = Self {
            block_bytes: u64::from(be32(bytes, 4)),
            blocks: be64(bytes, 8),
            group_blocks: u64::from(be32(bytes, 84)),
            groups: u64::from(be32(bytes, 88)),
            sector_bytes: u64::from(be16(bytes, 102)),
            version: be16(bytes, 100) & 0xf,
            uuid: array(bytes, 32),
        };
        let is_log = |value: u64, at| value.is_power_of_two() && value.ilog2() == u32::from(byte(bytes, at));
        let inode_bytes = u64::from(be16(bytes, 104));
        let is_sound = (4..=5).contains(&superblock.version)
            && (512..=65536).contains(&superblock.block_bytes)
            && is_log(superblock.block_bytes, 120)
            && (512..=32768).contains(&superblock.sector_bytes)
            && is_log(superblock.sector_bytes, 121)
            && (256..=2048).contains(&inode_bytes)
            && is_log(inode_bytes, 122)
            && u64::from(be16(bytes, 106)) * inode_bytes == superblock.block_bytes
            && superblock.are_groups_sound(u32::from(byte(bytes, 124)));
        is_sound.then_some(superblock)
    }

    /// Whether the groups cover the file system, the last one perhaps in part.
    fn are_groups_sound(&self, log_group_blocks: u32) -> bool {
        let whole = self.groups.saturating_sub(1) * self.group_blocks;
        self.groups > 0
            && self.group_blocks.checked_next_power_of_two().is_some_and(|power| power.ilog2() == log_group_blocks)
            && (whole + 1..=whole + self.group_blocks).contains(&self.blocks)
            && self.blocks.checked_mul(self.block_bytes).is_some()
            && HEADERS * self.sector_bytes <= self.group_blocks * self.block_bytes
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Bytes of the file system.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes
    }

    /// The headers of group 0, in bytes from the file system's first one.
    pub(super) fn headers(&self) -> Range<u64> {
        0..HEADERS * self.sector_bytes
    }

    /// The headers that [`Superblock::confirms`] looks at.
    pub(super) fn first_headers(&self) -> Range<u64> {
        0..2 * self.sector_bytes
    }

    /// Whether the first two sectors of the file system confirm that this is its superblock.
    pub(super) fn confirms(&self, headers: &[u8]) -> bool {
        let sector_bytes = index(self.sector_bytes);
        let (superblock, free_space) = headers.split_at(sector_bytes.min(headers.len()));
        if Self::parse(superblock).as_ref() != Some(self) || superblock.len() < sector_bytes {
            return false;
        }
        if self.version == 5 {
            let before = crc32c::crc32c(part(superblock, 0..CHECKSUM_AT));
            let sum = crc32c::crc32c_append(crc32c::crc32c_append(before, &[0; 4]), part(superblock, CHECKSUM_AT + 4..sector_bytes));
            return sum == u32::from_le_bytes(array(superblock, CHECKSUM_AT));
        }
        let length = self.group_blocks.min(self.blocks);
        [(0, u64::from(FREE_SPACE_MAGIC)), (4, 1), (8, 0), (12, length)]
            .iter()
            .all(|(at, value)| u64::from(be32(free_space, *at)) == *value)
            && free_space.len() >= 16
    }
}
