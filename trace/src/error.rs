//! Errors of traces, in whatever form they are stored.

#[cfg(feature = "parquet")]
use crate::folder::FolderError;
use crate::recording::RecordingError;
use crate::text::ReadError;
use std::io;
use std::path::PathBuf;

/// The reason why a trace could not be read, written or converted.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(transparent)]
    Text(#[from] ReadError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} has no known form of a trace; name its form", path.display())]
    UnknownForm { path: PathBuf },
    #[error("{malformed} of {lines} lines of {} are malformed, and more than 1 % are refused", path.display())]
    Malformed { path: PathBuf, malformed: u64, lines: u64 },
    /// The form cannot represent the trace at all.
    #[error("{} cannot be written in that form: {reason}", path.display())]
    Unwritable { path: PathBuf, reason: String },
    /// The form cannot represent some records.
    #[error("{unfit} of {records} records cannot be written in that form; the first, number {number}: {reason}")]
    Unfit { unfit: u64, records: u64, number: u64, reason: String },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("no record of {} lies in that part", path.display())]
    NothingTaken { path: PathBuf },
    /// A synthetic trace does not have the properties that were asked for.
    #[error("the trace would not be what was asked for: {0}")]
    Shortfall(String),
    #[error("interrupted")]
    Interrupted,
}

impl TraceError {
    /// Wraps an I/O error with the path that it occurred on.
    pub fn io(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }
}
