//! The disks at the bottom of a store. The kernel's counts there are what the flash has had to write: of a store in a file, the writes of
//! the file system around it are among them.
//!
//! 1. The way leads from a file to the device of its file system, from a partition to its disk, from a loop device to the file behind it,
//!    and from a device of dm or md to its parts. The bottom is the last device that the kernel counts.
//! 2. A loop device over a file that lies on no disk, or that cannot be reached, is such a last one.
//! 3. Disks are counted whole, so the writes of others on them are among these.

use super::guard::{Identity, reach};
use super::loop_status::loop_status;
use super::sysfs::DeviceNumber;
pub use super::sysfs::DiskCounts;
use rustix::fs::{FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The largest depth of a stack that is followed.
const DEPTH_MAX: usize = 16;
/// File systems that lie on several devices, and have a device number that is none of theirs.
const ON_MANY: [&str; 2] = ["btrfs", "bcachefs"];
/// A file system whose files may report the device of another one.
const OVERLAY: &str = "overlay";

/// The disks below a store, with their counts when it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottom {
    disks: Vec<Disk>,
    /// The reason why there are none.
    unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Disk {
    name: String,
    major: u32,
    minor: u32,
    before: DiskCounts,
}

/// The work of the disks below a store since it was attached, writes of others included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskWork {
    pub disks: Vec<DiskOf>,
    /// The reason why none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// The work of one disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskOf {
    /// The kernel's name of it.
    pub disk: String,
    #[serde(flatten)]
    pub counts: DiskCounts,
}

impl Bottom {
    /// Finds the disks below a store, and reads their counts.
    #[must_use]
    pub fn of(store: &Path) -> Self {
        let mut found = Descent::default();
        found.below_path(store, 0);
        if found.disks.is_empty() {
            let unknown = found.unknown.unwrap_or_else(|| "no disk was found below the store".to_owned());
            return Self { disks: Vec::new(), unknown: Some(unknown) };
        }
        let disk = |((major, minor), before)| Disk { name: DeviceNumber { major, minor }.name(), major, minor, before };
        Self { disks: found.disks.into_iter().map(disk).collect(), unknown: None }
    }

    /// Returns the work of the disks since then. Where one of them does not count on, nothing is known.
    #[must_use]
    pub fn work(&self) -> DiskWork {
        let nothing = |unknown: String| DiskWork { disks: Vec::new(), unknown: Some(unknown) };
        if let Some(unknown) = &self.unknown {
            return nothing(unknown.clone());
        }
        let mut disks = Vec::new();
        for Disk { name, major, minor, before } in &self.disks {
            let now = DeviceNumber { major: *major, minor: *minor }.counts();
            match now.and_then(|now| now.since(*before)) {
                Some(counts) => disks.push(DiskOf { disk: name.clone(), counts }),
                None => return nothing(format!("{name} has not counted since the volume was attached")),
            }
        }
        if disks.is_empty() { nothing("the program that attached it did not look".to_owned()) } else { DiskWork { disks, unknown: None } }
    }
}

impl DiskWork {
    /// Returns the work of all disks together, where it is known.
    #[must_use]
    pub fn all(&self) -> Option<DiskCounts> {
        let sum = |of: fn(&DiskCounts) -> u64| self.disks.iter().map(|disk| of(&disk.counts)).sum();
        (!self.disks.is_empty())
            .then(|| DiskCounts { written_bytes: sum(|counts| counts.written_bytes), flushes: sum(|counts| counts.flushes) })
    }

    /// Returns the disks' names, in a line.
    #[must_use]
    pub fn names(&self) -> String {
        self.disks.iter().map(|disk| disk.disk.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The disks that were found on the way down, by number.
#[derive(Default)]
struct Descent {
    disks: BTreeMap<(u32, u32), DiskCounts>,
    unknown: Option<String>,
}

impl Descent {
    /// Goes down from a store or a layer of one. Returns whether that led to a disk.
    fn below_path(&mut self, path: &Path, depth: usize) -> bool {
        // Such a descriptor needs no permission, and opens no device.
        let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let Some((file, stat)) = opened.ok().and_then(|file| rustix::fs::fstat(&file).ok().map(|stat| (file, stat))) else {
            return self.fail(format!("{} cannot be looked at", path.display()));
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return self.below_device(DeviceNumber::of(stat.st_rdev), depth);
        }
        let mount = Mount::of(file.as_raw_fd());
        let kind = mount.as_ref().map_or("", |mount| mount.kind.as_str());
        let number = DeviceNumber::of(stat.st_dev);
        let many = mount.as_ref().filter(|mount| ON_MANY.contains(&mount.kind.as_str())).map(Mount::devices).unwrap_or_default();
        if !many.is_empty() {
            // Each of them, whatever the others led to.
            return many.into_iter().filter(|&number| self.below_device(number, depth)).count() > 0;
        }
        if kind != OVERLAY && number.is_known() {
            return self.below_device(number, depth);
        }
        self.fail(match kind {
            "" => format!("the file system of {} is not known here", path.display()),
            kind => format!("the store lies on {kind}, which has no disk of its own here"),
        })
    }

    /// Goes down from a block device. Returns whether that led to a disk.
    fn below_device(&mut self, number: DeviceNumber, depth: usize) -> bool {
        let number = number.disk();
        if depth < DEPTH_MAX {
            let parts = number.slaves().into_iter().filter(|&slave| self.below_device(slave, depth + 1)).count();
            if parts > 0 || number.loop_file().is_some_and(|shown| self.behind_loop(number, &shown, depth)) {
                return true;
            }
        }
        match number.counts() {
            Some(counts) => {
                self.disks.insert((number.major, number.minor), counts);
                true
            }
            None => self.fail(format!("{} does not count its writes", number.name())),
        }
    }

    /// Goes down from a loop device to the file behind it.
    fn behind_loop(&mut self, number: DeviceNumber, shown: &Path, depth: usize) -> bool {
        let device = rustix::fs::open(number.node(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let identity = device.and_then(|device| loop_status(&device)).map(|info| Identity::behind(&info));
        // Without the right to ask, the path has to do.
        let place = identity.map_or_else(|_| Some(shown.to_owned()), |identity| reach(shown, identity));
        place.filter(|place| place.exists()).is_some_and(|place| self.below_path(&place, depth + 1))
    }

    fn fail(&mut self, why: String) -> bool {
        self.unknown.get_or_insert(why);
        false
    }
}

/// The mount through which a file is reached.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    source: String,
}

impl Mount {
    /// Returns the mount of an open file of this process.
    fn of(descriptor: i32) -> Option<Self> {
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        Self::find(&fs::read_to_string("/proc/self/mountinfo").ok()?, id)
    }

    /// Finds a mount by its number in the kernel's list.
    fn find(list: &str, id: &str) -> Option<Self> {
        // 36 35 0:31 / /mnt rw,noatime shared:1 - btrfs /dev/sda1 rw
        let line = list.lines().find(|line| line.split(' ').next() == Some(id))?;
        let mut fields = line.split_once(" - ")?.1.split(' ');
        Some(Self { kind: fields.next()?.to_owned(), source: unescaped(fields.next()?) })
    }

    /// Returns the devices that the mounted file system lies on.
    fn devices(&self) -> Vec<DeviceNumber> {
        let number =
            |path: &Path| rustix::fs::stat(path).ok().map(|stat| DeviceNumber::of(stat.st_rdev)).filter(|number| number.is_known());
        let named: Vec<DeviceNumber> = self.source.split(':').filter_map(|path| number(Path::new(path))).collect();
        // Btrfs names one of its devices, and /sys has all of them.
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
        let all_of = |directory: &Path| -> Vec<DeviceNumber> {
            entries(&directory.join("devices")).iter().filter_map(|device| DeviceNumber::in_directory(device)).collect()
        };
        let systems = entries(Path::new("/sys/fs").join(&self.kind).as_path());
        let whole = systems.iter().map(|directory| all_of(directory)).find(|all| all.iter().any(|number| named.contains(number)));
        whole.unwrap_or(named)
    }
}

/// Returns a field of the list of mounts, in which the kernel writes blanks as numbers.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, is)| text.replace(code, is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_number() {
        let list = "36 35 0:31 / /mnt/with\\040blank rw,noatime shared:1 master:2 - btrfs /dev/mapper/a\\040b rw\n\
                    136 35 254:1 / / rw - ext4 /dev/vda1 rw\n";
        assert_eq!(Mount::find(list, "36"), Some(Mount { kind: "btrfs".to_owned(), source: "/dev/mapper/a b".to_owned() }));
        assert_eq!(Mount::find(list, "136").map(|mount| mount.kind), Some("ext4".to_owned()));
        assert_eq!(Mount::find(list, "6"), None);
    }

    #[test]
    fn a_store_without_a_disk_says_where_it_lies() {
        let bottom = Bottom::of(Path::new("/proc/self/stat"));
        assert_eq!(
            bottom.work(),
            DiskWork { disks: Vec::new(), unknown: Some("the store lies on proc, which has no disk of its own here".to_owned()) }
        );
        assert!(Bottom::of(Path::new("/nowhere")).work().unknown.is_some_and(|why| why.contains("/nowhere")));
        // A program before this one has left nothing to compare with.
        assert!(Bottom::default().work().unknown.is_some());
    }

    #[test]
    fn a_disk_that_counts_anew_has_no_work_that_is_known() {
        let before = DiskCounts { written_bytes: u64::MAX, flushes: 0 };
        let Ok(Some(entry)) = fs::read_dir("/sys/dev/block").map(|mut entries| entries.next()) else { return };
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (major, minor) = name.split_once(':').unwrap();
        let disk = Disk { name: "sdx".to_owned(), major: major.parse().unwrap(), minor: minor.parse().unwrap(), before };
        let work = Bottom { disks: vec![disk], unknown: None }.work();
        assert_eq!((work.all(), work.unknown.as_deref()), (None, Some("sdx has not counted since the volume was attached")));
    }
}
