//! Disks over files, file systems on them, and what has to be true of everything that is seen there.

#![allow(dead_code)] // each test file uses its own part

use onefold_observer::{Disk, Means, Observation, Observer, Operation, Refused, Run, Wants};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const EVERYTHING: Wants = Wants { files: true, names: true, reads: false };
pub const MEMORY_BYTES: usize = 16 << 20;
/// The bytes of a block, as a length in memory.
pub const BLOCK: usize = 4096;

/// Reports that a test did not run. It bypasses the capture of `eprintln!`, so that it is visible even if everything else passes.
pub fn skipped(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED {test}: {reason}").expect("stderr is open");
}

/// Returns whether loop devices can be made and observed here, by BPF, with these tools, and reports a skipped test if not.
pub fn may_observe(test: &str, tools: &[&str]) -> bool {
    if !may_loop(test, tools) {
        return false;
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skipped(test, "this kernel has no BTF");
        return false;
    }
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        skipped(test, "this kernel is locked down");
        return false;
    }
    true
}

/// Returns whether loop devices can be made here, with these tools, and reports a skipped test if not.
pub fn may_loop(test: &str, tools: &[&str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skipped(test, "observing a disk needs root");
        return false;
    }
    if !Path::new("/dev/loop-control").exists() {
        skipped(test, "there is no /dev/loop-control");
        return false;
    }
    for tool in tools {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<_> = std::env::split_paths(&path).collect();
        folders.extend(["/sbin".into(), "/usr/sbin".into()]);
        if !folders.iter().any(|folder| folder.join(tool).is_file()) {
            skipped(test, &format!("{tool} is not installed"));
            return false;
        }
    }
    true
}

/// Returns whether the kernel has a file system, and reports a skipped test if not.
pub fn has_file_system(test: &str, name: &str) -> bool {
    // It loads a module, if there is one.
    let _ = Command::new("modprobe").args(["-q", name]).status();
    let known = std::fs::read_to_string("/proc/filesystems").unwrap();
    let has = known.lines().any(|line| line.split_whitespace().next_back() == Some(name));
    if !has {
        skipped(test, &format!("this kernel has no {name}"));
    }
    has
}

/// Runs a command and returns what it printed, or panics with it.
pub fn run(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output().unwrap_or_else(|error| panic!("{command}: {error}"));
    let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command} {arguments:?}: {}\n{message}", output.status);
    message
}

/// A loop device over a file of its own.
pub struct LoopDisk {
    device: String,
    backing: std::fs::File,
    scratch: tempfile::TempDir,
}

impl LoopDisk {
    pub fn new(bytes: u64) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("disk");
        let backing = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        backing.set_len(bytes).unwrap();
        let device = run("losetup", &["--find", "--show", "--partscan", path.to_str().unwrap()]).trim().to_string();
        Self { device, backing, scratch }
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    pub fn number(&self) -> Disk {
        number_of(&self.device)
    }

    pub fn observe(&self, wants: Wants) -> Observer {
        begin(self.number(), wants).unwrap()
    }

    /// Makes a file system and mounts it. `make` is the command that makes it, without the device.
    pub fn mount(&self, make: &[&str], kind: &str) -> Mounted {
        let mut arguments = make[1..].to_vec();
        arguments.push(&self.device);
        run(make[0], &arguments);
        let path = self.scratch.path().join("mounted");
        std::fs::create_dir(&path).unwrap();
        run("mount", &["-t", kind, &self.device, path.to_str().unwrap()]);
        Mounted { path }
    }

    /// Returns a block as the device has it, past the caches of the file system.
    pub fn block(&self, offset: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        self.backing.read_exact_at(&mut block, offset).unwrap();
        block
    }

    /// Returns all that is known of writes that have arrived and were not asked for yet.
    pub fn all(&self, observer: &Observer, operation: Operation) -> Vec<Run> {
        let bytes = self.backing.metadata().unwrap().len();
        observer.seen(operation, 0, bytes).iter().filter(|run| run.observation().is_some()).cloned().collect()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// Starts the child that loads: the tests' server, or an example itself.
pub fn start_loader(socket: Stdio) -> io::Result<Child> {
    let program = option_env!("CARGO_BIN_EXE_observer-server").unwrap_or("/proc/self/exe");
    Command::new(program).arg("load").stdin(socket).spawn()
}

pub fn begin(disk: Disk, wants: Wants) -> Result<Observer, Refused> {
    Observer::begin_in_child(disk, wants, MEMORY_BYTES, start_loader)
}

/// Begins to observe by these means, which this machine is known to have.
pub fn begin_by(means: Means, disk: Disk, wants: Wants, memory_bytes: usize) -> Observer {
    let observer = match means {
        Means::Bpf => Observer::begin_in_child(disk, wants, memory_bytes, start_loader),
        Means::Tracepoint => Observer::begin_by_tracepoint(disk, wants, memory_bytes),
    };
    let observer = observer.unwrap();
    assert_eq!(observer.means(), means);
    observer
}

pub fn number_of(device: &str) -> Disk {
    let number = std::fs::read_to_string(format!("/sys/class/block/{}/dev", device.trim_start_matches("/dev/"))).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    Disk { major: major.parse().unwrap(), minor: minor.parse().unwrap() }
}

/// A mounted file system, until it is dropped.
pub struct Mounted {
    path: PathBuf,
}

impl Mounted {
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn sync(&self) {
        run("sync", &["--file-system", self.path.to_str().unwrap()]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let umount = |options: &[&str]| Command::new("umount").args(options).arg(&self.path).status();
        // A test that fails beside others may have files open in a child that they are about to start.
        if !umount(&[]).is_ok_and(|status| status.success()) {
            let _ = umount(&["--lazy"]);
        }
    }
}

/// Fills blocks with what tells them from all others: a tag, and their place in the file.
pub fn tagged(tag: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let words = (offset..offset + bytes as u64).step_by(16).flat_map(|at| [tag, at]);
    words.flat_map(u64::to_le_bytes).collect()
}

/// Returns the tag of a block, and the place in its file that it says.
pub fn tag_of(block: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().unwrap());
    (word(0), word(8))
}

/// Checks each block of these runs that the device has with this tag, and returns the places in the file that were seen.
pub fn check_places(disk: &LoopDisk, runs: &[Run], tag: u64, check: impl Fn(&Observation)) -> Vec<u64> {
    let mut seen = Vec::new();
    for run in runs {
        for at in (run.offset()..run.offset() + run.length()).step_by(BLOCK) {
            let (found, place) = tag_of(&disk.block(at));
            if found == tag {
                let seen_place = run.file_offset().map(|offset| offset + (at - run.offset()));
                assert_eq!(seen_place, Some(place), "the place of the block at {at}: {run:?}");
                check(run.observation().expect("the runs are known ones"));
                seen.push(place);
            }
        }
    }
    seen.sort_unstable();
    seen
}
