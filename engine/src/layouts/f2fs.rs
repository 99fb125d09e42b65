//! F2FS: the first superblock and the first checkpoint pack.
//!
//! The file system has two superblocks of the same content and two checkpoint packs, whose blocks may be of the same content. The first of
//! each is protected: then the second is another block.
//!
//! 1. A superblock counts if each area begins where the one before it ends, and if its checksum is right, where it has one.
//! 2. A pack is at most a segment long.

use super::bytes::{array, byte, crc32, le32, le64, part, power};
use crate::units::index;
use std::ops::Range;

/// Bytes of a superblock.
pub(super) const SUPERBLOCK_BYTES: usize = 3072;
/// The beginnings of the superblocks, in bytes from the file system's first one.
pub(super) const SUPERBLOCKS_AT: [u64; 2] = [1024, 4096 + 1024];
/// The bytes of a superblock that change only when the layout does, without the place of its checksum.
pub(super) const STABLE: &[Range<usize>] = &[0..32, 36..124];

const MAGIC: u32 = 0xf2f5_2010;
const LOG_BLOCK_SIZE: u32 = 12;
const LOG_BLOCKS_PER_SEGMENT: u32 = 9;
const FEATURE_CHECKSUM: u32 = 0x800;
const CHECKSUM_AT: usize = 3068;

/// The numbers of a superblock that decide where the copies lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    block_bytes: u64,
    blocks: u64,
    blocks_per_segment: u64,
    checkpoint_block: u64,
    is_on_several_devices: bool,
    uuid: [u8; 16],
}

impl Superblock {
    /// Reads a superblock, or returns `None` if these bytes are not a sound one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SUPERBLOCK_BYTES || le32(bytes, 0) != MAGIC {
            return None;
        }
        let has_checksum = le32(bytes, 2180) & FEATURE_CHECKSUM != 0;
        let is_right =
            || index(u64::from(le32(bytes, 32))) == CHECKSUM_AT && le32(bytes, CHECKSUM_AT) == crc32(MAGIC, part(bytes, 0..CHECKSUM_AT));
        let (log_sector, log_sectors) = (le32(bytes, 8), le32(bytes, 12));
        let is_sound = le32(bytes, 16) == LOG_BLOCK_SIZE
            && le32(bytes, 20) == LOG_BLOCKS_PER_SEGMENT
            && (9..=LOG_BLOCK_SIZE).contains(&log_sector)
            && log_sectors == LOG_BLOCK_SIZE - log_sector
            && (!has_checksum || is_right());
        let superblock = Self {
            block_bytes: power(LOG_BLOCK_SIZE, LOG_BLOCK_SIZE)?,
            blocks: le64(bytes, 36),
            blocks_per_segment: power(LOG_BLOCKS_PER_SEGMENT, LOG_BLOCKS_PER_SEGMENT)?,
            checkpoint_block: u64::from(le32(bytes, 76)),
            is_on_several_devices: byte(bytes, 2201) != 0,
            uuid: array(bytes, 108),
        };
        (is_sound && superblock.are_areas_sound(bytes)).then_some(superblock)
    }

    /// Whether each area begins where the one before it ends, and the last one ends in the file system.
    fn are_areas_sound(&self, bytes: &[u8]) -> bool {
        // Of each area: the field of its first block, and that of its segments.
        const AREAS: [(usize, usize); 5] = [(76, 52), (80, 56), (84, 60), (88, 64), (92, 68)];
        let first = u64::from(le32(bytes, 72));
        let end = AREAS.iter().try_fold(first, |end, (at, segments_at)| {
            let segments = u64::from(le32(bytes, *segments_at));
            (segments > 0 && u64::from(le32(bytes, *at)) == end).then(|| end + segments * self.blocks_per_segment)
        });
        let all = first + u64::from(le32(bytes, 48)) * self.blocks_per_segment;
        let has_two_packs = le32(bytes, 52) == 2;
        first > 1 && has_two_packs && end.is_some_and(|end| end <= all && all <= self.blocks) && self.blocks <= u64::MAX / self.block_bytes
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Bytes that the file system needs on its first device.
    pub(super) fn bytes(&self) -> u64 {
        if self.is_on_several_devices {
            // The areas before the main one lie on the first device, whose length is not in the superblock.
            self.second_pack_end()
        } else {
            self.blocks * self.block_bytes
        }
    }

    fn second_pack_end(&self) -> u64 {
        (self.checkpoint_block + 2 * self.blocks_per_segment) * self.block_bytes
    }

    /// The first checkpoint pack, in bytes from the file system's first one.
    pub(super) fn first_pack(&self) -> Range<u64> {
        let first = self.checkpoint_block * self.block_bytes;
        first..first + self.blocks_per_segment * self.block_bytes
    }
}
