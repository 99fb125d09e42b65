//! The part of a survey that finds file systems in its regions.

use super::super::bytes::part;
use super::super::layout::{FileSystem, Kind};
use super::super::ranges::{CANDIDATES_MAX, Importance};
use super::super::watched::Structure;
use super::super::{f2fs, xfs};
use super::{Purpose, Survey, btrfs, ext};
use crate::units::{Bytes, count, index};
use std::ops::Range;

impl Survey {
    /// Reads the superblocks at the beginning of a region.
    pub(super) fn see_front(&mut self, region: usize, front: &[u8]) {
        self.see_ext(region, front);
        self.see_xfs(region, front);
        self.see_f2fs(region, front);
    }

    fn see_ext(&mut self, region: usize, front: &[u8]) {
        let at = index(ext::SUPERBLOCK_AT);
        let bytes = part(front, at..at + ext::SUPERBLOCK_BYTES);
        self.layout.watch_over(Structure::Ext, self.byte_of(region, ext::SUPERBLOCK_AT), bytes);
        let Some(superblock) = ext::Superblock::parse(bytes).filter(|superblock| self.fits(region, superblock.bytes())) else { return };
        if superblock.has_checksum() {
            self.add_ext(region, &superblock);
            return;
        }
        let descriptors = superblock.first_descriptors();
        let descriptors = self.byte_of(region, descriptors.start)..self.byte_of(region, descriptors.end);
        if !self.look(descriptors, Purpose::ExtDescriptors { region, superblock }) {
            self.forget(region, Structure::Ext, ext::SUPERBLOCK_AT);
        }
    }

    pub(super) fn see_ext_descriptors(&mut self, region: usize, superblock: &ext::Superblock, descriptors: &[u8]) {
        if superblock.confirms(descriptors) {
            self.add_ext(region, superblock);
        } else {
            self.forget(region, Structure::Ext, ext::SUPERBLOCK_AT);
        }
    }

    fn add_ext(&mut self, region: usize, superblock: &ext::Superblock) {
        self.add(Kind::Ext, region, superblock.block_bytes());
        self.protect(region, Importance::Superblock, &(ext::SUPERBLOCK_AT..ext::SUPERBLOCK_AT + count(ext::SUPERBLOCK_BYTES)));
        let (descriptors, left_out) = superblock.main_descriptors(CANDIDATES_MAX);
        for range in &descriptors {
            self.protect(region, Importance::Tables, range);
        }
        self.layout.leave_out(left_out);
    }

    fn see_xfs(&mut self, region: usize, front: &[u8]) {
        let fields = part(front, 0..xfs::FIELDS_BYTES);
        self.layout.watch_over(Structure::Xfs, self.byte_of(region, 0), fields);
        let Some(superblock) = xfs::Superblock::parse(fields).filter(|superblock| self.fits(region, superblock.bytes())) else { return };
        let headers = superblock.first_headers();
        let headers = self.byte_of(region, headers.start)..self.byte_of(region, headers.end);
        if !self.look(headers, Purpose::XfsHeaders { region, superblock }) {
            self.forget(region, Structure::Xfs, 0);
        }
    }

    pub(super) fn see_xfs_headers(&mut self, region: usize, superblock: &xfs::Superblock, headers: &[u8]) {
        if superblock.confirms(headers) {
            self.add(Kind::Xfs, region, superblock.block_bytes());
            self.protect(region, Importance::Superblock, &superblock.headers());
        } else {
            self.forget(region, Structure::Xfs, 0);
        }
    }

    /// Reads both superblocks: the first sound one counts.
    fn see_f2fs(&mut self, region: usize, front: &[u8]) {
        let mut sound = None;
        for at in f2fs::SUPERBLOCKS_AT {
            let bytes = part(front, index(at)..index(at) + f2fs::SUPERBLOCK_BYTES);
            self.layout.watch_over(Structure::F2fs, self.byte_of(region, at), bytes);
            let superblock = f2fs::Superblock::parse(bytes).filter(|superblock| self.fits(region, superblock.bytes()));
            sound = sound.or(superblock);
        }
        let Some(superblock) = sound else { return };
        self.add(Kind::F2fs, region, superblock.block_bytes());
        let first = f2fs::SUPERBLOCKS_AT[0];
        self.protect(region, Importance::Superblock, &(first..first + count(f2fs::SUPERBLOCK_BYTES)));
        self.protect(region, Importance::Tables, &superblock.first_pack());
    }

    pub(super) fn see_btrfs(&mut self, region: usize, bytes: &[u8]) {
        self.layout.watch_over(Structure::Btrfs, self.byte_of(region, btrfs::SUPERBLOCK_AT), bytes);
        let Some(superblock) = btrfs::Superblock::parse(bytes).filter(|superblock| self.fits(region, superblock.bytes())) else { return };
        self.add(Kind::Btrfs, region, superblock.block_bytes());
        let first = btrfs::SUPERBLOCK_AT;
        self.protect(region, Importance::Superblock, &(first..first + count(btrfs::SUPERBLOCK_BYTES)));
        for range in superblock.main_copies() {
            self.protect(region, Importance::Tables, &range);
        }
        let root = btrfs::Pointer::root(&superblock);
        self.trees.push((region, superblock));
        self.look_at_node(self.trees.len() - 1, root);
    }

    /// Asks for the next copy of a block of a chunk tree. Without one, the chunks below it stay unknown until the tree changes.
    fn look_at_node(&mut self, tree: usize, mut pointer: btrfs::Pointer) {
        let (region, superblock) = &self.trees[tree];
        let (region, node_bytes) = (*region, superblock.node_bytes());
        while let Some(first) = pointer.next_copy() {
            let Some(range) = self.within(region, first, node_bytes) else { continue };
            if self.look(range, Purpose::BtrfsNode { tree, pointer }) {
                return;
            }
            break;
        }
        self.layout.cut_short();
        self.forget(region, Structure::Btrfs, btrfs::SUPERBLOCK_AT);
    }

    pub(super) fn see_btrfs_node(&mut self, tree: usize, pointer: btrfs::Pointer, bytes: &[u8]) {
        let (region, superblock) = &self.trees[tree];
        let region = *region;
        match pointer.follow(superblock, bytes) {
            None => self.look_at_node(tree, pointer),
            Some(btrfs::Node::Inner(pointers)) => pointers.into_iter().for_each(|pointer| self.look_at_node(tree, pointer)),
            Some(btrfs::Node::Leaf(stripes)) => {
                for (is_system, range) in stripes {
                    self.protect(region, if is_system { Importance::Tables } else { Importance::Metadata }, &range);
                }
            }
        }
    }

    fn add(&mut self, kind: Kind, region: usize, block_bytes: u64) {
        self.layout.add(FileSystem { kind, first: Bytes(self.regions[region].start), block: Bytes(block_bytes) });
    }

    fn protect(&mut self, region: usize, importance: Importance, range: &Range<u64>) {
        self.layout.protect(importance, &self.regions[region], range);
    }

    fn forget(&mut self, region: usize, structure: Structure, at: u64) {
        let first = self.byte_of(region, at);
        self.layout.forget(structure, first);
    }

    /// Whether a region has room for a file system of this length.
    fn fits(&self, region: usize, bytes: u64) -> bool {
        bytes <= self.regions[region].end - self.regions[region].start
    }

    /// The byte of the volume at an offset in a region.
    fn byte_of(&self, region: usize, at: u64) -> u64 {
        self.regions[region].start.saturating_add(at)
    }

    /// The bytes of the volume that lie at an offset in a region, if they lie in it.
    fn within(&self, region: usize, at: u64, bytes: u64) -> Option<Range<u64>> {
        let region = &self.regions[region];
        let start = region.start.checked_add(at)?;
        let end = start.checked_add(bytes)?;
        (end <= region.end).then_some(start..end)
    }
}
