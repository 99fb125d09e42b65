//! The result of a survey.

use super::ranges::{Candidates, Importance, Protected};
use super::watch::Watch;
use super::watched::{Structure, Watched};
use crate::format::ProtectedRange;
use crate::units::{BLOCK_BYTES, Blocks, Bytes, Lbn};
use std::fmt;
use std::ops::Range;

/// The kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// ext2, ext3 or ext4.
    Ext,
    F2fs,
    Xfs,
    Btrfs,
}

/// A file system of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its kind.
    pub kind: Kind,
    /// Its first byte.
    pub first: Bytes,
    /// The length of its blocks.
    pub block: Bytes,
}

/// The file systems of a volume, and what of them should be protected and watched.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    volume: Blocks,
    file_systems: Vec<FileSystem>,
    candidates: Candidates,
    watched: Vec<Watched>,
    is_cut_short: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext => "ext2/3/4",
            Self::F2fs => "F2FS",
            Self::Xfs => "XFS",
            Self::Btrfs => "Btrfs",
        })
    }
}

impl Layout {
    pub(super) fn new(volume: Blocks) -> Self {
        Self { volume, ..Self::default() }
    }

    /// Returns the file systems, in the order in which they were found.
    #[must_use]
    pub fn file_systems(&self) -> &[FileSystem] {
        &self.file_systems
    }

    /// Returns the ranges to protect beside those that the user chose, as many as a superblock has room for.
    #[must_use]
    pub fn protected(&self, user: &[ProtectedRange]) -> Protected {
        self.candidates.choose(user)
    }

    /// Adds blocks that are to be protected whatever lies there, as far as the volume has them.
    pub fn ask_for(&mut self, blocks: Range<Lbn>) {
        let (first, end) = (blocks.start.0, blocks.end.0.min(self.volume.0));
        if first < end {
            self.candidates.add(Importance::Asked, &(first * BLOCK_BYTES..end * BLOCK_BYTES));
        }
    }

    /// Returns a watch over the blocks that decide about this layout, with their content as the survey read it.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(self.watched.clone())
    }

    /// Returns the blocks that decide about this layout, in order.
    #[must_use]
    pub fn watched(&self) -> Vec<Lbn> {
        let mut watched: Vec<Lbn> = self.watched.iter().map(Watched::lbn).collect();
        watched.sort_unstable();
        watched.dedup();
        watched
    }

    /// Returns whether nothing was left unread: no block was unreadable, no tree damaged, and no limit reached.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.is_cut_short
    }

    pub(super) fn cut_short(&mut self) {
        self.is_cut_short = true;
    }

    pub(super) fn add(&mut self, file_system: FileSystem) {
        self.file_systems.push(file_system);
    }

    /// Adds a range of bytes of `region`, itself one of the volume, if it lies in the region.
    pub(super) fn protect(&mut self, importance: Importance, region: &Range<u64>, range: &Range<u64>) {
        let within = |at: u64| region.start.checked_add(at).filter(|at| *at <= region.end);
        if let (Some(start), Some(end)) = (within(range.start), within(range.end)) {
            if start < end {
                self.candidates.add(importance, &(start..end));
            }
        }
    }

    /// Counts bytes that should be protected and will not be.
    pub(super) fn leave_out(&mut self, bytes: u64) {
        self.candidates.leave_out(bytes);
    }

    /// Watches a structure that begins at byte `first` of the volume.
    pub(super) fn watch_over(&mut self, structure: Structure, first: u64, content: &[u8]) {
        let volume_bytes = self.volume.bytes().0;
        if first < volume_bytes && !self.watched.iter().any(|watched| watched.is_of(structure, first)) {
            let volume = self.volume;
            self.watched.extend(Watched::parts(structure, first, content).filter(|part| part.lbn().0 < volume.0));
        }
    }

    /// Drops what is known of a structure that could not be confirmed, so that it is looked at again when it is written again.
    pub(super) fn forget(&mut self, structure: Structure, first: u64) {
        self.watched.iter_mut().filter(|watched| watched.is_of(structure, first)).for_each(Watched::forget);
    }
}
