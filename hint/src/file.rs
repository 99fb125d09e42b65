//! An open file of the program, as far as a server needs to know it.

use crate::system::{self, Errno};
use crate::text::Text;
use std::ffi::c_int;

/// The longest path that is looked at, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// The number of the device that a file lies on, as stat(2) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

/// A regular file.
pub struct File {
    pub device: Device,
    pub inode: u64,
    path: Text<PATH_BYTES_MAX>,
}

impl File {
    /// Returns the regular file behind a descriptor; none where it is something else.
    ///
    /// # Errors
    /// Where the descriptor is not open.
    pub fn open_at(fd: c_int) -> Result<Option<Self>, Errno> {
        let status = system::status(fd)?;
        if status.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(None);
        }
        let device = Device { major: libc::major(status.st_dev), minor: libc::minor(status.st_dev) };
        Ok(Some(Self { device, inode: status.st_ino, path: path_of(fd) }))
    }

    #[cfg(test)]
    pub fn named(device: Device, inode: u64, path: &[u8]) -> Self {
        let mut text = Text::new();
        assert!(text.push(path));
        Self { device, inode, path: text }
    }

    /// The absolute path by which the program reaches it, or a part of what the kernel says of a file that has none. Empty where /proc is
    /// not mounted, or the path is too long.
    pub fn path(&self) -> &[u8] {
        self.path.bytes()
    }
}

fn path_of(fd: c_int) -> Text<PATH_BYTES_MAX> {
    let mut link = Text::<32>::new();
    let mut path = Text::new();
    let is_whole = link.push(b"/proc/self/fd/") && link.push_number(u64::try_from(fd).unwrap_or_default());
    let Some(link) = link.with_zero().filter(|_| is_whole) else { return path };
    path.fill(|buffer| system::link_target(link, buffer).unwrap_or_default());
    // A path that fills the buffer may have been shortened.
    if path.bytes().len() == PATH_BYTES_MAX { Text::new() } else { path }
}
