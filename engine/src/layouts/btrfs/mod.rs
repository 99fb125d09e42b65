//! Btrfs: the main superblock, and one of the two stripes of each chunk of system or metadata that the file system keeps twice on one
//! device (`DUP`).
//!
//! 1. Every structure counts only if its checksum is right: CRC-32C, xxHash64, SHA-256 or BLAKE2b.
//! 2. The superblock has the system chunks, in which the blocks of the chunk tree lie. The leaves of that tree have all chunks.
//! 3. Each pointer in the tree leads one level down, to a block that has the address and the generation of the pointer. So the way to a
//!    leaf is as long as the root's level, and a block that was replaced meanwhile is not taken for the one that was meant.
//! 4. Chunks with copies on several devices need no protection: two devices share no block.

mod blake2b;
mod chunk;
mod superblock;
mod tree;

pub(super) use superblock::{STABLE, SUPERBLOCK_AT, SUPERBLOCK_BYTES, Superblock};
pub(super) use tree::{Node, Pointer};
