//! One store has one server on a machine, by whatever paths it is reached, and if it is guarded, one among all hosts; and different stores
//! that look like one may have several.

mod common;
#[path = "guard/grows.rs"]
mod grows;
#[path = "guard/hosts.rs"]
mod hosts;

use common::home::Home;
use common::{have, run, skipped};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Returns whether loop devices can be made, and reports a skipped test if not.
fn can_loop(test: &str) -> bool {
    let is_possible = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !is_possible {
        skipped(test, "loop devices need root and /dev/loop-control");
    }
    is_possible && have(test, &["losetup"])
}

/// A loop device, which is removed when it is dropped.
struct Loop(String);

impl Loop {
    fn over(path: &str, options: &[&str]) -> Self {
        let text = run(Command::new("losetup").args(["-f", "--show", "--direct-io=on"]).args(options).arg(path));
        Self(text.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// Runs a command that needs a device exclusively. The kernel takes a moment to close what an ended server had open, and other tests
/// examine all loop devices from time to time.
fn run_when_free(command: &mut Command) {
    let began = Instant::now();
    while !command.output().unwrap().status.success() {
        if began.elapsed() > Duration::from_secs(10) {
            run(command);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a node of a block device by its numbers, as in `7:0`, and returns its path.
fn node(path: &str, numbers: &str) -> String {
    let (major, minor) = numbers.split_once(':').unwrap();
    run(Command::new("mknod").args([path, "b", major, minor]));
    path.to_owned()
}

/// Checks that a second path is refused, with the first server's name, by everything that writes or requires that nobody writes.
fn refused(home: &Home, path: &str) {
    for words in [&["attach", "--nbd", path][..], &["check", path], &["create", "--force", path]] {
        home.complaint(4, words, "is in use");
        home.complaint(4, words, "(onefold)");
    }
}

/// Checks that there is one server on a machine: separate run directories do not know of each other.
fn exclude_each_other(home: &Home, paths: &[&str]) {
    let other = Home::new();
    for first in paths {
        home.attach(first, &[]);
        for second in paths.iter().filter(|second| *second != first) {
            // Each refusal takes the second that commands wait for a live server.
            other.complaint(4, &["attach", "--nbd", second], "(onefold)");
        }
        home.expect(0, &["detach", first]);
    }
    // Readers share the store, one after the other here, and no lock remains.
    paths.iter().for_each(|path| drop(other.expect(0, &["check", path])));
}

#[test]
fn a_file_and_a_loop_device_over_it_have_one_server() {
    if !can_loop("a_file_and_a_loop_device_over_it_have_one_server") {
        return;
    }
    let home = Home::new();
    home.expect(0, &["create", "two.img", "--size", "32M"]);
    let file = home.path("two.img");
    let device = Loop::over(&file, &[]);
    exclude_each_other(&home, &[&file, &device.0]);
    home.attach(&file, &[]);
    refused(&Home::new(), &device.0);
    home.expect(0, &["detach", &file]);
}

/// The loop device is there before the server: mkfs would write over the volume, and knows no lock of the file.
#[test]
fn a_loop_device_over_the_file_of_an_attached_volume_is_not_for_mkfs() {
    let test = "a_loop_device_over_the_file_of_an_attached_volume_is_not_for_mkfs";
    if !can_loop(test) || !have(test, &["mkfs.ext4", "mount", "umount"]) {
        return;
    }
    let home = Home::new();
    home.expect(0, &["create", "two.img", "--size", "32M"]);
    let file = home.path("two.img");
    let device = Loop::over(&file, &[]);
    home.attach(&file, &[]);
    let mkfs = || Command::new("mkfs.ext4").args(["-q", "-F", &device.0]).output().unwrap();
    let refused = mkfs();
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && complaint.contains("in use"), "{complaint}");
    home.expect(0, &["detach", &file]);
    home.expect(0, &["check", "--data", &file]);
    // Where it is mounted already, the volume has no server.
    let began = Instant::now();
    while !mkfs().status.success() {
        assert!(began.elapsed() < Duration::from_secs(10), "the claim stays");
    }
    std::fs::create_dir(home.path("mounted")).unwrap();
    run(Command::new("mount").args([&device.0, &home.path("mounted")]));
    let (_, complaint) = home.expect(4, &["create", "--force", "two.img"]);
    run(Command::new("umount").arg(home.path("mounted")));
    assert!(complaint.contains("in use"), "{complaint}");
}

#[test]
fn loop_devices_over_loop_devices_have_one_server() {
    if !can_loop("loop_devices_over_loop_devices_have_one_server") {
        return;
    }
    let home = Home::new();
    home.expect(0, &["create", "two.img", "--size", "32M"]);
    let file = home.path("two.img");
    let lower = Loop::over(&file, &[]);
    let upper = Loop::over(&lower.0, &[]);
    let beside = Loop::over(&file, &[]);
    exclude_each_other(&home, &[&file, &lower.0, &upper.0, &beside.0]);
}

#[test]
fn volumes_at_two_offsets_of_a_file_have_two_servers_and_no_third() {
    if !can_loop("volumes_at_two_offsets_of_a_file_have_two_servers_and_no_third") {
        return;
    }
    let home = Home::new();
    home.blank("disk", 64 * MIB);
    let half = |first: u64| Loop::over(&home.path("disk"), &["-o", &(first * MIB).to_string(), "--sizelimit", &(32 * MIB).to_string()]);
    let (a, b) = (half(0), half(32));
    for device in [&a, &b] {
        home.expect(0, &["create", &device.0]);
        home.attach(&device.0, &[]);
    }
    // There is nothing to attach.
    let across = half(16);
    Home::new().complaint(4, &["create", "--force", &across.0], "(onefold)");
    refused(&Home::new(), &home.path("disk"));
    [&a, &b].iter().for_each(|device| drop(home.expect(0, &["detach", &device.0])));
}

#[test]
fn volumes_in_two_partitions_of_a_disk_have_two_servers() {
    let test = "volumes_in_two_partitions_of_a_disk_have_two_servers";
    if !can_loop(test) || !have(test, &["partx"]) {
        return;
    }
    let home = Home::new();
    home.blank("disk", 65 * MIB);
    let mut table = [0; 512];
    for (entry, first) in table[446..].chunks_exact_mut(16).zip([2048_u32, 33 * 2048]) {
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..16].copy_from_slice(&65536_u32.to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::OpenOptions::new().write(true).open(home.path("disk")).unwrap().write_all(&table).unwrap();
    let disk = Loop::over(&home.path("disk"), &["-P"]);
    // Not every kernel reads tables; where this one does, it has them already.
    run(Command::new("partx").args(["--update", &disk.0]));
    let name = disk.0.trim_start_matches("/dev/");
    let parts = ["1", "2"].map(|number| {
        let numbers = std::fs::read_to_string(format!("/sys/block/{name}/{name}p{number}/dev")).unwrap();
        node(&home.path(number), numbers.trim())
    });
    for part in &parts {
        home.expect(0, &["create", part]);
        home.attach(part, &[]);
    }
    // These are the whole disk, the file below it, and another way to the first partition.
    for path in [&disk.0, &home.path("disk")] {
        Home::new().complaint(4, &["create", "--force", path], "(onefold)");
    }
    let again = Loop::over(&home.path("disk"), &["-o", &MIB.to_string(), "--sizelimit", &(32 * MIB).to_string()]);
    refused(&Home::new(), &again.0);
    for (part, number) in parts.iter().zip(["1", "2"]) {
        home.expect(0, &["detach", part]);
        run_when_free(Command::new("partx").args(["--delete", "--nr", number, &disk.0]));
    }
}

#[test]
fn another_node_of_a_device_is_the_same_store() {
    if !can_loop("another_node_of_a_device_is_the_same_store") {
        return;
    }
    let home = Home::new();
    home.expect(0, &["create", "disk", "--size", "32M"]);
    let device = Loop::over(&home.path("disk"), &[]);
    let name = device.0.trim_start_matches("/dev/");
    let node = node(&home.path("node"), std::fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap().trim());
    home.attach(&device.0, &[]);
    Home::new().complaint(4, &["attach", "--nbd", &node], "is in use");
    home.expect(0, &["detach", &device.0]);
}

/// A process in a mount namespace of its own, with a file system that nobody else sees at `place`.
struct Elsewhere(Child);

impl Elsewhere {
    fn with_a_file_system_at(place: &str) -> Self {
        let script = format!("mount -t tmpfs none '{place}' && touch '{place}/ready' && exec sleep 600");
        let child = Command::new("unshare").args(["-m", "sh", "-c", &script]).stdin(Stdio::null()).spawn().unwrap();
        let elsewhere = Self(child);
        let began = Instant::now();
        while !Path::new(&format!("/proc/{}/root{place}/ready", elsewhere.0.id())).exists() {
            assert!(began.elapsed() < Duration::from_secs(10), "no mount namespace");
            std::thread::sleep(Duration::from_millis(10));
        }
        elsewhere
    }

    /// Runs a command there.
    fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["-t", &self.0.id().to_string(), "-m", "--"]).arg(command.get_program()).args(command.get_args());
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_in_another_mount_namespace_and_a_loop_device_over_it_have_one_server() {
    let test = "a_file_in_another_mount_namespace_and_a_loop_device_over_it_have_one_server";
    if !can_loop(test) || !have(test, &["unshare", "nsenter"]) {
        return;
    }
    // This does not work if the root directory is not a mount, as in a bare chroot.
    if !Command::new("unshare").args(["-m", "true"]).status().unwrap().success() {
        return skipped(test, "no mount namespace can be made here");
    }
    let (home, inner) = (Home::new(), Home::new());
    let place = home.path("elsewhere");
    std::fs::create_dir(&place).unwrap();
    let elsewhere = Elsewhere::with_a_file_system_at(&place);
    let file = format!("{place}/disk");
    run(&mut elsewhere.command(&inner.command(&["create", &file, "--size", "32M"])));
    let device = run(&mut elsewhere.command(Command::new("losetup").args(["-f", "--show", &file])));
    let device = Loop(device.trim().to_owned());
    assert!(!Path::new(&file).exists(), "the file is to be seen elsewhere only");

    run(&mut elsewhere.command(&inner.command(&["attach", "--nbd", &file])));
    refused(&home, &device.0);
    run(&mut elsewhere.command(&inner.command(&["detach", &file])));

    home.attach(&device.0, &[]);
    let output = elsewhere.command(&inner.command(&["attach", "--nbd", &file])).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(4) && complaint.contains("(onefold)"), "{complaint}");
    home.expect(0, &["detach", &device.0]);
}

#[test]
fn a_volume_within_an_attached_volume_is_no_second_server() {
    let test = "a_volume_within_an_attached_volume_is_no_second_server";
    if !can_loop(test) || !have(test, &["mkfs.ext4"]) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        return skipped(test, "there is no /dev/fuse");
    }
    let home = Home::new();
    home.expect(0, &["create", "outer", "--size", "128M"]);
    let device = home.says(0, &["attach", "--fuse", "outer"]).trim().to_owned();
    // A volume is made on the device itself, from another home, because here the device names the volume that it shows.
    let other = Home::new();
    other.expect(0, &["create", &device]);
    other.attach(&device, &[]);
    refused(&other, &home.path("outer"));
    other.expect(0, &["detach", &device]);
    // Now there are volumes in two files of a file system on it.
    run_when_free(Command::new("mkfs.ext4").args(["-q", "-F", &device]));
    let place = home.path("mnt");
    std::fs::create_dir(&place).unwrap();
    run(Command::new("mount").args([&device, &place]));
    for name in ["a", "b"] {
        let file = format!("{place}/{name}");
        home.expect(0, &["create", &file, "--size", "20M"]);
        home.attach(&file, &[]);
    }
    ["a", "b"].iter().for_each(|name| drop(home.expect(0, &["detach", &format!("{place}/{name}")])));
    run(Command::new("umount").arg(&place));
    home.expect(0, &["detach", "outer"]);
}

/// A device of device-mapper, which is removed when it is dropped.
struct Mapped(String);

impl Mapped {
    fn linear(name: &str, sectors: u64, device: &str, offset: u64) -> Self {
        let name = format!("onefold-{}-{name}", std::process::id());
        run(Command::new("dmsetup").args(["create", &name, "--table", &format!("0 {sectors} linear {device} {offset}")]));
        Self(name)
    }

    fn path(&self) -> String {
        format!("/dev/mapper/{}", self.0)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = Command::new("dmsetup").args(["remove", "--retry", &self.0]).status();
    }
}

#[test]
fn volumes_of_a_volume_group_have_servers_of_their_own_and_its_file_has_none() {
    if !can_loop("volumes_of_a_volume_group_have_servers_of_their_own_and_its_file_has_none") {
        return;
    }
    if !Command::new("dmsetup").arg("version").output().is_ok_and(|output| output.status.success()) {
        // Many kernels of virtual machines and containers have none: that is not a fault of the machine that runs the tests.
        return eprintln!("not run: there is no device-mapper here");
    }
    let home = Home::new();
    home.blank("disk", 64 * MIB);
    let lower = Loop::over(&home.path("disk"), &[]);
    let half = 32 * MIB / 512;
    let (a, b) = (Mapped::linear("a", half, &lower.0, 0), Mapped::linear("b", half, &lower.0, half));
    for mapped in [&a, &b] {
        home.expect(0, &["create", &mapped.path()]);
        home.attach(&mapped.path(), &[]);
    }
    refused(&Home::new(), &home.path("disk"));
    [&a, &b].iter().for_each(|mapped| drop(home.expect(0, &["detach", &mapped.path()])));
}
