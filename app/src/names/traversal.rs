//! The traversal of all names of one file system.

use std::fs::DirEntry;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The result of a traversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraversalResult {
    /// Everything was looked at.
    Whole,
    /// The visitor needed no more.
    Early,
    /// Something was not, and why.
    Partial(String),
}

/// Something with a name.
pub struct Visited<'a> {
    pub path: &'a Path,
    pub inode: u64,
    /// A regular file or a directory: those have blocks that a file system can name.
    pub has_blocks: bool,
}

/// Visits the files and directories below a folder, and the folder, but no other file system. The visitor returns whether to go on.
pub fn traverse(root: &Path, deadline: Instant, mut visit: impl FnMut(&Visited<'_>) -> bool) -> TraversalResult {
    let mut ended = TraversalResult::Whole;
    let device = match root.metadata() {
        Ok(meta) => {
            if !visit(&Visited { path: root, inode: meta.ino(), has_blocks: true }) {
                return TraversalResult::Early;
            }
            meta.dev()
        }
        Err(error) => return TraversalResult::Partial(unread(root, &error)),
    };
    let mut waiting = vec![root.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                ended = TraversalResult::Partial(unread(&folder, &error));
                continue;
            }
        };
        for entry in entries {
            if Instant::now() >= deadline {
                return TraversalResult::Partial("the time was over before all files were looked at".to_owned());
            }
            match entry.and_then(|entry| step(&entry, device, &mut waiting, &mut visit)) {
                Ok(true) => {}
                Ok(false) => return TraversalResult::Early,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => ended = TraversalResult::Partial(unread(&folder, &error)),
            }
        }
    }
    ended
}

fn unread(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read: {error}", path.display())
}

/// Visits one entry. Directories of the same file system are put on the list.
fn step(entry: &DirEntry, device: u64, waiting: &mut Vec<PathBuf>, visit: &mut impl FnMut(&Visited<'_>) -> bool) -> io::Result<bool> {
    let kind = entry.file_type()?;
    let path = entry.path();
    if kind.is_dir() {
        // What is mounted over a directory hides what is in it.
        if path.symlink_metadata()?.dev() != device {
            return Ok(true);
        }
        waiting.push(path.clone());
    }
    Ok(visit(&Visited { path: &path, inode: entry.ino(), has_blocks: kind.is_dir() || kind.is_file() }))
}
