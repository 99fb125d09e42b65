//! The kernel's data about a backing store, and its calls besides reads and writes.

use super::facts::{Facts, Kind};
use super::sysfs::DeviceNumber;
use onefold_engine::buffer::Frame;
use onefold_engine::units::BLOCK_BYTES;
use rustix::fs::{Advice, AtFlags, FileType, OFlags, Stat, StatVfs, StatxFlags, statx};
use rustix::io::Errno;
use rustix::ioctl;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

pub(super) fn measure(path: &Path, file: &File, stat: &Stat) -> Result<Facts, Errno> {
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let (mut memory_align, mut offset_align) = direct_alignment(file, is_block)?;
    let mut is_direct = offset_align != 0 && offset_align <= BLOCK_BYTES && memory_align <= align_of::<Frame>() as u64;
    if is_direct {
        let flags = rustix::fs::fcntl_getfl(file)?;
        match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
            Err(Errno::INVAL) => is_direct = false,
            other => other?,
        }
    }
    if !is_direct {
        (memory_align, offset_align) = (1, 1);
    }
    let number = DeviceNumber::of(stat.st_rdev);
    let is_write_through = is_block && is_direct && number.is_write_through();
    Ok(Facts {
        path: path.to_owned(),
        kind: if is_block { Kind::Block } else { Kind::File },
        length: if is_block { block_length(file.as_fd())? } else { stat.st_size.unsigned_abs() },
        is_direct,
        offset_align,
        memory_align,
        is_write_through,
        takes_fua: is_block && is_direct && !is_write_through && number.takes_fua(),
        is_read_only: false,
        identity: identity(is_block, (stat.st_dev, stat.st_ino), stat.st_rdev),
    })
}

const fn identity(is_block: bool, file: (u64, u64), device: u64) -> (u64, u64) {
    if is_block { (device, 0) } else { file }
}

/// Returns the identity of a store, whatever its name: see [`Facts::identity`].
#[must_use]
pub fn identity_of(store: &Metadata) -> (u64, u64) {
    identity(store.file_type().is_block_device(), (store.dev(), store.ino()), store.rdev())
}

/// Returns the alignment of memory and of offsets that direct I/O needs; (_, 0) where there is none.
fn direct_alignment(file: &File, is_block: bool) -> Result<(u64, u64), Errno> {
    if is_block {
        let sector = u64::from(rustix::fs::ioctl_blksszget(file)?);
        return Ok((sector, sector));
    }
    let answer = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match answer {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            Ok((u64::from(stat.stx_dio_mem_align), u64::from(stat.stx_dio_offset_align)))
        }
        // An older kernel, or a file system that does not report it: a block is right on nearly all, and setting O_DIRECT shows the rest.
        _ => Ok((BLOCK_BYTES, BLOCK_BYTES)),
    }
}

/// Writes the cached pages of a store that are newer, and drops all of them: pages that a failed write has left are marked as written, and
/// a read would believe them. They are dropped even where the writing fails.
pub(super) fn drop_cached(file: &File, kind: Kind) -> Result<(), Errno> {
    let written = rustix::fs::fdatasync(file);
    let dropped = match kind {
        Kind::File => rustix::fs::fadvise(file, 0, None, Advice::DontNeed),
        Kind::Block => block_drop_cached(file.as_fd()),
    };
    written.and(dropped)
}

fn block_drop_cached(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // BLKFLSBUF, linux/fs.h: takes nothing.
    const BLKFLSBUF: ioctl::Opcode = ioctl::opcode::none(0x12, 97);
    // SAFETY: the kernel neither reads nor writes memory of ours.
    match unsafe { ioctl::ioctl(fd, ioctl::NoArg::<BLKFLSBUF>::new()) } {
        // It is for root only; the advice does as much for clean pages.
        Err(Errno::ACCESS | Errno::PERM) => rustix::fs::fadvise(fd, 0, None, Advice::DontNeed),
        other => other,
    }
}

fn block_length(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // BLKGETSIZE64, linux/fs.h: its number is made with size_t, its answer has 64 bits.
    const BLKGETSIZE64: ioctl::Opcode = ioctl::opcode::read::<usize>(0x12, 114);
    // SAFETY: the kernel writes one u64.
    unsafe { ioctl::ioctl(fd, ioctl::Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Whether the kernel refuses writes to a block device. It may be opened for writing all the same.
pub(super) fn is_block_read_only(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    // BLKROGET, linux/fs.h: its answer is an int.
    const BLKROGET: ioctl::Opcode = ioctl::opcode::none(0x12, 94);
    // SAFETY: the kernel writes one int.
    unsafe { ioctl::ioctl(fd, ioctl::Getter::<BLKROGET, std::ffi::c_int>::new()) }.map(|answer| answer != 0)
}

pub(super) fn block_discard(fd: BorrowedFd<'_>, at: u64, length: u64) -> Result<(), Errno> {
    // BLKDISCARD, linux/fs.h: takes a pointer to two u64, start and length. (PUNCH_HOLE on a block device would ask it to write zeros.)
    const BLKDISCARD: ioctl::Opcode = ioctl::opcode::none(0x12, 119);
    let mut range = [at, length];
    // SAFETY: the kernel reads two u64 there.
    unsafe { ioctl::ioctl(fd, ioctl::Updater::<BLKDISCARD, [u64; 2]>::new(&mut range)) }
}

/// Returns the bytes that are free on the file system of a file, and its size; none of a block device, and where that is not known.
#[must_use]
pub fn room_below(store: &Path) -> Option<(u64, u64)> {
    store.metadata().ok().filter(Metadata::is_file)?;
    let below = rustix::fs::statvfs(store).ok()?;
    room_of(&below).map(|available| (available, below.f_blocks * below.f_frsize))
}

/// Returns the bytes that are free on a file system; none if it, such as ramfs, does not report its size.
#[must_use]
pub fn room_of(below: &StatVfs) -> Option<u64> {
    (below.f_blocks > 0).then(|| below.f_bavail * below.f_frsize)
}
