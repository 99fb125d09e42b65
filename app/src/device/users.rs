//! The users of a block device, for people: where it is mounted, what is stacked on it, and the processes that have it, or a file of its
//! file system, open.

use super::sysfs::{DeviceNumber, command_of, processes};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, makedev, statx};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most processes that are listed.
const LISTED_MAX: usize = 8;

/// The users of a block device, as far as this process may look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// The folders at which it, or a partition of it, is mounted.
    pub mounts: Vec<String>,
    /// Processes that have it or a file on it open, and other users.
    pub others: Vec<String>,
}

impl Users {
    /// Describes them in a line; none if none was found.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mounts = self.mounts.iter().map(|at| format!("mounted at {at}"));
        let all: Vec<String> = mounts.chain(self.others.iter().cloned()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Looks for the users of `device`.
#[must_use]
pub fn users(device: &Path) -> Users {
    let Ok(meta) = device.metadata() else { return Users::default() };
    let number = DeviceNumber::of(meta.rdev());
    let numbers: Vec<DeviceNumber> = number.partitions().into_iter().chain([number]).collect();
    let holders = numbers.iter().flat_map(|number| number.holders()).map(|name| format!("used by {name}"));
    let (mounts, mut raw) = mounts(&numbers);
    raw.extend(numbers.iter().map(|number| number.raw()));
    let mut pids: Vec<u32> = processes().filter(|&pid| pid != std::process::id() && has_open(pid, &raw)).collect();
    let more = pids.len().saturating_sub(LISTED_MAX);
    pids.truncate(LISTED_MAX);
    let named = |pid: u32| command_of(pid).map_or_else(|| format!("process {pid}"), |command| format!("process {pid} ({command})"));
    let more = (more > 0).then(|| format!("{more} more processes"));
    Users { mounts, others: holders.chain(pids.into_iter().map(named)).chain(more).collect() }
}

/// Returns the folders at which these devices are mounted, in any mount namespace, and the numbers that files of their file systems have.
fn mounts(numbers: &[DeviceNumber]) -> (Vec<String>, BTreeSet<u64>) {
    let nodes: Vec<PathBuf> = numbers.iter().map(|number| number.node()).collect();
    let names: BTreeSet<String> = numbers.iter().map(|DeviceNumber { major, minor }| format!("{major}:{minor}")).collect();
    let (mut folders, mut raw, mut namespaces) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    // The own namespace comes first, so that its names do.
    for pid in std::iter::once(std::process::id()).chain(processes()) {
        if !fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|name| namespaces.insert(name)) {
            continue;
        }
        for line in fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default().lines() {
            // 36 35 98:0 /root /mnt/at options - type source more; some file systems have a number that is no device's.
            let fields: Vec<&str> = line.split(' ').collect();
            let source = fields.iter().position(|&field| field == "-").and_then(|dash| fields.get(dash + 2));
            let (Some(number), Some(at)) = (fields.get(2), fields.get(4)) else { continue };
            if !names.contains(*number) && !source.is_some_and(|source| nodes.iter().any(|node| node == Path::new(source))) {
                continue;
            }
            raw.extend(number.split_once(':').and_then(|(major, minor)| Some(makedev(major.parse().ok()?, minor.parse().ok()?))));
            let at = (*at).to_owned();
            if !folders.contains(&at) {
                folders.push(at);
            }
        }
    }
    (folders, raw)
}

/// Whether a process has one of these devices, or a file of a file system on it, open, or stands in a folder there.
fn has_open(pid: u32, numbers: &BTreeSet<u64>) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let stands = ["cwd", "root", "exe"].iter().map(|what| PathBuf::from(format!("/proc/{pid}/{what}")));
    open.chain(stands).any(|path| is_on(&path, numbers))
}

/// Whether a file is one of these devices, or lies on it. It does not ask a file system that may not answer.
fn is_on(path: &Path, numbers: &BTreeSet<u64>) -> bool {
    let Ok(stat) = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE) else { return false };
    let is_block = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice;
    let rdev = makedev(stat.stx_rdev_major, stat.stx_rdev_minor);
    is_block && numbers.contains(&rdev) || numbers.contains(&makedev(stat.stx_dev_major, stat.stx_dev_minor))
}
