//! Finding the files and devices to read.
//!
//! 1. A link that the user names is followed; a link inside a tree is not, so that nothing is read twice. A file with several names is
//!    read once.
//! 2. Nobody enters other file systems that are mounted inside a tree: /proc has no content.
//! 3. What cannot be read inside a tree is reported and counted; what the user names has to be readable.

use super::ScanError;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE};
use std::collections::HashSet;
use std::fs::{DirEntry, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of bytes that are read at once: the length of a buffer.
pub const READ_BYTES: usize = 256 * BLOCK_SIZE;

/// Takes what is read.
pub trait Visitor {
    /// Takes note of a file or device, whose blocks follow.
    fn begins(&mut self, path: &Path);

    /// Takes the next blocks of that file or device, the first `bytes` of the buffer. Returns a buffer for those that come after them,
    /// whatever is in it.
    ///
    /// # Errors
    /// When it cannot go on, which ends the reading.
    fn blocks(&mut self, buffer: Vec<u8>, bytes: usize) -> Result<Vec<u8>, ScanError>;

    /// Takes note of something inside a tree that could not be read.
    fn unread(&mut self, error: &ScanError);
}

/// The numbers of what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// The number of files and devices that were read.
    pub files: u64,
    /// The number of things inside trees that could not be read.
    pub unread: u64,
    /// The number of things inside trees, themselves included, and the blocks that their directories take.
    pub things: u64,
    pub directory_blocks: u64,
}

/// The reason why a file was not read to its end.
enum FileFailure {
    /// The file cannot be read.
    Unread(ScanError),
    /// The visitor cannot go on, or the user has ended it.
    Final(ScanError),
}

struct Reading<'a, V> {
    visitor: &'a mut V,
    stop: Option<&'a AtomicBool>,
    counts: FileCounts,
    /// The files with several names that were read, by device and inode.
    seen: HashSet<(u64, u64)>,
    buffer: Vec<u8>,
}

/// Reads files, block devices and trees, in the order of their names. The last block of a file is filled up with zeros, as a file system
/// stores it. `stop`, which another thread sets, ends it early.
///
/// # Errors
/// Fails if something that was named cannot be read, the visitor cannot go on, or it was interrupted.
pub fn read_files<V: Visitor>(paths: &[PathBuf], stop: Option<&AtomicBool>, visitor: &mut V) -> Result<FileCounts, ScanError> {
    let mut reading = Reading { visitor, stop, counts: FileCounts::default(), seen: HashSet::new(), buffer: Vec::new() };
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(ScanError::io(path))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            reading.tree(path, metadata.dev())?;
        } else if kind.is_file() || kind.is_block_device() {
            reading.file(path, &metadata).map_err(|(FileFailure::Unread(error) | FileFailure::Final(error))| error)?;
        } else {
            return Err(ScanError::NotScannable { path: path.clone() });
        }
    }
    Ok(reading.counts)
}

impl<V: Visitor> Reading<'_, V> {
    fn tree(&mut self, top: &Path, device: u64) -> Result<(), ScanError> {
        let mut directories = vec![top.to_path_buf()];
        while let Some(directory) = directories.pop() {
            let listed = std::fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut entries = match listed {
                Ok(entries) => entries,
                Err(error) if directory == top => return Err(ScanError::io(top)(error)),
                Err(error) => {
                    self.pass_over(&ScanError::io(&directory)(error));
                    continue;
                }
            };
            entries.sort_by_key(DirEntry::file_name);
            let bytes = std::fs::metadata(&directory).map_or(0, |metadata| metadata.len());
            self.counts.directory_blocks += bytes.div_ceil(BLOCK_BYTES).max(1);
            self.counts.things += 1;
            for entry in entries {
                let path = entry.path();
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() && metadata.dev() == device => directories.push(path),
                    Ok(metadata) if metadata.is_file() => match self.file(&path, &metadata) {
                        Ok(()) => self.counts.things += 1,
                        Err(FileFailure::Unread(error)) => self.pass_over(&error),
                        Err(FileFailure::Final(error)) => return Err(error),
                    },
                    Ok(_) => self.counts.things += 1,
                    Err(error) => self.pass_over(&ScanError::io(&path)(error)),
                }
            }
        }
        Ok(())
    }

    fn pass_over(&mut self, error: &ScanError) {
        self.counts.unread += 1;
        self.visitor.unread(error);
    }

    fn file(&mut self, path: &Path, metadata: &Metadata) -> Result<(), FileFailure> {
        if metadata.is_file() && metadata.nlink() > 1 && !self.seen.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        let mut file = File::open(path).map_err(|error| FileFailure::Unread(ScanError::io(path)(error)))?;
        self.counts.files += 1;
        self.visitor.begins(path);
        loop {
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(FileFailure::Final(ScanError::Interrupted));
            }
            self.buffer.resize(READ_BYTES, 0);
            let mut filled = 0;
            while filled < self.buffer.len() {
                match file.read(&mut self.buffer[filled..]) {
                    Ok(0) => break,
                    Ok(bytes) => filled += bytes,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(FileFailure::Unread(ScanError::io(path)(error))),
                }
            }
            let is_last = filled < self.buffer.len();
            if filled > 0 {
                let end = filled.next_multiple_of(BLOCK_SIZE);
                self.buffer[filled..end].fill(0);
                self.buffer = self.visitor.blocks(std::mem::take(&mut self.buffer), end).map_err(FileFailure::Final)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}
