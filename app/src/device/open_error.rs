//! The reasons why a backing store cannot be opened.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why it cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} does not exist")]
    Missing { path: PathBuf },
    #[error("no permission to {what} {path}")]
    Permission { path: PathBuf, what: &'static str },
    #[error("{path} is in use{}", .holder.as_ref().map(|h| format!(": {h}")).unwrap_or_default())]
    InUse {
        path: PathBuf,
        holder: Option<String>,
        /// The holder has ended while its last requests are still under way; or this process cannot know that.
        may_be_dead: bool,
    },
    #[error("{path} is neither a file nor a block device")]
    NotAStore { path: PathBuf },
    #[error("{path} is read-only")]
    ReadOnly { path: PathBuf },
    /// After a failed flush the page cache may show data that never reached the device.
    #[error("{path} has no direct I/O (O_DIRECT): after a failed flush the page cache could show what never reached the device")]
    NotDirect { path: PathBuf },
    #[error("cannot {what} {path}")]
    System { path: PathBuf, what: &'static str, source: io::Error },
}

impl OpenError {
    pub(super) fn of_errno(path: &Path, what: &'static str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Missing { path },
            Errno::ROFS => Self::ReadOnly { path },
            Errno::ACCESS | Errno::PERM => Self::Permission { path, what },
            other => Self::System { path, what, source: other.into() },
        }
    }
}
