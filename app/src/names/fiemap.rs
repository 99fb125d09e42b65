//! The places of a file's content on its device, as the file system gives them to FIEMAP.

use crate::device::host_map;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Content of a file, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    pub file_offset: u64,
    /// On the device of the file system.
    pub place: Range<u64>,
}

/// Calls `see` with each extent of a file or directory.
///
/// # Errors
/// When it cannot be opened, or its file system has no such map.
pub fn extents(path: &Path, mut see: impl FnMut(&Extent)) -> io::Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let is_known = host_map::extents(&file, |extent| {
        if extent.has_place_of_its_own() {
            see(&Extent { file_offset: extent.logical, place: extent.place() });
        }
    })?;
    if is_known { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)) }
}
