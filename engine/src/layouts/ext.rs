//! ext2, ext3 and ext4: the main superblock and the main group descriptors.
//!
//! The file system keeps copies of both in other groups. Only the main ones are protected: then each backup is another block.
//!
//! 1. A superblock counts if its numbers agree with each other, and, with `metadata_csum`, if its checksum is right.
//! 2. Without `metadata_csum` the descriptors of the first block decide as well: the bitmaps and inode tables that they name lie in the
//!    file system, and apart ([`Superblock::confirms`]).
//! 3. With `meta_bg` the descriptors of each metagroup lie in three of its groups; the first copy is the main one.

use super::bytes::{array, le16, le32, part, power};
use crate::units::{count, index};
use std::ops::Range;

/// The beginning of the superblock, in bytes from the file system's first one.
pub(super) const SUPERBLOCK_AT: u64 = 1024;
/// Bytes of a superblock.
pub(super) const SUPERBLOCK_BYTES: usize = 1024;
/// The bytes of a superblock that change only when the layout does.
pub(super) const STABLE: &[Range<usize>] =
    &[0..8, 0x14..0x2c, 0x38..0x3a, 0x5a..0x60, 0x64..0x78, 0xfe..0x100, 0x104..0x108, 0x150..0x154, 0x24c..0x254];

const MAGIC: u16 = 0xef53;
/// 64 KiB, as on machines with such pages.
const LOG_BLOCK_SIZE_MAX: u32 = 6;
const COMPATIBLE_SPARSE_SUPER2: u32 = 0x200;
const INCOMPATIBLE_JOURNAL_DEVICE: u32 = 0x8;
const INCOMPATIBLE_META_BG: u32 = 0x10;
const INCOMPATIBLE_64BIT: u32 = 0x80;
const READ_ONLY_SPARSE_SUPER: u32 = 0x1;
const READ_ONLY_BIGALLOC: u32 = 0x200;
const READ_ONLY_METADATA_CSUM: u32 = 0x400;

/// The groups that have a superblock, and before `meta_bg` descriptors with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backups {
    EveryGroup,
    /// The groups 0 and 1 and the powers of 3, 5 and 7.
    Sparse,
    /// Group 0 and these.
    Two([u32; 2]),
}

/// The numbers of a superblock that decide where the copies lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    block_bytes: u64,
    blocks: u64,
    first_data_block: u64,
    blocks_per_group: u64,
    inode_table_blocks: u64,
    descriptor_bytes: u64,
    /// The first metagroup whose descriptors lie in its own groups, with `meta_bg`.
    first_metagroup: Option<u64>,
    backups: Backups,
    has_checksum: bool,
    uuid: [u8; 16],
}

impl Superblock {
    /// Reads a superblock, or returns `None` if these bytes are not a sound main one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SUPERBLOCK_BYTES || le16(bytes, 0x38) != MAGIC {
            return None;
        }
        let (compatible, incompatible, read_only) = (le32(bytes, 0x5c), le32(bytes, 0x60), le32(bytes, 0x64));
        let has_checksum = read_only & READ_ONLY_METADATA_CSUM != 0;
        // The file system's CRC-32C is not inverted at its end, and that of the crate is.
        if has_checksum && le32(bytes, 0x3fc) != !crc32c::crc32c(part(bytes, 0..0x3fc)) {
            return None;
        }
        let (revision, group) = (le32(bytes, 0x4c), le16(bytes, 0x5a));
        if revision > 1 || group != 0 || incompatible & INCOMPATIBLE_JOURNAL_DEVICE != 0 {
            return None;
        }
        let superblock = Self {
            block_bytes: 1024 * power(le32(bytes, 0x18), LOG_BLOCK_SIZE_MAX)?,
            blocks: u64::from(le32(bytes, 0x150)) << 32 | u64::from(le32(bytes, 4)),
            first_data_block: u64::from(le32(bytes, 0x14)),
            blocks_per_group: u64::from(le32(bytes, 0x20)),
            inode_table_blocks: 0,
            descriptor_bytes: if incompatible & INCOMPATIBLE_64BIT != 0 { u64::from(le16(bytes, 0xfe)) } else { 32 },
            first_metagroup: (incompatible & INCOMPATIBLE_META_BG != 0).then(|| u64::from(le32(bytes, 0x104))),
            backups: if compatible & COMPATIBLE_SPARSE_SUPER2 != 0 {
                Backups::Two([le32(bytes, 0x24c), le32(bytes, 0x250)])
            } else if read_only & READ_ONLY_SPARSE_SUPER != 0 {
                Backups::Sparse
            } else {
                Backups::EveryGroup
            },
            has_checksum,
            uuid: array(bytes, 0x68),
        };
        let is_clustered = read_only & READ_ONLY_BIGALLOC != 0;
        if superblock.are_groups_sound(bytes, is_clustered) { superblock.with_inodes(bytes, revision) } else { None }
    }

    /// Whether the numbers of blocks and groups agree with each other.
    fn are_groups_sound(&self, bytes: &[u8], is_clustered: bool) -> bool {
        let log_ratio = if is_clustered { le32(bytes, 0x1c).wrapping_sub(le32(bytes, 0x18)) } else { 0 };
        let Some(ratio) = power(log_ratio, 20) else { return false };
        let first_max = u64::from(self.block_bytes == 1024);
        let is_first_sound = self.first_data_block == first_max || is_clustered && self.first_data_block < first_max;
        let is_descriptor_sound =
            self.descriptor_bytes == 32 || (64..=1024).contains(&self.descriptor_bytes) && self.descriptor_bytes.is_power_of_two();
        is_first_sound
            && is_descriptor_sound
            && self.blocks > self.first_data_block
            && self.blocks.checked_mul(self.block_bytes).is_some()
            && (8..=8 * self.block_bytes * ratio).contains(&self.blocks_per_group)
            && self.first_metagroup.is_none_or(|first| first <= self.descriptor_blocks())
    }

    /// The superblock with the length of its inode tables, or `None` if the count of inodes does not agree with that of groups.
    fn with_inodes(self, bytes: &[u8], revision: u32) -> Option<Self> {
        let (inodes, inodes_per_group) = (u64::from(le32(bytes, 0)), u64::from(le32(bytes, 0x28)));
        let inode_bytes = if revision == 0 { 128 } else { u64::from(le16(bytes, 0x58)) };
        let is_sound = (1..=8 * self.block_bytes).contains(&inodes_per_group)
            && (128..=self.block_bytes).contains(&inode_bytes)
            && inode_bytes.is_power_of_two()
            && self.groups().checked_mul(inodes_per_group) == Some(inodes);
        let inode_table_blocks = (inodes_per_group * inode_bytes).div_ceil(self.block_bytes);
        (is_sound && inode_table_blocks < self.blocks_per_group).then_some(Self { inode_table_blocks, ..self })
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Bytes of the file system.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes
    }

    /// Whether the superblock's own checksum has shown that it is one.
    pub(super) fn has_checksum(&self) -> bool {
        self.has_checksum
    }

    fn groups(&self) -> u64 {
        (self.blocks - self.first_data_block).div_ceil(self.blocks_per_group)
    }

    fn descriptors_per_block(&self) -> u64 {
        self.block_bytes / self.descriptor_bytes
    }

    /// The blocks of all descriptors, once.
    fn descriptor_blocks(&self) -> u64 {
        self.groups().div_ceil(self.descriptors_per_block())
    }

    fn has_superblock(&self, group: u64) -> bool {
        let is_power = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        match self.backups {
            _ if group == 0 => true,
            Backups::EveryGroup => true,
            Backups::Two(groups) => groups.iter().any(|backup| u64::from(*backup) == group),
            Backups::Sparse => group == 1 || is_power(3) || is_power(5) || is_power(7),
        }
    }

    /// The first block of the descriptors, in bytes from the file system's first one.
    pub(super) fn first_descriptors(&self) -> Range<u64> {
        let first = SUPERBLOCK_AT / self.block_bytes * self.block_bytes + self.block_bytes;
        first..first + self.block_bytes
    }

    /// The main descriptors, in bytes from the file system's first one: at most `max` ranges, and the bytes of those left out.
    pub(super) fn main_descriptors(&self, max: usize) -> (Vec<Range<u64>>, u64) {
        let all = self.descriptor_blocks();
        let joined = self.first_metagroup.unwrap_or(all);
        let mut ranges = Vec::new();
        if joined > 0 {
            let first = self.first_descriptors().start;
            ranges.push(first..first + joined * self.block_bytes);
        }
        let metagroups = (joined..all).map(|metagroup| {
            let first = self.of_metagroup(metagroup) * self.block_bytes;
            first..first + self.block_bytes
        });
        ranges.extend(metagroups.take(max));
        let left_out = all.saturating_sub(joined).saturating_sub(count(max)) * self.block_bytes;
        ranges.retain(|range| range.end <= self.bytes());
        (ranges, left_out)
    }

    /// The block with the first copy of a metagroup's descriptors.
    fn of_metagroup(&self, metagroup: u64) -> u64 {
        let group = metagroup * self.descriptors_per_block();
        // The superblock of a file system of 1 KiB blocks lies in block 1, even if its groups begin at block 0 (`bigalloc`).
        let is_behind_boot_block = group == 0 && self.block_bytes == 1024 && self.first_data_block == 0;
        group * self.blocks_per_group + self.first_data_block + u64::from(self.has_superblock(group)) + u64::from(is_behind_boot_block)
    }

    /// Whether the first block of descriptors names bitmaps and inode tables that lie in the file system, and apart.
    pub(super) fn confirms(&self, descriptors: &[u8]) -> bool {
        let size = index(self.descriptor_bytes);
        let groups = index(self.groups().min(self.descriptors_per_block()));
        let mut seen = 0;
        let are_sound = descriptors.chunks_exact(size).take(groups).all(|descriptor| {
            seen += 1;
            let high = |at| if size >= 64 { u64::from(le32(descriptor, at)) << 32 } else { 0 };
            let [blocks, inodes, table] = [0, 4, 8].map(|at| u64::from(le32(descriptor, at)) | high(at + 32));
            let inside = self.first_data_block + 1..self.blocks;
            let is_bitmap = |block| inside.contains(&block) && !(table..table.saturating_add(self.inode_table_blocks)).contains(&block);
            let is_table = inside.contains(&table) && self.inode_table_blocks <= self.blocks - table;
            is_table && is_bitmap(blocks) && is_bitmap(inodes) && blocks != inodes
        });
        are_sound && seen == groups
    }
}
