//! How often each content occurs in an image, a device or a tree of files, as DEDISgen finds it for DEDISbench.
//!
//! 1. Blocks of 4 KiB; the last one of a file is filled up with zeros, as a file system stores it.
//! 2. Blocks of zeros are counted apart. Contents are told apart by 64 bits of XXH3: of 100 million contents two are taken for one with a chance of
//!    0.03 %, and then one number of times is wrong by one.
//! 3. Memory is bounded, whatever the size: what does not fit is sorted into files without a name, and merged in the end.
//! 4. Nothing is written to what is scanned.

mod count;
mod walk;

pub use count::{Counting, MEMORY_BYTES_MIN};
pub use walk::{Scanned, Told, scan};

use std::io;
use std::path::{Path, PathBuf};

/// Why a scan ended.
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
