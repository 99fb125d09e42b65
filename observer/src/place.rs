//! The part of a disk that a block device is.

use crate::{Disk, Refused};
use std::fs;
use std::path::{Path, PathBuf};

/// A range of sectors of a whole disk: all of it, or a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub disk: Disk,
    /// In sectors of 512 bytes, as `end` is; the first one behind the range, as far as it is now.
    pub start: u64,
    pub end: u64,
    /// It is all of the disk, which may grow.
    pub is_whole: bool,
}

impl Place {
    /// Returns the place of a block device of this number.
    ///
    /// # Errors
    /// Fails if there is no such device.
    pub fn of(device: Disk) -> Result<Self, Refused> {
        let folder = PathBuf::from(format!("/sys/dev/block/{device}"));
        let place = fs::canonicalize(&folder).and_then(|folder| {
            let is_partition = folder.join("partition").exists();
            let (disk, start) = if is_partition { (folder.join(".."), number(&folder.join("start"))?) } else { (folder.clone(), 0) };
            let text = fs::read_to_string(disk.join("dev"))?;
            let (major, minor) = text.trim().split_once(':').ok_or(std::io::ErrorKind::InvalidData)?;
            let numbers = [major, minor].map(|number| number.parse().map_err(std::io::Error::other));
            let [major, minor] = numbers;
            let (disk, end) = (Disk { major: major?, minor: minor? }, start + number(&folder.join("size"))?);
            Ok(Self { disk, start, end, is_whole: !is_partition })
        });
        place.map_err(|source| Refused::NoDisk { disk: device, source })
    }

    /// Returns the bytes of the range.
    pub const fn bytes(&self) -> u64 {
        (self.end - self.start) * 512
    }

    /// Returns the first sector that will never belong to it.
    pub(crate) const fn limit(&self) -> u64 {
        if self.is_whole { u64::MAX } else { self.end }
    }

    /// Returns whether the disk has a write cache, which the kernel flushes. For one without, it drops flushes.
    pub fn has_write_cache(&self) -> bool {
        fs::read_to_string(format!("/sys/dev/block/{}/queue/write_cache", self.disk)).is_ok_and(|cache| cache.trim() == "write back")
    }
}

fn number(file: &Path) -> std::io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(std::io::Error::other)
}
