//! What the fuzz targets share.

use onefold_engine::fingerprint::Algorithm;
use onefold_engine::format::superblock::at;
use onefold_engine::format::{Geometry, Superblock, Wish};
use onefold_engine::settings::Settings;
use onefold_engine::units::{BLOCK_SIZE, Bytes};

/// Gives a page the checksum that a superblock of these fields would have.
pub fn repair_superblock(page: &mut [u8; BLOCK_SIZE]) {
    let checksum = crc32c::crc32c(&page[..at::CHECKSUM.offset]);
    page[at::CHECKSUM.offset..][..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The superblock of a new volume, as copy number `copy`.
pub fn sound_superblock(copy: usize) -> Box<[u8; BLOCK_SIZE]> {
    let geometry = Geometry::plan(Bytes(64 << 20), &Wish { logical_blocks: None, reserve_blocks: None }).expect("64 MiB are enough");
    let superblock = Superblock::new(geometry, [7; 16], [9; 32], Algorithm::Blake3, &Settings::default());
    let mut page = Box::new([0; BLOCK_SIZE]);
    superblock.encode(copy, &mut page);
    page
}

/// Lays pieces of {where (2 bytes), how many (1 byte), bytes} over a page.
pub fn overlay(page: &mut [u8; BLOCK_SIZE], mut pieces: &[u8]) {
    while let [low, high, length, tail @ ..] = pieces {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % BLOCK_SIZE;
        let length = usize::from(*length).min(tail.len()).min(BLOCK_SIZE - at);
        page[at..at + length].copy_from_slice(&tail[..length]);
        pieces = &tail[length..];
    }
}
