//! A recording: the plain form in which a recorder writes a trace, as one file that only grows (docs/tracing.md has its bytes).
//!
//! 1. A file is a magic number and blocks (`trace/src/recording/block.rs`). A block is whole, with both its checksums, or it is none.
//! 2. Each block can be read without the others: names and differences begin anew in it
//!    (`trace/src/recording/fields.rs`).
//! 3. The first block has the facts about the trace, the last one is its end; between them are records and gaps.
//! 4. A file that ends within a block, or continues with zeros, was cut off: the blocks before are the trace. Anything else that is no
//!    block is damage, and only a lenient reader takes the blocks before it.
//! 5. Memory is bounded by [`WRITER_BYTES`] for writing and by a block for reading.

mod block;
mod fields;
mod file;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::Reader;
pub use write::{WRITER_BYTES, Writer};

use std::io;
use std::path::{Path, PathBuf};

/// The first bytes of every recording, with the version of its form.
pub const MAGIC: [u8; 16] = *b"onefold trace 1\n";

/// The reason why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a recording: {reason}", path.display())]
    NotARecording { path: PathBuf, reason: String },
    #[error("{} is damaged at byte {at}: {reason}", path.display())]
    Damaged { path: PathBuf, at: u64, reason: String },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
}

impl RecordingError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }
}
