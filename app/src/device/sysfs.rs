//! What the kernel says of block devices in /sys and /proc.

use std::fs;
use std::path::{Path, PathBuf};

/// A device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    /// From `st_dev` or `st_rdev`.
    #[must_use]
    pub fn of(dev: u64) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }

    fn directory(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor))
    }

    /// Whether the device's queue says that it has no volatile cache. What cannot be read counts as a cache.
    #[must_use]
    pub fn is_write_through(self) -> bool {
        queue_says(&self.directory(), "write_cache").is_some_and(|text| text == "write through")
    }

    /// Whether the device's queue says that it takes writes with FUA.
    #[must_use]
    pub fn takes_fua(self) -> bool {
        queue_says(&self.directory(), "fua").is_some_and(|text| text == "1")
    }

    /// Who has the block device: a mount, or devices stacked on it.
    #[must_use]
    pub fn user(self) -> Option<String> {
        let number = format!("{}:{}", self.major, self.minor);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|f| f.get(2) == Some(&number.as_str()));
        if let Some(fields) = mount {
            return Some(format!("mounted at {}", fields.get(4).unwrap_or(&"?")));
        }
        let holders = fs::read_dir(self.directory().join("holders")).ok()?;
        let names: Vec<_> = holders.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        (!names.is_empty()).then(|| format!("used by {}", names.join(", ")))
    }
}

/// What the queue of a device says of itself, by the device's directory. A partition has no queue of its own; its parent directory is the disk's.
fn queue_says(directory: &Path, what: &str) -> Option<String> {
    ["queue", "../queue"]
        .iter()
        .find_map(|queue| fs::read_to_string(directory.join(queue).join(what)).ok())
        .map(|text| text.trim().to_owned())
}

/// How often the list of locks is gone through.
const LOOKS: u32 = 4;

/// The process that holds an flock on a file, as far as /proc/locks shows it (not from another pid namespace).
#[must_use]
pub fn lock_holder(dev: u64, inode: u64) -> Option<u32> {
    let DeviceNumber { major, minor } = DeviceNumber::of(dev);
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    // The kernel hands the list out in pieces, and a lock that goes in between makes it skip another.
    (0..LOOKS).find_map(|_| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; with an arrow before FLOCK for those who wait
        let line = locks.lines().find(|line| line.contains(": FLOCK ") && line.split_whitespace().any(|field| field == place))?;
        line.split_whitespace().nth(4)?.parse().ok().filter(|&pid| pid != 0)
    })
}

/// Whether the kernel's lists name every process of this machine. In a PID namespace of one's own, as in most containers, they leave out what
/// is held by processes that live elsewhere or have ended.
#[must_use]
pub fn sees_every_process() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

/// The command of a process, for people.
#[must_use]
pub fn command_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// Whether a process has ended, be it that nobody has asked for its end yet.
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
    fn an_unknown_device_has_a_cache() {
        let unknown = DeviceNumber { major: 4095, minor: 1 };
        assert!(!unknown.is_write_through() && !unknown.takes_fua());
    }

    #[test]
    fn a_partition_has_its_disks_queue() {
        // As /sys/dev/block leads to them: links by number, the partition's directory within the disk's.
        let sys = std::env::temp_dir().join(format!("onefold-sys-{}", std::process::id()));
        let disk = sys.join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(sys.join("block")).unwrap();
        std::os::unix::fs::symlink(&disk, sys.join("block/8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), sys.join("block/8:1")).unwrap();
        for (written, said) in [("1\n", "1"), ("0\n", "0"), ("write back\n", "write back")] {
            fs::write(disk.join("queue/fua"), written).unwrap();
            for number in ["block/8:0", "block/8:1"] {
                assert_eq!(queue_says(&sys.join(number), "fua").as_deref(), Some(said), "{number}");
            }
        }
        assert_eq!(queue_says(&sys.join("block/8:1"), "write_cache"), None);
        fs::remove_dir_all(sys).unwrap();
    }
}
