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

/// A loop device over a file, which goes when it is dropped.
struct Loop(String);

impl Loop {
    fn over(file: &str, options: &[&str]) -> Self {
        Self(run(Command::new("losetup").args(["--find", "--show"]).args(options).arg(file)).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The kernel keeps this for the next file that gets the device.
        let _ = Command::new("blockdev").args(["--setrw", &self.0]).status();
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_read_only_device_is_refused_or_served_read_only() {
    if !possible("a_read_only_device_is_refused_or_served_read_only") {
        return;
    }
    let home = Home::new();
    home.blank("disk", 32 << 20);
    let disk = Loop::over(&home.path("disk"), &[]);
    home.says(0, &["create", &disk.0]);
    run(Command::new("blockdev").args(["--setro", &disk.0]));
    let refused = home.says(7, &["attach", "--nbd", &disk.0]);
    assert!(refused.contains("is read-only") && refused.contains("attach --read-only"), "{refused}");
    home.says(7, &["create", "--force", &disk.0]);
    home.says(7, &["set", "--label", "other", &disk.0]);
    home.says(0, &["check", &disk.0]);
    let socket = home.attach(&disk.0, &["--read-only"]);
    let mut client = common::nbd_client::Client::ready_for(&socket, true, "");
    assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
    drop(client);
    home.says(0, &["detach", &disk.0]);
}

/// The table of partitions that is found on a device or image.
fn partitions(at: &str) -> String {
    run(Command::new("blkid").args(["-p", "-o", "value", "-s", "PTTYPE", at])).trim().to_owned()
}

#[test]
fn partitions_of_a_disk_image_are_found() {
    let test = "partitions_of_a_disk_image_are_found";
    if !possible(test) || !have(test, &["sfdisk", "blkid", "dd"]) {
        return;
    }
    let home = Home::new();
    home.blank("image", 64 << 20);
    home.write("script", "label: gpt\nstart=2048, size=65536, type=L\n");
    run(Command::new("sh").args(["-c", "sfdisk --quiet \"$1\" <\"$2\"", "sh", &home.path("image"), &home.path("script")]));
    assert_eq!(partitions(&home.path("image")), "gpt");
    let (_, device) = attach(&home, "volume", "128M", &[]);
    let to = format!("of={}", device.display());
    run(Command::new("dd").args([&format!("if={}", home.path("image")), &to, "bs=1M", "oflag=direct", "conv=fsync"]));
    home.says(0, &["detach", "volume"]);
    let attached = home.run(&["attach", "--fuse", "volume"]);
    let advice = String::from_utf8_lossy(&attached.stderr);
    assert!(attached.status.success() && advice.contains("sectors of 512 bytes") && advice.contains("--sector 512"), "{attached:?}");
    home.says(0, &["detach", "volume"]);
    home.says(0, &["set", "volume", "--sector", "512"]);
    let attached = home.run(&["attach", "--fuse", "volume"]);
    assert!(attached.status.success() && attached.stderr.is_empty(), "{attached:?}");
    assert_eq!(partitions(String::from_utf8_lossy(&attached.stdout).trim()), "gpt");
    home.says(0, &["detach", "volume"]);
}

#[test]
fn a_busy_device_names_its_users() {
    let test = "a_busy_device_names_its_users";
    if !possible(test) || !have(test, &["mkfs.ext4", "mount", "sleep"]) {
        return;
    }
    let home = Home::new();
    let (_, device) = attach(&home, "volume", "64M", &[]);
    run(Command::new("mkfs.ext4").args(["-q"]).arg(&device));
    let at = home.path("mount");
    let mounted = Mounted::new(&device, &at);
    let mut sleeper = Command::new("sleep").arg("100").current_dir(&at).spawn().unwrap();
    let refused = home.says(4, &["detach", "volume"]);
    assert!(refused.contains(&format!("mounted at {at}")), "{refused}");
    assert!(refused.contains(&format!("process {} (sleep)", sleeper.id())), "{refused}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    drop(mounted);
    let open = std::fs::File::open(&device).unwrap();
    let exclusive = rustix::fs::open(&device, rustix::fs::OFlags::EXCL, rustix::fs::Mode::empty()).unwrap();
    let refused = home.says(4, &["detach", "volume"]);
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    drop((open, exclusive));
    // Who has it open, and no more, keeps it until then.
    let open = std::fs::File::open(&device).unwrap();
    let refused = home.says(4, &["detach", "volume"]);
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    drop(open);
    until("it is detached", || home.json(&["list"])["volumes"] == serde_json::json!([]));
    home.says(0, &["check", "volume"]);
}

/// Returns the state of a volume, with its reason.
fn state(home: &Home, volume: &str) -> String {
    let status = home.json(&["status", volume]);
    let condition = &status["attached"]["condition"];
    format!("{} {}", condition["state"].as_str().unwrap(), condition["reason"].as_str().unwrap_or_default())
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !condition() {
        assert!(began.elapsed().as_secs() < 40, "waited in vain until {what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// A device that is thin itself, here on a file system in memory that is too small.
#[test]
fn a_device_without_room_makes_writes_wait() {
    let test = "a_device_without_room_makes_writes_wait";
    if !possible(test) || !have(test, &["mount", "losetup"]) {
        return;
    }
    let home = Home::new();
    let below = home.path("below");
    std::fs::create_dir(&below).unwrap();
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=40M", "none", &below]));
    let _mounted = Mounted(below.clone().into());
    home.blank("below/disk", 400 << 20);
    let disk = Loop::over(&home.path("below/disk"), &[]);
    home.says(0, &["create", &disk.0]);
    let device = home.says(0, &["attach", "--fuse", &disk.0]).trim().to_owned();
    let (to, copy) = (format!("of={device}"), home.path("copy"));
    run(Command::new("dd").args(["if=/dev/urandom", &format!("of={copy}"), "bs=1M", "count=100"]));
    // There is no room for a single page: of a write that its file takes in part, a loop device says that it is done.
    let filled = Command::new("dd").args(["if=/dev/zero", &format!("of={below}/filler"), "bs=4k"]).output().unwrap();
    assert!(!filled.status.success(), "the file system is not full");
    let mut writer = Command::new("dd").args([&format!("if={copy}"), &to, "bs=1M", "oflag=direct", "conv=fsync"]).spawn().unwrap();
    until("it is full", || state(&home, &disk.0) == "full the host has no room for the store");
    assert!(writer.try_wait().unwrap().is_none(), "the writer waits");
    run(Command::new("mount").args(["-o", "remount,size=300M", &below]));
    assert!(writer.wait().unwrap().success(), "it waited, and saw no error");
    until("it serves", || state(&home, &disk.0) == "serving ");
    run(Command::new("cmp").args(["-n", &(100 << 20).to_string(), &copy, &device]));
    home.says(0, &["detach", &disk.0]);
    home.says(0, &["check", "--data", &disk.0]);
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
