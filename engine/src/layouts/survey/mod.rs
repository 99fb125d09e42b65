//! The survey of a volume: which file systems are on it, and where.
//!
//! It is a state machine that asks for one block after the other:
//!
//! 1. The first blocks of the volume: partition tables, and superblocks of file systems on the whole volume.
//! 2. The table of a GPT and the chain of an MBR. Each partition is a region, and so is the volume.
//! 3. The superblocks of each region.
//! 4. The second structures that confirm a superblock, and the blocks of the chunk trees.

mod file_systems;
mod partitions;
mod queue;

pub use queue::READS_MAX;

use super::layout::Layout;
use super::{boot_record, btrfs, ext, gpt, xfs};
use crate::units::{BLOCK_SIZE, Blocks, Lbn};
use queue::Queue;
use std::ops::Range;

/// The bytes at the beginning of a region that are looked at together: all superblocks but that of Btrfs, and on a volume the tables of its
/// partitions.
const FRONT_BYTES: u64 = 8192;

/// The most blocks of a volume: 4 EiB, so that no sum of a place in it and the length of a structure overflows.
const BLOCKS_MAX: Blocks = Blocks(1 << 50);

/// The next step of a survey.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read this block and hand it over.
    Read(Lbn),
    /// The survey is over.
    Done(Layout),
}

/// A survey of a volume.
#[derive(Debug)]
pub struct Survey {
    queue: Queue<Purpose>,
    /// The volume, then its partitions: in bytes of the volume.
    regions: Vec<Range<u64>>,
    /// The tables of logical partitions that were asked for.
    records: usize,
    /// The file systems whose chunk trees are read, each with its region.
    trees: Vec<(usize, btrfs::Superblock)>,
    layout: Layout,
}

/// The purpose of a look. A region is its number.
#[derive(Debug)]
enum Purpose {
    Front { region: usize },
    BtrfsSuperblock { region: usize },
    BootRecord { extended: Range<u64>, sector_bytes: u64 },
    GptTable { header: gpt::Header },
    ExtDescriptors { region: usize, superblock: ext::Superblock },
    XfsHeaders { region: usize, superblock: xfs::Superblock },
    BtrfsNode { tree: usize, pointer: btrfs::Pointer },
}

impl Survey {
    /// Begins a survey of a volume of this length. Of one longer than 4 EiB only that many bytes are looked at.
    #[must_use]
    pub fn begin(logical_blocks: Blocks) -> Self {
        let logical_blocks = logical_blocks.min(BLOCKS_MAX);
        let mut survey = Self {
            queue: Queue::new(logical_blocks),
            regions: Vec::new(),
            records: 0,
            trees: Vec::new(),
            layout: Layout::new(logical_blocks),
        };
        survey.add_region(0..logical_blocks.bytes().0);
        survey
    }

    /// Returns the block to read next, or the layout. Asked again, it returns the same.
    pub fn step(&mut self) -> Step {
        if let Some(lbn) = self.queue.next() {
            return Step::Read(lbn);
        }
        if self.queue.is_cut_short() {
            self.layout.cut_short();
        }
        Step::Done(self.layout.clone())
    }

    /// Takes the block that [`Survey::step`] asked for. A block that nothing asked for is ignored.
    pub fn take(&mut self, block: &[u8; BLOCK_SIZE]) {
        self.take_any(Some(block));
    }

    /// Goes on without the block that [`Survey::step`] asked for, because it is unreadable.
    pub fn take_none(&mut self) {
        self.layout.cut_short();
        self.take_any(None);
    }

    /// Returns whether a block was read. If one of these is written while the survey runs, begin another: the layout may be a mixture.
    #[must_use]
    pub fn has_read(&self, lbn: Lbn) -> bool {
        self.queue.has_read(lbn)
    }

    fn take_any(&mut self, block: Option<&[u8; BLOCK_SIZE]>) {
        let Some((purpose, first, bytes)) = self.queue.take(block) else { return };
        match purpose {
            Purpose::Front { region } => {
                if region == 0 {
                    self.see_tables(&bytes);
                }
                self.see_front(region, &bytes);
            }
            Purpose::BtrfsSuperblock { region } => self.see_btrfs(region, &bytes),
            Purpose::BootRecord { extended, sector_bytes } => self.see_record(&extended, sector_bytes, first, &bytes),
            Purpose::GptTable { header } => self.see_gpt_table(&header, first, &bytes),
            Purpose::ExtDescriptors { region, superblock } => self.see_ext_descriptors(region, &superblock, &bytes),
            Purpose::XfsHeaders { region, superblock } => self.see_xfs_headers(region, &superblock, &bytes),
            Purpose::BtrfsNode { tree, pointer } => self.see_btrfs_node(tree, pointer, &bytes),
        }
    }

    /// Asks for a look. Where that is impossible, the layout is cut short.
    fn look(&mut self, range: Range<u64>, purpose: Purpose) -> bool {
        let is_possible = self.queue.push(range, purpose);
        if !is_possible {
            self.layout.cut_short();
        }
        is_possible
    }
}

#[cfg(test)]
mod tests;
