//! The use of the data blocks of a volume that nobody serves, read from its counts of links.

use crate::runtime::volume_counts::{Saved, available_blocks};
use onefold_engine::buffer::Frame;
use onefold_engine::format::Superblock;
use onefold_engine::format::entry::REFS_UNKNOWN;
use onefold_engine::format::page::{PageId, Region, open};
use onefold_engine::units::{BLOCK_BYTES, index};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Numbers of blocks by their counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetachedSpace {
    /// Blocks with links from the map, and those links.
    pub used_blocks: u64,
    pub map_links: u64,
    /// Blocks without links, or kept for their fingerprint alone.
    pub idle_blocks: u64,
}

impl DetachedSpace {
    /// Reads all counts of the volume at `path`, which was closed in order: otherwise its log or a recount would change them. None where a
    /// count is lost.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path, superblock: &Superblock) -> io::Result<Option<Self>> {
        let (file, geometry) = (File::open(path)?, &superblock.geometry);
        let mut frame = Box::new(Frame::ZERO);
        let mut space = Self::default();
        for number in 0..geometry.pages_of_blocks(Region::Refs) {
            let id = PageId { region: Region::Refs, index: number };
            file.read_exact_at(&mut frame.0, geometry.page_at(id).get())?;
            let content = open(&superblock.origin, id, &frame.0, false).content;
            let blocks = Region::Refs.entries_per_page().min(geometry.data_blocks - geometry.first_pbn(id).0);
            for i in 0..index(blocks) {
                match content.refs(i) {
                    0 | 1 => space.idle_blocks += 1,
                    REFS_UNKNOWN => return Ok(None),
                    refs => {
                        space.used_blocks += 1;
                        // All links but that of its fingerprint.
                        space.map_links += u64::from(refs) - 1;
                    }
                }
            }
        }
        Ok(Some(space))
    }

    /// Returns the space of clients' content.
    #[must_use]
    pub fn saved(&self) -> Saved {
        Saved::of(self.map_links, self.used_blocks)
    }

    /// Returns the space left for new content.
    #[must_use]
    pub fn available_bytes(&self, superblock: &Superblock) -> u64 {
        available_blocks(self.idle_blocks, superblock.geometry.reserve_blocks) * BLOCK_BYTES
    }
}
