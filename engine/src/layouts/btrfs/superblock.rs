//! The superblock, with the system chunks.

use super::blake2b;
use super::chunk::{Chunk, Device, KEY_BYTES};
use crate::layouts::bytes::{array, byte, le16, le32, le64, part};
use sha2::{Digest, Sha256};
use std::ops::Range;
use twox_hash::XxHash64;

/// The beginning of the main superblock, in bytes from the file system's first one.
pub(in crate::layouts) const SUPERBLOCK_AT: u64 = 64 << 10;
/// Bytes of a superblock.
pub(in crate::layouts) const SUPERBLOCK_BYTES: usize = 4096;
/// The bytes of a superblock that change only when the layout does.
pub(in crate::layouts) const STABLE: &[Range<usize>] = &[32..48, 64..72, 88..96, 144..172, 196..200, 811..2859];

const MAGIC: [u8; 8] = *b"_BHRfS_M";
/// The bytes for a checksum, of which most use only the first.
const CHECKSUM_BYTES: usize = 32;
const SYSTEM_CHUNKS_AT: usize = 811;
const SYSTEM_CHUNKS_BYTES: usize = 2048;
const INCOMPATIBLE_METADATA_UUID: u64 = 0x400;
const LEVEL_MAX: u8 = 7;

/// The checksum of a file system's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum {
    Crc32c,
    XxHash64,
    Sha256,
    Blake2b,
}

impl Checksum {
    fn of_number(number: u16) -> Option<Self> {
        [Self::Crc32c, Self::XxHash64, Self::Sha256, Self::Blake2b].get(usize::from(number)).copied()
    }

    fn is_right(self, bytes: &[u8]) -> bool {
        let Some((stored, content)) = bytes.split_at_checked(CHECKSUM_BYTES) else { return false };
        match self {
            Self::Crc32c => stored.starts_with(&crc32c::crc32c(content).to_le_bytes()),
            Self::XxHash64 => stored.starts_with(&XxHash64::oneshot(0, content).to_le_bytes()),
            Self::Sha256 => stored == Sha256::digest(content).as_slice(),
            Self::Blake2b => stored == blake2b::digest(content),
        }
    }
}

/// The parts of a superblock that decide where the chunks lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::layouts) struct Superblock {
    bytes: u64,
    node_bytes: u32,
    sector_bytes: u32,
    checksum: Checksum,
    pub(super) chunk_root: u64,
    pub(super) chunk_root_level: u8,
    pub(super) chunk_root_generation: u64,
    pub(super) device: Device,
    /// The identity that the blocks of its trees have.
    metadata_uuid: [u8; 16],
    system_chunks: Vec<Chunk>,
}

impl Superblock {
    /// Reads a main superblock, or returns `None` if these bytes are not a sound one.
    pub(in crate::layouts) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != SUPERBLOCK_BYTES || array(bytes, 64) != MAGIC || le64(bytes, 48) != SUPERBLOCK_AT {
            return None;
        }
        let checksum = Checksum::of_number(le16(bytes, 196)).filter(|checksum| checksum.is_right(bytes))?;
        let has_metadata_uuid = le64(bytes, 188) & INCOMPATIBLE_METADATA_UUID != 0;
        let system_bytes = usize::try_from(le32(bytes, 160)).ok().filter(|length| *length <= SYSTEM_CHUNKS_BYTES)?;
        let superblock = Self {
            bytes: le64(bytes, 209),
            node_bytes: le32(bytes, 148),
            sector_bytes: le32(bytes, 144),
            checksum,
            chunk_root: le64(bytes, 88),
            chunk_root_level: byte(bytes, 199),
            chunk_root_generation: le64(bytes, 164),
            device: Device { number: le64(bytes, 201), uuid: array(bytes, 267) },
            metadata_uuid: if has_metadata_uuid { array(bytes, 571) } else { array(bytes, 32) },
            system_chunks: system_chunks(part(bytes, SYSTEM_CHUNKS_AT..SYSTEM_CHUNKS_AT + system_bytes))?,
        };
        let is_size = |bytes: u32| (4096..=65536).contains(&bytes) && bytes.is_power_of_two();
        let is_sound = is_size(superblock.node_bytes)
            && is_size(superblock.sector_bytes)
            && superblock.sector_bytes <= superblock.node_bytes
            && superblock.chunk_root_level <= LEVEL_MAX;
        is_sound.then_some(superblock)
    }

    /// Bytes of the file system on this device.
    pub(in crate::layouts) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a block of data.
    pub(in crate::layouts) fn block_bytes(&self) -> u64 {
        u64::from(self.sector_bytes)
    }

    /// Bytes of a tree's block.
    pub(in crate::layouts) fn node_bytes(&self) -> u64 {
        u64::from(self.node_bytes)
    }

    pub(super) fn metadata_uuid(&self) -> [u8; 16] {
        self.metadata_uuid
    }

    /// The stripes to protect of the system chunks, in bytes of the device.
    pub(in crate::layouts) fn main_copies(&self) -> Vec<Range<u64>> {
        self.system_chunks.iter().filter_map(|chunk| chunk.main_copy(self.device)).collect()
    }

    /// The places on this device of the copies of a tree's block.
    pub(super) fn copies(&self, logical: u64) -> Vec<u64> {
        self.system_chunks.iter().flat_map(|chunk| chunk.copies(logical, self.node_bytes(), self.device)).collect()
    }

    /// Whether the checksum of a structure that begins with it is right.
    pub(super) fn is_right(&self, bytes: &[u8]) -> bool {
        self.checksum.is_right(bytes)
    }
}

/// The chunks of a superblock: keys, each with its chunk.
fn system_chunks(mut bytes: &[u8]) -> Option<Vec<Chunk>> {
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        let (key, data) = bytes.split_at_checked(KEY_BYTES)?;
        let (chunk, length) = Chunk::parse(key, data)?;
        chunks.push(chunk);
        bytes = &data[length..];
    }
    Some(chunks)
}
