//! Scanning an image, a device or a tree of files for the number of times that each content occurs, as DEDISgen does for DEDISbench.
//!
//! 1. Blocks have 4 KiB; the last block of a file is filled up with zeros, as a file system stores it.
//! 2. Blocks of zeros are counted separately. Contents are distinguished by 64 bits of XXH3: among 100 million contents, two are mistaken
//!    for one with a probability of 0.03 %, and then one number of occurrences is wrong by one.
//! 3. Memory is bounded, whatever the size: contents that do not fit are sorted into files without a name, which are merged at the end.
//! 4. A scan does not write to what it scans.

mod count;
pub mod files;
mod search;
mod tally;

pub use count::{Counting, MEMORY_BYTES_MIN};
pub use files::FileCounts;
pub use tally::{ReportUnread, Scanned, scan};

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is neither a file, nor a directory, nor a block device", path.display())]
    NotScannable { path: PathBuf },
    #[error("interrupted")]
    Interrupted,
}

impl ScanError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }
}
