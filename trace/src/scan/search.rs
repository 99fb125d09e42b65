//! Finding the files and devices to read.
//!
//! 1. A link that the user names is followed; a link inside a tree is not, so that nothing is read twice. A file with several names is
//!    found once.
//! 2. Nobody enters other file systems that are mounted inside a tree: /proc has no content.
//! 3. Within a directory, files come in the order of their names.

use super::ScanError;
use super::files::FileCounts;
use onefold_engine::units::BLOCK_BYTES;
use std::collections::HashSet;
use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// The next thing that a search comes to.
pub(super) enum Found {
    /// A file, or a device that was named.
    File { path: PathBuf, is_named: bool },
    /// Something inside a tree that could not be looked at.
    Unread(ScanError),
}

/// A search through everything that the user named.
pub(super) struct Search {
    /// The last one is the next.
    named: Vec<(PathBuf, Metadata)>,
    /// The device of the tree under way, and its directories that were not listed yet.
    device: u64,
    directories: Vec<PathBuf>,
    /// The entries that are left of the directory under way.
    entries: std::vec::IntoIter<DirEntry>,
    /// The files with several names that were found, by device and inode.
    seen: HashSet<(u64, u64)>,
    /// The things that were found, without files.
    counts: FileCounts,
}

impl Search {
    /// # Errors
    /// Fails if something that was named is not there, or is nothing to read.
    pub fn new(paths: &[PathBuf]) -> Result<Self, ScanError> {
        let look_at = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).map_err(ScanError::io(path))?;
            let kind = metadata.file_type();
            if kind.is_dir() || kind.is_file() || kind.is_block_device() {
                Ok((path.clone(), metadata))
            } else {
                Err(ScanError::NotScannable { path: path.clone() })
            }
        };
        let named = paths.iter().rev().map(look_at).collect::<Result<_, _>>()?;
        let entries = Vec::new().into_iter();
        Ok(Self { named, device: 0, directories: Vec::new(), entries, seen: HashSet::new(), counts: FileCounts::default() })
    }

    /// The next file or device; none at the end.
    ///
    /// # Errors
    /// Fails if a directory that was named cannot be listed.
    pub fn next(&mut self) -> Result<Option<Found>, ScanError> {
        loop {
            if let Some(entry) = self.entries.next() {
                if let Some(found) = self.entry(&entry) {
                    return Ok(Some(found));
                }
            } else if let Some(directory) = self.directories.pop() {
                if let Err(error) = self.list(&directory) {
                    return Ok(Some(Found::Unread(error)));
                }
            } else if let Some((path, metadata)) = self.named.pop() {
                if metadata.is_dir() {
                    self.device = metadata.dev();
                    self.list(&path)?;
                } else if self.is_new(&metadata) {
                    return Ok(Some(Found::File { path, is_named: true }));
                }
            } else {
                return Ok(None);
            }
        }
    }

    /// The things that were found so far; files are counted by whoever reads them.
    pub fn counts(&self) -> FileCounts {
        self.counts
    }

    fn list(&mut self, directory: &PathBuf) -> Result<(), ScanError> {
        let listed = std::fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = listed.map_err(ScanError::io(directory))?;
        entries.sort_by_key(DirEntry::file_name);
        self.entries = entries.into_iter();
        let bytes = std::fs::metadata(directory).map_or(0, |metadata| metadata.len());
        self.counts.directory_blocks += bytes.div_ceil(BLOCK_BYTES).max(1);
        self.counts.things += 1;
        Ok(())
    }

    fn entry(&mut self, entry: &DirEntry) -> Option<Found> {
        let path = entry.path();
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() && metadata.dev() == self.device => self.directories.push(path),
            Ok(metadata) => {
                self.counts.things += 1;
                if metadata.is_file() && self.is_new(&metadata) {
                    return Some(Found::File { path, is_named: false });
                }
            }
            Err(error) => return Some(Found::Unread(ScanError::io(&path)(error))),
        }
        None
    }

    fn is_new(&mut self, metadata: &Metadata) -> bool {
        !metadata.is_file() || metadata.nlink() <= 1 || self.seen.insert((metadata.dev(), metadata.ino()))
    }
}
