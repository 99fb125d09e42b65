//! What can go wrong with a trace, whatever it is stored as.

use crate::folder::FolderError;
use crate::text::ReadError;
use std::io;
use std::path::PathBuf;

/// Why a trace could not be read, written or taken over.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Text(#[from] ReadError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} has no form of a trace that is known", path.display())]
    UnknownForm { path: PathBuf },
    #[error("{malformed} of {lines} lines of {} are malformed, and more than 1 % are refused", path.display())]
    Malformed { path: PathBuf, malformed: u64, lines: u64 },
    /// The whole trace does not fit.
    #[error("{} cannot be written like that: {reason}", path.display())]
    Unwritable { path: PathBuf, reason: String },
    /// Some records do not fit.
    #[error("{unfit} of {records} records cannot be written like that; the first, number {number}: {reason}")]
    Unfit { unfit: u64, records: u64, number: u64, reason: String },
    #[error("{} is there already", path.display())]
    Exists { path: PathBuf },
    #[error("nothing of {} lies in that part", path.display())]
    NothingTaken { path: PathBuf },
    /// What was asked of a synthetic trace did not come out.
    #[error("the trace would not be what was asked for: {0}")]
    Shortfall(String),
    #[error("interrupted")]
    Interrupted,
}

impl TraceError {
    /// What befell a path.
    pub fn io(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }
}
