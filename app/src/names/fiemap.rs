//! The places of a file's content on its device, as the file system gives them to FIEMAP.

use super::ioctl::{self, Buffer};
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
const HEAD_BYTES: usize = 32;
const EXTENT_BYTES: usize = 56;
const EXTENTS: u32 = 128;
const LAST: u32 = 1;
/// The content has no place yet, or shares a block with other things.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x200;

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
#[allow(unsafe_code)]
pub fn extents(path: &Path, mut see: impl FnMut(&Extent)) -> io::Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let mut from = 0;
    loop {
        let mut map = Buffer::of_bytes(HEAD_BYTES + EXTENTS as usize * EXTENT_BYTES);
        map.set_u64(0, from);
        map.set_u64(8, u64::MAX - from);
        map.set_u32(24, EXTENTS);
        // SAFETY: behind the head is room for the number of extents that it has.
        unsafe { ioctl::ask(&file, FS_IOC_FIEMAP, &mut map)? };
        let count = map.u32(20).min(EXTENTS) as usize;
        let mut is_last = count == 0;
        for at in (0..count).map(|number| HEAD_BYTES + number * EXTENT_BYTES) {
            let (file_offset, physical, bytes, flags) = (map.u64(at), map.u64(at + 8), map.u64(at + 16), map.u32(at + 40));
            is_last |= flags & LAST != 0 || bytes == 0;
            from = file_offset.saturating_add(bytes);
            if flags & NO_PLACE == 0 {
                see(&Extent { file_offset, place: physical..physical.saturating_add(bytes) });
            }
        }
        if is_last {
            return Ok(());
        }
    }
}
