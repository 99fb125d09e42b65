//! The chunk tree: its blocks, and the pointers between them.

use super::chunk::{Chunk, KEY_BYTES};
use super::superblock::Superblock;
use crate::layouts::bytes::{array, byte, le32, le64, part};
use crate::units::count;
use std::ops::Range;

const CHUNK_TREE: u64 = 3;
const HEADER_BYTES: usize = 101;
/// Bytes of a pointer in an inner block: key, address, generation.
const POINTER_BYTES: usize = KEY_BYTES + 16;
/// Bytes of an item in a leaf: key, offset and length of its data.
const ITEM_BYTES: usize = KEY_BYTES + 8;

/// A block of the tree as the one above it describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::layouts) struct Pointer {
    logical: u64,
    level: u8,
    generation: u64,
    /// The places on this device that are left to try.
    copies: Vec<u64>,
}

/// The content of a block of the tree.
#[derive(Debug)]
pub(in crate::layouts) enum Node {
    Inner(Vec<Pointer>),
    /// The stripes to protect, each with whether it is one of a system chunk, in bytes of the device.
    Leaf(Vec<(bool, Range<u64>)>),
}

impl Pointer {
    /// The pointer to the root.
    pub(in crate::layouts) fn root(superblock: &Superblock) -> Self {
        Self::new(superblock, superblock.chunk_root, superblock.chunk_root_level, superblock.chunk_root_generation)
    }

    fn new(superblock: &Superblock, logical: u64, level: u8, generation: u64) -> Self {
        let mut copies = superblock.copies(logical);
        copies.reverse();
        Self { logical, level, generation, copies }
    }

    /// The next place to try, in bytes of the device.
    pub(in crate::layouts) fn next_copy(&mut self) -> Option<u64> {
        self.copies.pop()
    }

    /// Reads the block, or returns `None` if these bytes are not the one that is meant.
    pub(in crate::layouts) fn follow(&self, superblock: &Superblock, node: &[u8]) -> Option<Node> {
        let items = usize::try_from(le32(node, 96)).ok()?;
        let is_meant = count(node.len()) == superblock.node_bytes()
            && array(node, 32) == superblock.metadata_uuid()
            && le64(node, 48) == self.logical
            && le64(node, 80) == self.generation
            && le64(node, 88) == CHUNK_TREE
            && byte(node, 100) == self.level
            && superblock.is_right(node);
        if !is_meant {
            return None;
        }
        let content = part(node, HEADER_BYTES..node.len());
        match self.level.checked_sub(1) {
            Some(level) => {
                let pointers = content.chunks_exact(POINTER_BYTES).take(items);
                let pointer = |bytes: &[u8]| Self::new(superblock, le64(bytes, KEY_BYTES), level, le64(bytes, KEY_BYTES + 8));
                Some(Node::Inner(pointers.map(pointer).collect()))
            }
            None => {
                let found = content.chunks_exact(ITEM_BYTES).take(items);
                let chunks = found.filter_map(|item| chunk(content, item)).filter_map(|chunk| {
                    let range = chunk.main_copy(superblock.device)?;
                    Some((chunk.is_system(), range))
                });
                Some(Node::Leaf(chunks.collect()))
            }
        }
    }
}

/// The chunk of an item of a leaf. Other items, those of devices, are none.
fn chunk(content: &[u8], item: &[u8]) -> Option<Chunk> {
    let first = usize::try_from(le32(item, KEY_BYTES)).ok()?;
    let end = first.checked_add(usize::try_from(le32(item, KEY_BYTES + 4)).ok()?)?;
    let data = part(content, first..end);
    Chunk::parse(item, data).map(|(chunk, _)| chunk)
}
