//! Block devices of attached volumes (FUSE and loop), as the rest of the system sees them.

mod common;

use common::home::Home;
use common::{have, run, skipped};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns whether there can be block devices here, and reports a skipped test if not.
fn possible(test: &str) -> bool {
    let free = || Command::new("losetup").arg("--find").output().is_ok_and(|found| found.status.success());
    let reason = if !rustix::process::geteuid().is_root() {
        "not root"
    } else if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        "no /dev/fuse or no /dev/loop-control"
    } else if !free() {
        "no free loop device"
    } else {
        return true;
    };
    skipped(test, reason);
    false
}

/// Creates a volume and attaches it; returns its UUID and device.
fn attach(home: &Home, name: &str, size: &str, options: &[&str]) -> (String, PathBuf) {
    let created = home.json(&[&["create", name, "--size", size, "--sparse"], options].concat());
    let uuid = created["volume"]["uuid"].as_str().unwrap().to_owned();
    (uuid, home.says(0, &["attach", "--fuse", "--memory", "8M", name]).trim().into())
}

fn of_queue(device: &Path, what: &str) -> String {
    let name = device.file_name().unwrap().to_str().unwrap();
    std::fs::read_to_string(format!("/sys/block/{name}/{what}")).unwrap().trim().to_owned()
}

/// A mounted file system, which is unmounted when it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Path, at: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        run(Command::new("mount").arg(device).arg(at));
        Self(at.into())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn the_device_has_the_sector_of_its_volume() {
    if !possible("the_device_has_the_sector_of_its_volume") {
        return;
    }
    let home = Home::new();
    for sector in ["512", "4096"] {
        let (_, device) = attach(&home, sector, "64M", &["--sector", sector]);
        assert_eq!(of_queue(&device, "queue/logical_block_size"), sector);
        // The device serves the size that it announces.
        let bytes = format!("bs={sector}");
        run(Command::new("dd")
            .args(["if=/dev/urandom", "oflag=direct", "seek=3", "count=5", &bytes])
            .arg(format!("of={}", device.display())));
        home.says(0, &["detach", sector]);
        assert_eq!(home.json(&["check", "--data", sector])["sound"].as_bool(), Some(true));
    }
}

#[test]
fn a_device_is_told_from_others_and_has_a_name_that_stays() {
    if !possible("a_device_is_told_from_others_and_has_a_name_that_stays") {
        return;
    }
    let home = Home::new();
    let attached = ["a.img", "b.img"].map(|name| attach(&home, name, "64M", &[]));
    for (uuid, device) in &attached {
        assert_eq!(of_queue(device, "loop/backing_file"), format!("/{uuid}"));
        let link = home.path(&format!("run/{uuid}.device"));
        assert_eq!(&std::fs::canonicalize(&link).unwrap(), device);
        // Check what the rule for udev matches, and the link that it makes.
        let rule = include_str!("../../data/udev/60-onefold.rules");
        assert!(rule.contains(&format!("ATTR{{loop/backing_file}}==\"/{}\"", uuid.replace(|c| c != '-', "?"))), "{rule}");
        assert!(rule.contains("basename $attr{loop/backing_file}\", SYMLINK+=\"disk/by-id/onefold-%c\""), "{rule}");
        // The commands accept the link like any other name.
        assert_eq!(home.json(&["status", &link])["volume"]["uuid"].as_str(), Some(uuid.as_str()));
        home.says(0, &["detach", &link]);
        assert!(std::fs::symlink_metadata(&link).is_err(), "the link stayed");
    }
}

#[test]
fn btrfs_takes_three_volumes() {
    let test = "btrfs_takes_three_volumes";
    if !possible(test) || !have(test, &["mkfs.btrfs", "btrfs", "mount"]) {
        return;
    }
    let home = Home::new();
    let devices = ["a.img", "b.img", "c.img"].map(|name| attach(&home, name, "300M", &[]).1);
    for device in &devices {
        run(Command::new("mkfs.btrfs").args(["--quiet", "--force"]).arg(device));
    }
    if std::fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("btrfs") {
        let mounted = Mounted::new(&devices[0], &home.path("mount"));
        for device in &devices[1..] {
            run(Command::new("btrfs").args(["device", "add", "--force"]).arg(device).arg(&mounted.0));
        }
        let content: Vec<u8> = (0..40 << 20).map(|i: u32| (i / 4096 % 251) as u8 ^ (i % 241) as u8).collect();
        std::fs::write(mounted.0.join("file"), &content).unwrap();
        run(Command::new("btrfs").args(["balance", "start", "--full-balance"]).arg(&mounted.0));
        assert!(std::fs::read(mounted.0.join("file")).unwrap() == content);
    } else {
        // The kernel has no btrfs; what refused the second device was mkfs.btrfs, which took it for the first, mounted one.
        skipped(test, "this kernel has no btrfs: only mkfs.btrfs beside a mounted volume is tried");
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&devices[0]));
        let _mounted = Mounted::new(&devices[0], &home.path("mount"));
        devices[1..].iter().for_each(|device| drop(run(Command::new("mkfs.btrfs").args(["--quiet", "--force"]).arg(device))));
    }
    for name in ["a.img", "b.img", "c.img"] {
        home.says(0, &["detach", name]);
        assert_eq!(home.json(&["check", name])["clean"].as_bool(), Some(true));
    }
}
