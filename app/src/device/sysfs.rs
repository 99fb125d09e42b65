//! The kernel's data about block devices in /sys and /proc.

use super::span::Span;
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    /// Converts `st_dev` or `st_rdev`.
    #[must_use]
    pub fn of(dev: u64) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }

    fn directory(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor))
    }

    /// Whether the device's queue reports no volatile cache. An unreadable queue counts as one with a cache.
    #[must_use]
    pub fn is_write_through(self) -> bool {
        queue_says(&self.directory(), "write_cache").is_some_and(|text| text == "write through")
    }

    /// Whether the device's queue reports that it takes writes with FUA.
    #[must_use]
    pub fn takes_fua(self) -> bool {
        queue_says(&self.directory(), "fua").is_some_and(|text| text == "1")
    }

    /// Returns the number in the form of `st_rdev`.
    #[must_use]
    pub fn raw(self) -> u64 {
        rustix::fs::makedev(self.major, self.minor)
    }

    /// Returns the node that udev, or the kernel's own /dev, has for it.
    #[must_use]
    pub fn node(self) -> PathBuf {
        let event = fs::read_to_string(self.directory().join("uevent")).unwrap_or_default();
        let name = event.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        name.map_or_else(|| format!("/dev/block/{}:{}", self.major, self.minor).into(), |name| Path::new("/dev").join(name))
    }

    /// Returns the name that the kernel has for it, such as `sda1`.
    #[must_use]
    pub fn name(self) -> String {
        let directory = fs::canonicalize(self.directory()).unwrap_or_else(|_| self.directory());
        directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Whether the kernel has a block device with this number. Numbers with major 0 are of file systems.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.directory().exists()
    }

    /// Returns the disk that this partition lies on; itself where it is none.
    #[must_use]
    pub fn disk(self) -> Self {
        self.partition().and_then(|_| Self::in_directory(&self.directory().join(".."))).unwrap_or(self)
    }

    /// Returns the device's counts since the machine has known it.
    #[must_use]
    pub fn counts(self) -> Option<DiskCounts> {
        DiskCounts::parse(&fs::read_to_string(self.directory().join("stat")).ok()?)
    }

    /// Returns a partition's first byte on the disk, and its size.
    #[must_use]
    pub fn partition(self) -> Option<(u64, u64)> {
        let number = |what: &str| fs::read_to_string(self.directory().join(what)).ok()?.trim().parse::<u64>().ok();
        number("partition")?;
        // The values are in sectors of 512 bytes, whatever the disk's are.
        Some((number("start")?.saturating_mul(512), number("size")?.saturating_mul(512)))
    }

    /// Returns, for a loop device or a partition of one, the path of the file behind it, as its maker saw it.
    #[must_use]
    pub fn loop_file(self) -> Option<PathBuf> {
        let disk = if self.partition().is_some() { self.directory().join("..") } else { self.directory() };
        let path = fs::read(disk.join("loop/backing_file")).ok()?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(path.strip_suffix(b"\n").unwrap_or(&path).to_vec())))
    }

    /// Returns the devices of which a device-mapper or md device, or the disk of this partition, is made.
    #[must_use]
    pub fn slaves(self) -> Vec<Self> {
        let disk = if self.partition().is_some() { self.directory().join("..") } else { self.directory() };
        let entries = fs::read_dir(disk.join("slaves")).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::in_directory(&entry.path())).collect()
    }

    /// Returns the number of the device that has this directory in /sys.
    pub(super) fn in_directory(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path.join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Returns the users of the block device: a mount, or devices stacked on it.
    #[must_use]
    pub fn user(self) -> Option<String> {
        let number = format!("{}:{}", self.major, self.minor);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|f| f.get(2) == Some(&number.as_str()));
        if let Some(fields) = mount {
            return Some(format!("mounted at {}", fields.get(4).unwrap_or(&"?")));
        }
        let names = self.holders();
        (!names.is_empty()).then(|| format!("used by {}", names.join(", ")))
    }

    /// Returns the names of the devices that are stacked on this one.
    #[must_use]
    pub fn holders(self) -> Vec<String> {
        let entries = fs::read_dir(self.directory().join("holders")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Returns the partitions of a disk.
    #[must_use]
    pub fn partitions(self) -> Vec<Self> {
        let entries = fs::read_dir(self.directory()).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.join("partition").exists()).filter_map(|path| Self::in_directory(&path)).collect()
    }
}

/// The writes and flushes that a device has completed, whoever asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounts {
    pub written_bytes: u64,
    pub flushes: u64,
}

impl DiskCounts {
    /// Parses the `stat` of a device in /sys.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // Documentation/block/stat.rst of the kernel: sectors are of 512 bytes, and flushes are there since Linux 5.5.
        let (sectors, flushes) = (fields.get(6)?, fields.get(15).copied().unwrap_or_default());
        Some(Self { written_bytes: sectors.saturating_mul(512), flushes })
    }

    /// Returns the counts since an earlier look; none where the device has begun to count again.
    #[must_use]
    pub fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            written_bytes: self.written_bytes.checked_sub(before.written_bytes)?,
            flushes: self.flushes.checked_sub(before.flushes)?,
        })
    }
}

/// Returns an attribute of a device's queue, by the device's directory. A partition has no queue of its own; its parent directory is the
/// disk's.
/// Returns the loop devices that lie on this file, or on parts of it.
#[must_use]
pub fn loops_above(stat: &Stat) -> Vec<DeviceNumber> {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let loops = disks.filter(|disk| disk.file_name().as_encoded_bytes().starts_with(b"loop"));
    let is_of_file = |place: &Path| rustix::fs::stat(place).is_ok_and(|below| (below.st_dev, below.st_ino) == (stat.st_dev, stat.st_ino));
    let numbers = loops.filter_map(|disk| DeviceNumber::in_directory(&disk.path()));
    numbers.filter(|number| number.loop_file().is_some_and(|place| is_of_file(&place))).collect()
}

fn queue_says(directory: &Path, what: &str) -> Option<String> {
    ["queue", "../queue"]
        .iter()
        .find_map(|queue| fs::read_to_string(directory.join(queue).join(what)).ok())
        .map(|text| text.trim().to_owned())
}

/// The number of passes over the list of locks.
const LOOKS: u32 = 4;

/// Returns the process that holds an flock on a file, as far as /proc/locks shows it (not from another pid namespace).
#[must_use]
pub fn lock_holder(dev: u64, inode: u64) -> Option<u32> {
    let DeviceNumber { major, minor } = DeviceNumber::of(dev);
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    // The kernel hands the list out in pieces, and a lock that disappears meanwhile makes it skip another.
    (0..LOOKS).find_map(|_| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; with an arrow before FLOCK for those who wait
        let line = locks.lines().find(|line| line.contains(": FLOCK ") && line.split_whitespace().any(|field| field == place))?;
        line.split_whitespace().nth(4)?.parse().ok().filter(|&pid| pid != 0)
    })
}

/// Returns all processes that hold an flock, as far as /proc/locks shows them.
#[must_use]
pub fn lock_holders() -> Vec<u32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let held = locks.lines().filter(|line| line.contains(": FLOCK "));
    let mut pids: Vec<u32> = held.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).filter(|&pid| pid != 0).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Returns a process that has a lock on this range of a file (an OFD lock, for which the kernel's list names nobody), as far as this
/// process may look.
#[must_use]
pub fn range_holder(stat: &Stat, span: Span) -> Option<u32> {
    let DeviceNumber { major, minor } = DeviceNumber::of(stat.st_dev);
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let has_it = |line: &str| {
        // lock:	1: OFDLCK ADVISORY  WRITE -1 fe:00:5678 0 EOF
        let fields: Vec<&str> = line.strip_prefix("lock:").into_iter().flat_map(str::split_whitespace).collect();
        let [_, "OFDLCK", .., file, first, last] = fields[..] else { return false };
        file == place && span.meets(first.parse().unwrap_or(0), last.parse().ok())
    };
    processes().find(|pid| {
        let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).any(|text| text.lines().any(has_it))
    })
}

/// Returns another process that has a block device or a partition of it open, as far as this process may look.
#[must_use]
pub fn device_opener(stat: &Stat) -> Option<u32> {
    let is_block = |mode| FileType::from_raw_mode(mode) == FileType::BlockDevice;
    let number = DeviceNumber::of(stat.st_rdev);
    let numbers: Vec<u64> = number.partitions().into_iter().chain([number]).map(DeviceNumber::raw).collect();
    let is_it = |open: PathBuf| rustix::fs::stat(open).is_ok_and(|s| is_block(s.st_mode) && numbers.contains(&s.st_rdev));
    let has_it = |pid: &u32| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().any(|entry| is_it(entry.path()));
    processes().filter(|&pid| is_block(stat.st_mode) && pid != std::process::id()).find(has_it)
}

/// Returns the root directories of the other mount namespaces of this machine, as far as this process may look.
#[must_use]
pub fn mount_roots() -> Vec<PathBuf> {
    let mut seen: BTreeSet<PathBuf> = fs::read_link("/proc/self/ns/mnt").into_iter().collect();
    processes()
        .filter(|pid| fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|name| seen.insert(name)))
        .map(|pid| format!("/proc/{pid}/root").into())
        .collect()
}

/// Returns the processes that this one sees.
pub(super) fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the command of a process, for people.
#[must_use]
pub fn command_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// Whether a process has ended, even if nobody has collected its status yet.
#[must_use]
pub fn has_ended(pid: u32) -> bool {
    // 1234 (a name, with anything in it) Z ...
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_holder_of_an_flock() {
        let path = std::env::temp_dir().join(format!("onefold-lock-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert_eq!(lock_holder(stat.st_dev, stat.st_ino), Some(std::process::id()));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn writes_and_flushes_are_counted_as_the_kernel_has_them() {
        let text = "  8 0 64 1 24 1 4096 9 0 20 30 3 0 100 0 11 2\n";
        let counts = DiskCounts { written_bytes: 4096 * 512, flushes: 11 };
        assert_eq!(DiskCounts::parse(text), Some(counts));
        assert_eq!(DiskCounts::parse("8 0 64 1 24 1 2"), Some(DiskCounts { written_bytes: 1024, flushes: 0 }), "an older kernel");
        assert_eq!(DiskCounts::parse("8 0 64"), None);
        assert_eq!(
            counts.since(DiskCounts { written_bytes: 512, flushes: 1 }),
            Some(DiskCounts { written_bytes: 4095 * 512, flushes: 10 })
        );
        assert_eq!(DiskCounts::default().since(counts), None);
    }

    #[test]
    fn an_unknown_device_has_a_cache() {
        let unknown = DeviceNumber { major: 4095, minor: 1 };
        assert!(!unknown.is_write_through() && !unknown.takes_fua());
    }

    #[test]
    fn a_partition_has_its_disks_queue() {
        // The paths follow /sys/dev/block: links by number, the partition's directory within the disk's.
        let sys = std::env::temp_dir().join(format!("onefold-sys-{}", std::process::id()));
        let disk = sys.join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(sys.join("block")).unwrap();
        std::os::unix::fs::symlink(&disk, sys.join("block/8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), sys.join("block/8:1")).unwrap();
        for (written, shown) in [("1\n", "1"), ("0\n", "0"), ("write back\n", "write back")] {
            fs::write(disk.join("queue/fua"), written).unwrap();
            for number in ["block/8:0", "block/8:1"] {
                assert_eq!(queue_says(&sys.join(number), "fua").as_deref(), Some(shown), "{number}");
            }
        }
        assert_eq!(queue_says(&sys.join("block/8:1"), "write_cache"), None);
        fs::remove_dir_all(sys).unwrap();
    }
}
