//! Finding the files and devices to scan.
//!
//! 1. A link that the user names is followed; a link inside a tree is not, so that nothing is counted twice. A file with several names is
//!    counted once.
//! 2. A scan does not enter other file systems that are mounted inside a tree: /proc has no content.
//! 3. What cannot be read inside a tree is reported and counted; what the user names has to be readable.

use super::ScanError;
use super::count::Counting;
use crate::synth::Distribution;
use onefold_engine::units::BLOCK_SIZE;
use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of blocks that are read at once.
const READ_BLOCKS: usize = 256;

/// The result of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    pub distribution: Distribution,
    /// The number of files and devices that were read.
    pub files: u64,
    /// The number of things inside trees that could not be read.
    pub unread: u64,
    /// The number of temporary files that counting needed.
    pub runs: usize,
}

/// A function that is called for each thing inside a tree that could not be read.
pub type ReportUnread<'a> = &'a mut dyn FnMut(&ScanError);

struct Scan<'a> {
    counting: Counting,
    temporary: &'a Path,
    stop: Option<&'a AtomicBool>,
    report: ReportUnread<'a>,
    files: u64,
    unread: u64,
    /// The files with several names that were read, by device and inode.
    seen: HashSet<(u64, u64)>,
    buffer: Vec<u8>,
}

/// Scans files, block devices and trees in at most `memory_bytes` of memory, and beyond that in files in the directory `temporary`.
///
/// # Errors
/// Fails if something that was named cannot be read, a temporary file cannot be written, or it was interrupted.
pub fn scan(
    paths: &[PathBuf],
    memory_bytes: u64,
    temporary: &Path,
    stop: Option<&AtomicBool>,
    report: ReportUnread,
) -> Result<Scanned, ScanError> {
    let counting = Counting::new(memory_bytes, temporary);
    let buffer = vec![0; READ_BLOCKS * BLOCK_SIZE];
    let mut scan = Scan { counting, temporary, stop, report, files: 0, unread: 0, seen: HashSet::new(), buffer };
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(ScanError::io(path))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            scan.tree(path, metadata.dev())?;
        } else if kind.is_file() || kind.is_block_device() {
            scan.file(path, &metadata)?;
        } else {
            return Err(ScanError::NotScannable { path: path.clone() });
        }
    }
    let Scan { counting, files, unread, .. } = scan;
    let runs = counting.runs();
    let distribution = counting.finish().map_err(ScanError::io(temporary))?;
    Ok(Scanned { distribution, files, unread, runs })
}

impl Scan<'_> {
    fn tree(&mut self, top: &Path, device: u64) -> Result<(), ScanError> {
        let mut directories = vec![top.to_path_buf()];
        while let Some(directory) = directories.pop() {
            let listed = std::fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut entries = match listed {
                Ok(entries) => entries,
                Err(error) if directory == top => return Err(ScanError::io(top)(error)),
                Err(error) => {
                    self.pass_over(ScanError::io(&directory)(error));
                    continue;
                }
            };
            entries.sort_by_key(std::fs::DirEntry::file_name);
            for entry in entries {
                let path = entry.path();
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        self.pass_over(ScanError::io(&path)(error));
                        continue;
                    }
                };
                if metadata.is_dir() && metadata.dev() == device {
                    directories.push(path);
                } else if metadata.is_file() {
                    match self.file(&path, &metadata) {
                        Err(error @ ScanError::Io { .. }) if !self.is_temporary(&error) => self.pass_over(error),
                        other => other?,
                    }
                }
            }
        }
        Ok(())
    }

    fn is_temporary(&self, error: &ScanError) -> bool {
        matches!(error, ScanError::Io { path, .. } if path == self.temporary)
    }

    fn pass_over(&mut self, error: ScanError) {
        self.unread += 1;
        (self.report)(&error);
    }

    fn file(&mut self, path: &Path, metadata: &Metadata) -> Result<(), ScanError> {
        if metadata.is_file() && metadata.nlink() > 1 && !self.seen.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        let mut file = File::open(path).map_err(ScanError::io(path))?;
        self.files += 1;
        loop {
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(ScanError::Interrupted);
            }
            let mut filled = 0;
            while filled < self.buffer.len() {
                match file.read(&mut self.buffer[filled..]) {
                    Ok(0) => break,
                    Ok(bytes) => filled += bytes,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(ScanError::io(path)(error)),
                }
            }
            let blocks = filled.div_ceil(BLOCK_SIZE);
            self.buffer[filled..blocks * BLOCK_SIZE].fill(0);
            for block in self.buffer[..blocks * BLOCK_SIZE].chunks_exact(BLOCK_SIZE) {
                self.counting.block(block.try_into().expect("a block")).map_err(ScanError::io(self.temporary))?;
            }
            if filled < self.buffer.len() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Occurring;
    use std::os::unix::fs::symlink;

    fn occurring(scanned: &Scanned) -> Vec<(u64, u64)> {
        scanned.distribution.occurring().iter().map(|Occurring { times, contents }| (*times, *contents)).collect()
    }

    #[test]
    fn a_tree_is_scanned_once() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).expect("it can be written");
        std::fs::create_dir(at("sub")).expect("it can be made");
        write("a", &[[1; 4096], [2; 4096], [0; 4096], [1; 4096]].concat());
        // The last block is filled up with zeros, and so is that of `sub/c`.
        write("b", &[[2; 4096].as_slice(), b"tail"].concat());
        write("sub/c", b"tail");
        write("sub/empty", b"");
        std::fs::hard_link(at("a"), at("sub/same")).expect("it can be linked");
        symlink(at("a"), at("sub/link")).expect("it can be linked");
        let mut report = |error: &ScanError| panic!("{error}");
        let scanned = scan(&[place.path().to_path_buf()], 0, place.path(), None, &mut report).expect("it can be scanned");
        assert_eq!((occurring(&scanned), scanned.distribution.zero_blocks), (vec![(2, 3)], 1));
        assert_eq!((scanned.files, scanned.unread), (4, 0));
        // A link that the user names is followed, and a file that is named twice counts twice.
        let scanned = scan(&[at("sub/link"), at("b"), at("b")], 0, place.path(), None, &mut report).expect("it can be scanned");
        assert_eq!((occurring(&scanned), scanned.files), (vec![(2, 2), (3, 1)], 3));
    }

    #[test]
    fn things_that_cannot_be_scanned_are_named() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let scan = |path: &str| scan(&[path.into()], 0, place.path(), None, &mut |error| panic!("{error}")).expect_err("no").to_string();
        assert!(scan("/nowhere/at/all").starts_with("/nowhere/at/all: "));
        assert!(scan("/dev/null").starts_with("/dev/null is neither"));
        let stop = AtomicBool::new(true);
        std::fs::write(place.path().join("a"), "a").expect("it can be written");
        let stopped = super::scan(&[place.path().join("a")], 0, place.path(), Some(&stop), &mut |error| panic!("{error}"));
        assert!(matches!(stopped, Err(ScanError::Interrupted)));
    }
}
