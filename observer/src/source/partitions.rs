//! The device numbers of a disk and of its partitions.

use crate::Disk;
use std::path::PathBuf;

/// The major number of partitions for which the disk's own one has no room.
const EXTENDED_MAJOR: u32 = 259;
/// The time that a list of partitions counts, in nanoseconds: another disk may get the number of a partition that is gone.
const LISTED_NS: u64 = 1_000_000_000;

/// The numbers under which the bios of one disk come.
pub(super) struct Partitions {
    folder: PathBuf,
    disk: u32,
    major: u32,
    listed: Vec<u32>,
    listed_at: u64,
}

impl Partitions {
    pub fn new(disk: Disk) -> Self {
        let folder = PathBuf::from(format!("/sys/dev/block/{disk}"));
        Self { folder, disk: disk.major << 20 | disk.minor, major: disk.major, listed: Vec::new(), listed_at: 0 }
    }

    /// Returns the filter by which the kernel leaves out most of the other disks.
    pub fn filter(&self) -> String {
        let range = |major: u32| format!("(dev >= {} && dev <= {})", major << 20, major << 20 | 0xF_FFFF);
        format!("{} || {}", range(self.major), range(EXTENDED_MAJOR))
    }

    /// Returns whether a bio of this device number, seen at `time`, is one of the disk.
    pub fn has(&mut self, device: u32, time: u64) -> bool {
        if device == self.disk {
            return true;
        }
        if device >> 20 != self.major && device >> 20 != EXTENDED_MAJOR {
            return false;
        }
        if time >= self.listed_at + LISTED_NS {
            self.list();
            self.listed_at = time;
        }
        self.listed.contains(&device)
    }

    fn list(&mut self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.join("partition").exists());
        let numbers = folders.filter_map(|path| {
            let text = std::fs::read_to_string(path.join("dev")).ok()?;
            let (major, minor) = text.trim().split_once(':')?;
            Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
        });
        self.listed = numbers.collect();
    }
}
