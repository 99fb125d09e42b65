//! The paths of files, by their inodes.

#![allow(unsafe_code)] // open_by_handle_at

use super::device::Device;
use crate::hints::sight::disk_at;
use crate::names::mounts;
use onefold_observer::{Disk, File, Place, Source};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most files that are remembered.
const KNOWN_MAX: usize = 8192;
/// The time after which mounts are looked at again.
const AGAIN: Duration = Duration::from_secs(10);

/// A mounted file system. It is opened for each file that is looked for: whoever keeps it open keeps others from unmounting it.
struct Mounted {
    path: PathBuf,
    device: u64,
}

/// The files that are known, and the file systems in which others are looked for.
pub(super) struct Paths {
    disk: Disk,
    mounted: Vec<Mounted>,
    looked: Option<Instant>,
    known: HashMap<(u64, u32), Option<Arc<str>>>,
}

impl Paths {
    /// Returns those of the file systems on a device.
    pub fn new(device: &Device) -> Self {
        Self { disk: device.place.disk, mounted: Vec::new(), looked: None, known: HashMap::new() }
    }

    /// Returns the path of a file, or its name where the path is not known; none of what is no file.
    pub fn of(&mut self, file: &File) -> Option<Arc<str>> {
        if file.inode == 0 || matches!(file.source, Source::DiskCache | Source::Disk | Source::XfsBuffer) {
            return None;
        }
        let key = (file.inode, file.generation);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        if self.looked.is_none_or(|looked| looked.elapsed() >= AGAIN) {
            self.looked = Some(Instant::now());
            self.open_file_systems();
        }
        let name = file.name.as_ref();
        let path = self.mounted.iter().find_map(|mounted| path_in(&mounted.open()?, file).ok().flatten());
        let path = path.or_else(|| name.map(|name| String::from_utf8_lossy(name.as_bytes()).into()));
        self.known.insert(key, path.clone());
        path
    }

    fn open_file_systems(&mut self) {
        let mounts = mounts::read().unwrap_or_default();
        let is_of_disk = |number: Disk| Place::of(number).is_ok_and(|place| place.disk == self.disk);
        let is_here = |mount: &&mounts::Mount| {
            let number = Disk { major: rustix::fs::major(mount.device), minor: rustix::fs::minor(mount.device) };
            // That of Btrfs is no block device's.
            is_of_disk(number) || disk_at(&mount.source).is_some_and(is_of_disk)
        };
        let whole_first = |mount: &&mounts::Mount| !mount.is_whole();
        let mut here: Vec<&mounts::Mount> = mounts.iter().filter(is_here).collect();
        here.sort_by_key(whole_first);
        self.mounted = here.into_iter().filter_map(|mount| Mounted::at(mount.path.as_ref())).collect();
    }
}

impl Mounted {
    fn at(path: &Path) -> Option<Self> {
        let device = fs::metadata(path).ok()?.dev();
        Some(Self { path: path.to_owned(), device })
    }

    /// Opens it, unless it is not there any more: then another file system is at its place.
    fn open(&self) -> Option<fs::File> {
        let folder = fs::File::open(&self.path).ok()?;
        (folder.metadata().ok()?.dev() == self.device).then_some(folder)
    }
}

/// The kernel's `struct file_handle`, with room for the handles that are made here.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    words: [u32; 3],
}

/// A handle of an inode's number and generation of 32 bits each: ext4, XFS, F2FS and others take it.
const NUMBER_AND_GENERATION: i32 = 1;
/// XFS' handle of a number of 64 bits.
const LONG_NUMBER_AND_GENERATION: i32 = 0x81;

/// Returns the path of a file of a file system, which is opened by its number. None if it is another file.
fn path_in(folder: &fs::File, file: &File) -> io::Result<Option<Arc<str>>> {
    let [low, high] = [file.inode & 0xFFFF_FFFF, file.inode >> 32].map(|half| u32::try_from(half).unwrap_or(0));
    let handle = match high {
        0 => Handle { bytes: 8, kind: NUMBER_AND_GENERATION, words: [low, file.generation, 0] },
        _ => Handle { bytes: 12, kind: LONG_NUMBER_AND_GENERATION, words: [low, high, file.generation] },
    };
    // SAFETY: the structure is as long as it says, and the kernel only reads it.
    let opened =
        unsafe { libc::open_by_handle_at(folder.as_raw_fd(), (&raw const handle).cast_mut().cast(), libc::O_PATH | libc::O_CLOEXEC) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has made it, and nobody else has it.
    let opened = fs::File::from(unsafe { OwnedFd::from_raw_fd(opened) });
    let path = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
    let is_it = opened.metadata()?.ino() == file.inode;
    let is_named = file.name.as_ref().is_none_or(|name| path.file_name().is_some_and(|last| last.as_bytes() == name.as_bytes()));
    Ok((is_it && is_named && path.is_absolute()).then(|| path.to_string_lossy().into()))
}
