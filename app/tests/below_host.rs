//! The disk below a store: what `stats` says of it, against the kernel's own counts, for a store on a disk and in a file on ext4.
//!
//! The disk is a loop device over a file in memory, so that nobody else writes to it. `./dev bench below-host` measures more of this.

mod common;

use common::home::Home;
use common::nbd_client::*;
use common::{have, may_mount, run, skipped};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
/// The number of synced writes.
const WRITES: u64 = 1000;

/// A loop device over a file in memory, perhaps with ext4 on it.
struct Disk {
    device: String,
    /// In memory; it goes with its directory.
    _file: tempfile::TempDir,
    mounted: Option<PathBuf>,
}

impl Disk {
    /// Makes one; none where this test cannot.
    fn new(test: &str) -> Option<Self> {
        if !may_mount(test) || !have(test, &["losetup", "mkfs.ext4", "mount", "umount"]) {
            return None;
        }
        let memory = Path::new("/dev/shm");
        if !memory.is_dir() {
            skipped(test, "there is no /dev/shm");
            return None;
        }
        let place = tempfile::tempdir_in(memory).unwrap();
        let file = place.path().join("disk");
        fs::File::create(&file).unwrap().set_len(256 * MIB).unwrap();
        let found = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        if !found.status.success() {
            skipped(test, "no free loop device");
            return None;
        }
        let device = String::from_utf8(found.stdout).unwrap().trim().to_owned();
        Some(Self { device, _file: place, mounted: None })
    }

    /// Makes ext4 on it, and mounts that.
    fn mount(&mut self, at: &str) {
        run(Command::new("mkfs.ext4").args(["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &self.device]));
        fs::create_dir(at).unwrap();
        run(Command::new("mount").args([&self.device, at]));
        self.mounted = Some(at.into());
        run(Command::new("sync").args(["-f", at]));
    }

    fn name(&self) -> &str {
        self.device.rsplit('/').next().unwrap()
    }

    /// Returns the bytes written and the flushes that the kernel has counted.
    fn counts(&self) -> (u64, u64) {
        let stat = fs::read_to_string(format!("/sys/block/{}/stat", self.name())).unwrap();
        let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().unwrap()).collect();
        (fields[6] * 512, fields[15])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted {
            let _ = Command::new("umount").arg(at).status();
        }
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// Writes a block after the other, each synced.
fn synced_writes(socket: &Path) {
    let mut client = Client::ready_for(socket, true, "");
    let mut block = [0; 4096];
    for number in 0..WRITES {
        // It compresses to less than half.
        common::Dice::new(number).fill(&mut block[..1500]);
        client.write(0, number * 4096, &block).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
    }
}

/// The bytes that the volume has written to its store, by its own count.
fn to_the_store(stats: &Value) -> u64 {
    let device = stats["device"].as_array().unwrap();
    device.iter().filter(|count| count["what"].as_str().unwrap().starts_with("write ")).map(|count| count["bytes"].as_u64().unwrap()).sum()
}

/// Checks that both are equal but for 2 %.
fn assert_near(what: &str, found: u64, wanted: u64) {
    assert!(found.abs_diff(wanted) * 50 <= wanted, "{what}: {found}, and {wanted} was counted");
}

/// Attaches the store, has it written to, and returns the report and what the kernel has counted since the attach.
fn written(home: &Home, disk: &Disk, store: &str) -> (Value, (u64, u64)) {
    let before = disk.counts();
    let socket = home.attach(store, &["--memory", "8M"]);
    synced_writes(&socket);
    let (stats, now) = (home.json(&["stats", store]), disk.counts());
    let counted = (now.0 - before.0, now.1 - before.1);
    assert!(counted.0 >= WRITES * 2048 && counted.1 >= WRITES, "the disk below has written {counted:?}");
    let below = &stats["disk"]["disks"];
    assert_eq!((below.as_array().unwrap().len(), below[0]["disk"].as_str()), (1, Some(disk.name())), "{below}");
    assert_near("bytes of the disk", below[0]["written_bytes"].as_u64().unwrap(), counted.0);
    assert_near("flushes of the disk", below[0]["flushes"].as_u64().unwrap(), counted.1);
    (stats, counted)
}

#[test]
fn what_a_store_on_a_disk_gets_is_what_the_disk_writes() {
    let Some(disk) = Disk::new("what_a_store_on_a_disk_gets_is_what_the_disk_writes") else { return };
    let home = Home::new();
    home.says(0, &["create", &disk.device]);
    let (stats, (bytes, flushes)) = written(&home, &disk, &disk.device);
    assert_near("bytes to the store", to_the_store(&stats), bytes);
    assert!(flushes * 100 <= WRITES * 105, "{flushes} flushes for {WRITES}");
    let shown = home.says(0, &["stats", &disk.device]);
    let line = shown.lines().find(|line| line.starts_with("disk wrote")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains(disk.name()) && line.contains("writes of others"), "{line}");
    assert!(home.says(0, &["top", "--once", &disk.device]).contains("disk wrote"));
    let metrics = home.says(0, &["stats", "--prometheus", &disk.device]);
    assert!(metrics.lines().any(|line| line.starts_with("onefold_disk_written_bytes_total{") && line.contains(disk.name())), "{metrics}");
    home.says(0, &["detach", &disk.device]);
}

#[test]
fn the_disk_below_the_file_system_of_a_store_is_counted() {
    let Some(mut disk) = Disk::new("the_disk_below_the_file_system_of_a_store_is_counted") else { return };
    let home = Home::new();
    disk.mount(&home.path("host"));
    home.says(0, &["create", "host/store", "--size", "128M"]);
    let (stats, (bytes, flushes)) = written(&home, &disk, "host/store");
    let store = to_the_store(&stats);
    assert!(store >= WRITES * 2048 && bytes * 100 >= store * 98, "what went to the store has reached the disk: {store}, {bytes}");
    // Commits of the host's journal, every five seconds, are its own.
    assert!(bytes * 100 <= store * 115, "the host has written {bytes} for {store}");
    assert!(flushes * 100 <= WRITES * 105 + 1000, "{flushes} flushes for {WRITES}");
    home.says(0, &["detach", "host/store"]);
}

#[test]
fn all_disks_of_a_file_system_on_several_are_counted() {
    let test = "all_disks_of_a_file_system_on_several_are_counted";
    if !have(test, &["mkfs.btrfs"]) {
        return;
    }
    if !fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("btrfs") {
        return skipped(test, "this kernel has no btrfs");
    }
    let (Some(mut first), Some(second)) = (Disk::new(test), Disk::new(test)) else { return };
    let home = Home::new();
    run(Command::new("mkfs.btrfs").args(["--quiet", &first.device, &second.device]));
    let at = home.path("host");
    fs::create_dir(&at).unwrap();
    // A kernel that has not seen the second device looks for it.
    let both = format!("device={},device={}", first.device, second.device);
    run(Command::new("mount").args(["-o", &both, &first.device, &at]));
    first.mounted = Some(at.into());
    home.says(0, &["create", "host/store", "--size", "64M"]);
    home.attach("host/store", &["--memory", "8M"]);
    let stats = home.json(&["stats", "host/store"]);
    let mut names: Vec<&str> = stats["disk"]["disks"].as_array().unwrap().iter().map(|disk| disk["disk"].as_str().unwrap()).collect();
    let mut wanted = [first.name(), second.name()];
    names.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    home.says(0, &["detach", "host/store"]);
}

#[test]
fn a_store_that_lies_on_no_disk_says_so() {
    let test = "a_store_that_lies_on_no_disk_says_so";
    if !Path::new("/dev/shm").is_dir() {
        return skipped(test, "there is no /dev/shm");
    }
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (home, store) = (Home::new(), memory.path().join("store").display().to_string());
    home.says(0, &["create", &store, "--size", "32M", "--buffered"]);
    home.attach(&store, &["--memory", "8M", "--buffered"]);
    assert!(home.json(&["stats", &store])["disk"]["unknown"].as_str().unwrap().contains("tmpfs"));
    assert!(home.says(0, &["stats", &store]).contains("not known: the store lies on tmpfs"));
    home.says(0, &["detach", &store]);
}
