//! The block device that a user names, or the one below a folder.

use crate::exit::{Exit, Failed, Outcome};
use crate::files::of_io;
use crate::hints::sight::disk_at;
use crate::names::mounts;
use onefold_observer::Place;
use std::fs;
use std::path::{Path, PathBuf};

/// A block device, and the part of a disk that it is.
#[derive(Clone, Debug)]
pub struct Device {
    pub path: PathBuf,
    pub place: Place,
}

impl Device {
    /// Returns the device at a path.
    ///
    /// # Errors
    /// When there is nothing, or no block device.
    pub fn at(path: &Path) -> Outcome<Self> {
        let next = "`lsblk` shows the disks and their partitions.";
        let path = fs::canonicalize(path).map_err(|e| Failed::new(of_io(&e), format!("{}: {e}", path.display())).next(next))?;
        let number = disk_at(&path).ok_or_else(|| {
            let message = format!("{} is no block device", path.display());
            Failed::new(Exit::Usage, message).next(next)
        })?;
        let place = Place::of(number).map_err(|e| Failed::new(Exit::NotFound, e.to_string()).next(next))?;
        Ok(Self { path, place })
    }

    /// Returns the device that the file system of `/` is on.
    ///
    /// # Errors
    /// When it is on none, as in many containers.
    pub fn of_root() -> Outcome<Self> {
        let mounts = mounts::read().map_err(|e| Failed::system("/proc/self/mountinfo", e))?;
        let root = mounts.iter().rev().find(|mount| mount.path == Path::new("/"));
        // A root that the kernel mounted itself is from /dev/root, which is no file.
        let by_number = |device: u64| {
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            let about = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).ok()?;
            about.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| Path::new("/dev").join(name))
        };
        let path = root.and_then(|root| by_number(root.device).or_else(|| root.source.exists().then(|| root.source.clone())));
        match path.map(|path| Self::at(&path)) {
            Some(Ok(device)) => Ok(device),
            _ => Err(Failed::new(Exit::NotFound, "the file system of / is on no disk that is seen here")
                .next("Name a disk; `lsblk` shows them.")),
        }
    }
}
