//! `trace record --disk` and `watch`: disks that nothing of Onefold is below.

mod common;

use common::home::Home;
use common::recorded::{csv_of, missing};
use common::{Dice, have, may_mount, run, skipped};
use md5::{Digest, Md5};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// Returns whether disks can be watched here, and reports a skipped test if not.
fn may_watch(test: &str) -> bool {
    if !may_mount(test) || !have(test, &["losetup", "mkfs.ext4", "mount", "umount"]) {
        return false;
    }
    let has_types = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !has_types {
        skipped(test, "this kernel has no BTF");
    }
    has_types
}

/// A loop device with ext4, mounted, until it is dropped.
struct Disk {
    device: String,
    mounted: PathBuf,
}

impl Disk {
    fn new(home: &Home, bytes: u64) -> Self {
        home.blank("disk", bytes);
        let device = run(Command::new("losetup").args(["--find", "--show", &home.path("disk")])).trim().to_owned();
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device]));
        let mounted = PathBuf::from(home.path("mounted"));
        fs::create_dir(&mounted).unwrap();
        run(Command::new("mount").arg(&device).arg(&mounted));
        Self { device, mounted }
    }

    fn file(&self, name: &str) -> String {
        self.mounted.join(name).display().to_string()
    }

    fn sync(&self) {
        run(Command::new("sync").arg("--file-system").arg(&self.mounted));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).status();
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// A command that runs until it is ended.
struct Running(Child);

impl Running {
    /// Starts it, and waits until the kernel has its program.
    fn start(home: &Home, words: &[&str]) -> Self {
        let mut child = home.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let mut line = [0; 512];
        let bytes = std::io::Read::read(&mut errors, &mut line).unwrap();
        let line = String::from_utf8_lossy(&line[..bytes]).into_owned();
        assert!(line.contains("watching") || line.contains("recording"), "{words:?}: {line}");
        Self(child)
    }

    fn signal(&self, signal: &str) {
        run(Command::new("kill").args([signal, &self.0.id().to_string()]));
    }

    /// Ends it as Ctrl-C does, and returns its report.
    fn end(self) -> Value {
        self.signal("-INT");
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn random(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Dice::new(7).fill(&mut content);
    content
}

#[test]
fn a_recording_of_a_disk_has_content_files_and_programs() {
    if !may_watch("a_recording_of_a_disk_has_content_files_and_programs") {
        return;
    }
    let home = Home::new();
    let disk = Disk::new(&home, 256 << 20);
    let trace = home.path("trace");
    let words = ["trace", "record", "--disk", &disk.device, "--out", &trace, "--unkeyed", "md5", "--json"];
    let recording = Running::start(&home, &words);
    let content = random(8 << 20);
    fs::write(disk.file("content.bin"), &content).unwrap();
    disk.sync();
    run(Command::new("sh").args(["-c", "head -c 100000 /dev/zero > \"$0\" && sync \"$0\"", &disk.file("zeros")]));
    let report = recording.end();
    let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
    assert_eq!((count("gaps"), count("blocks_without_room"), count("pieces_unreadable")), (0, 0, 0));
    assert_eq!(count("blocks_known") + count("blocks_partial"), count("blocks"));

    let csv = csv_of(&trace);
    let mut lines = csv.lines().skip(1);
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let (file, process, stream, op, names) = (place("file"), place("process"), place("stream"), place("op"), place("fingerprints"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let of_file: Vec<_> = rows.iter().filter(|row| row[file] == disk.file("content.bin")).collect();
    let seen: HashSet<String> = of_file.iter().flat_map(|row| row[names].split(' ')).map(str::to_owned).collect();
    let written = content.chunks(BLOCK).map(|block| format!("{:x}", Md5::digest(block)));
    assert_eq!(written.filter(|name| seen.contains(name)).count(), (8 << 20) / BLOCK, "each block, by its content");
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    let by = |row: &Vec<&str>| row[process].to_owned();
    assert!(of_file.iter().all(|row| by(row) == own.trim()), "whoever writes it back: {:?}", of_file.first().map(|row| by(row)));
    assert!(rows.iter().any(|row| row[file] == disk.file("zeros") && row[process] == "head" && row[names].contains('0')));
    assert!(rows.iter().any(|row| row[op] == "flush") && rows.iter().any(|row| row[stream] == "J" && row[process].starts_with("jbd2/")));
}

#[test]
fn a_file_system_can_be_unmounted_while_it_is_recorded() {
    if !may_watch("a_file_system_can_be_unmounted_while_it_is_recorded") {
        return;
    }
    let home = Home::new();
    let disk = Disk::new(&home, 256 << 20);
    let trace = home.path("trace");
    let recording = Running::start(&home, &["trace", "record", "--disk", &disk.device, "--out", &trace, "--json"]);
    fs::write(disk.file("content.bin"), random(1 << 20)).unwrap();
    disk.sync();
    // It looks into the ring each 50 ms, and paths can be found only as long as the file system is mounted.
    std::thread::sleep(Duration::from_secs(3));
    // A recorder that looks for the path of a file has the file system open, but only for that moment.
    let until = Instant::now() + Duration::from_secs(10);
    let unmount = || Command::new("umount").arg(&disk.mounted).status().unwrap().success();
    while !unmount() {
        assert!(Instant::now() < until, "the recorder keeps the file system from being unmounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    recording.end();
    let csv = csv_of(&trace);
    assert!(csv.contains(&disk.file("content.bin")), "the path was found while it was mounted");
}

#[test]
fn a_recorder_that_is_behind_counts_what_it_missed() {
    if !may_watch("a_recorder_that_is_behind_counts_what_it_missed") {
        return;
    }
    let home = Home::new();
    let disk = Disk::new(&home, 256 << 20);
    let trace = home.path("trace");
    let words = ["trace", "record", "--disk", &disk.device, "--out", &trace, "--ring", "256K", "--json"];
    let recording = Running::start(&home, &words);
    // It may be in the middle of something when it is stopped.
    recording.signal("-STOP");
    for number in 0..2000 {
        fs::write(disk.file(&format!("small-{number}")), random(BLOCK)).unwrap();
    }
    disk.sync();
    recording.signal("-CONT");
    let report = recording.end();
    let count = |name: &str| report[name].as_u64().unwrap();
    assert!(count("gaps") > 0 && count("gap_stretches") > 0, "{report}");
    assert!(count("blocks_without_room") > 0, "{report}");
    assert_eq!(missing(&trace), count("gaps"));
}

#[test]
fn a_watch_tells_who_writes_what_and_what_a_volume_would_write() {
    if !may_watch("a_watch_tells_who_writes_what_and_what_a_volume_would_write") {
        return;
    }
    let home = Home::new();
    let disk = Disk::new(&home, 256 << 20);
    let page = home.path("page.html");
    let watching = Running::start(&home, &["watch", &disk.device, "--json", "--html", &page]);
    let content = random(4 << 20);
    fs::write(disk.file("a.bin"), &content).unwrap();
    fs::write(disk.file("b.bin"), &content).unwrap();
    disk.sync();
    let end = Instant::now() + Duration::from_secs(20);
    run(Command::new("sh").args(["-c", "echo x > \"$0\" && sync \"$0\"", &disk.file("c.txt")]));
    let report = watching.end();
    assert!(Instant::now() < end, "it ends when it is asked to");
    let units = |all: &Value, name: &str| {
        let all = all.as_array().unwrap();
        all.iter().find(|share| share["name"] == name).map_or(0, |share| share["units"].as_u64().unwrap())
    };
    let blocks = 2 * (4 << 20) / BLOCK as u64;
    assert_eq!(units(&report["kinds"], ".bin"), blocks, "{report}");
    assert_eq!(units(&report["files"], &disk.file("a.bin")), blocks / 2);
    assert_eq!(units(&report["programs"], fs::read_to_string("/proc/self/comm").unwrap().trim()), blocks);
    assert_eq!(report["totals"]["all"]["duplicate_blocks"].as_u64().unwrap() / 1000, blocks / 2 / 1000);
    assert!(report["totals"]["journal"]["units"].as_u64().unwrap() > 0);
    let all = report["totals"]["all"]["units"].as_u64().unwrap();
    for (mode, volume) in ["log", "ordered"].into_iter().zip(report["volumes"].as_array().unwrap()) {
        assert_eq!((volume["commit_mode"].as_str(), volume["ended"].as_str()), (Some(mode), None));
        let (client, units) = (volume["client_blocks"].as_u64().unwrap(), volume["units"].as_u64().unwrap());
        assert_eq!(client, all, "it gets all that the disk gets");
        assert!(units > blocks / 2 && units < blocks, "half of the blocks are duplicates: {volume}");
    }
    home.complaint(5, &["watch", &disk.device, "--html", &page], "page.html");
    home.complaint(3, &["watch", &disk.device, "--html", "nowhere/page.html"], "nowhere/page.html");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("a.bin"), "{} bytes", page.len());
}

#[test]
fn wrong_words_are_answered() {
    let home = Home::new();
    home.blank("file", 8192);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["watch", "/dev/nowhere"], 3, "/dev/nowhere"),
        (&["watch", "file"], 2, "is no block device"),
        (&["watch", "--for", "10"], 2, "a number and its unit"),
        (&["watch", "--memory", "1M"], 2, "16"),
        (&["trace", "record", "--disk", "file", "--out", "t"], 2, "is no block device"),
        (&["trace", "record", "--disk", "/dev/nowhere", "--out", "t"], 3, "/dev/nowhere"),
        (&["trace", "record", "volume", "--disk", "file", "--out", "t"], 2, "cannot be used with"),
        (&["trace", "record", "--disk", "file", "--ring", "5M", "--out", "t"], 2, "a power of two"),
        (&["trace", "record", "--disk", "file", "--by", "kernel", "--out", "t"], 2, "cannot be used with"),
    ];
    for (words, code, wanted) in cases {
        home.complaint(code, words, wanted);
    }
    assert!(!home.names().iter().any(|name| name == "t"), "nothing is left");
}
