//! The place of a file on a volume: the file system that has it, its inode, and its logical blocks.

use super::rule::{Marked, Range};
use crate::device::host_map::places;
use crate::exit::{Exit, Failed, Outcome};
use crate::names::mounts::{self, Mount};
use onefold_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use onefold_observer::Disk;
use rustix::fs::{AtFlags, StatxFlags, major, minor, statx};
use rustix::ioctl;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Btrfs' extents have addresses of its own, which are no places on a disk.
const BTRFS: &str = "btrfs";

/// A part of a disk that a file system has: all of it, or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub disk: Disk,
    /// Its first byte on the disk, and the one behind its last.
    pub first: u64,
    pub end: u64,
}

/// Finds a file for a rule of the volume that clients use as `disk`.
///
/// # Errors
/// When there is no such file, or it lies elsewhere.
pub fn locate(path: &Path, disk: Disk) -> Outcome<Marked> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let shown = absolute.display();
    let cannot = |error: std::io::Error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::System };
        Failed::new(exit, format!("--path {shown}: {error}"))
    };
    let file = File::open(&absolute).map_err(cannot)?;
    let meta = file.metadata().map_err(cannot)?;
    if !meta.is_file() {
        return Err(Failed::new(Exit::Usage, format!("--path {shown} is no regular file"))
            .next("Name files; --file takes a pattern of names, for files that come later, too."));
    }
    let elsewhere = || {
        Failed::new(Exit::State, format!("--path {shown} does not lie on the volume, which is disk {disk}"))
            .next("Name a file of a file system that is mounted from the volume.")
    };
    let mount = mount_of(&file).ok_or_else(elsewhere)?;
    let part = part_at(&mount.source).filter(|part| part.disk == disk).ok_or_else(elsewhere)?;
    let within = part.blocks();
    let extents = if mount.kind == BTRFS { None } else { places(&file).map_err(|errno| cannot(errno.into()))? };
    let blocks = |extent: std::ops::Range<u64>| {
        let [first, end] = [extent.start, extent.end].map(|at| part.first.saturating_add(at));
        Range { first: first / BLOCK_BYTES, end: end.div_ceil(BLOCK_BYTES) }
    };
    let ranges = extents.into_iter().flatten().map(blocks).collect();
    Ok(Marked { path: absolute, inode: meta.ino(), generation: generation_of(&file), within, ranges })
}

/// Returns the place of the file system that has a file, if it lies on this disk. `device` is the file's device number, which under Btrfs
/// is that of no block device; then the path of the file shows where it is mounted from.
#[must_use]
pub fn within(device: Disk, path: Option<&Path>, disk: Disk) -> Option<Range> {
    let by_path = || {
        let holds = |mount: &Mount| path.is_some_and(|path| path.starts_with(&mount.path));
        let mount = mounts::read().ok()?.into_iter().filter(holds).max_by_key(|mount| mount.path.as_os_str().len())?;
        part_at(&mount.source)
    };
    let part = part_of(device).or_else(by_path).filter(|part| part.disk == disk)?;
    Some(part.blocks())
}

impl Part {
    /// Its logical blocks.
    fn blocks(&self) -> Range {
        Range { first: self.first / BLOCK_BYTES, end: self.end.div_ceil(BLOCK_BYTES) }
    }
}

/// Returns the part of a disk that a block device is.
#[must_use]
pub fn part_at(device: &Path) -> Option<Part> {
    let found = rustix::fs::stat(device).ok()?;
    let is_block = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::BlockDevice;
    part_of(Disk { major: major(found.st_rdev), minor: minor(found.st_rdev) }).filter(|_| is_block)
}

/// Returns the part of a disk that has this number.
#[must_use]
pub fn part_of(number: Disk) -> Option<Part> {
    let folder = PathBuf::from(format!("/sys/dev/block/{number}"));
    let sectors = |name: &str| read_number(&folder.join(name));
    let (first, length) = (if folder.join("partition").exists() { sectors("start")? } else { 0 }, sectors("size")?);
    let disk = if folder.join("partition").exists() { parent_of(&folder)? } else { number };
    Some(Part { disk, first: first.checked_mul(SECTOR_BYTES)?, end: first.checked_add(length)?.checked_mul(SECTOR_BYTES)? })
}

fn read_number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The disk of a partition, whose folder in /sys this is.
fn parent_of(partition: &Path) -> Option<Disk> {
    let text = std::fs::read_to_string(partition.canonicalize().ok()?.parent()?.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(Disk { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The generation of a file's inode; 0 where its file system has none.
fn generation_of(file: &File) -> u32 {
    /// `FS_IOC_GETVERSION` of linux/fs.h, whose answer is an int.
    const GET_VERSION: ioctl::Opcode = ioctl::opcode::read::<libc::c_long>(b'v', 1);
    let mut generation: u64 = 0;
    // SAFETY: the kernel writes an int to memory that has room for it.
    let asked = unsafe { ioctl::ioctl(file, ioctl::Updater::<GET_VERSION, u64>::new(&mut generation)) };
    let [a, b, c, d, ..] = generation.to_ne_bytes();
    asked.map_or(0, |()| u32::from_ne_bytes([a, b, c, d]))
}

/// The file system that has an open file. A file's own device number is none of a disk under Btrfs.
fn mount_of(file: &File) -> Option<Mount> {
    /// `STATX_MNT_ID` of linux/stat.h.
    const MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x1000);
    let found = statx(file, "", AtFlags::EMPTY_PATH, MOUNT).ok()?;
    mounts::read().ok()?.into_iter().find(|mount| mount.number == found.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_elsewhere_is_named() {
        let build = std::env::current_exe().expect("a program");
        let nowhere = Disk { major: 4095, minor: 7 };
        let failed = locate(&build, nowhere).expect_err("there is no such disk");
        assert!(failed.message.contains("does not lie on the volume"), "{failed}");
        let failed = locate(Path::new("/no/such/file"), nowhere).expect_err("no file");
        assert_eq!(failed.exit, Exit::NotFound);
        assert_eq!(locate(Path::new("/"), nowhere).expect_err("a folder").exit, Exit::Usage);
    }
}
